//! Devices and the data servers behind them: GETDEVICEINFO, and one session for each DS, made when it is first used.

use crate::ClientConfig;
use crate::config::io_bytes;
use crate::waits::{WaitReason, Waits};
use nfs4::DeviceId;
use nfs4::ops::EXCHGID_USE_PNFS_DS;
use parking_lot::Mutex;
use session_client::{Build, Caller, Outcome, Session, SessionConfig, SessionError};
use std::collections::{BTreeMap, HashMap};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use transport::{Address, Connector};

/// Most data servers that are remembered.
const SERVERS_MAX: usize = 4096;
/// How long a data server that failed is passed over.
const DOWN: Duration = Duration::from_secs(5);
/// Connections that a request may find dead, one after the other, before its server is given up: each address is that of
/// another network interface.
const DEAD_MAX: u32 = 3;
/// Sessions tried for one request.
const SESSIONS_TRIED_MAX: u32 = 3;

/// A device: stripes, and the servers that hold them.
#[derive(Debug)]
pub(crate) struct Device {
    /// For each stripe, the index of its server; checked when it was decoded.
    pub(crate) stripe_indices: Vec<usize>,
    pub(crate) servers: Vec<Arc<Ds>>,
}

#[derive(Debug, Default)]
pub(crate) struct Devices {
    pub(crate) devices: Mutex<HashMap<DeviceId, Arc<Device>>>,
    /// Ordered, as the files are.
    servers: Mutex<BTreeMap<Vec<Address>, Arc<Ds>>>,
}

impl Devices {
    /// Forgets a device, whose address changed or which is gone.
    pub(crate) fn forget(&self, id: &DeviceId) {
        self.devices.lock().remove(id);
    }

    /// Forgets all of them; sessions stay.
    pub(crate) fn forget_all(&self) {
        self.devices.lock().clear();
    }

    /// Ends the sessions.
    pub(crate) async fn close(&self) {
        let servers = std::mem::take(&mut *self.servers.lock());
        for ds in servers.into_values() {
            if ds.session.established().is_some() && !ds.is_down() {
                // The server forgets the client after its lease in any case.
                let _ = ds.session.destroy().await;
            }
        }
    }

    pub(crate) fn server(&self, making: Making<'_>, addresses: Vec<Address>) -> Arc<Ds> {
        let mut servers = self.servers.lock();
        if servers.len() >= SERVERS_MAX {
            servers.clear();
        }
        let entry = servers.entry(addresses);
        let make = |addresses: &Vec<Address>| Ds::new(making, addresses.clone());
        Arc::clone(entry.or_insert_with_key(make))
    }
}

/// What sessions with data servers are made from.
#[derive(Clone, Copy)]
pub(crate) struct Making<'c> {
    pub(crate) config: &'c ClientConfig,
    pub(crate) caller: &'c Caller,
    pub(crate) connector: &'c Arc<dyn Connector>,
}

/// A data server.
#[derive(Debug)]
pub(crate) struct Ds {
    /// Its addresses, for people.
    name: Arc<str>,
    session: Arc<Session>,
    io_bytes_max: u32,
    down_until: Mutex<Option<Instant>>,
}

impl Ds {
    fn new(making: Making<'_>, addresses: Vec<Address>) -> Arc<Self> {
        let config = making.config;
        let alike = |a: &Address| discriminant(a) == discriminant(&addresses[0]);
        let try_timeout = match addresses.iter().filter(|a| alike(a)).count() {
            0 | 1 => config.ds_give_up,
            _ => config.ds_give_up / DEAD_MAX,
        };
        let name: Vec<String> = addresses.iter().map(named).collect();
        let session = SessionConfig {
            owner: config.owner.clone(),
            verifier: config.verifier,
            addresses,
            role_flag: EXCHGID_USE_PNFS_DS,
            minor_version: config.minor_version,
            caller: making.caller.clone(),
            slots: config.slots,
            connections: config.connections,
            callbacks: None,
            try_timeout: config.try_timeout.min(try_timeout),
            give_up: config.ds_give_up,
        };
        Arc::new(Self {
            name: name.join(" or ").into(),
            session: Session::new(Arc::clone(making.connector), session),
            io_bytes_max: config.io_bytes_max,
            down_until: Mutex::default(),
        })
    }

