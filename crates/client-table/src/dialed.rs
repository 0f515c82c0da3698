//! Callbacks to clients of NFSv4.0: over a connection that this server makes (RFC 7530 §10.2.1, §16.33).
//!
//! # Ownership
//! One connection for each client, made when the client is confirmed and again when a callback needs it. It is closed when the client
//! is gone or calls from elsewhere are wanted.
//!
//! # Ordering
//! A path is up once CB_NULL was answered on it. Until then its client gets no delegations.
//!
//! # Failure
//! A path that does not come up rests for [`REDIAL_MS`]. A client decides where this server connects to, so that is bounded: to
//! the machine that asked (who makes a `CallbackTarget` sees to that), to [`DIALED_PER_ADDRESS_MAX`] connections to one
//! machine, and to 256 that are being made.

use crate::ClientTable;
use crate::callback_path::{
    BuildCallback, CallbackError, CallbackPath, TakeResult, Taken, Try, begin_call, taken,
};
use crate::dials::{DialState, Dialed};
use crate::probe;
use bytes::Bytes;
use nfs4::{CbCompoundBuilder, CbCompoundReply, ClientId, NfsStatus, Verifier};
use rpc::{ReplyHeader, ReplyVerdict};
use state::CallbackTarget;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use transport::{Address, CloseReason, ConnHandle, Connector, NoService};
use xdr::{Decode, Decoder};

/// Most callback connections to one machine.
const DIALED_PER_ADDRESS_MAX: usize = 256;
/// How long a path that did not come up is left alone.
const REDIAL_MS: u64 = 10_000;
/// How long a connection and its CB_NULL may take.
const DIAL_LIMIT: Duration = Duration::from_secs(5);

impl ClientTable {
    /// How connections to clients of NFSv4.0 are made. Without it there are none.
    pub fn dials_by(&self, connector: Arc<dyn Connector>) {
        let _first_counts = self.connector.set(connector);
    }

    /// Connects to a client of NFSv4.0 that may be called back, unless that is done or was just tried. Returns at once.
    pub fn dial(&self, client: ClientId) {
        let (Some(connector), Some(table)) = (self.connector.get(), self.me.upgrade()) else {
            return;
        };
        let connector = Arc::clone(connector);
        let Some((version, target)) = self.target_of(client) else {
            return;
        };
        let Some(address) = target.address else {
            return;
        };
        if !self.begins_dialing(client, version, address) {
            return;
        }
        let place = Arc::clone(&self.probes).try_acquire_owned();
        tokio::spawn(async move {
            let conn = match place {
                Ok(_place) => connected(&*connector, address, target.program).await,
                Err(_) => None,
            };
            table.dialed_as(client, version, conn);
        });
    }

    /// Notes that a connection is being made, if one is needed and may be made.
    fn begins_dialing(&self, client: ClientId, version: Verifier, address: SocketAddr) -> bool {
        let now_ms = self.now_ms();
        let mut dialed = self.dialed.lock();
        if let Some(path) = dialed.get(&client)
            && path.version == version
        {
            let rests = matches!(path.state, DialState::Down { until_ms } if until_ms > now_ms);
            if path.is_live() || rests {
                return false;
            }
        }
        let to_it = |ip: IpAddr| {
            let others = dialed.iter().filter(|(id, _)| **id != client);
            others
                .filter(|(_, d)| d.is_live() && d.address.ip() == ip)
                .count()
        };
        if to_it(address.ip()) >= DIALED_PER_ADDRESS_MAX {
            return false;
        }
        let path = Dialed {
            version,
            address,
            state: DialState::Dialing,
        };
        if let Some(old) = dialed.insert(client, path) {
            old.close();
        }
        true
    }

    fn dialed_as(&self, client: ClientId, version: Verifier, conn: Option<ConnHandle>) {
        let until_ms = self.now_ms().saturating_add(REDIAL_MS);
        let mut dialed = self.dialed.lock();
        let path = dialed.get_mut(&client).filter(|d| d.version == version);
        match (path, conn) {
            (Some(path), Some(conn)) => path.state = DialState::Up(conn),
            (Some(path), None) => path.state = DialState::Down { until_ms },
            (None, Some(conn)) => conn.close(CloseReason::Asked),
            (None, None) => {}
        }
    }

    /// Where the client takes callbacks, if it is one of NFSv4.0.
    fn target_of(&self, client: ClientId) -> Option<(Verifier, CallbackTarget)> {
        let clients = self.lock();
        let (version, target) = clients.callback_target(client)?;
        Some((version, target.clone()))
    }

    /// The connection to a client of NFSv4.0, when it is seen to work.
    pub(crate) fn dialed_conn(&self, client: ClientId) -> Option<ConnHandle> {
        let version = self.lock().callback_target(client)?.0;
        let dialed = self.dialed.lock();
        match &dialed.get(&client).filter(|d| d.version == version)?.state {
            DialState::Up(conn) if !conn.is_closed() => Some(conn.clone()),
            _ => None,
        }
    }

