//! Attributes as a client sees them, and how it sets them.

use crate::Error;
use crate::client::Client4;
use crate::layout_kind::KIND;
use crate::state::Node;
use nfs4::ops::{
    GetAttrArgs, GetAttrRes, PutFhArgs, PutFhRes, PutRootFhArgs, PutRootFhRes, SetAttrArgs,
    SetAttrRes,
};
use nfs4::{
    Attrs, Bitmap, Fattr, FileHandle, FileType, FsId, NfsStatus, NfsTime, SetTime, SpecData,
    Stateid, Thresholds, attr,
};
use std::sync::{Arc, Weak};
use xdr::{Opaque, OpaqueBuf};

/// What [`Metadata`] is made of.
pub(crate) const WANTED: Bitmap = Bitmap::of(&[
    attr::TYPE,
    attr::CHANGE,
    attr::SIZE,
    attr::FSID,
    attr::FILEID,
    attr::MODE,
    attr::NUMLINKS,
    attr::OWNER,
    attr::OWNER_GROUP,
    attr::RAWDEV,
    attr::SPACE_USED,
    attr::TIME_ACCESS,
    attr::TIME_METADATA,
    attr::TIME_MODIFY,
]);

/// The same after OPEN, which is also told what the MDS wants for itself.
pub(crate) const WANTED_AT_OPEN: Bitmap = {
    let mut wanted = WANTED;
    wanted.insert(attr::MDSTHRESHOLD);
    wanted
};

/// The same of names in a directory whose objects are to be worked on.
pub(crate) const WANTED_WITH_HANDLE: Bitmap = {
    let mut wanted = WANTED;
    wanted.insert(attr::FILEHANDLE);
    wanted
};

const FS_WANTED: Bitmap = Bitmap::of(&[
    attr::FILES_AVAIL,
    attr::FILES_FREE,
    attr::FILES_TOTAL,
    attr::SPACE_AVAIL,
    attr::SPACE_FREE,
    attr::SPACE_TOTAL,
]);

/// Attributes of an object. What the server does not tell is zero or empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Type.
    pub file_type: FileType,
    /// Permission bits, without the type.
    pub mode: u32,
    /// Hard links.
    pub links_count: u32,
    /// Owner as sent: a number in decimal, or a name.
    pub owner: String,
    /// Group as sent.
    pub group: String,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes that it takes.
    pub space_bytes: u64,
    /// Inode number.
    pub file_id: u64,
    /// File system.
    pub fsid: FsId,
    /// Device numbers.
    pub rdev: SpecData,
    /// Rises with each change.
    pub change: u64,
    /// Last access.
    pub atime: NfsTime,
    /// Last change of data.
    pub mtime: NfsTime,
    /// Last change of metadata.
    pub ctime: NfsTime,
    /// What I/O the MDS wants for itself; known after OPEN only.
    pub(crate) thresholds: Thresholds,
}

impl Metadata {
    pub(crate) fn decode(fattr: &Fattr<'_>) -> Result<Self, Error> {
        Ok(Self::decode_with_handle(fattr)?.0)
    }

    /// The same with the object's handle, where it was asked for and is told.
    pub(crate) fn decode_with_handle(
        fattr: &Fattr<'_>,
    ) -> Result<(Self, Option<FileHandle>), Error> {
        let a = fattr.attrs().map_err(|_| Error::Malformed("attributes"))?;
        let text = |o: Option<OpaqueBuf<{ nfs4::OWNER_BYTES_MAX }>>| {
            o.map_or_else(String::new, |o| String::from_utf8_lossy(&o.0).into_owned())
        };
        let metadata = Self {
            file_type: a
                .file_type
                .ok_or(Error::Malformed("attributes without a type"))?,
            mode: a.mode.unwrap_or(0) & 0o7777,
            links_count: a.numlinks.unwrap_or(0),
            owner: text(a.owner),
            group: text(a.owner_group),
            size: a.size.unwrap_or(0),
            space_bytes: a.space_used.unwrap_or(0),
            file_id: a.fileid.unwrap_or(0),
            fsid: a.fsid.unwrap_or_default(),
            rdev: a.rawdev.unwrap_or_default(),
            change: a.change.unwrap_or(0),
            atime: a.time_access.unwrap_or_default(),
            mtime: a.time_modify.unwrap_or_default(),
            ctime: a.time_metadata.unwrap_or_default(),
            thresholds: a
                .mdsthreshold
                .and_then(|t| Thresholds::of(&t, KIND.number()).ok())
                .unwrap_or_default(),
        };
        Ok((metadata, a.filehandle))
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.file_type == FileType::Dir
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file_type == FileType::Reg
    }

