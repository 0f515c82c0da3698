//! An administrator's order to go on with the rows of a store that went back (rule P21). `closed` says what was closed.

use crate::closed::accepted;
use crate::cluster::Cluster;
use crate::join::AdminError;
use std::sync::Arc;
use tokio::time::Instant;

impl Cluster {
    /// Opens the closed groups with the rows of this store. Returns how many there were.
    ///
    /// # Errors
    /// [`AdminError::Away`] while a member of one is away: it may know more than the others. Else the store fails.
    pub async fn accept_state(self: &Arc<Self>) -> Result<usize, AdminError> {
        let (count, seq) = {
            let mut groups = self.groups.lock();
            let members = groups.closed_members();
            {
                let (servers, now) = (self.servers.lock(), Instant::now());
                let is_away = |ds: &u32| {
                    let server = servers.map.get(ds);
                    server.is_some_and(|s| s.is_member() && !s.is_live(now))
                };
                if let Some(ds) = members.into_iter().find(is_away) {
                    return Err(AdminError::Away { ds });
                }
            }
            let closed = groups.closed().all();
            let open = closed.iter().filter_map(|(id, known)| {
                let group = groups.placement().group(*id)?;
                Some(accepted(group, known))
            });
            let (count, changes) = (closed.len(), open.collect());
            let seq = self.change_groups(&mut groups, changes)?;
            groups.open_closed();
            (count, seq)
        };
        self.store.durable(seq).await?;
        tracing::warn!(
            groups = count,
            "an administrator accepted the state of this store"
        );
        self.deliver_rows();
        self.changed.notify_waiters();
        Ok(count)
    }
}
