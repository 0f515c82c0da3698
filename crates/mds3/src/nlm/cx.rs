//! What every procedure needs: for whom it works, and the file behind a handle.

use super::host::HostName;
use fs::{Actor, Fs};
use mds::Mds;
use namespace::{FileId, Inode, Op, READ, WRITE};
use nfs4::{ClientId, NfsStatus};
use nlm::{Netobj, Nlm4Lock, Nlm4Stats};
use rpc_service::Call;
use state::{LockKind, LockRange, NsmState};
use std::sync::Arc;

/// One call.
pub(crate) struct Cx<'m> {
    pub(crate) mds: &'m Mds,
    pub(crate) call: &'m Call<'m>,
    pub(crate) actor: Actor,
}

/// Why a call has no answer: the client asks again, and may have one then.
pub(crate) struct Later;

impl<'m> Cx<'m> {
    pub(crate) fn fs(&self) -> &'m Arc<Fs> {
        self.mds.fs()
    }

    /// The host that calls.
    pub(crate) fn host(&self, caller_name: &[u8]) -> HostName {
        HostName::of(self.call.conn, caller_name)
    }

    /// Makes the actor the host that calls.
    pub(crate) async fn enter(&mut self, caller_name: &[u8]) -> Result<ClientId, NfsStatus> {
        self.enter_in(caller_name, None).await
    }

    /// As [`Cx::enter`], of a host that tells its NSM state.
    pub(crate) async fn enter_in(
        &mut self,
        caller_name: &[u8],
        told: Option<NsmState>,
    ) -> Result<ClientId, NfsStatus> {
        let name = self.host(caller_name).to_bytes();
        fs::enter_host(self.fs(), &mut self.actor, &name, told).await
    }

    /// The host that calls, if it has ever locked anything.
    pub(crate) fn known(&self, caller_name: &[u8]) -> Option<ClientId> {
        let name = self.host(caller_name).to_bytes();
        self.fs().clients().lock().find_host(&name)
    }

    /// The regular file behind a handle, which the caller may read or write.
    pub(crate) fn file(&mut self, handle: Netobj<'_>) -> Result<Arc<Inode>, NfsStatus> {
        let fs = self.fs();
        let handle = fs.parse_handle(handle.0)?;
        let inode = self.actor.look(fs, |ns, op| {
            ns.resolve(op, FileId(handle.file_id), handle.generation)
        })?;
        if !inode.is_regular() {
            return Err(NfsStatus::Inval);
        }
        let cred = &self.actor.cred;
        match cred.rights(&inode) & (READ | WRITE) != 0 || cred.owns(&inode) {
            true => Ok(inode),
            false => Err(NfsStatus::Access),
        }
    }

    /// The file that a handle names, which may be gone.
    pub(crate) fn file_id(&self, handle: Netobj<'_>) -> Result<FileId, NfsStatus> {
        let handle = self.fs().parse_handle(handle.0)?;
        let file = FileId(handle.file_id);
        let mut op = Op::new(&self.actor.cred, self.fs().now());
        match self.fs().namespace().getattr(&mut op, file) {
            Ok(inode) if inode.generation != handle.generation => Err(NfsStatus::Stale),
            _ => Ok(file),
        }
    }
}

/// The range of a lock.
pub(crate) fn range_of(lock: &Nlm4Lock<'_>) -> Result<LockRange, NfsStatus> {
    let range = lock.range().map_err(|_| NfsStatus::FBig)?;
    LockRange::between(range.first(), range.last())
}

pub(crate) const fn kind_of(exclusive: bool) -> LockKind {
    match exclusive {
        true => LockKind::Write,
        false => LockKind::Read,
    }
}

/// `l_offset` and `l_len` of a range.
pub(crate) fn extent(range: LockRange) -> (u64, u64) {
    match range.length() {
        u64::MAX => (range.offset(), 0),
        length => (range.offset(), length),
    }
}

/// What a failure is in NLM.
pub(crate) fn stats_of(status: NfsStatus) -> Result<Nlm4Stats, Later> {
    Ok(match status {
        // A delegation is being recalled.
        NfsStatus::Delay => return Err(Later),
        NfsStatus::Grace | NfsStatus::NoGrace => Nlm4Stats::DeniedGracePeriod,
        NfsStatus::ShareDenied => Nlm4Stats::Denied,
        NfsStatus::Resource | NfsStatus::NoSpc => Nlm4Stats::DeniedNoLocks,
        NfsStatus::Stale | NfsStatus::BadHandle => Nlm4Stats::StaleFh,
        NfsStatus::FBig => Nlm4Stats::FBig,
        NfsStatus::RoFs => Nlm4Stats::RoFs,
        _ => Nlm4Stats::Failed,
    })
}

/// The status of a procedure that has no other result.
pub(crate) fn outcome(result: Result<(), NfsStatus>) -> Result<Nlm4Stats, Later> {
    match result {
        Ok(()) => Ok(Nlm4Stats::Granted),
        Err(status) => stats_of(status),
    }
}
