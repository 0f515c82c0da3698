//! One object at one server: found by its name, made, and given ids.
//!
//! # Ordering
//! The ids of an object change under a lock, and never to those of an earlier epoch. So a layout of an old epoch that is being
//! granted cannot undo a fence.
//!
//! # Failure
//! A handle that the server does not know any more is looked up once more. An object that was made and is missing is lost: it is
//! made again only for a file that is cut to nothing. Otherwise an empty one would read as zeros.

use crate::cache::{Known, ObjectKey, REMOVED};
use crate::dirs::{Missing, low_byte, object_name};
use crate::fail::Fail;
use crate::file_at::FileAt;
use crate::foreign::Foreign;
use crate::ids::{Ids, ids_of};
use crate::records::ServerState;
use crate::server::Server;
use nfs3::procs::CreateHow;
use nfs3::{Fattr3, FileType3, Nfs3Status, Sattr3};
use nfs3_client::{Fh, Nfs3Error};
use std::future::Future;
use std::sync::Arc;

/// RFC 8435 §2.2: the owner writes, the group reads.
const FILE_MODE: u32 = 0o640;
/// How often a call is tried whose handle turns out to be stale.
const TRIES: u32 = 2;

/// What to do where the object has a newer epoch than the caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfNewer {
    /// It fails.
    Refuse,
    /// The newer one stays.
    Keep,
}

/// An object at a server.
#[derive(Clone)]
pub(crate) struct Spot {
    pub(crate) server: Arc<Server>,
    pub(crate) number: u64,
    pub(crate) generation: u32,
    /// The object was made: if it is missing, it is lost.
    pub(crate) was_made: bool,
}

impl Spot {
    pub(crate) fn key(&self) -> ObjectKey {
        (self.server.id, self.number, self.generation)
    }
}

impl Foreign {
    /// The object of a file at a server that may be called.
    pub(crate) fn spot(&self, server: u32, at: &FileAt) -> Result<Spot, Fail> {
        let server = self
            .server(server)
            .ok_or(Fail::Wrong("a group names an unknown server"))?;
        if server.state() == ServerState::Removed {
            return Err(Fail::Removed);
        }
        if server.is_down() {
            return Err(Fail::Down);
        }
        Ok(Spot {
            server,
            number: at.number,
            generation: at.generation,
            was_made: at.has_objects,
        })
    }

    /// Whether the object, which is missing, is lost. One that this process has removed is not.
    fn is_lost(&self, spot: &Spot) -> bool {
        let known = self.handles.get(spot.key());
        let was_removed = known.is_some_and(|known| known.epoch == Some(REMOVED));
        spot.was_made && !was_removed
    }

