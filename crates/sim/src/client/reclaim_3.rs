//! How a host of NLM recovers when it is told that the server was started again: SHAREs first, then locks.

use super::locker::{Again, FILES};
use super::locker_3::{Locker3, Wanted};
use crate::check::linear::Moment;
use crate::mds_node::LEASE_MS;
use nlm::Nlm4Stats;

impl Locker3 {
    /// Reclaims what is held. A host that does not get all of it has lost the rest, and begins again with nothing.
    pub(super) async fn reclaim(&mut self) -> Result<(), Again> {
        while !self.has_missed_one() {
            let start = self.held.history.now();
            if let Err((what, stat)) = self.reclaim_all().await? {
                self.not_reclaimed(what, stat);
                return Err(self.die().await);
            }
            let now = self.held.history.now();
            // Started again meanwhile, nobody knows which run has reclaimed what.
            if self.held.history.cuts_within(start, now).is_empty() {
                self.held.renewed = start;
                return Ok(());
            }
            Self::pause().await;
        }
        Err(self.die().await)
    }

    async fn reclaim_all(&mut self) -> Result<Result<(), (&'static str, Nlm4Stats)>, Again> {
        for file in 0..FILES {
            let Some(open) = self.held.open(file).cloned() else {
                continue;
            };
            match self.ask_share(file, open.share, true).await? {
                Nlm4Stats::Granted => {}
                stat => return Ok(Err(("SHARE", stat))),
            }
            for lock in &open.locks {
                let svid = self.processes.get(&(file, lock.range)).copied();
                let wanted = Wanted {
                    file,
                    offset: lock.offset(),
                    svid: svid.unwrap_or_default(),
                    is_exclusive: lock.is_exclusive,
                };
                match self.ask_lock(wanted, false, true).await? {
                    Nlm4Stats::Granted => {}
                    stat => return Ok(Err(("LOCK", stat))),
                }
            }
        }
        Ok(Ok(()))
    }

    /// Who held something when the server lost its power, and comes in time, may reclaim it.
    fn not_reclaimed(&mut self, what: &str, stat: Nlm4Stats) {
        let now = self.held.history.now();
        let cuts = self.held.history.cuts_within(Moment::default(), now);
        let Some(last) = cuts.last().copied() else {
            self.odd(
                what,
                &"a reclaim is asked for, and the server was never cut",
            );
            return;
        };
        let before = cuts.len().checked_sub(2).map_or((0, 0), |at| cuts[at]);
        let in_time = now.0 <= last.0 + LEASE_MS;
        if self.held.renewed > before && in_time {
            self.odd(what, &format_args!("was not to be reclaimed: {stat}"));
        }
    }
}
