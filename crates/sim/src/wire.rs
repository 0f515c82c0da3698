//! Records as the checkers read them: which operations a COMPOUND asks for, and what was answered.
//!
//! Only what some checker needs is kept. An operation that the simulator's clients never send ends the walk.

use nfs4::attr::Attrs;
use nfs4::ops::{
    self, CloseArgs, CommitArgs, CreateArgs, GetAttrArgs, GetDeviceInfoArgs, LayoutCommitArgs,
    LayoutGetArgs, LayoutReturnArgs, LayoutReturnRes, LinkArgs, LockArgs, LockRes, LockUArgs,
    LookupArgs, OpenArgs, PutFhArgs, ReadArgs, ReadDirArgs, RemoveArgs, RenameArgs, SequenceArgs,
    SetAttrArgs, WriteArgs,
};
use nfs4::{CompoundHeader, CompoundReply, NfsStatus, OpNum, OpReader, Stateid};
use xdr::{Decode, Decoder};

/// Session, slot and sequence id: the name of a request.
pub(crate) type SlotKey = ([u8; 16], u32, u32);

/// What an operation asks for, as far as a checker cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// SEQUENCE.
    Sequence(SlotKey),
    /// PUTFH.
    Fh(Vec<u8>),
    /// An operation on a name.
    Name(String),
    /// READ or WRITE: offset and length, and how stable.
    Io {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
        /// Of a WRITE, whether it is to be durable before the answer.
        is_stable: bool,
    },
    /// SETATTR of the size.
    Size(u64),
    /// Nothing of note.
    Plain,
}

/// A request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    /// Its name, when it begins with SEQUENCE.
    pub key: Option<SlotKey>,
    /// The operations.
    pub ops: Vec<(OpNum, Ask)>,
}

/// What an operation answered, as far as a checker cares.
#[derive(Debug, Clone)]
pub(crate) enum Got {
    /// GETATTR.
    Attrs(Box<Attrs>),
    /// OPEN, LOCK, LOCKU, LAYOUTGET and others that issue a stateid.
    Stateid(Stateid),
    /// SEQUENCE.
    Sequence(SlotKey),
    /// Nothing of note.
    Plain,
}

/// A call of NFSv3 that must not be done twice: who sent it, and its bytes.
pub(crate) type OlderKey = (String, Vec<u8>);

/// A reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    /// The results.
    pub ops: Vec<(OpNum, NfsStatus, Got)>,
}

