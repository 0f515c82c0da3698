//! Results that outlive their reply, owned or as slices of it.

use bytes::Bytes;
use nfs3::procs::{LookupOk, NewObject, ReadDirOk, ReadDirPlusOk, ReadLinkOk};
use nfs3::{CookieVerf, Fattr3, Handle, NFS3_FHSIZE, PostOpAttr, WccData};
use xdr::OpaqueBuf;

/// An owned file handle.
pub type Fh = OpaqueBuf<NFS3_FHSIZE>;

pub(crate) fn owned(handle: Handle<'_>) -> Fh {
    OpaqueBuf(handle.0.to_vec())
}

/// Result of LOOKUP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// The object that has the name.
    pub fh: Fh,
    /// Its attributes, if the server told them.
    pub attributes: PostOpAttr,
    /// Those of the directory.
    pub dir_attributes: PostOpAttr,
}

impl From<LookupOk<'_>> for FoundObject {
    fn from(found: LookupOk<'_>) -> Self {
        Self {
            fh: owned(found.object),
            attributes: found.obj_attributes,
            dir_attributes: found.dir_attributes,
        }
    }
}

/// Result of READLINK.
pub(crate) struct LinkText(pub(crate) Vec<u8>);

impl From<ReadLinkOk<'_>> for LinkText {
    fn from(link: ReadLinkOk<'_>) -> Self {
        Self(link.data.0.to_vec())
    }
}

/// Result of CREATE, MKDIR, SYMLINK and MKNOD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeObject {
    /// The new object; without it do a LOOKUP.
    pub fh: Option<Fh>,
    /// Its attributes, if the server told them.
    pub attributes: PostOpAttr,
    /// The directory.
    pub dir_wcc: WccData,
}

impl From<NewObject<'_>> for MadeObject {
    fn from(made: NewObject<'_>) -> Self {
        Self {
            fh: made.obj.map(owned),
            attributes: made.obj_attributes,
            dir_wcc: made.dir_wcc,
        }
    }
}

/// Result of READ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadData3 {
    /// The data: a slice of the reply.
    pub data: Bytes,
    /// Whether the last byte of the file was read.
    pub eof: bool,
    /// Attributes of the file, if the server told them.
    pub attributes: PostOpAttr,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry3 {
    /// The object.
    pub fileid: u64,
    /// Its name as the server sent it, not checked.
    pub name: Vec<u8>,
    /// Where to go on after this entry.
    pub cookie: u64,
    /// Attributes of the object; READDIRPLUS only.
    pub attributes: Option<Fattr3>,
    /// Its handle; READDIRPLUS only.
    pub fh: Option<Fh>,
}

/// Result of READDIR and READDIRPLUS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirPage3 {
    /// Goes with the cookies.
    pub cookieverf: CookieVerf,
    /// The entries.
    pub entries: Vec<DirEntry3>,
    /// Whether these were the last.
    pub eof: bool,
    /// Attributes of the directory, if the server told them.
    pub dir_attributes: PostOpAttr,
}

impl From<ReadDirOk<'_>> for DirPage3 {
    fn from(page: ReadDirOk<'_>) -> Self {
        let entries = page.entries.0.into_iter().map(|entry| DirEntry3 {
            fileid: entry.fileid,
            name: entry.name.0.to_vec(),
            cookie: entry.cookie,
            attributes: None,
            fh: None,
        });
        Self {
            cookieverf: page.cookieverf,
            entries: entries.collect(),
            eof: page.eof,
            dir_attributes: page.dir_attributes,
        }
    }
}

impl From<ReadDirPlusOk<'_>> for DirPage3 {
    fn from(page: ReadDirPlusOk<'_>) -> Self {
        let entries = page.entries.0.into_iter().map(|entry| DirEntry3 {
            fileid: entry.fileid,
            name: entry.name.0.to_vec(),
            cookie: entry.cookie,
            attributes: entry.name_attributes,
            fh: entry.name_handle.map(owned),
        });
        Self {
            cookieverf: page.cookieverf,
            entries: entries.collect(),
            eof: page.eof,
            dir_attributes: page.dir_attributes,
        }
    }
}