    /// Whether it is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.file_type == FileType::Lnk
    }
}

/// Attributes to set; those that are `None` stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttrs {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<NfsTime>,
    /// Last change of data.
    pub mtime: Option<NfsTime>,
}

impl SetAttrs {
    pub(crate) fn fattr(&self) -> Fattr<'static> {
        let number = |n: u32| OpaqueBuf(n.to_string().into_bytes());
        Fattr::new(&Attrs {
            mode: self.mode,
            owner: self.uid.map(number),
            owner_group: self.gid.map(number),
            size: self.size,
            time_access_set: self.atime.map(SetTime::Client),
            time_modify_set: self.mtime.map(SetTime::Client),
            ..Attrs::default()
        })
    }
}

/// Room of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FsStat {
    /// All bytes.
    pub bytes_total: u64,
    /// Free bytes.
    pub bytes_free: u64,
    /// Bytes that the caller may use.
    pub bytes_available: u64,
    /// All inodes.
    pub files_total: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Inodes that the caller may use.
    pub files_available: u64,
}

impl Client4 {
    /// The attributes of what a handle names.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn metadata_of(&self, fh: &FileHandle) -> Result<Metadata, Error> {
        let outcome = self
            .0
            .call(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&fh.0),
                });
                b.push(&GetAttrArgs {
                    attr_request: WANTED,
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        Metadata::decode(&reply.take::<GetAttrRes<'_>>()?.attributes)
    }

    /// Sets attributes of a path; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn set_attrs(
        &self,
        path: impl AsRef<[u8]>,
        attrs: &SetAttrs,
    ) -> Result<(), Error> {
        let fh = self.lookup(path).await?.fh;
        self.set_attrs_of(&fh, attrs).await
    }

    /// Sets attributes of what a handle names.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn set_attrs_of(
        &self,
        fh: &FileHandle,
        attrs: &SetAttrs,
    ) -> Result<(), Error> {
        // What this client has written must not come after a new size or time.
        let node = self.0.nodes.lock().get(fh).and_then(Weak::upgrade);
        let Some(node): Option<Arc<Node>> = node else {
            return self.set_attrs_by(fh, Stateid::ANONYMOUS, attrs).await;
        };
        let _one = node.flushing.lock().await;
        let _alone = node.gate.write().await;
        node.flush_alone(crate::flush::Gate::Held).await?;
        let open = node.writable_open().filter(|_| attrs.size.is_some());
        let stateid = open.map_or(Stateid::ANONYMOUS, |o| o.io_stateid());
        self.set_attrs_by(fh, stateid, attrs).await
    }

    /// Sets attributes of what a handle names, by an open or by none.
    pub(crate) async fn set_attrs_by(
        &self,
        fh: &FileHandle,
        stateid: Stateid,
        attrs: &SetAttrs,
    ) -> Result<(), Error> {
        let fattr = attrs.fattr();
        let outcome = self
            .0
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&fh.0),
                });
                b.push(&SetAttrArgs {
                    stateid,
                    attrs: fattr.clone(),
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        match reply.take::<SetAttrRes>()?.status {
            NfsStatus::Ok => Ok(()),
            status => Err(Error::Status(status)),
        }
    }

    /// Room of the file system at the root.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn statfs(&self) -> Result<FsStat, Error> {
        let outcome = self
            .0
            .call(&|b| {
                b.push(&PutRootFhArgs {});
                b.push(&GetAttrArgs {
                    attr_request: FS_WANTED,
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutRootFhRes>()?;
        let got = reply.take::<GetAttrRes<'_>>()?.attributes;
        let a = got.attrs().map_err(|_| Error::Malformed("attributes"))?;
        Ok(FsStat {
            bytes_total: a.space_total.unwrap_or(0),
            bytes_free: a.space_free.unwrap_or(0),
            bytes_available: a.space_avail.unwrap_or(0),
            files_total: a.files_total.unwrap_or(0),
            files_free: a.files_free.unwrap_or(0),
            files_available: a.files_avail.unwrap_or(0),
        })
    }
}
