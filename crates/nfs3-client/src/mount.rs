//! MOUNT, version 3: the handle of an export, and what is exported (RFC 1813 §5).

use crate::message::{REPLY_BYTES, Target};
use crate::replies::owned;
use crate::{CallerAuth, Fh, Nfs3Error, RpcError, RpcPeer};
use bytes::Bytes;
use nfs3::mount::{
    ExportRes, MNTPATHLEN, MntArgs, MntRes, MountStatus, PROGRAM, Proc, UmntArgs, VERSION,
};
use std::sync::Arc;
use transport::ReplyRoom;
use xdr::{Encode, Opaque};

/// Most bytes of a list of exports over transports that make room for replies.
const EXPORTS_BYTES: u32 = 64 << 10;

/// The MOUNT program of a server: on the port of NFS, or on one of its own.
#[derive(Debug, Clone)]
pub struct MountClient {
    peer: Arc<RpcPeer>,
}

/// What MNT told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The directory.
    pub fh: Fh,
    /// Flavors that the server takes, the preferred one first.
    pub auth_flavors: Vec<u32>,
}

/// One export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Its path.
    pub dir: Vec<u8>,
    /// Who may mount it; nobody is everybody.
    pub groups: Vec<Vec<u8>>,
}

impl MountClient {
    /// Calls through `peer`.
    #[must_use]
    pub fn new(peer: Arc<RpcPeer>) -> Self {
        Self { peer }
    }

    async fn call(
        &self,
        caller: &CallerAuth,
        proc: Proc,
        args: &(dyn Encode + Sync),
        reply_bytes: u32,
    ) -> Result<Bytes, Nfs3Error> {
        let target = Target {
            program: PROGRAM,
            version: VERSION,
            procedure: proc as u32,
        };
        let room = ReplyRoom::plain(reply_bytes);
        let deadline = self.peer.deadline();
        let call = self.peer.call(deadline, target, caller, args, None, room);
        Ok(call.await?)
    }

    /// MNT: the handle of the directory `path`.
    ///
    /// # Errors
    /// [`Nfs3Error::Mount`] as the server answers, else [`Nfs3Error::Rpc`].
    pub async fn mnt(&self, caller: &CallerAuth, path: &[u8]) -> Result<Mounted, Nfs3Error> {
        let args = MntArgs {
            dirpath: dirpath(path)?,
        };
        let result = self.call(caller, Proc::Mnt, &args, REPLY_BYTES).await?;
        match xdr::decode_all::<MntRes<'_>>(&result) {
            Ok(MntRes::Ok(ok)) => Ok(Mounted {
                fh: owned(ok.fhandle),
                auth_flavors: ok.auth_flavors.0,
            }),
            Ok(MntRes::Fail(status)) => Err(Nfs3Error::Mount(status)),
            Err(_) => Err(RpcError::Malformed("result of MNT").into()),
        }
    }

    /// UMNT: tells the server that the mount has ended, for its list.
    ///
    /// # Errors
    /// [`Nfs3Error::Rpc`].
    pub async fn umnt(&self, caller: &CallerAuth, path: &[u8]) -> Result<(), Nfs3Error> {
        let args = UmntArgs {
            dirpath: dirpath(path)?,
        };
        self.call(caller, Proc::Umnt, &args, REPLY_BYTES)
            .await
            .map(drop)
    }

    /// EXPORT: what is exported.
    ///
    /// # Errors
    /// [`Nfs3Error::Rpc`].
    pub async fn exports(&self, caller: &CallerAuth) -> Result<Vec<Export>, Nfs3Error> {
        let result = self.call(caller, Proc::Export, &(), EXPORTS_BYTES).await?;
        let list = xdr::decode_all::<ExportRes<'_>>(&result)
            .map_err(|_| RpcError::Malformed("result of EXPORT"))?;
        let export = |e: nfs3::mount::ExportEntry<'_>| Export {
            dir: e.dir.0.to_vec(),
            groups: e.groups.0.iter().map(|g| g.0.to_vec()).collect(),
        };
        Ok(list.0.into_iter().map(export).collect())
    }
}

fn dirpath(path: &[u8]) -> Result<Opaque<'_, MNTPATHLEN>, Nfs3Error> {
    if path.len() > MNTPATHLEN as usize {
        return Err(Nfs3Error::Mount(MountStatus::NameTooLong));
    }
    Ok(Opaque(path))
}
