//! CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813 §3.3.8 to §3.3.11).

use crate::attrs::to_new_node;
use crate::cx::{Cx, name};
use crate::results::failed;
use fs::Prepared;
use namespace::{Created, Device, Existing, FileType, How, Inode, NewNode, SetAttr};
use nfs3::procs::{
    CreateArgs, CreateHow, DeviceData, MkDirArgs, MkNodArgs, MkNodData, NewObject, SymlinkArgs,
};
use nfs3::{DirOpArgs, Res, Sattr3, WccData};
use nfs4::NfsStatus;
use state::Io;
use std::sync::Arc;
use xdr::{Encode, Encoder};

/// Mode of a file whose creator named none. One that is made by EXCLUSIVE gets its mode by a SETATTR.
const FILE_MODE: u32 = 0o644;
/// Mode of a file made by EXCLUSIVE, until that SETATTR.
const EXCLUSIVE_MODE: u32 = 0o600;
/// Mode of anything else whose creator named none.
const NODE_MODE: u32 = 0o755;

/// A new object, and the directory as it was before.
type Made = (Arc<Inode>, Arc<Inode>);

pub(super) async fn create(cx: &mut Cx<'_>, args: CreateArgs<'_>, e: &mut Encoder) {
    let made = file(cx, args).await;
    answer(cx, args.place, made, e).await;
}

pub(super) async fn mkdir(cx: &mut Cx<'_>, args: MkDirArgs<'_>, e: &mut Encoder) {
    let made = make(cx, args.place, &args.attributes, |cx, dir, name, new| {
        let fs = cx.fs();
        cx.actor.ns(fs, |ns, op| ns.mkdir(op, dir.id, name, new))
    });
    answer(cx, args.place, made, e).await;
}

pub(super) async fn symlink(cx: &mut Cx<'_>, args: SymlinkArgs<'_>, e: &mut Encoder) {
    let target = args.symlink_data.0;
    let attributes = &args.symlink_attributes;
    let made = make(cx, args.place, attributes, |cx, dir, name, new| {
        let fs = cx.fs();
        let make = |ns: &namespace::Namespace, op: &mut namespace::Op<'_>| {
            ns.symlink(op, dir.id, name, target, new)
        };
        cx.actor.ns(fs, make)
    });
    answer(cx, args.place, made, e).await;
}

pub(super) async fn mknod(cx: &mut Cx<'_>, args: MkNodArgs<'_>, e: &mut Encoder) {
    let made = match &args.what {
        MkNodData::Blk(device) => node(cx, args.place, FileType::Block, device),
        MkNodData::Chr(device) => node(cx, args.place, FileType::Character, device),
        MkNodData::Sock(attributes) => node(cx, args.place, FileType::Socket, &plain(attributes)),
        MkNodData::Fifo(attributes) => node(cx, args.place, FileType::Fifo, &plain(attributes)),
        MkNodData::Reg | MkNodData::Dir | MkNodData::Lnk => Err(NfsStatus::BadType),
    };
    answer(cx, args.place, made, e).await;
}

/// What is no device has no numbers.
fn plain(attributes: &Sattr3) -> DeviceData {
    DeviceData {
        dev_attributes: *attributes,
        spec: nfs3::SpecData3::default(),
    }
}

fn node(
    cx: &mut Cx<'_>,
    place: DirOpArgs<'_>,
    kind: FileType,
    data: &DeviceData,
) -> Result<Made, NfsStatus> {
    let device = Device {
        major: data.spec.major,
        minor: data.spec.minor,
    };
    make(cx, place, &data.dev_attributes, |cx, dir, name, new| {
        let fs = cx.fs();
        let make = |ns: &namespace::Namespace, op: &mut namespace::Op<'_>| {
            ns.mknod(op, dir.id, name, kind, device, new)
        };
        cx.actor.ns(fs, make)
    })
}

/// Makes what is no regular file.
fn make(
    cx: &mut Cx<'_>,
    place: DirOpArgs<'_>,
    attributes: &Sattr3,
    call: impl FnOnce(&mut Cx<'_>, &Inode, &[u8], &NewNode) -> Result<Created, NfsStatus>,
) -> Result<Made, NfsStatus> {
    cx.actor.check_writable()?;
    let dir = cx.directory(place.dir)?;
    let new = to_new_node(attributes, NODE_MODE)?;
    let created = call(cx, &dir, name(place.name)?, &new)?;
    Ok((created.inode, dir))
}

async fn file(cx: &mut Cx<'_>, args: CreateArgs<'_>) -> Result<Made, NfsStatus> {
    cx.actor.check_writable()?;
    let dir = cx.directory(args.place.dir)?;
    let name = name(args.place.name)?;
    let (new, how) = match &args.how {
        CreateHow::Unchecked(attributes) => (new_file(attributes)?, How::Unchecked),
        CreateHow::Guarded(attributes) => (new_file(attributes)?, How::Guarded),
        CreateHow::Exclusive(verifier) => {
            (NewNode::mode(EXCLUSIVE_MODE), How::Exclusive(*verifier))
        }
    };
    let fs = cx.fs();
    let keep = |_: &Created| Prepared::default();
    let created = fs::create(fs, &mut cx.actor, (&dir, name), (&new, how), &keep)?;
    let size = match &args.how {
        CreateHow::Unchecked(attributes) | CreateHow::Guarded(attributes) => attributes.size,
        CreateHow::Exclusive(_) => None,
    };
    if created.existing == Existing::Yes {
        if !created.inode.is_regular() {
            return Err(NfsStatus::Exist);
        }
        // As O_TRUNC; another size of a file that is there means nothing to any client.
        if size == Some(0) {
            fs::until_ready(fs, created.inode.id).await?;
            cx.check_undenied(created.inode.id, Io::Write)?;
            set_size(cx, &created.inode, 0, false).await?;
        }
    } else {
        fs::make_objects(fs, &cx.actor, &created.inode).await?;
        if let Some(size @ 1..) = size {
            set_size(cx, &created.inode, size, true).await?;
        }
    }
    Ok((created.inode, dir))
}

/// A size is set once the file is there.
fn new_file(attributes: &Sattr3) -> Result<NewNode, NfsStatus> {
    let sizeless = Sattr3 {
        size: None,
        ..*attributes
    };
    to_new_node(&sizeless, FILE_MODE)
}

/// Sets the size of a file, which may have been `made` without the permission to write it.
async fn set_size(
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    size: u64,
    made: bool,
) -> Result<(), NfsStatus> {
    let wanted = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    let fs = cx.fs();
    let kept = Prepared::default();
    let set = fs::set_attributes(fs, &mut cx.actor, inode, &wanted, made, &kept);
    set.await.map(drop)
}

/// Tells the new object, or why there is none.
async fn answer(
    cx: &mut Cx<'_>,
    place: DirOpArgs<'_>,
    made: Result<Made, NfsStatus>,
    e: &mut Encoder,
) {
    match made {
        Ok((inode, dir)) => {
            let handle = cx.handle_of(&inode);
            let res: Res<NewObject<'_>, WccData> = Res::Ok(NewObject {
                obj: Some(xdr::Opaque(&handle.0)),
                obj_attributes: cx.attrs(inode.id).await,
                dir_wcc: cx.wcc(&dir),
            });
            res.encode(e);
        }
        Err(status) => failed::<NewObject<'_>, _>(status, cx.wcc_failed(place.dir)).encode(e),
    }
}
