//! Attributes of RFC 8881 §5 from an inode, and inodes' changes from attributes.

use crate::identities::{IdKind, Identities, Question};
use crate::layout_kind::kind_of_tree;
use crate::{Mds, acl};
use fs::Fresh;
use namespace::{Cred, FileType, Inode, NewNode, READ_ACL, SetAttr, SetMarks, SetTime, Time};
use nfs4::attr::{self, Attrs, Fattr};
use nfs4::{
    Bitmap, CHARSET_CONTAINS_NON_UTF8, ChangeAttrType, FH_PERSISTENT, FsId, MdsThreshold,
    NfsStatus, NfsTime, OpenArguments, Owner, SpecData, Thresholds,
};
use xdr::List;

/// Most free inodes that `df -i` shows.
const FILES_FREE_SHOWN_MAX: u64 = 1 << 40;
/// Largest READ and WRITE.
pub(crate) const IO_BYTES_MAX: u64 = 1 << 20;

/// Attributes that this server answers.
pub(crate) const SUPPORTED: Bitmap = Bitmap::of(&[
    attr::SUPPORTED_ATTRS,
    attr::TYPE,
    attr::FH_EXPIRE_TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::LINK_SUPPORT,
    attr::SYMLINK_SUPPORT,
    attr::NAMED_ATTR,
    attr::FSID,
    attr::UNIQUE_HANDLES,
    attr::LEASE_TIME,
    attr::RDATTR_ERROR,
    attr::ACL,
    attr::ACLSUPPORT,
    attr::ARCHIVE,
    attr::CANSETTIME,
    attr::CASE_INSENSITIVE,
    attr::CASE_PRESERVING,
    attr::CHOWN_RESTRICTED,
    attr::FILEHANDLE,
    attr::FILEID,
    attr::FILES_AVAIL,
    attr::FILES_FREE,
    attr::FILES_TOTAL,
    attr::HIDDEN,
    attr::HOMOGENEOUS,
    attr::MAXFILESIZE,
    attr::MAXLINK,
    attr::MAXNAME,
    attr::MAXREAD,
    attr::MAXWRITE,
    attr::MODE,
    attr::NO_TRUNC,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::QUOTA_AVAIL_HARD,
    attr::QUOTA_AVAIL_SOFT,
    attr::QUOTA_USED,
    attr::RAWDEV,
    attr::SPACE_AVAIL,
    attr::SPACE_FREE,
    attr::SPACE_TOTAL,
    attr::SPACE_USED,
    attr::SYSTEM,
    attr::TIME_ACCESS,
    attr::TIME_ACCESS_SET,
    attr::TIME_BACKUP,
    attr::TIME_CREATE,
    attr::TIME_DELTA,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::TIME_MODIFY_SET,
    attr::MOUNTED_ON_FILEID,
    attr::DACL,
    attr::FS_LAYOUT_TYPES,
    attr::LAYOUT_TYPES,
    attr::LAYOUT_BLKSIZE,
    attr::MDSTHRESHOLD,
    attr::SUPPATTR_EXCLCREAT,
    attr::FS_CHARSET_CAP,
    attr::CLONE_BLKSIZE,
    attr::CHANGE_ATTR_TYPE,
    attr::MODE_UMASK,
    attr::XATTR_SUPPORT,
    attr::TIME_DELEG_ACCESS,
    attr::TIME_DELEG_MODIFY,
    attr::OPEN_ARGUMENTS,
]);

/// Attributes that NFSv4.1 does not have (RFC 7862 §12.2, RFC 8275, RFC 8276, RFC 9754).
const MINOR_2_ONLY: Bitmap = Bitmap::of(&[
    attr::CLONE_BLKSIZE,
    attr::CHANGE_ATTR_TYPE,
    attr::MODE_UMASK,
    attr::XATTR_SUPPORT,
    attr::TIME_DELEG_ACCESS,
    attr::TIME_DELEG_MODIFY,
    attr::OPEN_ARGUMENTS,
]);

/// Attributes that NFSv4.0 does not have (RFC 7530 §5.6, §5.7).
const MINOR_1_ONLY: Bitmap = Bitmap::of(&[
    attr::DACL,
    attr::FS_LAYOUT_TYPES,
    attr::LAYOUT_TYPES,
    attr::LAYOUT_BLKSIZE,
    attr::MDSTHRESHOLD,
    attr::SUPPATTR_EXCLCREAT,
    attr::FS_CHARSET_CAP,
]);