    /// Whether the path to a client of NFSv4.0 works. One that does not is tried again.
    pub(crate) fn can_dial(&self, client: ClientId) -> bool {
        let is_up = self.dialed_conn(client).is_some();
        if !is_up {
            self.dial(client);
        }
        is_up
    }

    /// Closes connections to clients that are gone. To be called every few seconds.
    pub fn hang_up(&self) {
        let ids: Vec<ClientId> = self.dialed.lock().keys().copied().collect();
        let gone: Vec<ClientId> = {
            let clients = self.lock();
            let gone = ids.into_iter().filter(|id| clients.owner(*id).is_none());
            gone.collect()
        };
        let mut dialed = self.dialed.lock();
        for id in gone {
            if let Some(path) = dialed.remove(&id) {
                path.close();
            }
        }
    }
}

/// A connection on which the client's program answers.
async fn connected(
    connector: &dyn Connector,
    address: SocketAddr,
    program: u32,
) -> Option<ConnHandle> {
    let to = Address::Tcp(address);
    let connecting = connector.connect(&to, NoService::shared());
    let conn = tokio::time::timeout(DIAL_LIMIT, connecting)
        .await
        .ok()?
        .ok()?;
    if probe::answers(&conn, program, DIAL_LIMIT).await {
        return Some(conn);
    }
    conn.close(CloseReason::Asked);
    None
}

/// The way to a client of NFSv4.0.
pub(crate) struct DialedPath<'a> {
    pub(crate) table: &'a ClientTable,
    pub(crate) client: ClientId,
}

impl CallbackPath for DialedPath<'_> {
    /// The connection of the try.
    type Call = ConnHandle;

    fn begin_try(
        &self,
        held: &mut Option<ConnHandle>,
        _silent: Option<u64>,
        build: BuildCallback<'_>,
    ) -> Option<Try<ConnHandle>> {
        *held = None;
        let Some(conn) = self.table.dialed_conn(self.client) else {
            self.table.dial(self.client);
            return None;
        };
        let (_, target) = self.table.target_of(self.client)?;
        let e = begin_call(target.program, &target.security);
        let mut compound = CbCompoundBuilder::minor_0(e, b"", target.ident);
        build(&mut compound);
        Some(Try {
            call: conn.clone(),
            conn,
            message: compound.finish().into(),
        })
    }

    fn is_gone(&self) -> bool {
        self.table.lock().owner(self.client).is_none()
    }

    /// The next try makes another connection.
    fn note_silence(&self, call: &mut ConnHandle) {
        call.close(CloseReason::Asked);
    }

    fn take_answer<T>(
        &self,
        _call: ConnHandle,
        record: &Bytes,
        take: TakeResult<T>,
    ) -> Taken<ConnHandle, T> {
        let mut d = Decoder::new(record);
        let header = ReplyHeader::decode(&mut d).ok();
        let is_done = header.is_some_and(|h| matches!(h.verdict, ReplyVerdict::Success { .. }));
        let result = match CbCompoundReply::new(d) {
            Ok(mut reply) if is_done => taken(&mut reply, take),
            _ => Err(CallbackError::Malformed),
        };
        match result {
            Err(e @ CallbackError::Status(NfsStatus::Delay)) => Taken::Again(e, None),
            result => Taken::Ended(result),
        }
    }
}

#[cfg(test)]
mod tests {
    //! What a client can have the server connect to is bounded.
    use super::*;
    use state::{ClientLimits, Clients, Grace};

    fn table() -> Arc<ClientTable> {
        let clients = Clients::new(ClientLimits::default(), 1, Grace::none());
        ClientTable::new(clients, Box::new(|| 7))
    }

    const ONE: Verifier = Verifier { bytes: [1; 8] };
    const TWO: Verifier = Verifier { bytes: [2; 8] };

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], 1000))
    }

    #[tokio::test(start_paused = true)]
    async fn connections_to_one_machine_are_bounded() {
        let table = table();
        let id = |n: usize| ClientId { value: n as u64 };
        for n in 0..DIALED_PER_ADDRESS_MAX {
            assert!(table.begins_dialing(id(n), ONE, address(1)), "{n}");
        }
        let next = id(DIALED_PER_ADDRESS_MAX);
        assert!(!table.begins_dialing(next, ONE, address(1)));
        assert!(table.begins_dialing(next, ONE, address(2)));
        table.hang_up();
        assert!(table.dialed.lock().is_empty(), "their clients are unknown");
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_that_failed_rests_unless_the_client_names_another() {
        let table = table();
        let client = ClientId { value: 1 };
        assert!(table.begins_dialing(client, ONE, address(1)));
        assert!(!table.begins_dialing(client, ONE, address(1)), "under way");
        table.dialed_as(client, ONE, None);
        assert!(!table.begins_dialing(client, ONE, address(1)));
        tokio::time::sleep(Duration::from_millis(REDIAL_MS + 1)).await;
        assert!(table.begins_dialing(client, ONE, address(1)));
        table.dialed_as(client, ONE, None);
        assert!(table.begins_dialing(client, TWO, address(1)));
    }
}
