//! Calls of a client without sessions: each is sent again, under its transaction id, over new connections until it is answered.

use crate::connector::Wires;
use crate::rng::Rng;
use crate::trace::MDS_NAME;
use bytes::Bytes;
use rpc::{AuthSys, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use std::sync::Arc;
use std::time::Duration;
use transport::{Address, CloseReason, ConnHandle, Connector, Message, NoService};
use xdr::{Decode, Decoder, Encode, Encoder};

/// How long one try waits for its reply, and the pause before the next one.
const TRY_TIME: Duration = Duration::from_millis(1_500);
const PAUSE: Duration = Duration::from_millis(150);

/// What is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Procedure {
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) procedure: u32,
}

/// The calls of one client, one at a time. A run that does not answer one does not end, which is a finding.
pub(super) struct Calls {
    connector: Arc<dyn Connector>,
    credential: Vec<u8>,
    conn: Option<ConnHandle>,
    xid: u32,
}

impl Calls {
    pub(super) fn new(name: &str, wires: &Wires, rng: &mut Rng) -> Self {
        let identity = AuthSys {
            stamp: 0,
            machine: name.as_bytes().to_vec(),
            uid: 0,
            gid: 0,
            gids: Vec::new(),
        };
        Self {
            // A server calls back only at the address that it is called from.
            connector: wires.one_way(name, false),
            credential: identity.to_body(),
            conn: None,
            xid: u32::try_from(rng.bits() >> 32).unwrap_or(1),
        }
    }

    /// The bytes of a result.
    ///
    /// # Errors
    /// The server refuses the call, or its reply does not decode: a finding.
    pub(super) async fn call(&mut self, what: Procedure, args: &[u8]) -> Result<Bytes, String> {
        self.xid = self.xid.wrapping_add(1);
        let record = self.record(what, args);
        loop {
            if let Some(reply) = self.attempt(&record).await {
                return result(&reply);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn record(&self, what: Procedure, args: &[u8]) -> Vec<u8> {
        let mut e = Encoder::new();
        let start = CallStart {
            xid: self.xid,
            program: what.program,
            version: what.version,
            procedure: what.procedure,
            credential: OpaqueAuth {
                flavor: rpc::flavor::AUTH_SYS,
                body: &self.credential,
            },
            verifier: OpaqueAuth::NONE,
        };
        start.encode(&mut e);
        e.raw(args);
        e.into_bytes()
    }

    async fn attempt(&mut self, record: &[u8]) -> Option<Bytes> {
        let conn = match self.conn.take().filter(|conn| !conn.is_closed()) {
            Some(conn) => conn,
            None => {
                let to = Address::Memory(MDS_NAME.into());
                let made = self.connector.connect(&to, NoService::shared()).await;
                made.ok()?
            }
        };
        let message: Message = Encoder::with_buffer(record.to_vec()).into();
        match conn.call_again(message, TRY_TIME).await {
            Ok(reply) => {
                self.conn = Some(conn);
                Some(reply)
            }
            Err(_) => {
                conn.close(CloseReason::Asked);
                None
            }
        }
    }
}

fn result(reply: &Bytes) -> Result<Bytes, String> {
    let mut d = Decoder::new(reply);
    let header = ReplyHeader::decode(&mut d).map_err(|e| e.to_string())?;
    match header.verdict {
        ReplyVerdict::Success { .. } => Ok(reply.slice(d.position()..)),
        ReplyVerdict::Error(verdict) => Err(format!("a call was refused: {verdict:?}")),
    }
}
