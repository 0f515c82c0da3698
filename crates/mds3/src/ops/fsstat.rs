//! FSSTAT (RFC 1813 §3.3.18).

use crate::cx::Cx;
use crate::results::res;
use nfs3::procs::{FsStatArgs, FsStatOk, FsStatRes};

/// Most free files that are told: a client adds numbers to it.
const FILES_FREE_SHOWN_MAX: u64 = 1 << 40;

pub(super) async fn fsstat(cx: &mut Cx<'_>, args: FsStatArgs<'_>) -> FsStatRes {
    let found = cx.inode(args.fsroot);
    let is_foreign = found.as_ref().is_ok_and(|inode| inode.is_foreign());
    let found = found.map(drop);
    let obj_attributes = cx.attrs_of_handle(args.fsroot).await;
    let (space, files) = (
        fs::space(cx.fs(), is_foreign),
        cx.fs().namespace().statistics(),
    );
    let files_free = files.files_free.min(FILES_FREE_SHOWN_MAX);
    let ok = |()| FsStatOk {
        obj_attributes,
        tbytes: space.total_bytes,
        fbytes: space.unused_bytes,
        abytes: space.free_bytes,
        tfiles: files.files.saturating_add(files_free),
        ffiles: files_free,
        afiles: files_free,
        invarsec: 0,
    };
    res(found.map(ok), obj_attributes)
}