/// The times that only the holder of a delegation sets (RFC 9754 §5).
pub(crate) const DELEGATED_TIMES: Bitmap =
    Bitmap::of(&[attr::TIME_DELEG_ACCESS, attr::TIME_DELEG_MODIFY]);

/// Wishes for delegations that OPEN takes: any, none, cancel. No signal is ever sent that one can be had.
const WANTS: Bitmap = Bitmap::of(&[3, 4, 5]);
/// `OPEN_ARGS_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS`.
const WANT_DELEG_TIMESTAMPS: Bitmap = Bitmap::of(&[20]);
/// `OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION`.
const WANT_OPEN_XOR_DELEGATION: Bitmap = Bitmap::of(&[21]);

/// What OPEN takes (RFC 9754 §3).
fn open_arguments(mds: &Mds) -> OpenArguments {
    let mut share_access_want = WANTS;
    if mds.fs.grants_delegations() {
        share_access_want = share_access_want.union(&WANT_OPEN_XOR_DELEGATION);
    }
    if mds.fs.delegates_times() {
        share_access_want = share_access_want.union(&WANT_DELEG_TIMESTAMPS);
    }
    OpenArguments {
        share_access: Bitmap::of(&[1, 2, 3]),
        share_deny: Bitmap::of(&[0, 1, 2, 3]),
        share_access_want,
        // All but CLAIM_DELEGATE_PREV and CLAIM_DELEG_PREV_FH.
        open_claim: Bitmap::of(&[0, 1, 2, 4, 5]),
        create_mode: Bitmap::of(&[0, 1, 2, 3]),
    }
}

/// Attributes that can be set.
const SETTABLE: Bitmap = Bitmap::of(&[
    attr::SIZE,
    attr::ACL,
    attr::ARCHIVE,
    attr::DACL,
    attr::HIDDEN,
    attr::MODE,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::SYSTEM,
    attr::TIME_ACCESS_SET,
    attr::TIME_BACKUP,
    attr::TIME_CREATE,
    attr::TIME_MODIFY_SET,
    attr::MODE_UMASK,
]);

/// Attributes that `EXCLUSIVE4_1` can set: all but those that hold its verifier's place elsewhere. Ours has a place of its own.
const SETTABLE_EXCLUSIVE: Bitmap = SETTABLE;

/// The attributes of this minor version.
pub(crate) fn supported(minor_version: u32) -> Bitmap {
    match minor_version {
        0 => SUPPORTED
            .difference(&MINOR_2_ONLY)
            .difference(&MINOR_1_ONLY),
        1 => SUPPORTED.difference(&MINOR_2_ONLY),
        _ => SUPPORTED,
    }
}

fn time(t: Time) -> NfsTime {
    NfsTime {
        seconds: t.secs,
        nanoseconds: t.nanos,
    }
}

/// The wire type of an inode.
pub(crate) fn type_of(kind: FileType) -> nfs4::FileType {
    match kind {
        FileType::Regular => nfs4::FileType::Reg,
        FileType::Directory => nfs4::FileType::Dir,
        FileType::Block => nfs4::FileType::Blk,
        FileType::Character => nfs4::FileType::Chr,
        FileType::Symlink => nfs4::FileType::Lnk,
        FileType::Socket => nfs4::FileType::Sock,
        FileType::Fifo => nfs4::FileType::Fifo,
    }
}

/// Learns the names that attributes of an inode have on the wire.
pub(crate) async fn learn_names(mds: &Mds, inode: &Inode, want: &Bitmap) {
    let ids = mds.identities();
    if !ids.has_names() {
        return;
    }
    let user = want
        .contains(attr::OWNER)
        .then_some((IdKind::User, inode.uid));
    let group = want
        .contains(attr::OWNER_GROUP)
        .then_some((IdKind::Group, inode.gid));
    let lists = want.contains(attr::ACL) || want.contains(attr::DACL);
    let named = inode
        .acl()
        .filter(|_| lists)
        .map_or_else(Vec::new, acl::named);
    let all = user.into_iter().chain(group).chain(named);
    ids.learn(all.map(|(kind, id)| Question::Name(kind, id)))
        .await;
}

