//! The procedures of NFSv3, a method for each (RFC 1813 §3.3).

use crate::message::{REPLY_BYTES, Target, read_room};
use crate::pauses::Pauses;
use crate::replies::LinkText;
use crate::{
    CallerAuth, DirPage3, Fh, FoundObject, MadeObject, Nfs3Error, ReadData3, RpcError, RpcPeer,
};
use bytes::Bytes;
use nfs3::procs::{
    AccessArgs, AccessOk, CommitArgs, CommitOk, CreateArgs, CreateHow, FsInfoArgs, FsInfoOk,
    FsStatArgs, FsStatOk, GetAttrArgs, GetAttrOk, LinkArgs, LinkOk, LookupArgs, MkDirArgs,
    MkNodArgs, MkNodData, PathConfArgs, PathConfOk, ReadArgs, ReadDirArgs, ReadDirPlusArgs,
    ReadLinkArgs, RemoveArgs, RenameArgs, RenameOk, RmDirArgs, SetAttrArgs, SymlinkArgs,
    WriteArgsPayload, WriteOk,
};
use nfs3::{
    CookieVerf, DirOpArgs, Fattr3, NAME_BYTES_MAX, Nfs3Status, NfsTime3, PATH_BYTES_MAX, Proc,
    ProcArgs, Sattr3, StableHow, WccData,
};
use std::sync::Arc;
use tokio::time::Instant;
use transport::ReplyRoom;
use xdr::Opaque;

/// Room for a reply without bulk.
const PLAIN: ReplyRoom = ReplyRoom::plain(REPLY_BYTES);

/// The NFS program of a server. Cheap to clone.
///
/// Each method makes one call as `caller`. Handles are those of the server; names are sent as they are.
///
/// # Errors
/// Every method fails with [`Nfs3Error`]. `NFS3ERR_JUKEBOX` is asked again for, as a new call, until the time of the call
/// is over; the pauses have bounds ([`crate::JUKEBOX_PAUSE_MAX`]). Names and handles longer than a codec takes are
/// refused here, as the server would.
#[derive(Debug, Clone)]
pub struct Nfs3Client {
    peer: Arc<RpcPeer>,
}

/// A directory and a name in it.
fn place<'a>(dir: &'a Fh, name: &'a [u8]) -> Result<DirOpArgs<'a>, Nfs3Error> {
    if name.len() > NAME_BYTES_MAX as usize {
        return Err(Nfs3Error::Status(Nfs3Status::NameTooLong));
    }
    Ok(DirOpArgs {
        dir: Opaque(&dir.0),
        name: Opaque(name),
    })
}

/// What a result lacked.
fn malformed(_: xdr::DecodeError) -> Nfs3Error {
    Nfs3Error::Rpc(RpcError::Malformed("result"))
}

impl Nfs3Client {
    /// Calls through `peer`.
    #[must_use]
    pub fn new(peer: Arc<RpcPeer>) -> Self {
        Self { peer }
    }

    /// The server.
    #[must_use]
    pub fn peer(&self) -> &Arc<RpcPeer> {
        &self.peer
    }

    /// The result of a call that is not `NFS3ERR_JUKEBOX`, or is so at the end.
    async fn result<A: ProcArgs + Sync>(
        &self,
        caller: &CallerAuth,
        args: &A,
        data: Option<&Bytes>,
        room: ReplyRoom,
    ) -> Result<Bytes, Nfs3Error> {
        let target = Target {
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: A::PROC as u32,
        };
        let deadline = self.peer.deadline();
        let mut pauses = Pauses::of_jukebox();
        loop {
            let call = self.peer.call(deadline, target, caller, args, data, room);
            let result = call.await?;
            if result.get(..4) != Some(&(Nfs3Status::Jukebox as u32).to_be_bytes()) {
                return Ok(result);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match pauses.next(left) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Ok(result),
            }
        }
    }

    /// Makes a call whose success outlives its reply as a `T`.
    async fn call<A: ProcArgs + Sync, T: for<'r> From<A::Ok<'r>>>(
        &self,
        caller: &CallerAuth,
        args: &A,
        room: ReplyRoom,
    ) -> Result<T, Nfs3Error> {
        let result = self.result(caller, args, None, room).await?;
        match A::decode_res(&result).map_err(malformed)?.into_result() {
            Ok(ok) => Ok(ok.into()),
            Err((status, _)) => Err(Nfs3Error::Status(status)),
        }
    }

    /// NULL: whether the program answers.
    pub async fn null(&self) -> Result<(), Nfs3Error> {
        let target = Target {
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            procedure: Proc::Null as u32,
        };
        let deadline = self.peer.deadline();
        let caller = CallerAuth::none();
        let call = self.peer.call(deadline, target, &caller, &(), None, PLAIN);
        Ok(call.await.map(drop)?)
    }

