//! SEEK (RFC 7862 §15.11): the next data or hole of a striped file. The end of the file is a hole.

use crate::Mds;
use crate::check_io::check_io;
use crate::cx::Cx;
use fs::{Content, Sought};
use nfs4::NfsStatus;
use nfs4::ops::{CONTENT_DATA, CONTENT_HOLE, SeekArgs, SeekRes};
use state::Io;

pub(super) async fn seek(mds: &Mds, cx: &mut Cx<'_>, args: SeekArgs) -> Result<SeekRes, NfsStatus> {
    let what = match args.what {
        CONTENT_DATA => Content::Data,
        CONTENT_HOLE => Content::Hole,
        _ => return Err(NfsStatus::UnionNotSupp),
    };
    let (inode, _excluded) = check_io(mds, cx, args.stateid, Io::Read).await?;
    let (eof, offset) = match fs::seek(&mds.fs, &mut cx.actor, &inode, args.offset, what).await? {
        Sought::At(at) => (false, at),
        Sought::End(end) => (true, end),
    };
    Ok(SeekRes { eof, offset })
}
