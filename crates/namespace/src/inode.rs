//! The inode: attributes of a file and the state of its data, and its stored form.

use crate::mode::{MODE_BITS, STICKY, SYMLINK_MODE, without_privileges};
use crate::{Acl, DataName, Device, Extras, FileId, Marks, NsError, Placement, Time, XattrTotals};
use xdr::{Decode, Decoder, Encode, Encoder, OpaqueBuf};

/// Longest symlink target in bytes (PATH_MAX of Linux).
pub const SYMLINK_BYTES_MAX: u32 = 4096;

/// Version of the stored form without [`Extras`]. A later one may add fields after those of this one.
const INODE_VERSION: u32 = 1;
/// Version of the stored form that ends with [`Extras`] without [`Marks`].
const INODE_VERSION_EXTRAS: u32 = 2;
/// Version of the stored form that ends with [`Marks`].
const INODE_VERSION_MARKS: u32 = 3;
/// Version of the stored form that ends with the limit of inline files in a layout policy.
const INODE_VERSION_INLINE_MAX: u32 = 4;
/// Version of the stored form that ends with the name of the objects.
const INODE_VERSION_DATA: u32 = 5;
/// Version of the stored form that ends with what an inode of a foreign tree has.
const INODE_VERSION_FOREIGN: u32 = 6;
/// Version of the stored form that ends with the note that all objects at foreign data servers were made.
const INODE_VERSION_OBJECTS: u32 = 7;

/// What a file system takes at least for some bytes of a file; those of most data servers have blocks of this size.
const BLOCK_BYTES: u64 = 4096;

/// Bytes in whole blocks.
pub(crate) fn in_blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

xdr::xdr_enum! {
    /// What an inode is, with the numbers of nfs_ftype4 (RFC 8881 §3.2).
    pub enum FileType {
        /// Regular file.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Block device.
        Block = 3,
        /// Character device.
        Character = 4,
        /// Symbolic link.
        Symlink = 5,
        /// Socket.
        Socket = 6,
        /// Named pipe.
        Fifo = 7,
    }
}

xdr::xdr_struct! {
    /// A file of any type.
    pub struct Inode {
        /// Its number.
        pub id: FileId,
        /// 1 unless restored from a backup.
        pub generation: u32,
        /// What it is.
        pub kind: FileType,
        /// Permission bits, setuid, setgid, sticky: at most 0o7777. Of a symbolic link always 0o777.
        pub mode: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Names of a file; 2 plus the number of subdirectories of a directory.
        pub nlink: u32,
        /// Bytes of a file or of a symlink's target; the number of entries of a directory.
        pub size: u64,
        /// Bytes on the data servers, as last reported. Of an inline file bytes in the metadata store.
        pub space_used: u64,
        /// Last access: set by SETATTR and, in the manner of relatime, by reads.
        pub atime: Time,
        /// Last change of the data.
        pub mtime: Time,
        /// Last change of anything.
        pub ctime: Time,
        /// Creation.
        pub btime: Time,
        /// Change attribute: rises by one in each transaction that touches the inode.
        pub change: u64,
        /// A directory's parent (the root's is itself). Of others the directory of their first name: a hint.
        pub parent: FileId,
        /// Device numbers; zero unless a device.
        pub device: Device,
        /// Target of a symlink; empty otherwise.
        pub target: OpaqueBuf<SYMLINK_BYTES_MAX>,
        /// Where the data go; regular files only. One without a place is inline.
        pub placement: Option<Placement>,
        /// Low half of the fencing epoch: rises whenever handles given out so far must stop working.
        pub epoch: u32,
        /// Verifier of the EXCLUSIVE create that made it, until the first SETATTR (RFC 8881 §18.16.3).
        pub verifier: Option<[u8; 8]>,
        /// What few inodes have.
        pub extras: Extras,
    }
}

