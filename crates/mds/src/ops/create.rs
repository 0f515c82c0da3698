//! CREATE (RFC 8881 §18.4): everything but regular files.

use crate::Mds;
use crate::attrs;
use crate::cx::{self, Cx};
use crate::names;
use namespace::{Created, Device, FileType};
use nfs4::NfsStatus;
use nfs4::ops::{CreateArgs, CreateRes, CreateType};

/// Mode of an object whose creator named none.
const MODE_DEFAULT: u32 = 0o755;

pub(super) async fn create(
    mds: &Mds,
    cx: &mut Cx<'_>,
    args: &CreateArgs<'_>,
) -> Result<CreateRes, NfsStatus> {
    cx.actor.check_writable()?;
    let dir = cx::current_dir(mds, cx)?.id;
    let name = names::name(args.name)?;
    let wanted = attrs::decode(mds, &args.attrs, cx.minor_version).await?;
    if wanted.size.is_some() {
        return Err(NfsStatus::Inval);
    }
    let new = attrs::to_new_node(mds.identities(), &wanted, MODE_DEFAULT)?;
    let device = |d: &nfs4::SpecData| Device {
        major: d.major,
        minor: d.minor,
    };
    let none = Device::default();
    let answer = |created: &Created| {
        let res = CreateRes {
            cinfo: names::cinfo(created.dir),
            attrset: args.attrs.mask,
        };
        (res, Some(mds.fs.handle_of(&created.inode)))
    };
    let created = cx::change(mds, cx, answer, |ns, op| match &args.object_type {
        CreateType::Dir => ns.mkdir(op, dir, name, &new),
        CreateType::Lnk(target) => ns.symlink(op, dir, name, target.0, &new),
        CreateType::Blk(d) => ns.mknod(op, dir, name, FileType::Block, device(d), &new),
        CreateType::Chr(d) => ns.mknod(op, dir, name, FileType::Character, device(d), &new),
        CreateType::Sock => ns.mknod(op, dir, name, FileType::Socket, none, &new),
        CreateType::Fifo => ns.mknod(op, dir, name, FileType::Fifo, none, &new),
        CreateType::Other(_) => Err(namespace::NsError::Inval),
    });
    if matches!(args.object_type, CreateType::Other(_)) {
        return Err(NfsStatus::BadType);
    }
    let created = created?;
    let (res, made) = answer(&created);
    cx.current_stateid = None;
    cx.current_fh = made;
    Ok(res)
}
