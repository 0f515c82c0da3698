//! For whom the file service acts, and the newest transaction that the request has observed.

use crate::fs::{Fs, status};
use layout::ClientTag;
use meta::Seq;
use namespace::{Cred, Inode, Namespace, NsError, Op, Time};
use nfs4::{ClientId, NfsStatus};
use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

/// Whom work is done for. Every call of the name space notes what it observed, so that a reply can wait until that is
/// durable (rule R7).
#[derive(Debug, Clone)]
pub struct Actor {
    /// Identity after squashing.
    pub cred: Cred,
    /// Changes are refused.
    pub read_only: bool,
    /// Reads move access times.
    pub moves_atime: bool,
    /// Where the request came from; `None` for work of the server itself.
    pub peer: Option<IpAddr>,
    /// The client and its `co_ownerid`, in a session.
    client: Option<(ClientId, Arc<[u8]>)>,
    /// The newest transaction that any result depends on.
    pub observed: Seq,
}

impl Actor {
    /// Somebody without a session.
    #[must_use]
    pub fn new(cred: Cred, read_only: bool, moves_atime: bool) -> Self {
        Self {
            cred,
            read_only,
            moves_atime,
            peer: None,
            client: None,
            observed: Seq(0),
        }
    }

    /// The request came from this address.
    #[must_use]
    pub fn coming_from(self, peer: IpAddr) -> Self {
        Self {
            peer: Some(peer),
            ..self
        }
    }

    /// For work that outlives the COMPOUND which began it.
    #[must_use]
    pub fn for_task(cred: Cred) -> Self {
        Self::new(cred, false, false)
    }

    /// For work of the server itself.
    #[must_use]
    pub fn root() -> Self {
        Self::for_task(Cred::root())
    }

    /// The actor is this client.
    pub fn enter(&mut self, client: ClientId, owner: Arc<[u8]>) {
        self.client = Some((client, owner));
    }

    /// The client; `None` outside of a session.
    #[must_use]
    pub fn client_id(&self) -> Option<ClientId> {
        self.client.as_ref().map(|(client, ..)| *client)
    }

    /// The client.
    ///
    /// # Errors
    /// `OpNotInSession`.
    pub fn client(&self) -> Result<ClientId, NfsStatus> {
        self.client_id().ok_or(NfsStatus::OpNotInSession)
    }

    /// `co_ownerid` of the client.
    ///
    /// # Errors
    /// `OpNotInSession`.
    pub fn owner(&self) -> Result<&[u8], NfsStatus> {
        let client = self.client.as_ref();
        let (_, owner) = client.ok_or(NfsStatus::OpNotInSession)?;
        Ok(owner)
    }

    /// What signed handles are bound to (rule R5).
    ///
    /// # Errors
    /// `OpNotInSession`.
    pub fn tag(&self, fs: &Fs) -> Result<ClientTag, NfsStatus> {
        Ok(ClientTag::of(fs.cluster.id(), self.owner()?))
    }

    /// Refuses changes where they are not allowed.
    ///
    /// # Errors
    /// `RoFs`.
    pub fn check_writable(&self) -> Result<(), NfsStatus> {
        if self.read_only {
            Err(NfsStatus::RoFs)
        } else {
            Ok(())
        }
    }

    /// Notes that a result depends on a transaction.
    pub fn observe(&mut self, seq: Seq) {
        self.observed = self.observed.max(seq);
    }

    /// Calls the name space.
    ///
    /// # Errors
    /// The status of what it answers.
    pub fn ns<T>(
        &mut self,
        fs: &Fs,
        call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
    ) -> Result<T, NfsStatus> {
        let (seen, result) = ask(fs, Op::new(&self.cred, fs.now()), call);
        self.observe(seen);
        result
    }

    /// As [`Actor::ns`], for what changes nothing: the clock is not read.
    ///
    /// # Errors
    /// The status of what it answers.
    pub fn look<T>(
        &mut self,
        fs: &Fs,
        call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
    ) -> Result<T, NfsStatus> {
        let (seen, result) = ask(fs, Op::new(&self.cred, Time::default()), call);
        self.observe(seen);
        result
    }

    /// As [`Actor::ns`], for the change that an operation is about. What `keep` makes of its result becomes durable with
    /// it (rule R15).
    ///
    /// # Errors
    /// The status of what it answers.
    pub fn change<T: Any>(
        &mut self,
        fs: &Fs,
        keep: &(dyn Fn(&T) -> Prepared + Sync),
        call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
    ) -> Result<T, NfsStatus> {
        let keep = |result: &dyn Any| keep(result.downcast_ref::<T>()?).0;
        let op = Op::new(&self.cred, fs.now()).keeping(&keep);
        let (seen, result) = ask(fs, op, call);
        self.observe(seen);
        result
    }

    /// As [`Actor::change`], with a result that was prepared.
    ///
    /// # Errors
    /// The status of what it answers.
    pub fn change_as<T>(
        &mut self,
        fs: &Fs,
        prepared: &Prepared,
        call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
    ) -> Result<T, NfsStatus> {
        let keep = |_: &dyn Any| prepared.0.clone();
        let op = Op::new(&self.cred, fs.now()).keeping(&keep);
        let (seen, result) = ask(fs, op, call);
        self.observe(seen);
        result
    }

    /// Notes that the actor has read a file, a directory or a symbolic link, in the manner of relatime.
    pub fn note_read(&self, fs: &Fs, inode: &Inode) {
        if self.moves_atime {
            fs.atimes.note(inode, || fs.now());
        }
    }
}

/// A result that is known before its change is made, as the key and value that are kept of it.
#[derive(Debug, Clone, Default)]
pub struct Prepared(pub Option<(Vec<u8>, Vec<u8>)>);

fn ask<T>(
    fs: &Fs,
    mut op: Op<'_>,
    call: impl FnOnce(&Namespace, &mut Op<'_>) -> Result<T, NsError>,
) -> (Seq, Result<T, NfsStatus>) {
    let result = call(&fs.ns, &mut op);
    (op.observed(), result.map_err(|e| status(&e)))
}