    /// GETATTR.
    pub async fn getattr(&self, caller: &CallerAuth, fh: &Fh) -> Result<Fattr3, Nfs3Error> {
        let object = Opaque(&fh.0);
        let args = GetAttrArgs { object };
        let got: GetAttrOk = self.call(caller, &args, PLAIN).await?;
        Ok(got.obj_attributes)
    }

    /// SETATTR. With `guard` nothing is set unless it is the object's ctime.
    pub async fn setattr(
        &self,
        caller: &CallerAuth,
        fh: &Fh,
        attributes: &Sattr3,
        guard: Option<NfsTime3>,
    ) -> Result<WccData, Nfs3Error> {
        let args = SetAttrArgs {
            object: Opaque(&fh.0),
            new_attributes: *attributes,
            guard,
        };
        self.call(caller, &args, PLAIN).await
    }

    /// LOOKUP.
    pub async fn lookup(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        name: &[u8],
    ) -> Result<FoundObject, Nfs3Error> {
        let what = place(dir, name)?;
        self.call(caller, &LookupArgs { what }, PLAIN).await
    }

    /// ACCESS: which of the `ACCESS3_*` bits are allowed.
    pub async fn access(
        &self,
        caller: &CallerAuth,
        fh: &Fh,
        access: u32,
    ) -> Result<AccessOk, Nfs3Error> {
        let object = Opaque(&fh.0);
        self.call(caller, &AccessArgs { object, access }, PLAIN)
            .await
    }

    /// READLINK: the text of a symbolic link.
    pub async fn readlink(&self, caller: &CallerAuth, fh: &Fh) -> Result<Vec<u8>, Nfs3Error> {
        let symlink = Opaque(&fh.0);
        let room = ReplyRoom::plain(REPLY_BYTES + PATH_BYTES_MAX);
        let text: LinkText = self.call(caller, &ReadLinkArgs { symlink }, room).await?;
        Ok(text.0)
    }

    /// READ of at most `count` bytes. The data are a slice of the reply.
    pub async fn read(
        &self,
        caller: &CallerAuth,
        fh: &Fh,
        offset: u64,
        count: u32,
    ) -> Result<ReadData3, Nfs3Error> {
        let args = ReadArgs {
            file: Opaque(&fh.0),
            offset,
            count,
        };
        let result = self.result(caller, &args, None, read_room(count)).await?;
        match ReadArgs::decode_res(&result)
            .map_err(malformed)?
            .into_result()
        {
            Ok(ok) if ok.data.0.len() > count as usize => {
                Err(RpcError::Malformed("READ of more than was asked for").into())
            }
            Ok(ok) => Ok(ReadData3 {
                data: result.slice_ref(ok.data.0),
                eof: ok.eof,
                attributes: ok.file_attributes,
            }),
            Err((status, _)) => Err(Nfs3Error::Status(status)),
        }
    }

    /// WRITE. The server may write fewer bytes than `data` has. Keep what is not stable until a COMMIT answers the same verifier.
    pub async fn write(
        &self,
        caller: &CallerAuth,
        fh: &Fh,
        offset: u64,
        stable: StableHow,
        data: &Bytes,
    ) -> Result<WriteOk, Nfs3Error> {
        let len = u32::try_from(data.len()).map_err(|_| Nfs3Error::Status(Nfs3Status::Inval))?;
        let args = WriteArgsPayload {
            file: Opaque(&fh.0),
            offset,
            stable,
            len,
        };
        let result = self.result(caller, &args, Some(data), PLAIN).await?;
        match WriteArgsPayload::decode_res(&result)
            .map_err(malformed)?
            .into_result()
        {
            Ok(ok) if ok.count > len => {
                Err(RpcError::Malformed("WRITE of more than was sent").into())
            }
            Ok(ok) => Ok(ok),
            Err((status, _)) => Err(Nfs3Error::Status(status)),
        }
    }

    /// CREATE of a regular file.
    pub async fn create(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        name: &[u8],
        how: CreateHow,
    ) -> Result<MadeObject, Nfs3Error> {
        let place = place(dir, name)?;
        self.call(caller, &CreateArgs { place, how }, PLAIN).await
    }

    /// MKDIR.
    pub async fn mkdir(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        name: &[u8],
        attributes: Sattr3,
    ) -> Result<MadeObject, Nfs3Error> {
        let place = place(dir, name)?;
        let args = MkDirArgs { place, attributes };
        self.call(caller, &args, PLAIN).await
    }