impl Reply {
    /// Whether SEQUENCE passed, and says that this is the reply to `key`. A reply that went to an earlier incarnation
    /// of a client may have the XID of another call of the new one.
    #[must_use]
    pub(crate) fn answers(&self, key: &SlotKey) -> bool {
        matches!(self.ops.first(), Some((_, NfsStatus::Ok, Got::Sequence(said))) if said == key)
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn ask(op: OpNum, d: &mut Decoder<'_>) -> Option<Ask> {
    fn read<'a, T: Decode<'a>>(d: &mut Decoder<'a>) -> Option<T> {
        T::decode(d).ok()
    }
    Some(match op {
        OpNum::Sequence => {
            let a: SequenceArgs = read(d)?;
            Ask::Sequence((a.session_id.bytes, a.slot_id, a.sequence_id))
        }
        OpNum::PutFh => Ask::Fh(read::<PutFhArgs<'_>>(d)?.object.0.to_vec()),
        OpNum::Open => {
            let a: OpenArgs<'_> = read(d)?;
            match a.claim {
                ops::OpenClaim::Null(name) => Ask::Name(text(name.0)),
                ops::OpenClaim::Previous(_) => Ask::Name("(reclaim)".into()),
                _ => Ask::Plain,
            }
        }
        OpNum::Lookup => Ask::Name(text(read::<LookupArgs<'_>>(d)?.name.0)),
        OpNum::Remove => Ask::Name(text(read::<RemoveArgs<'_>>(d)?.target.0)),
        OpNum::Create => Ask::Name(text(read::<CreateArgs<'_>>(d)?.name.0)),
        OpNum::Link => Ask::Name(text(read::<LinkArgs<'_>>(d)?.new_name.0)),
        OpNum::Rename => {
            let a: RenameArgs<'_> = read(d)?;
            Ask::Name(format!("{} > {}", text(a.old_name.0), text(a.new_name.0)))
        }
        OpNum::Read => {
            let a: ReadArgs = read(d)?;
            Ask::Io {
                offset: a.offset,
                len: a.count,
                is_stable: false,
            }
        }
        OpNum::Write => {
            let a: WriteArgs<'_> = read(d)?;
            let len = u32::try_from(a.data.0.len()).unwrap_or(u32::MAX);
            Ask::Io {
                offset: a.offset,
                len,
                is_stable: a.stable != nfs4::StableHow::Unstable,
            }
        }
        OpNum::SetAttr => {
            let a: SetAttrArgs<'_> = read(d)?;
            let size = a.attrs.attrs().ok().and_then(|attrs| attrs.size);
            size.map_or(Ask::Plain, Ask::Size)
        }
        OpNum::GetAttr => read::<GetAttrArgs>(d).map(|_| Ask::Plain)?,
        OpNum::Close => read::<CloseArgs>(d).map(|_| Ask::Plain)?,
        OpNum::Commit => read::<CommitArgs>(d).map(|_| Ask::Plain)?,
        OpNum::Lock => read::<LockArgs<'_>>(d).map(|_| Ask::Plain)?,
        OpNum::LockU => read::<LockUArgs>(d).map(|_| Ask::Plain)?,
        OpNum::ReadDir => read::<ReadDirArgs>(d).map(|_| Ask::Plain)?,
        OpNum::LayoutGet => read::<LayoutGetArgs>(d).map(|_| Ask::Plain)?,
        OpNum::LayoutCommit => read::<LayoutCommitArgs<'_>>(d).map(|_| Ask::Plain)?,
        OpNum::LayoutReturn => read::<LayoutReturnArgs<'_>>(d).map(|_| Ask::Plain)?,
        OpNum::GetDeviceInfo => read::<GetDeviceInfoArgs>(d).map(|_| Ask::Plain)?,
        OpNum::ReclaimComplete => read::<ops::ReclaimCompleteArgs>(d).map(|_| Ask::Plain)?,
        OpNum::Allocate => read::<ops::AllocateArgs>(d).map(|_| Ask::Plain)?,
        OpNum::Deallocate => read::<ops::DeallocateArgs>(d).map(|_| Ask::Plain)?,
        OpNum::Copy => read::<ops::CopyArgs>(d).map(|_| Ask::Plain)?,
        OpNum::Clone => read::<ops::CloneArgs>(d).map(|_| Ask::Plain)?,
        OpNum::OffloadStatus => read::<ops::OffloadStatusArgs>(d).map(|_| Ask::Plain)?,
        OpNum::PutRootFh | OpNum::GetFh | OpNum::SaveFh | OpNum::RestoreFh => Ask::Plain,
        _ => return None,
    })
}

/// Reads a COMPOUND request after its RPC header.
#[must_use]
pub(crate) fn request(mut d: Decoder<'_>) -> Request {
    let mut request = Request::default();
    let Ok(header) = CompoundHeader::decode(&mut d) else {
        return request;
    };
    let mut reader = OpReader::new(d, header.ops_count);
    while let Some(Ok(number)) = reader.next_op() {
        let Some(op) = OpNum::from_u32(number) else {
            break;
        };
        let asked = ask(op, reader.decoder());
        if let Some(Ask::Sequence(key)) = asked {
            request.key = Some(key);
        }
        let is_end = asked.is_none();
        request.ops.push((op, asked.unwrap_or(Ask::Plain)));
        if is_end {
            break;
        }
    }
    request
}

/// Reads a body of which nothing is kept; `None` when it does not decode.
fn skip<'a, T: nfs4::OpRes<'a>>(status: NfsStatus, d: &mut Decoder<'a>) -> Option<Got> {
    T::decode_res(status, d).ok().map(|_| Got::Plain)
}

fn got(op: OpNum, status: NfsStatus, d: &mut Decoder<'_>) -> Option<Got> {
    fn read<'a, T: nfs4::OpRes<'a>>(status: NfsStatus, d: &mut Decoder<'a>) -> Option<T> {
        T::decode_res(status, d).ok().flatten()
    }
    Some(match op {
        OpNum::GetAttr => {
            let res: ops::GetAttrRes<'_> = read(status, d)?;
            Got::Attrs(Box::new(res.attributes.attrs().ok()?))
        }
        OpNum::Open => Got::Stateid(read::<ops::OpenRes>(status, d)?.stateid),
        OpNum::Lock => match read::<LockRes<'_>>(status, d)? {
            LockRes::Ok(granted) => Got::Stateid(granted.lock_stateid),
            LockRes::Denied(_) => Got::Plain,
        },
        OpNum::LockU => Got::Stateid(read::<ops::LockURes>(status, d)?.lock_stateid),
        OpNum::LayoutGet => match read::<ops::LayoutGetRes<'_>>(status, d)? {
            ops::LayoutGetRes::Ok(ok) => Got::Stateid(ok.stateid),
            _ => Got::Plain,
        },
        OpNum::LayoutReturn => match read::<LayoutReturnRes>(status, d)?.stateid {
            Some(stateid) => Got::Stateid(stateid),
            None => Got::Plain,
        },
        OpNum::Sequence => {
            let res: ops::SequenceRes = read(status, d)?;
            Got::Sequence((res.session_id.bytes, res.slot_id, res.sequence_id))
        }
        OpNum::PutFh => skip::<ops::PutFhRes>(status, d)?,
        OpNum::PutRootFh => skip::<ops::PutRootFhRes>(status, d)?,
        OpNum::GetFh => skip::<ops::GetFhRes<'_>>(status, d)?,
        OpNum::SaveFh => skip::<ops::SaveFhRes>(status, d)?,
        OpNum::RestoreFh => skip::<ops::RestoreFhRes>(status, d)?,
        OpNum::Lookup => skip::<ops::LookupRes>(status, d)?,
        OpNum::Remove => skip::<ops::RemoveRes>(status, d)?,
        OpNum::Rename => skip::<ops::RenameRes>(status, d)?,
        OpNum::Link => skip::<ops::LinkRes>(status, d)?,
        OpNum::Create => skip::<ops::CreateRes>(status, d)?,
        OpNum::Close => skip::<ops::CloseRes>(status, d)?,
        OpNum::SetAttr => skip::<ops::SetAttrRes>(status, d)?,
        OpNum::ReadDir => skip::<ops::ReadDirRes<'_>>(status, d)?,
        OpNum::Read => skip::<ops::ReadRes<'_>>(status, d)?,
        OpNum::Write => skip::<ops::WriteRes>(status, d)?,
        OpNum::Commit => skip::<ops::CommitRes>(status, d)?,
        OpNum::LayoutCommit => skip::<ops::LayoutCommitRes>(status, d)?,
        OpNum::GetDeviceInfo => skip::<ops::GetDeviceInfoRes<'_>>(status, d)?,
        OpNum::ReclaimComplete => skip::<ops::ReclaimCompleteRes>(status, d)?,
        OpNum::Allocate => skip::<ops::AllocateRes>(status, d)?,
        OpNum::Deallocate => skip::<ops::DeallocateRes>(status, d)?,
        OpNum::Clone => skip::<ops::CloneRes>(status, d)?,
        OpNum::OffloadStatus => skip::<ops::OffloadStatusRes>(status, d)?,
        OpNum::Copy => match read::<ops::CopyRes>(status, d)? {
            ops::CopyRes::Ok(begun) => {
                let copy = begun.response.callback_id;
                copy.map_or(Got::Plain, Got::Stateid)
            }
            ops::CopyRes::NoReqs(_) => Got::Plain,
        },
        _ => return None,
    })
}

/// Reads a COMPOUND reply after its RPC header.
#[must_use]
pub(crate) fn reply(d: Decoder<'_>) -> Option<Reply> {
    let mut walk = CompoundReply::new(d).ok()?;
    let mut out = Reply { ops: Vec::new() };
    while let Ok(Some(result)) = walk.next_result() {
        let Some(op) = OpNum::from_u32(result.op) else {
            break;
        };
        if !result.status.is_ok() && op != OpNum::Lock {
            out.ops.push((op, result.status, Got::Plain));
            break;
        }
        let value = got(op, result.status, walk.decoder());
        let is_end = value.is_none();
        let value = value.unwrap_or(Got::Plain);
        out.ops.push((op, result.status, value));
        if is_end {
            break;
        }
    }
    Some(out)
}