/// The values of an inode's attributes, as far as `want` names them.
pub(crate) fn of(mds: &Mds, inode: &Inode, want: &Bitmap, minor_version: u32) -> Attrs {
    let marks = inode.marks();
    let mut a = Attrs {
        rdattr_error: Some(NfsStatus::Ok),
        file_type: Some(type_of(inode.kind)),
        change: Some(inode.change),
        size: Some(inode.size),
        archive: Some(inode.is_archived()),
        hidden: Some(marks.hidden),
        system: Some(marks.system),
        fsid: Some(FsId {
            major: mds.fs.cluster().id(),
            // Each tree is a file system of its own, since it has a layout type of its own.
            minor: u64::from(inode.is_foreign()),
        }),
        fileid: Some(inode.id.0),
        mounted_on_fileid: Some(inode.id.0),
        mode: Some(inode.mode),
        numlinks: Some(inode.nlink),
        rawdev: Some(SpecData {
            major: inode.device.major,
            minor: inode.device.minor,
        }),
        space_used: Some(inode.space_used),
        time_access: Some(time(mds.fs.atimes().of(inode))),
        time_backup: Some(time(marks.backup)),
        time_create: Some(time(inode.btime)),
        time_metadata: Some(time(inode.ctime)),
        time_modify: Some(time(inode.mtime)),
        ..Attrs::default()
    };
    // What costs an allocation or a look elsewhere is made only on demand.
    if want.contains(attr::OWNER) {
        a.owner = Some(mds.identities().owner(IdKind::User, inode.uid));
    }
    if want.contains(attr::OWNER_GROUP) {
        a.owner_group = Some(mds.identities().owner(IdKind::Group, inode.gid));
    }
    if want.contains(attr::ACL) {
        a.acl = Some(acl::acl_of(inode, mds.identities()));
    }
    if want.contains(attr::DACL) {
        a.dacl = Some(acl::dacl_of(inode, mds.identities()));
    }
    if want.contains(attr::FILEHANDLE) {
        a.filehandle = Some(mds.fs.handle_of(inode));
    }
    if want.contains(attr::MDSTHRESHOLD) {
        a.mdsthreshold = Some(threshold(mds, inode));
    }
    if !want.intersection(&FILE_SYSTEM).is_empty() {
        of_file_system(mds, inode, &mut a, minor_version);
    }
    a
}

/// As [`of`], with what a holder for writing knows better.
pub(crate) fn of_fresh(mds: &Mds, fresh: &Fresh, want: &Bitmap, minor_version: u32) -> Attrs {
    let mut values = of(mds, &fresh.inode, want, minor_version);
    if let Some(size) = fresh.size {
        values.size = Some(size);
    }
    values
}

/// Attributes that are those of the file system or the server, not of a file.
const FILE_SYSTEM: Bitmap = SUPPORTED.difference(&Bitmap::of(&[
    attr::TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::FSID,
    attr::RDATTR_ERROR,
    attr::ACL,
    attr::ARCHIVE,
    attr::DACL,
    attr::FILEHANDLE,
    attr::FILEID,
    attr::HIDDEN,
    attr::MODE,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::RAWDEV,
    attr::SPACE_USED,
    attr::SYSTEM,
    attr::TIME_ACCESS,
    attr::TIME_BACKUP,
    attr::TIME_CREATE,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
    attr::MOUNTED_ON_FILEID,
    attr::MDSTHRESHOLD,
]));

/// What should be written through this server, of a file that has layouts: while it is small, and little of it was written.
///
/// Reads are named for an inline file alone: of another, by a layout, which OPEN brings along, they take one hop, and here
/// two. Of the two write
/// thresholds the one for file sizes alone would do by the RFC. Linux takes the I/O size for what it wrote since it
/// last had a layout, and needs both. Its first O_DIRECT requests to a new file come while the size is still 0, however
/// large they are.
fn threshold(mds: &Mds, inode: &Inode) -> MdsThreshold {
    let is_inline = inode.is_inline();
    // A file that is as long as its limit is inline still.
    let inline_bytes = mds.fs.inline_max_of(inode) + 1;
    let bytes = mds.fs.mds_threshold_bytes();
    let bytes = if is_inline {
        bytes.max(inline_bytes)
    } else {
        bytes
    };
    let thresholds = Thresholds {
        read_file_bytes: is_inline.then_some(bytes),
        write_file_bytes: Some(bytes),
        write_io_bytes: Some(bytes),
        ..Thresholds::default()
    };
    // At foreign servers nothing is gained by a detour.
    let is_hinted = is_inline || !inode.is_foreign();
    let hinted = inode.is_regular() && bytes > 0 && is_hinted;
    let items = hinted.then(|| thresholds.item(kind_of_tree(inode).number()));
    MdsThreshold {
        items: List(items.into_iter().collect()),
    }
}

