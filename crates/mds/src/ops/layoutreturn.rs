//! LAYOUTRETURN (RFC 8881 §18.44).

use crate::Mds;
use crate::cx::{self, Cx};
use crate::layout_kind::{accept_return, kind_of};
use nfs4::layout::LENGTH_TO_EOF;
use nfs4::ops::{LayoutReturn, LayoutReturnArgs, LayoutReturnRes};
use nfs4::{IoMode, NfsStatus};
use state::IoModes;

pub(super) fn layoutreturn(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &LayoutReturnArgs<'_>,
) -> Result<LayoutReturnRes, NfsStatus> {
    let kind = kind_of(args.layout_type)?;
    if args.reclaim {
        // Layouts of an earlier boot are fenced and forgotten: there is nothing to give back.
        let in_grace = mds.fs.clients().lock().in_grace();
        return if in_grace {
            Ok(LayoutReturnRes { stateid: None })
        } else {
            Err(NfsStatus::NoGrace)
        };
    }
    let modes = match args.iomode {
        IoMode::Read => IoModes::READ,
        IoMode::Rw => IoModes::RW,
        IoMode::Any => IoModes::ANY,
    };
    let what = match &args.what {
        LayoutReturn::File(file) => {
            let overflows =
                file.length != LENGTH_TO_EOF && file.offset.checked_add(file.length).is_none();
            if file.length == 0 || overflows {
                return Err(NfsStatus::Inval);
            }
            let inode = cx::current_regular(mds, cx)?;
            accept_return(mds, cx, kind, (&inode, file))?;
            let whole = file.offset == 0 && file.length == LENGTH_TO_EOF;
            Some((inode.id, cx.resolve(file.stateid)?, whole))
        }
        LayoutReturn::Fsid => {
            cx.fh()?;
            None
        }
        LayoutReturn::All => None,
    };
    let stateid = fs::return_layouts(&mds.fs, &cx.actor, (kind, modes), what)?;
    Ok(LayoutReturnRes { stateid })
}
