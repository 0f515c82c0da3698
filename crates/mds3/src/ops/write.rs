//! WRITE (RFC 1813 §3.3.7): the metadata server writes to the data servers.

use crate::attrs::IO_BYTES_MAX;
use crate::cx::Cx;
use crate::results::failed;
use fs::{Clearing, Prepared, WriteJob};
use namespace::{Inode, WRITE};
use nfs3::procs::{WriteArgs, WriteOk, WriteRes};
use nfs3::{Res, StableHow};
use nfs4::NfsStatus;
use state::Io;
use std::sync::Arc;

pub(super) async fn write(cx: &mut Cx<'_>, args: WriteArgs<'_>) -> WriteRes {
    match data(cx, args).await {
        Ok((before, written)) => Res::Ok(WriteOk {
            file_wcc: cx.wcc(&before),
            count: written.count,
            committed: stable_of(written.committed),
            verf: written.write_verifier.bytes,
        }),
        Err(status) => failed(status, cx.wcc_failed(args.file)),
    }
}

async fn data(
    cx: &mut Cx<'_>,
    args: WriteArgs<'_>,
) -> Result<(Arc<Inode>, nfs4::ops::WriteRes), NfsStatus> {
    cx.actor.check_writable()?;
    let inode = cx.regular(args.file).await?;
    let (fs, cred) = (cx.fs(), &cx.actor.cred);
    // Its owner may have opened it before it took its own permission away.
    if cred.rights(&inode) & WRITE == 0 && !cred.owns(&inode) {
        return Err(NfsStatus::Access);
    }
    cx.check_undenied(inode.id, Io::Write)?;
    let _excluded = fs::exclude(fs, &cx.actor, &inode, Clearing::CHANGE).await?;
    // What is beyond `wtmax` is left to the next WRITE. A `count` that is not that of the data is no reason to lose some.
    let len = args.data.0.len().min(IO_BYTES_MAX as usize);
    let bytes = &args.data.0[..len];
    fs.check_range(&inode, args.offset, len as u64)?;
    if len == 0 {
        let write_verifier = fs::commit(fs, &inode).await?;
        let nothing = nfs4::ops::WriteRes {
            count: 0,
            committed: stable4(args.stable),
            write_verifier,
        };
        return Ok((inode, nothing));
    }
    let job = WriteJob {
        offset: args.offset,
        stable: stable4(args.stable),
        bytes: cx.record.slice_ref(bytes),
    };
    let keep = |_: &nfs4::ops::WriteRes| Prepared::default();
    let written = fs::write(fs, &mut cx.actor, &inode, &job, &keep).await?;
    fs::note_written(fs, &cx.actor, written.count);
    Ok((inode, written))
}

const fn stable4(stable: StableHow) -> nfs4::StableHow {
    match stable {
        StableHow::Unstable => nfs4::StableHow::Unstable,
        StableHow::DataSync => nfs4::StableHow::DataSync,
        StableHow::FileSync => nfs4::StableHow::FileSync,
    }
}

const fn stable_of(stable: nfs4::StableHow) -> StableHow {
    match stable {
        nfs4::StableHow::Unstable => StableHow::Unstable,
        nfs4::StableHow::DataSync => StableHow::DataSync,
        nfs4::StableHow::FileSync => StableHow::FileSync,
    }
}