fn of_file_system(mds: &Mds, inode: &Inode, a: &mut Attrs, minor_version: u32) {
    a.supported_attrs = Some(supported(minor_version));
    a.fh_expire_type = Some(FH_PERSISTENT);
    a.link_support = Some(true);
    a.symlink_support = Some(true);
    a.named_attr = Some(false);
    a.unique_handles = Some(true);
    a.lease_time_s = Some(u32::try_from(mds.fs.lease_ms().div_ceil(1000)).unwrap_or(u32::MAX));
    a.aclsupport = Some(acl::SUPPORT);
    a.cansettime = Some(true);
    a.case_insensitive = Some(false);
    a.case_preserving = Some(true);
    a.chown_restricted = Some(true);
    a.homogeneous = Some(true);
    a.maxfilesize = Some(mds.fs.file_bytes_max(inode));
    a.clone_blksize = Some(fs::CLONE_BLOCK_BYTES);
    a.maxlink = Some(mds.fs.namespace().limits().link_count_max);
    a.maxname = Some(nfs4::NAME_BYTES_MAX);
    a.maxread = Some(IO_BYTES_MAX);
    a.maxwrite = Some(IO_BYTES_MAX);
    a.no_trunc = Some(true);
    a.time_delta = Some(NfsTime {
        seconds: 0,
        nanoseconds: 1,
    });
    a.fs_charset_cap = Some(CHARSET_CONTAINS_NON_UTF8);
    // Never both: Linux takes one layout driver for each file system.
    let layout_types = vec![kind_of_tree(inode).number()];
    a.fs_layout_types = Some(List(layout_types.clone()));
    a.layout_types = Some(List(layout_types));
    a.layout_blksize = Some(mds.fs.stripe_unit_bytes());
    a.suppattr_exclcreat = Some(SETTABLE_EXCLUSIVE);
    // It only rises, but not with each write to a data server, so a greater value is not always newer news. Linux would let
    // an older GETATTR take back the size that such a write has given a file.
    a.change_attr_type = Some(ChangeAttrType::Undefined);
    a.xattr_support = Some(true);
    a.open_arguments = Some(open_arguments(mds));
    let files = mds.fs.namespace().statistics();
    // Inode numbers do not run out; statfs of a client wants a number that it can add to.
    let files_free = files.files_free.min(FILES_FREE_SHOWN_MAX);
    a.files_total = Some(files.files.saturating_add(files_free));
    a.files_free = Some(files_free);
    a.files_avail = Some(files_free);
    let space = fs::space(&mds.fs, inode.is_foreign());
    a.space_total = Some(space.total_bytes);
    a.space_free = Some(space.unused_bytes);
    a.space_avail = Some(space.free_bytes);
    // No user has a quota: the files that share one (§5.8.2.30) are all of them.
    a.quota_avail_hard = Some(space.free_bytes);
    a.quota_avail_soft = Some(space.free_bytes);
    a.quota_used = Some(space.total_bytes.saturating_sub(space.unused_bytes));
}

/// Decodes attributes to set, and learns the names in them.
pub(crate) async fn decode(
    mds: &Mds,
    fattr: &Fattr<'_>,
    minor_version: u32,
) -> Result<Attrs, NfsStatus> {
    let attrs = checked(fattr, &SETTABLE, minor_version)?;
    let ids = mds.identities();
    if ids.has_names() {
        let user = attrs.owner.iter().map(|o| (IdKind::User, o));
        let group = attrs.owner_group.iter().map(|o| (IdKind::Group, o));
        let named = acl::principals(&attrs);
        let all = user.chain(group).chain(named);
        let questions: Vec<_> = all.filter_map(|(k, o)| ids.question_of(k, o)).collect();
        ids.learn(questions).await;
    }
    Ok(attrs)
}

