//! Clients over RDMA that do not keep to their credits. Such a client is a bare end of the fabric, or a session that is
//! deaf on its back channel.
//!
//! A greedy client goes to one server after the other, each time in another manner. It sends far more calls than it was
//! granted and perhaps leaves in the middle. Or it earns credits, makes no call any more and answers to nothing.

use crate::check::credits::GREEDY;
use crate::client::{root_caller, session_over};
use crate::connector::Wires;
use crate::rng::Rng;
use crate::trace::{MDS_NAME, Trace};
use bytes::Bytes;
use fabric::{
    Completion, Connected, Done, Endpoint, EndpointConfig, Fabric, Pool, PoolConfig, Receive, Work,
    WorkStatus,
};
use rpc::{CallStart, OpaqueAuth};
use rpcrdma::{PrivateData, VERSION};
use std::fmt::Arguments;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use transport::{
    Address, BoxFuture, ConnHandle, ConnectError, Connector, DynService, Message, Service,
};
use xdr::{Encode, Encoder};

/// Most bytes of a message, and receives for replies.
const INLINE_BYTES: u32 = 4096;
const RECEIVES: u32 = 128;
/// Credits that each call asks for.
const WANTED: u32 = 1024;
/// Calls that are sent at once, whatever was granted: fewest and most.
const FLOOD: (u64, u64) = (9, 250);
/// How long a flood goes on, in milliseconds.
const FLOOD_MS: (u64, u64) = (100, 5_000);
/// Floods that end as soon as they are sent.
const LEAVES_PER_MILLE: u32 = 300;
/// Calls that earn credits.
const EARNING: (u64, u64) = (40, 300);
/// How long credits are held, in milliseconds: mostly longer than until the holder is asked for them.
const HOLD_MS: (u64, u64) = (10_000, 60_000);
/// Rounds of the deaf one, and calls in each.
const ROUNDS: u32 = 12;
const CALLS: usize = 8;
/// Longest pause between two sittings in milliseconds.
const PAUSE_MS_MAX: u64 = 2_000;

/// A greedy client.
pub(crate) struct GreedyClient {
    name: String,
    wires: Wires,
    rng: Rng,
    trace: Trace,
    /// Hosts that it knows.
    servers: Vec<String>,
    sittings: u64,
}

#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Sends as it likes.
    Floods,
    /// Earns credits and keeps them.
    Holds,
    /// The same in a session whose callbacks nobody answers.
    IsDeaf,
}

impl GreedyClient {
    pub(crate) fn new(
        number: usize,
        wires: Wires,
        rng: Rng,
        trace: Trace,
        servers: Vec<String>,
    ) -> Self {
        Self {
            name: format!("{GREEDY}{number}"),
            wires,
            rng,
            trace,
            servers,
            sittings: 0,
        }
    }

    /// Goes on until dropped.
    pub(crate) async fn feast(mut self) {
        loop {
            let ms = self.rng.within(0, PAUSE_MS_MAX);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let server = self.servers[self.rng.index(self.servers.len())].clone();
            let manner = [Manner::Floods, Manner::Holds, Manner::IsDeaf][self.rng.index(3)];
            self.sittings += 1;
            self.tell(format_args!("- sits down at {server}: {manner:?}"));
            match manner {
                Manner::Floods => self.flood(&server).await,
                Manner::Holds => self.hold(&server).await,
                Manner::IsDeaf => self.be_deaf().await,
            }
        }
    }

    fn tell(&self, what: Arguments<'_>) {
        self.trace.tell(&self.name, what);
    }

    fn time(&mut self, (low, high): (u64, u64)) -> Instant {
        Instant::now() + Duration::from_millis(self.rng.within(low, high))
    }

    async fn flood(&mut self, server: &str) {
        let Some(mut end) = End::connect(&self.wires, &self.name, server).await else {
            return;
        };
        for _ in 0..self.rng.within(FLOOD.0, FLOOD.1) {
            let _ = end.call();
        }
        let until = match self.rng.chance(LEAVES_PER_MILLE) {
            true => self.time((0, 20)),
            false => self.time(FLOOD_MS),
        };
        while end.reply(until).await {
            // Two for each that is answered.
            let _ = end.call() && end.call();
        }
        let (granted, open) = (end.granted, end.calls_open);
        self.tell(format_args!(
            "- leaves with {open} calls open, of {granted} granted"
        ));
    }

    async fn hold(&mut self, server: &str) {
        let Some(mut end) = End::connect(&self.wires, &self.name, server).await else {
            return;
        };
        let until = self.time(HOLD_MS);
        for _ in 0..self.rng.within(EARNING.0, EARNING.1) {
            while end.calls_open < end.granted && end.call() {}
            if !end.reply(until).await {
                break;
            }
        }
        self.tell(format_args!("- holds {} credits", end.granted));
        while end.reply(until).await {}
    }

