//! What a data server is made of: stores, clock, randomness.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use meta::MetaStore;
use nfs4::NfsTime;
use objects::ObjectStore;
use redo::RedoLog;
use state::ClientLimits;

use crate::sums::table::SumsConfig;

/// Says whether an address may connect.
pub type PeerFilter = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// A clock that never goes back, from any beginning.
pub type LeaseClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A lease clock of tokio's time, for tests and simulators whose time is virtual. On a machine it stands still while
/// the machine is suspended.
#[must_use]
pub fn virtual_lease_clock() -> LeaseClock {
    let begun = tokio::time::Instant::now();
    Arc::new(move || begun.elapsed())
}

/// What [`crate::Ds::open`] takes.
pub struct DsConfig {
    /// The index: high-water marks, floors, tombstones, identity. Nobody else writes to it.
    pub index: Arc<dyn MetaStore>,
    /// The objects. Index and objects belong together: one is worth nothing without the other.
    pub objects: Arc<dyn ObjectStore>,
    /// The redo log of the index; `None` for stores that no process outlives. Nobody else writes to it.
    pub redo: Option<Arc<dyn RedoLog>>,
    /// Random 64-bit values of the operating system, or of the simulator's seed.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The wall clock: times of writes.
    pub clock: Arc<dyn Fn() -> NfsTime + Send + Sync>,
    /// The clock of the lease (rule P3). It counts time in which the machine was suspended: the MDS may have given the
    /// places to others meanwhile.
    pub lease_clock: LeaseClock,
    /// Whether syncs and cold reads run on tokio's blocking threads. The simulator says no.
    pub offload: bool,
    /// Who may connect; everybody when there is none. Data are protected by signed handles either way.
    pub peers: Option<PeerFilter>,
    /// Limits of clients and sessions; `callbacks` is overruled, since a data server never calls back.
    pub clients: ClientLimits,
    /// How sums of what lies on the disk are kept.
    pub sums: SumsConfig,
}
