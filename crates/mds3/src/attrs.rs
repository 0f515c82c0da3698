//! Inodes as attributes of NFSv3, and what a client sets as that of the name space (RFC 1813 §2.6).

use fs::{Fresh, Fs};
use namespace::{FileType, Inode, NewNode, SetAttr, SetTime, Time};
use nfs3::{Fattr3, FileType3, NfsTime3, Sattr3, SetTime3, SpecData3, WccAttr, WccData};
use nfs4::NfsStatus;

/// Most bytes of a READ or a WRITE.
pub(crate) const IO_BYTES_MAX: u32 = 1 << 20;
/// Permission bits.
const MODE_BITS: u32 = 0o7777;

/// The type on the wire.
fn type_of(kind: FileType) -> FileType3 {
    match kind {
        FileType::Regular => FileType3::Reg,
        FileType::Directory => FileType3::Dir,
        FileType::Block => FileType3::Blk,
        FileType::Character => FileType3::Chr,
        FileType::Symlink => FileType3::Lnk,
        FileType::Socket => FileType3::Sock,
        FileType::Fifo => FileType3::Fifo,
    }
}

/// A time on the wire, which knows the years 1970 to 2106: others are the first or the last second of these.
fn time_of(time: Time) -> NfsTime3 {
    let seconds = time.secs.clamp(0, i64::from(u32::MAX));
    NfsTime3 {
        seconds: u32::try_from(seconds).expect("within bounds"),
        nanoseconds: time.nanos,
    }
}

/// Attributes of an inode, with an access time that is not stored yet. `size` is what its holder for writing says.
fn attrs_with(fs: &Fs, inode: &Inode, size: Option<u64>) -> Fattr3 {
    Fattr3 {
        file_type: type_of(inode.kind),
        mode: inode.mode & MODE_BITS,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        size: size.unwrap_or(inode.size),
        used: inode.space_used,
        rdev: SpecData3 {
            major: inode.device.major,
            minor: inode.device.minor,
        },
        fsid: fs.cluster().id(),
        fileid: inode.id.0,
        atime: time_of(fs.atimes().of(inode)),
        mtime: time_of(inode.mtime),
        ctime: time_of(inode.ctime),
    }
}

/// Attributes of an inode as this server knows them.
pub(crate) fn attrs_of(fs: &Fs, inode: &Inode) -> Fattr3 {
    attrs_with(fs, inode, None)
}

/// Attributes with what the holder for writing knows better.
pub(crate) fn attrs_of_fresh(fs: &Fs, fresh: &Fresh) -> Fattr3 {
    attrs_with(fs, &fresh.inode, fresh.size)
}

/// Weak cache consistency (RFC 1813 §2.6). A client that gets `before` takes all of the change for its own, so it is told only
/// where one transaction lies between the two: each raises the change attribute by one.
pub(crate) fn wcc(fs: &Fs, before: &Inode, after: Option<&Inode>) -> WccData {
    let Some(after) = after else {
        return WccData::default();
    };
    let is_one = after.change.wrapping_sub(before.change) <= 1;
    WccData {
        before: is_one.then(|| WccAttr::from(&attrs_of(fs, before))),
        after: Some(attrs_of(fs, after)),
    }
}

fn time_to_set(time: SetTime3) -> Option<SetTime> {
    match time {
        SetTime3::DontChange => None,
        SetTime3::ServerTime => Some(SetTime::Server),
        SetTime3::ClientTime(time) => Some(SetTime::Client(Time {
            secs: i64::from(time.seconds),
            nanos: time.nanoseconds,
        })),
    }
}

/// What SETATTR sets.
pub(crate) fn to_setattr(sattr: &Sattr3) -> SetAttr {
    SetAttr {
        mode: sattr.mode.map(|mode| mode & MODE_BITS),
        uid: sattr.uid,
        gid: sattr.gid,
        size: sattr.size,
        atime: time_to_set(sattr.atime),
        mtime: time_to_set(sattr.mtime),
        ..SetAttr::default()
    }
}

/// What a new object gets.
///
/// # Errors
/// `Inval` for a size other than 0.
pub(crate) fn to_new_node(sattr: &Sattr3, mode_default: u32) -> Result<NewNode, NfsStatus> {
    if sattr.size.is_some_and(|size| size != 0) {
        return Err(NfsStatus::Inval);
    }
    Ok(NewNode {
        mode: sattr.mode.map_or(mode_default, |mode| mode & MODE_BITS),
        mode_is_default: sattr.mode.is_none(),
        uid: sattr.uid,
        gid: sattr.gid,
        atime: time_to_set(sattr.atime),
        mtime: time_to_set(sattr.mtime),
        ..NewNode::default()
    })
}