    /// Calls with the handle of an object, as it is. `None` when there is no such object. One that was there and is gone is a
    /// failure: its bytes are lost.
    pub(crate) async fn with<T, F>(
        &self,
        spot: &Spot,
        call: impl Fn(Fh) -> F,
    ) -> Result<Option<T>, Fail>
    where
        F: Future<Output = Result<T, Nfs3Error>>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(fh) = self.find(spot).await? else {
                return match tries == 1 && !self.is_lost(spot) {
                    true => Ok(None),
                    false => Err(Fail::Lost),
                };
            };
            match spot.server.call(call(fh.clone())).await {
                Err(fail) if fail.is_stale() && tries < TRIES => {
                    self.handles.forget_handle(spot.key(), &fh);
                }
                result => return result.map(Some),
            }
        }
    }

    /// The handle of an object, whatever ids it has.
    async fn find(&self, spot: &Spot) -> Result<Option<Fh>, Fail> {
        if let Some(fh) = self.handles.get(spot.key()).and_then(|known| known.fh) {
            return Ok(Some(fh));
        }
        let _one = spot.server.lock_of(spot.number).lock().await;
        let known = self.handles.get(spot.key());
        if let Some(fh) = known.as_ref().and_then(|known| known.fh.clone()) {
            return Ok(Some(fh));
        }
        let Some((fh, _)) = self.look_up(spot).await? else {
            return Ok(None);
        };
        let known = Known {
            fh: Some(fh.clone()),
            epoch: known.and_then(|known| known.epoch),
            is_given: false,
        };
        self.handles.put(spot.key(), known);
        Ok(Some(fh))
    }

    /// LOOKUP of an object, and its attributes.
    async fn look_up(&self, spot: &Spot) -> Result<Option<(Fh, Fattr3)>, Fail> {
        let (server, name) = (&*spot.server, object_name(spot.number, spot.generation));
        let who = &server.root_caller;
        let found = self.in_dir(spot, |dir| {
            let name = &name;
            async move { server.nfs.lookup(who, &dir, name).await }
        });
        let found = match found.await {
            Ok(found) => found,
            Err(fail) if fail.is(Nfs3Status::NoEnt) => {
                if spot.was_made {
                    server.see_place().await?;
                }
                return Ok(None);
            }
            Err(fail) => return Err(fail),
        };
        let attributes = match found.attributes {
            Some(attributes) => attributes,
            None => server.call(server.nfs.getattr(who, &found.fh)).await?,
        };
        sound(attributes).map(|attributes| Some((found.fh, attributes)))
    }

    /// Calls with the directory of an object. One whose handle is stale is looked up once more.
    pub(crate) async fn in_dir<T, F>(&self, spot: &Spot, call: impl Fn(Fh) -> F) -> Result<T, Fail>
    where
        F: Future<Output = Result<T, Nfs3Error>>,
    {
        let (server, byte) = (&*spot.server, Some(low_byte(spot.number)));
        let mut tries = 0;
        loop {
            tries += 1;
            let dir = server.dir(byte, Missing::Left).await;
            let result = match dir {
                Ok(dir) => server.call(call(dir)).await,
                Err(fail) => Err(fail),
            };
            match result {
                Err(fail) if fail.is_stale() && tries < TRIES => server.forget_dirs(),
                result => return result,
            }
        }
    }

    /// Makes an object that is missing, with the ids of `epoch` or of a fence that waits for it. One that is there stays as it is.
    pub(crate) async fn see_to(&self, spot: &Spot, epoch: u64) -> Result<(), Fail> {
        if self.find(spot).await?.is_none() {
            self.give(spot, epoch, Missing::Made, IfNewer::Keep).await?;
        }
        Ok(())
    }

    /// The newest epoch that an object has, or is to get.
    fn newest(&self, spot: &Spot) -> Option<u64> {
        let known = self.handles.get(spot.key()).and_then(|known| known.epoch);
        known.max(self.fences.epoch_of(spot.number, spot.generation))
    }

    /// Sees to it that an object has the ids of `epoch`. Returns its handle; `None` when it is missing and was not made.
    pub(crate) async fn give(
        &self,
        spot: &Spot,
        epoch: u64,
        missing: Missing,
        if_newer: IfNewer,
    ) -> Result<Option<Fh>, Fail> {
        if let Some(fh) = self.has(spot, epoch) {
            return Ok(Some(fh));
        }
        let _one = spot.server.lock_of(spot.number).lock().await;
        let newest = self.newest(spot).unwrap_or(0);
        if newest > epoch && if_newer == IfNewer::Refuse {
            return Err(Fail::Newer);
        }
        if newest == REMOVED {
            return match missing {
                Missing::Made | Missing::MadeUnseen | Missing::MadeAnew => Err(Fail::Newer),
                Missing::Left => Ok(None),
            };
        }
        let epoch = epoch.max(newest);
        if let Some(fh) = self.has(spot, epoch) {
            return Ok(Some(fh));
        }
        let mut tries = 0;
        let fh = loop {
            tries += 1;
            match self.give_locked(spot, epoch, missing).await {
                Err(fail) if fail.is_stale() && tries < TRIES => spot.server.forget_dirs(),
                result => break result?,
            }
        };
        let known = Known {
            fh: fh.clone(),
            epoch: Some(epoch),
            is_given: fh.is_some(),
        };
        self.handles.put(spot.key(), known);
        self.fences.settle(spot.key(), epoch);
        Ok(fh)
    }

    /// The handle of an object that has these ids, and is to get no newer ones.
    fn has(&self, spot: &Spot, epoch: u64) -> Option<Fh> {
        let known = self.handles.get(spot.key())?;
        let is_so =
            known.is_given && known.epoch == Some(epoch) && self.newest(spot) == Some(epoch);
        known.fh.filter(|_| is_so)
    }

    async fn give_locked(
        &self,
        spot: &Spot,
        epoch: u64,
        missing: Missing,
    ) -> Result<Option<Fh>, Fail> {
        let ids = ids_of(spot.number, spot.generation, epoch);
        let found = match missing {
            Missing::MadeUnseen if !spot.was_made => None,
            _ => self.look_up(spot).await?,
        };
        let (fh, now) = match (found, missing) {
            (Some(found), _) => found,
            (None, Missing::Left) => return Ok(None),
            (None, Missing::MadeAnew) => {
                let (file, server) = (spot.number, spot.server.id);
                tracing::warn!(
                    file,
                    server,
                    "a lost object is made anew, for a file without bytes"
                );
                self.create(spot, ids).await?
            }
            (None, _) if spot.was_made => return Err(Fail::Lost),
            (None, Missing::Made | Missing::MadeUnseen) => self.create(spot, ids).await?,
        };
        if has_ids(&now, ids) {
            return Ok(Some(fh));
        }
        let server = &*spot.server;
        let wanted = given(ids);
        let set = server.nfs.setattr(&server.root_caller, &fh, &wanted, None);
        match server.call(set).await?.after {
            Some(after) if !has_ids(&after, ids) => {
                Err(Fail::Wrong("the server does not give files away"))
            }
            _ => Ok(Some(fh)),
        }
    }

    async fn create(&self, spot: &Spot, ids: Ids) -> Result<(Fh, Fattr3), Fail> {
        let (server, name) = (&*spot.server, object_name(spot.number, spot.generation));
        let who = &server.root_caller;
        // A call that was sent twice finds what it made the first time. What is there may have other ids.
        let how = CreateHow::Unchecked(given(ids));
        let made = self.in_dir(spot, |dir| {
            let name = &name;
            async move { server.nfs.create(who, &dir, name, how).await }
        });
        let made = made.await?;
        match (made.fh, made.attributes) {
            (Some(fh), Some(attributes)) => Ok((fh, sound(attributes)?)),
            _ => {
                let found = self.look_up(spot).await?;
                found.ok_or(Fail::Wrong("an object is not there after it was made"))
            }
        }
    }
}

fn given(ids: Ids) -> Sattr3 {
    Sattr3 {
        mode: Some(FILE_MODE),
        uid: Some(ids.uid),
        gid: Some(ids.gid),
        ..Sattr3::default()
    }
}

fn has_ids(now: &Fattr3, ids: Ids) -> bool {
    (now.uid, now.gid, now.mode & 0o7777) == (ids.uid, ids.gid, FILE_MODE)
}

fn sound(attributes: Fattr3) -> Result<Fattr3, Fail> {
    match attributes.file_type {
        FileType3::Reg => Ok(attributes),
        _ => Err(Fail::Wrong("an object is no regular file")),
    }
}
