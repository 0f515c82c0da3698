//! How far members are behind the primaries that pass items to them, by pair, as heartbeats last said.
//!
//! Only in memory: another heartbeat says it again. May call the table of data servers; decides nothing.

use crate::cluster::Cluster;
use control::MemberLag;
use tokio::time::Instant;

/// How far a member is behind what a primary passes on to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairLag {
    /// Who says so: primary of some places of the member.
    pub primary: u32,
    /// What it says.
    pub lag: MemberLag,
}

impl Cluster {
    /// What the data servers that serve say of their members.
    pub(crate) fn lags(&self) -> Vec<PairLag> {
        let now = Instant::now();
        let servers = self.servers.lock();
        let live = servers.map.iter().filter(|(_, s)| s.is_live(now));
        let pairs = live.flat_map(|(primary, server)| {
            let pair = |lag: &MemberLag| PairLag {
                primary: *primary,
                lag: *lag,
            };
            server.lags.iter().map(pair)
        });
        pairs.collect()
    }
}
