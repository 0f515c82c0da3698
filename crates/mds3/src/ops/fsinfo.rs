//! FSINFO (RFC 1813 §3.3.19).

use crate::attrs::IO_BYTES_MAX;
use crate::cx::Cx;
use crate::results::res;
use namespace::Inode;
use nfs3::NfsTime3;
use nfs3::procs::{
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, FsInfoArgs, FsInfoOk, FsInfoRes,
};
use std::sync::Arc;

/// What I/O should be a multiple of.
const MULTIPLE_BYTES: u32 = 4096;
/// Preferred bytes of a READDIR.
const READDIR_BYTES: u32 = 64 << 10;

pub(super) async fn fsinfo(cx: &mut Cx<'_>, args: FsInfoArgs<'_>) -> FsInfoRes {
    let found = cx.inode(args.fsroot);
    let obj_attributes = cx.attrs_of_handle(args.fsroot).await;
    let ok = |inode: Arc<Inode>| FsInfoOk {
        obj_attributes,
        rtmax: IO_BYTES_MAX,
        rtpref: IO_BYTES_MAX,
        rtmult: MULTIPLE_BYTES,
        wtmax: IO_BYTES_MAX,
        wtpref: IO_BYTES_MAX,
        wtmult: MULTIPLE_BYTES,
        dtpref: READDIR_BYTES,
        maxfilesize: cx.fs().file_bytes_max(&inode),
        time_delta: NfsTime3 {
            seconds: 0,
            nanoseconds: 1,
        },
        properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
    };
    res(found.map(ok), obj_attributes)
}
