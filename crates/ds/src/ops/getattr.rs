//! GETATTR (RFC 8881 §18.7). A data server knows little of a file and says only that; `size` is that of the object.
//! Clients take attributes from the MDS (RFC 8881 §13.4.1 has them differ between the two).

use nfs4::ops::{GetAttrArgs, GetAttrResOf};
use nfs4::{
    Attrs, Bitmap, FH_PERSISTENT, FattrOf, FileHandle, FileType, FsId, NfsStatus, OpNum,
    ReplyWriter, attr,
};
use server::{Compound, answer};

use crate::ds::Ds;
use crate::gate::Want;
use crate::part::Part;

const SUPPORTED: Bitmap = Bitmap::of(&[
    attr::SUPPORTED_ATTRS,
    attr::TYPE,
    attr::FH_EXPIRE_TYPE,
    attr::SIZE,
    attr::LINK_SUPPORT,
    attr::SYMLINK_SUPPORT,
    attr::NAMED_ATTR,
    attr::FSID,
    attr::UNIQUE_HANDLES,
    attr::LEASE_TIME,
    attr::FILEHANDLE,
    attr::FILEID,
]);

pub(super) async fn getattr<'r>(
    ds: &Ds,
    cx: &Compound<'r, ()>,
    args: GetAttrArgs,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match attributes(ds, cx, &args.attr_request).await {
        Ok(attrs) => answer(
            reply,
            Ok(GetAttrResOf(FattrOf {
                mask: &args.attr_request,
                attrs: &attrs,
            })),
        ),
        Err(status) => server::fail(reply, OpNum::GetAttr, status),
    }
}

async fn attributes(ds: &Ds, cx: &Compound<'_, ()>, asked: &Bitmap) -> Result<Attrs, NfsStatus> {
    if !asked.intersection(&attr::WRITE_ONLY).is_empty() {
        return Err(NfsStatus::Inval);
    }
    let admitted = match ds.admit(cx, Want::Read) {
        Ok(admitted) => admitted,
        Err(why) => Box::pin(ds.admit_later(cx, Want::Read, why)).await?,
    };
    let id = Part::of_handle(&admitted.handle).id;
    let size = if asked.contains(attr::SIZE) {
        let size = ds.size_of(id).map_err(|fault| {
            ds.note(id, &fault);
            fault.nfs_status()
        })?;
        Some(size.unwrap_or(0))
    } else {
        None
    };
    Ok(Attrs {
        supported_attrs: Some(SUPPORTED),
        file_type: Some(FileType::Reg),
        fh_expire_type: Some(FH_PERSISTENT),
        size,
        link_support: Some(false),
        symlink_support: Some(false),
        named_attr: Some(false),
        fsid: Some(FsId {
            major: admitted.handle.cluster_id,
            minor: 0,
        }),
        unique_handles: Some(false),
        lease_time_s: Some(ds.client_lease_s),
        filehandle: Some(FileHandle::from(cx.fh()?)),
        fileid: Some(admitted.handle.file_id),
        ..Attrs::default()
    })
}