    /// SYMLINK with the text `target`.
    pub async fn symlink(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        name: &[u8],
        attributes: Sattr3,
        target: &[u8],
    ) -> Result<MadeObject, Nfs3Error> {
        if target.len() > PATH_BYTES_MAX as usize {
            return Err(Nfs3Error::Status(Nfs3Status::NameTooLong));
        }
        let args = SymlinkArgs {
            place: place(dir, name)?,
            symlink_attributes: attributes,
            symlink_data: Opaque(target),
        };
        self.call(caller, &args, PLAIN).await
    }

    /// MKNOD.
    pub async fn mknod(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        name: &[u8],
        what: MkNodData,
    ) -> Result<MadeObject, Nfs3Error> {
        let place = place(dir, name)?;
        self.call(caller, &MkNodArgs { place, what }, PLAIN).await
    }

    /// REMOVE of a name that is no directory.
    pub async fn remove(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        name: &[u8],
    ) -> Result<WccData, Nfs3Error> {
        let object = place(dir, name)?;
        self.call(caller, &RemoveArgs { object }, PLAIN).await
    }

    /// RMDIR.
    pub async fn rmdir(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        name: &[u8],
    ) -> Result<WccData, Nfs3Error> {
        let object = place(dir, name)?;
        self.call(caller, &RmDirArgs { object }, PLAIN).await
    }

    /// RENAME.
    pub async fn rename(
        &self,
        caller: &CallerAuth,
        from: (&Fh, &[u8]),
        to: (&Fh, &[u8]),
    ) -> Result<RenameOk, Nfs3Error> {
        let (from, to) = (place(from.0, from.1)?, place(to.0, to.1)?);
        self.call(caller, &RenameArgs { from, to }, PLAIN).await
    }

    /// LINK.
    pub async fn link(
        &self,
        caller: &CallerAuth,
        fh: &Fh,
        dir: &Fh,
        name: &[u8],
    ) -> Result<LinkOk, Nfs3Error> {
        let args = LinkArgs {
            file: Opaque(&fh.0),
            link: place(dir, name)?,
        };
        self.call(caller, &args, PLAIN).await
    }

    /// READDIR in a reply of at most `count` bytes.
    pub async fn readdir(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        cookie: u64,
        cookieverf: CookieVerf,
        count: u32,
    ) -> Result<DirPage3, Nfs3Error> {
        let args = ReadDirArgs {
            dir: Opaque(&dir.0),
            cookie,
            cookieverf,
            count,
        };
        let room = ReplyRoom::plain(count.saturating_add(REPLY_BYTES));
        self.call(caller, &args, room).await
    }

    /// READDIRPLUS in a reply of at most `maxcount` bytes.
    pub async fn readdirplus(
        &self,
        caller: &CallerAuth,
        dir: &Fh,
        cookie: u64,
        cookieverf: CookieVerf,
        maxcount: u32,
    ) -> Result<DirPage3, Nfs3Error> {
        let args = ReadDirPlusArgs {
            dir: Opaque(&dir.0),
            cookie,
            cookieverf,
            dircount: maxcount,
            maxcount,
        };
        let room = ReplyRoom::plain(maxcount.saturating_add(REPLY_BYTES));
        self.call(caller, &args, room).await
    }

    /// FSSTAT.
    pub async fn fsstat(&self, caller: &CallerAuth, fh: &Fh) -> Result<FsStatOk, Nfs3Error> {
        let fsroot = Opaque(&fh.0);
        self.call(caller, &FsStatArgs { fsroot }, PLAIN).await
    }

    /// FSINFO: also the largest READ and WRITE that the server takes.
    pub async fn fsinfo(&self, caller: &CallerAuth, fh: &Fh) -> Result<FsInfoOk, Nfs3Error> {
        let fsroot = Opaque(&fh.0);
        self.call(caller, &FsInfoArgs { fsroot }, PLAIN).await
    }

    /// PATHCONF.
    pub async fn pathconf(&self, caller: &CallerAuth, fh: &Fh) -> Result<PathConfOk, Nfs3Error> {
        let object = Opaque(&fh.0);
        self.call(caller, &PathConfArgs { object }, PLAIN).await
    }

    /// COMMIT; a `count` of 0 is all from `offset` on. Another verifier than WRITE answered means that data may be lost.
    pub async fn commit(
        &self,
        caller: &CallerAuth,
        fh: &Fh,
        offset: u64,
        count: u32,
    ) -> Result<CommitOk, Nfs3Error> {
        let args = CommitArgs {
            file: Opaque(&fh.0),
            offset,
            count,
        };
        self.call(caller, &args, PLAIN).await
    }
}
