//! MOUNT, versions 1 and 3 (RFC 1813 §5): the handle of a directory, and the list of exports.
//!
//! There is one export, the root, and any directory of it may be mounted. Who may is judged again at each call of NFS. What is
//! mounted is not remembered: DUMP tells an empty list, as RFC 1813 §5.2.2 allows a list to be wrong.

use mds::Mds;
use namespace::{FileType, Inode};
use nfs3::mount::{
    DumpRes, ExportEntry, ExportRes, MntArgs, MntOk, MntRes, MountStatus, PROGRAM, Proc, UmntArgs,
    VERSION, VERSION_1,
};
use nfs4::NfsStatus;
use rpc::{AcceptError, Credential, Rejection, flavor};
use rpc_service::{Call, Program, Seal};
use server::{Nfsd, Role, User};
use std::ops::RangeInclusive;
use std::sync::Arc;
use transport::Message;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Opaque, decode_all};

/// Most directories of a path that is mounted.
const COMPONENTS_MAX: usize = 256;

/// The MOUNT program over a metadata server.
pub struct Mount {
    nfsd: Arc<Nfsd<Mds>>,
}

impl Mount {
    /// Tells handles of `nfsd`.
    #[must_use]
    pub fn new(nfsd: Arc<Nfsd<Mds>>) -> Self {
        Self { nfsd }
    }

    async fn perform(&self, call: &Call<'_>, proc: Proc, e: &mut Encoder) -> Result<(), Refused> {
        let args = call.args.rest();
        match proc {
            Proc::Null | Proc::UmntAll => decode_all::<()>(args)?,
            Proc::Umnt => {
                decode_all::<UmntArgs<'_>>(args)?;
            }
            Proc::Dump => {
                decode_all::<()>(args)?;
                DumpRes::default().encode(e);
            }
            Proc::Export => {
                decode_all::<()>(args)?;
                let root = ExportEntry {
                    dir: Opaque(b"/"),
                    groups: Vec::new().into(),
                };
                ExportRes::from(vec![root]).encode(e);
            }
            Proc::Mnt => {
                let args: MntArgs<'_> = decode_all(args)?;
                let found = self.find(call, args.dirpath.0).await?;
                let handle = found.map(|inode| self.nfsd.role().fs().handle_of(&inode));
                let res = match &handle {
                    Ok(handle) => MntRes::Ok(MntOk {
                        fhandle: Opaque(&handle.0),
                        auth_flavors: vec![flavor::AUTH_SYS].into(),
                    }),
                    Err(status) => MntRes::Fail(*status),
                };
                res.encode(e);
            }
        }
        Ok(())
    }

    /// The directory of a path.
    async fn find(
        &self,
        call: &Call<'_>,
        path: &[u8],
    ) -> Result<Result<Arc<Inode>, MountStatus>, Refused> {
        let user = Credential::parse(&call.header.credential).and_then(User::of)?;
        let mds = self.nfsd.role();
        mds.prepare(&user).await;
        let admitted = mds.admit(call.conn, &user);
        let Ok(mut actor) = admitted.map(|admitted| fs::Actor::clone(&admitted)) else {
            return Ok(Err(MountStatus::Access));
        };
        let found = walk(mds, &mut actor, path);
        let settled = mds.fs().durable(actor.observed).await;
        Ok(match settled.and(found) {
            Ok(inode) if inode.kind == FileType::Directory => Ok(inode),
            Ok(_) => Err(MountStatus::NotDir),
            Err(status) => Err(status_of(status)),
        })
    }
}

/// Follows a path from the root. Symbolic links are not followed.
fn walk(mds: &Mds, actor: &mut fs::Actor, path: &[u8]) -> Result<Arc<Inode>, NfsStatus> {
    let fs = mds.fs();
    let root = namespace::FileId::ROOT;
    let mut inode = actor.ns(fs, |ns, op| ns.getattr(op, root))?;
    let names = path.split(|byte| *byte == b'/');
    let names: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
    if names.len() > COMPONENTS_MAX {
        return Err(NfsStatus::NameTooLong);
    }
    for name in names {
        inode = actor.ns(fs, |ns, op| ns.lookup(op, inode.id, name))?;
    }
    Ok(inode)
}

fn status_of(status: NfsStatus) -> MountStatus {
    match status {
        NfsStatus::NoEnt => MountStatus::NoEnt,
        NfsStatus::NotDir | NfsStatus::Symlink => MountStatus::NotDir,
        NfsStatus::Access | NfsStatus::Perm => MountStatus::Access,
        NfsStatus::NameTooLong => MountStatus::NameTooLong,
        NfsStatus::BadName | NfsStatus::Inval => MountStatus::Inval,
        NfsStatus::Io => MountStatus::Io,
        _ => MountStatus::ServerFault,
    }
}

/// Why a call has no result.
enum Refused {
    Args,
    Auth(rpc::AuthStat),
}

impl From<DecodeError> for Refused {
    fn from(_: DecodeError) -> Self {
        Self::Args
    }
}

impl From<rpc::AuthStat> for Refused {
    fn from(stat: rpc::AuthStat) -> Self {
        Self::Auth(stat)
    }
}

impl Program for Mount {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        VERSION_1..=VERSION
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let number = call.header.procedure.to_be_bytes();
        let proc = Proc::decode(&mut Decoder::new(&number));
        let Some(proc) = proc.ok().filter(|proc| proc.is_in(call.header.version)) else {
            return call.refuse(AcceptError::ProcUnavail);
        };
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        match self.perform(&call, proc, &mut e).await {
            Ok(()) => Some(e.into()),
            Err(Refused::Args) => call.refuse(AcceptError::GarbageArgs),
            Err(Refused::Auth(stat)) => call.refuse(Rejection::Auth(stat)),
        }
    }
}