    /// What a request to it waits for.
    pub(crate) fn wait(&self) -> WaitReason {
        WaitReason::DataServer(Arc::clone(&self.name))
    }

    /// Whether it can be used, once its session is made; a wait for that is told of.
    pub(crate) async fn can_serve(&self, waits: &Waits) -> bool {
        if self.session.established().is_some() {
            return true;
        }
        let _waiting = waits.enter(self.wait());
        self.ready().await.is_ok()
    }

    /// Sends a request; a lost session is made anew. A server that cannot be reached is passed over for a while.
    pub(crate) async fn call(
        &self,
        caller: &Caller,
        build: &Build<'_>,
    ) -> Result<Outcome, SessionError> {
        for _ in 0..SESSIONS_TRIED_MAX {
            self.ready().await?;
            match self.session.compound(caller, build).await {
                Err(SessionError::Lost) => {}
                Err(e) => {
                    self.failed();
                    return Err(e);
                }
                answered => return answered,
            }
        }
        self.failed();
        Err(SessionError::Lost)
    }

    /// Makes the session unless it lives.
    pub(crate) async fn ready(&self) -> Result<(), SessionError> {
        if self.session.established().is_some() {
            return Ok(());
        }
        if self.is_down() {
            return Err(SessionError::TimedOut);
        }
        let made = self.session.establish().await.and_then(|e| {
            if e.flags & EXCHGID_USE_PNFS_DS == 0 {
                self.session.abandon();
                return Err(SessionError::Malformed("not a data server"));
            }
            Ok(())
        });
        if made.is_err() {
            self.failed();
        }
        made
    }

    fn failed(&self) {
        *self.down_until.lock() = Some(Instant::now() + DOWN);
    }

    /// Whether it failed a short time ago.
    pub(crate) fn is_down(&self) -> bool {
        self.down_until.lock().is_some_and(|t| Instant::now() < t)
    }

    /// Largest READ; right once the session is made.
    pub(crate) fn read_bytes_max(&self) -> u32 {
        let granted = self.session.established();
        io_bytes(self.io_bytes_max, granted.map(|e| e.response_bytes_max))
    }

    /// Largest WRITE; right once the session is made.
    pub(crate) fn write_bytes_max(&self) -> u32 {
        let granted = self.session.established();
        io_bytes(self.io_bytes_max, granted.map(|e| e.request_bytes_max))
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Arc<Self> {
        let network = transport::memory::MemoryNetwork::default();
        let context = transport::Context::new(transport::TransportLimits::default());
        let identity = crate::UserIdentity {
            uid: 0,
            gid: 0,
            gids: Vec::new(),
            machine: String::new(),
        };
        let caller = Caller::auth_sys(&identity.auth_sys());
        let session = SessionConfig {
            owner: Vec::new(),
            verifier: nfs4::Verifier::default(),
            addresses: Vec::new(),
            role_flag: 0,
            minor_version: 1,
            caller,
            slots: 1,
            connections: 1,
            callbacks: None,
            try_timeout: DOWN,
            give_up: DOWN,
        };
        Arc::new(Self {
            name: "test".into(),
            session: Session::new(Arc::new(network.connector("test", context)), session),
            io_bytes_max: 1 << 20,
            down_until: Mutex::default(),
        })
    }
}

/// An address, for people.
fn named(address: &Address) -> String {
    match address {
        Address::Tcp(socket) => socket.to_string(),
        Address::Rdma(socket) => format!("{socket} over RDMA"),
        other => other.to_string(),
    }
}