/// Decodes attributes to set, all of which must be among `settable`.
pub(crate) fn checked(
    fattr: &Fattr<'_>,
    settable: &Bitmap,
    minor_version: u32,
) -> Result<Attrs, NfsStatus> {
    let attrs = fattr.attrs().map_err(|e| e.status())?;
    let supported = supported(minor_version);
    if !fattr.mask.difference(&supported).is_empty() {
        return Err(NfsStatus::AttrNotSupp);
    }
    if !fattr.mask.difference(settable).is_empty() {
        return Err(NfsStatus::Inval);
    }
    let is_empty = |owner: &Option<Owner>| owner.as_ref().is_some_and(|o| o.0.is_empty());
    if minor_version == 0 && (is_empty(&attrs.owner) || is_empty(&attrs.owner_group)) {
        return Err(NfsStatus::Inval);
    }
    if attrs.mode.is_some() && attrs.mode_umask.is_some() {
        return Err(NfsStatus::Inval);
    }
    Ok(attrs)
}

fn id(ids: &Identities, kind: IdKind, owner: Option<&Owner>) -> Result<Option<u32>, NfsStatus> {
    owner.map(|owner| ids.id(kind, owner)).transpose()
}

fn set_time(t: Option<nfs4::SetTime>) -> Option<SetTime> {
    t.map(|t| match t {
        nfs4::SetTime::Server => SetTime::Server,
        nfs4::SetTime::Client(t) => SetTime::Client(of_time(t)),
    })
}

pub(crate) fn of_time(t: NfsTime) -> Time {
    Time {
        secs: t.seconds,
        nanos: t.nanoseconds,
    }
}

fn marks(attrs: &Attrs) -> SetMarks {
    SetMarks {
        hidden: attrs.hidden,
        system: attrs.system,
        archived: attrs.archive,
        backup: attrs.time_backup.map(of_time),
    }
}

/// Attributes of SETATTR for the name space. `mode_umask` is for creation only (RFC 8275 §5).
pub(crate) fn to_setattr(ids: &Identities, attrs: &Attrs) -> Result<SetAttr, NfsStatus> {
    if attrs.mode_umask.is_some() {
        return Err(NfsStatus::Inval);
    }
    if attrs.mode.is_some_and(|m| m & !0o7777 != 0) {
        return Err(NfsStatus::Inval);
    }
    Ok(SetAttr {
        mode: attrs.mode,
        uid: id(ids, IdKind::User, attrs.owner.as_ref())?,
        gid: id(ids, IdKind::Group, attrs.owner_group.as_ref())?,
        size: attrs.size,
        atime: set_time(attrs.time_access_set),
        mtime: set_time(attrs.time_modify_set),
        btime: attrs.time_create.map(of_time),
        marks: marks(attrs),
        acl: acl::decode(attrs, ids)?,
    })
}

/// Attributes of a new object. A umask is for the name space to apply, since what the directory hands down may take its
/// place (RFC 8275 §5).
pub(crate) fn to_new_node(
    ids: &Identities,
    attrs: &Attrs,
    default_mode: u32,
) -> Result<NewNode, NfsStatus> {
    let (mode, umask) = match (attrs.mode, attrs.mode_umask) {
        (Some(mode), _) => (mode, 0),
        (None, Some(both)) => (both.mode, both.umask),
        (None, None) => (default_mode, 0),
    };
    if mode & !0o7777 != 0 || umask & !0o777 != 0 {
        return Err(NfsStatus::Inval);
    }
    Ok(NewNode {
        uid: id(ids, IdKind::User, attrs.owner.as_ref())?,
        gid: id(ids, IdKind::Group, attrs.owner_group.as_ref())?,
        atime: set_time(attrs.time_access_set),
        mtime: set_time(attrs.time_modify_set),
        btime: attrs.time_create.map(of_time),
        marks: marks(attrs),
        umask,
        mode_is_default: attrs.mode.is_none() && attrs.mode_umask.is_none(),
        acl: acl::decode(attrs, ids)?,
        ..NewNode::mode(mode)
    })
}

/// Whether the caller may see the attributes that not everyone may (RFC 8881 §6.2.1.3.1).
pub(crate) fn may_see(cred: &Cred, inode: &Inode, want: &Bitmap) -> Result<(), NfsStatus> {
    let lists = want.contains(attr::ACL) || want.contains(attr::DACL);
    if lists && cred.rights(inode) & READ_ACL == 0 {
        return Err(NfsStatus::Access);
    }
    Ok(())
}