    async fn be_deaf(&mut self) {
        let connector = Arc::new(Deaf(self.wires.connector(&self.name)));
        let caller = root_caller(&self.name);
        let callbacks = Some(Arc::new(session_client::NoCallbacks) as _);
        let session = session_over(connector, &self.name, &caller, self.sittings, callbacks);
        if session.establish().await.is_err() {
            return;
        }
        for _ in 0..ROUNDS {
            let mut calls = JoinSet::new();
            for _ in 0..CALLS {
                let session = Arc::clone(&session);
                calls.spawn(async move { session.renew().await.is_ok() });
            }
            while calls.join_next().await.is_some() {}
        }
        let until = self.time(HOLD_MS);
        tokio::time::sleep_until(until).await;
        // It says no farewell.
    }
}

/// A bare end of a connection.
struct End {
    endpoint: Box<dyn Endpoint>,
    seen: Vec<Completion>,
    xid: u32,
    /// Of the last reply.
    granted: u32,
    calls_open: u32,
}

impl End {
    async fn connect(wires: &Wires, name: &str, server: &str) -> Option<Self> {
        let bytes = usize::try_from(INLINE_BYTES * RECEIVES).expect("some KiB");
        let buffer_bytes = usize::try_from(INLINE_BYTES).expect("some KiB");
        let pool = Pool::new(PoolConfig {
            buffer_bytes,
            slab_bytes: bytes,
            bytes_max: bytes,
            free_bytes_max: bytes,
        });
        let receive = |id| pool.take().map(|buffer| Receive { id, buffer });
        let receives = (0..u64::from(RECEIVES)).map_while(receive).collect();
        let own = PrivateData {
            remote_invalidation: false,
            send_bytes: INLINE_BYTES,
            receive_bytes: INLINE_BYTES,
        };
        let config = EndpointConfig {
            receive_depth: RECEIVES,
            ..EndpointConfig::default()
        };
        let fabric = wires.fabric(name);
        let private_data = Bytes::copy_from_slice(&own.encode());
        let address = wires.address(server);
        let connecting = fabric.connect(address, config, private_data, receives);
        let Connected { endpoint, .. } = connecting.await.ok()?;
        Some(Self {
            endpoint,
            seen: Vec::new(),
            xid: 0,
            granted: 1,
            calls_open: 0,
        })
    }

    /// Makes a call that asks for nothing, if the device takes it.
    fn call(&mut self) -> bool {
        if self.endpoint.send_room() == 0 {
            return false;
        }
        self.xid += 1;
        self.calls_open += 1;
        let work = Work::Send {
            data: vec![null_call(self.xid)],
            invalidate: None,
        };
        // What is refused has no connection any more, as its end will say.
        let _ = self.endpoint.post(0, work, false);
        self.endpoint.ring();
        true
    }

    /// Waits for a reply; `false` when none comes until then.
    async fn reply(&mut self, until: Instant) -> bool {
        loop {
            if !self.seen.is_empty() {
                let Completion { status, done, .. } = self.seen.remove(0);
                let Done::Receive { mut buffer, .. } = done else {
                    continue;
                };
                if status != WorkStatus::Ok {
                    continue;
                }
                self.granted = credits(&buffer).unwrap_or(1).max(1);
                self.calls_open = self.calls_open.saturating_sub(1);
                buffer.set_len(buffer.capacity());
                let _ = self.endpoint.post_receive(0, buffer);
                return true;
            }
            let (endpoint, seen) = (&mut self.endpoint, &mut self.seen);
            let polled = poll_fn(|cx| endpoint.poll_completions(cx, seen));
            match timeout_at(until, polled).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return false,
            }
        }
    }
}

/// The third word of a message (RFC 8166 §4.2).
fn credits(message: &[u8]) -> Option<u32> {
    let word = message.get(8..12)?.try_into().ok()?;
    Some(u32::from_be_bytes(word))
}

/// The NULL procedure, in a message without chunks.
fn null_call(xid: u32) -> Bytes {
    let mut e = Encoder::new();
    for word in [xid, VERSION, WANTED, 0, 0, 0, 0] {
        e.u32(word);
    }
    let call = CallStart {
        xid,
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        procedure: 0,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    call.encode(&mut e);
    Bytes::copy_from_slice(e.as_bytes())
}

/// Connects to the metadata server, and answers no callback.
struct Deaf(Arc<crate::connector::ByName>);

impl Connector for Deaf {
    fn connect<'a>(
        &'a self,
        _address: &'a Address,
        _reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(self.0.over_rdma(MDS_NAME, Arc::new(NoAnswer)))
    }
}

struct NoAnswer;

impl Service for NoAnswer {
    async fn call(&self, _: &ConnHandle, _: Bytes) -> Option<Message> {
        pending().await
    }
}
