//! The data servers of one file, asked at the same time.

use crate::place::{object_of, striping_of};
use crate::status::told;
use cluster::{Cluster, MemberError, all, call};
use control::{ObjectRef, Range, Request, Stripes};
use layout::{Group, Striping};
use namespace::Inode;
use nfs4::{NfsStatus, Verifier};
use std::sync::Arc;
use tokio::task::JoinSet;
use transport::{CallId, ConnHandle};

/// What a data server that was expelled means for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expelled {
    /// An I/O error: its part of the file is lost.
    Fails,
    /// Nothing: it has nothing any more, so it is not asked.
    Skipped,
}

/// The data servers of a file, in stripe order.
pub struct Spread {
    striping: Striping,
    inode: Inode,
    group: Arc<Group>,
    ids: Vec<u32>,
    /// `None` for one that was expelled.
    conns: Vec<Option<ConnHandle>>,
}

impl Spread {
    /// `None` for a file that never had a place: all of it is a hole.
    ///
    /// # Errors
    /// `Delay` while a data server is away; `Io` for one that was expelled, if that fails the call.
    pub fn of(
        cluster: &Cluster,
        inode: &Inode,
        expelled: Expelled,
    ) -> Result<Option<Self>, NfsStatus> {
        let Some(placement) = inode.placement else {
            return Ok(None);
        };
        let group = cluster.group(placement.group);
        let group = group.ok_or(NfsStatus::ServerFault)?;
        let ids = group.primaries();
        let striping = striping_of(inode, ids.len()).ok_or(NfsStatus::ServerFault)?;
        if expelled == Expelled::Fails {
            cluster.check_all_live(&ids).map_err(|why| match why {
                MemberError::Lost => NfsStatus::Io,
                MemberError::Away => NfsStatus::Delay,
            })?;
        }
        let conns = cluster.conns_but_expelled(&ids).ok_or(NfsStatus::Delay)?;
        Ok(Some(Self {
            striping,
            inode: inode.clone(),
            group,
            ids,
            conns,
        }))
    }

    /// The object of the file at a place.
    #[must_use]
    pub fn object(&self, place: usize) -> ObjectRef {
        self.object_of(&self.inode, place)
    }

    /// The object at a place of a file of the same group.
    #[must_use]
    pub fn object_of(&self, inode: &Inode, place: usize) -> ObjectRef {
        object_of(inode, &self.group, u32::try_from(place).unwrap_or(u32::MAX))
    }

    /// The placement group, as it was when the file was looked at.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// A place, and its write verifier when its primary's process has this one.
    #[must_use]
    pub fn verifier_of(&self, place: usize, process: Verifier) -> (u32, Verifier) {
        let index = u32::try_from(place).unwrap_or(u32::MAX);
        (index, cluster::verifier_of(&self.group, index, process))
    }

    /// How the file is striped.
    #[must_use]
    pub fn striping(&self) -> Striping {
        self.striping
    }

    /// Ids of the data servers, by their place in the group.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Asks data servers, by their place in the group, at the same time, as [`cluster::all`] waits for them. One that was expelled
    /// is left out.
    ///
    /// # Errors
    /// [`crate::status_of`] of the first refusal; `Delay` for a data server that does not answer.
    pub async fn ask<R>(&self, asks: Vec<(usize, R)>) -> Result<Vec<(usize, R::Ok)>, NfsStatus>
    where
        R: Request + Send + Sync + 'static,
        R::Ok: Send + 'static,
    {
        let file = self.inode.id.0;
        let mut tasks = JoinSet::new();
        for (place, args) in asks {
            let Some(conn) = self.conns[place].clone() else {
                continue;
            };
            let ds = self.ids[place];
            tasks.spawn(CallId::carry(async move {
                let answer = call(&conn, &args).await;
                answer
                    .map(|ok| (place, ok))
                    .map_err(|error| told(ds, file, &error))
            }));
        }
        all(tasks).await
    }

    /// As [`Spread::ask`], of every data server.
    ///
    /// # Errors
    /// As [`Spread::ask`].
    pub async fn ask_all<R>(
        &self,
        args: impl Fn(usize) -> R,
    ) -> Result<Vec<(usize, R::Ok)>, NfsStatus>
    where
        R: Request + Send + Sync + 'static,
        R::Ok: Send + 'static,
    {
        let places = 0..self.ids.len();
        self.ask(places.map(|place| (place, args(place))).collect())
            .await
    }

    /// Places in the group of data servers that have stripes in a range.
    pub fn touched(&self, range: Range) -> impl Iterator<Item = usize> + '_ {
        let len = range.end.saturating_sub(range.start);
        let indices = (0..self.striping.width()).zip(0..self.ids.len());
        indices
            .filter(move |(index, _)| self.striping.touches(*index, range.start, len))
            .map(|(_, place)| place)
    }

    /// The stripes of one data server, by its place in the group.
    #[must_use]
    pub fn stripes(&self, place: usize) -> Stripes {
        Stripes::of(self.striping, u32::try_from(place).unwrap_or(u32::MAX))
    }
}
