//! From connecting to the first answer: what a client waits for whose connection was closed while it was idle.
//!
//! The call is NULL, so that what is compared is transports. Ending the connection is no part of a request's time; the next begins
//! when it is gone.

use crate::load::{self, Load, REQUEST_TIMEOUT, TaskRequester};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::{BenchError, Sample, Subject};
use rpc::{CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use transport::{Address, CloseReason, ConnHandle, Connector, Message, NoService, ReplyRoom};
use xdr::{Decode, Decoder, Encode, Encoder};

/// The procedure that does nothing (RFC 8881 §17.1).
const NULL: u32 = 0;
/// What its reply has at most.
const REPLY_BYTES_MAX: u32 = 128;

/// New connections as a subject. The load's connections are tasks.
#[derive(Debug, Clone)]
pub struct Reconnects {
    /// The cluster.
    pub cluster: ClusterOptions,
}

impl Subject for Reconnects {
    fn name(&self) -> String {
        format!("connect and NULL, {}", self.cluster.carrier().name())
    }

    fn settings(&self) -> Value {
        json!({ "cluster": self.cluster.settings() })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        let runtime = load::runtime()?;
        let (connector, address) = (cluster.server().connector(), cluster.server().address());
        let make = |_| {
            let caller = Caller {
                connector: Arc::clone(&connector),
                address: address.clone(),
                conn: None,
            };
            Ok(Box::new(caller) as Box<dyn TaskRequester>)
        };
        load::drive_tasks_on(&runtime, load, make, &|| cluster.cpu())
    }
}

struct Caller {
    connector: Arc<dyn Connector>,
    address: Address,
    /// Of the last request.
    conn: Option<ConnHandle>,
}

impl TaskRequester for Caller {
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
        Box::pin(async {
            let connected = self.connector.connect(&self.address, NoService::shared());
            let conn = connected.await.map_err(BenchError::nfs("connect"))?;
            call(&conn).await?;
            self.conn = Some(conn);
            Ok(0)
        })
    }

    fn afterwards(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + '_>>> {
        let conn = self.conn.take()?;
        Some(Box::pin(async move {
            conn.close(CloseReason::Asked);
            conn.closed().await;
        }))
    }
}

async fn call(conn: &ConnHandle) -> Result<(), BenchError> {
    let mut e = Encoder::new();
    CallStart {
        xid: 0,
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        procedure: NULL,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    let call = Message::from(e).with_reply_room(ReplyRoom::plain(REPLY_BYTES_MAX));
    let called = conn.call(call, REQUEST_TIMEOUT).await;
    let record = called.map_err(BenchError::nfs("call"))?;
    let header = ReplyHeader::decode(&mut Decoder::new(&record));
    let header = header.map_err(BenchError::nfs("understand the reply"))?;
    match header.verdict {
        ReplyVerdict::Success { .. } => Ok(()),
        ReplyVerdict::Error(_) => Err(BenchError::Refused),
    }
}
