//! The programs of a host that locks by NLM: GRANTED of its lock manager, and NOTIFY of its status monitor.

use bytes::Bytes;
use nlm::nsm::{NsmProc, StatChge};
use nlm::{Nlm4Res, Nlm4Stats, Nlm4TestArgs, NlmProc};
use parking_lot::Mutex;
use rpc::{CallHeader, OpaqueAuth};
use tokio::sync::Notify;
use transport::{ConnHandle, Message, Service};
use xdr::{Decoder, Encode, Encoder, decode_all};

/// A lock that the host waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) fh: Vec<u8>,
    pub(super) svid: i32,
    pub(super) offset: u64,
    pub(super) is_exclusive: bool,
}

#[derive(Default)]
struct Heard {
    waits: Option<Waits>,
    /// Whether what it waited for was granted.
    is_granted: bool,
    /// The last state of the server that NOTIFY told.
    state: Option<i32>,
    is_restarted: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Callbacks3 {
    heard: Mutex<Heard>,
    granted: Notify,
}

impl Callbacks3 {
    /// From now on GRANTED is taken for this lock alone.
    pub(super) fn wait_for(&self, waits: Waits) {
        let mut heard = self.heard.lock();
        heard.waits = Some(waits);
        heard.is_granted = false;
    }

    /// Waits until the lock is granted.
    pub(super) async fn is_granted(&self) {
        loop {
            let granted = self.granted.notified();
            if self.heard.lock().is_granted {
                return;
            }
            granted.await;
        }
    }

    /// No GRANTED is taken any more. Whether one was.
    pub(super) fn wait_no_more(&self) -> bool {
        let mut heard = self.heard.lock();
        heard.waits = None;
        std::mem::take(&mut heard.is_granted)
    }

    /// Whether the server has told of a restart since the last call.
    pub(super) fn take_restart(&self) -> bool {
        std::mem::take(&mut self.heard.lock().is_restarted)
    }

    /// A host that does not wait for a lock refuses it. So does a host that has it by an earlier call.
    fn grant(&self, args: &Nlm4TestArgs<'_>) -> Nlm4Stats {
        let told = Waits {
            fh: args.alock.fh.0.to_vec(),
            svid: args.alock.svid,
            offset: args.alock.l_offset,
            is_exclusive: args.exclusive,
        };
        let mut heard = self.heard.lock();
        if heard.waits.as_ref() != Some(&told) {
            return Nlm4Stats::Denied;
        }
        heard.waits = None;
        heard.is_granted = true;
        self.granted.notify_one();
        Nlm4Stats::Granted
    }

    fn notified(&self, state: i32) {
        let mut heard = self.heard.lock();
        // One that comes late is of an earlier restart.
        if heard.state < Some(state) {
            heard.state = Some(state);
            heard.is_restarted = true;
        }
    }
}

impl Service for Callbacks3 {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).ok()?;
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
        let is = |program, procedure| (header.program, header.procedure) == (program, procedure);
        if is(nlm::PROGRAM, NlmProc::Granted as u32) {
            let args: Nlm4TestArgs<'_> = decode_all(d.rest()).ok()?;
            let (cookie, stat) = (args.cookie, self.grant(&args));
            Nlm4Res { cookie, stat }.encode(&mut e);
        } else if is(nlm::nsm::PROGRAM, NsmProc::Notify as u32) {
            let args: StatChge<'_> = decode_all(d.rest()).ok()?;
            self.notified(args.state);
        } else {
            return None;
        }
        Some(e.into())
    }
}