impl Inode {
    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        self.kind == FileType::Regular
    }

    /// Whether its bytes lie in the metadata store and at no data server.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.is_regular() && self.placement.is_none()
    }

    /// Whether it has the sticky bit.
    #[must_use]
    pub fn is_sticky(&self) -> bool {
        self.mode & STICKY != 0
    }

    /// Whether it has a set-user-ID bit, or a set-group-ID bit that gives a group: bits that a write by others than root
    /// takes away.
    #[must_use]
    pub fn has_privileges(&self) -> bool {
        self.is_regular() && without_privileges(self.mode) != self.mode
    }

    /// Its access control list, unless the mode says it all.
    #[must_use]
    pub fn acl(&self) -> Option<&Acl> {
        self.extras.rare()?.acl.as_ref()
    }

    /// How many extended attributes it has, and how long they are.
    #[must_use]
    pub fn xattrs(&self) -> XattrTotals {
        self.extras.rare().map(|r| r.xattrs).unwrap_or_default()
    }

    /// By which file and generation data servers know its objects: its own, unless it was given others.
    #[must_use]
    pub fn data(&self) -> DataName {
        let own = DataName {
            file: self.id,
            generation: self.generation,
        };
        self.moved_data().unwrap_or(own)
    }

    /// The name of its objects, if that is not its own.
    #[must_use]
    pub fn moved_data(&self) -> Option<DataName> {
        self.extras.rare().and_then(|rare| rare.data)
    }

    /// Whether it belongs to a foreign tree: one whose files lie on NFSv3 servers of others.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.extras
            .rare()
            .is_some_and(|rare| rare.foreign.is_some())
    }

    /// Mirrors at foreign data servers that do not count: bit m for mirror m.
    #[must_use]
    pub fn bad_mirrors(&self) -> u32 {
        let foreign = self.extras.rare().and_then(|rare| rare.foreign);
        foreign.map_or(0, |foreign| foreign.bad_mirrors)
    }

    /// Whether the objects of all mirrors that count were made at foreign data servers. One that is missing is lost then.
    #[must_use]
    pub fn has_objects(&self) -> bool {
        let foreign = self.extras.rare().and_then(|rare| rare.foreign);
        foreign.is_some_and(|foreign| foreign.has_objects)
    }

    /// Its marks.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.extras.rare().map(|r| r.marks).unwrap_or_default()
    }

    /// Whether somebody said that it is archived, and it was not modified since (RFC 8881 §5.8.2.1).
    #[must_use]
    pub fn is_archived(&self) -> bool {
        self.marks().archived == Some(self.mtime)
    }

    /// Its data have changed, so what was archived is older. The time alone does not tell: a client may report the one that
    /// it had reported before.
    pub(crate) fn note_modified(&mut self) {
        if self.marks().archived.is_some() {
            self.extras.edit(|rare| rare.marks.archived = None);
        }
    }

    /// The lowest version that has room for it.
    fn version(&self) -> u32 {
        let policy = self.layout_policy();
        if self.extras.is_none() {
            INODE_VERSION
        } else if self.has_objects() {
            INODE_VERSION_OBJECTS
        } else if self.is_foreign() {
            INODE_VERSION_FOREIGN
        } else if self.extras.rare().is_some_and(|rare| rare.data.is_some()) {
            INODE_VERSION_DATA
        } else if policy.is_some_and(|policy| policy.inline_max_bytes.is_some()) {
            INODE_VERSION_INLINE_MAX
        } else if self.marks() == Marks::default() {
            INODE_VERSION_EXTRAS
        } else {
            INODE_VERSION_MARKS
        }
    }

    pub(crate) fn to_stored(&self) -> Vec<u8> {
        let mut e = Encoder::new();
        e.u32(self.version());
        self.encode(&mut e);
        e.into_bytes()
    }

    /// Decodes the value of key `i` `id`, which says whose it is once more.
    pub(crate) fn from_stored(id: FileId, bytes: &[u8]) -> Result<Self, NsError> {
        let corrupt = |why: String| NsError::corrupt(format!("inode {}: {why}", id.0));
        let mut d = Decoder::new(bytes);
        let version = d.u32().map_err(|e| corrupt(e.to_string()))?;
        if !(INODE_VERSION..=INODE_VERSION_OBJECTS).contains(&version) {
            return Err(corrupt(format!("unknown version {version}")));
        }
        let mut inode = Self::decode(&mut d).map_err(|e| corrupt(e.to_string()))?;
        d.finish().map_err(|e| corrupt(e.to_string()))?;
        if inode.id != id || inode.mode > MODE_BITS || inode.version() != version {
            return Err(corrupt("fields out of range".into()));
        }
        if inode.kind == FileType::Symlink {
            // Earlier versions let the umask cut it.
            inode.mode = SYMLINK_MODE;
        }
        Ok(inode)
    }
}
