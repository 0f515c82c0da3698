//! File attributes (RFC 8881 §5, RFC 7862 §12.2, RFC 8275, RFC 8276 §8.6, RFC 9754 §3): numbers, values, and `fattr4` in both directions.
//!
//! One table names each attribute with its number, field and type; the struct [`Attrs`] and both codecs come from
//! it. Which attributes a role answers and what a value means is the role's business. Entry points:
//! [`encode_fattr`], [`decode_fattr`], [`Fattr`].

use std::borrow::Cow;

use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, List};

use crate::{
    Ace, Bitmap, FileHandle, FileType, FsId, NfsStatus, NfsTime, Owner, SpecData,
    attr_types::{
        ACES_MAX, Acl, ChangeAttrType, ChangePolicy, FsLocations, LAYOUT_TYPES_MAX, LayoutHint,
        MdsThreshold, MimeType, ModeMasked, ModeUmask, OpenArguments, SetTime,
    },
};

/// Longest `attrlist4` in bytes that a decoder takes: an ACL of [`ACES_MAX`] entries with long principals fits.
pub const ATTRLIST_BYTES_MAX: u32 = 256 << 10;

macro_rules! attributes {
    ($( $(#[$meta:meta])* $konst:ident = $num:literal, $field:ident: $ty:ty; )*) => {
        $( $(#[$meta])* pub const $konst: u32 = $num; )*

        /// Every attribute that this crate can encode and decode.
        pub const KNOWN: Bitmap = Bitmap::of(&[$( $num, )*]);

        /// Values of attributes; those that are absent are not sent, or were not received.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Attrs {
            $( $(#[$meta])* pub $field: Option<$ty>, )*
        }

        impl Attrs {
            /// The numbers of the attributes that have a value.
            #[must_use]
            pub fn present(&self) -> Bitmap {
                let mut out = Bitmap::EMPTY;
                $( if self.$field.is_some() { out.insert($num); } )*
                out
            }

            /// Removes the values whose numbers are not in `mask`.
            pub fn retain(&mut self, mask: &Bitmap) {
                $( if !mask.contains($num) { self.$field = None; } )*
            }

            /// Writes the value of attribute `num`; `false` when it has none.
            fn encode_one(&self, num: u32, e: &mut Encoder) -> bool {
                match num {
                    $( $num => match &self.$field {
                        Some(value) => value.encode(e),
                        None => return false,
                    }, )*
                    _ => return false,
                }
                true
            }

            /// Reads the value of attribute `num`; `false` when the number is unknown.
            fn decode_one(&mut self, num: u32, d: &mut Decoder<'_>) -> Result<bool, DecodeError> {
                match num {
                    $( $num => self.$field = Some(Decode::decode(d)?), )*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
}

attributes! {
    /// Attributes that the server supports for the object.
    SUPPORTED_ATTRS = 0, supported_attrs: Bitmap;
    /// Type of the object.
    TYPE = 1, file_type: FileType;
    /// How long a file handle lives: `FH_EXPIRE_*`.
    FH_EXPIRE_TYPE = 2, fh_expire_type: u32;
    /// Changes with every change of the object.
    CHANGE = 3, change: u64;
    /// Bytes of the file.
    SIZE = 4, size: u64;
    /// Whether the file system has hard links.
    LINK_SUPPORT = 5, link_support: bool;
    /// Whether the file system has symbolic links.
    SYMLINK_SUPPORT = 6, symlink_support: bool;
    /// Whether the object has named attributes.
    NAMED_ATTR = 7, named_attr: bool;
    /// The file system.
    FSID = 8, fsid: FsId;
    /// Whether two handles always mean two objects.
    UNIQUE_HANDLES = 9, unique_handles: bool;
    /// Seconds of the lease.
    LEASE_TIME = 10, lease_time_s: u32;
    /// Why READDIR has no attributes for an entry.
    RDATTR_ERROR = 11, rdattr_error: NfsStatus;
    /// Access control list.
    ACL = 12, acl: List<Ace, ACES_MAX>;
    /// Types of ACE that are supported.
    ACLSUPPORT = 13, aclsupport: u32;
    /// Whether the file was archived since its last change.
    ARCHIVE = 14, archive: bool;
    /// Whether times can be set.
    CANSETTIME = 15, cansettime: bool;
    /// Whether names ignore case.
    CASE_INSENSITIVE = 16, case_insensitive: bool;
    /// Whether names keep their case.
    CASE_PRESERVING = 17, case_preserving: bool;
    /// Whether only the superuser may change the owner.
    CHOWN_RESTRICTED = 18, chown_restricted: bool;
    /// The file handle.
    FILEHANDLE = 19, filehandle: FileHandle;
    /// Inode number.
    FILEID = 20, fileid: u64;
    /// Inodes that the caller may still use.
    FILES_AVAIL = 21, files_avail: u64;
    /// Free inodes.
    FILES_FREE = 22, files_free: u64;
    /// All inodes.
    FILES_TOTAL = 23, files_total: u64;
    /// Where else the file system is.
    FS_LOCATIONS = 24, fs_locations: FsLocations;
    /// Whether the file is hidden.
    HIDDEN = 25, hidden: bool;
    /// Whether per-file-system attributes are the same for all of its objects.
    HOMOGENEOUS = 26, homogeneous: bool;
    /// Largest file in bytes.
    MAXFILESIZE = 27, maxfilesize: u64;
    /// Most links of an object.
    MAXLINK = 28, maxlink: u32;
    /// Longest name in bytes.
    MAXNAME = 29, maxname: u32;
    /// Largest READ in bytes.
    MAXREAD = 30, maxread: u64;
    /// Largest WRITE in bytes.
    MAXWRITE = 31, maxwrite: u64;
    /// MIME type.
    MIMETYPE = 32, mimetype: MimeType;
    /// Permission bits.
    MODE = 33, mode: u32;
    /// Whether a long name is an error rather than cut.
    NO_TRUNC = 34, no_trunc: bool;
    /// Hard links.
    NUMLINKS = 35, numlinks: u32;
    /// Owner: `user@domain`, or a number in decimal.
    OWNER = 36, owner: Owner;
    /// Group: `group@domain`, or a number in decimal.
    OWNER_GROUP = 37, owner_group: Owner;
    /// Bytes until the hard quota.
    QUOTA_AVAIL_HARD = 38, quota_avail_hard: u64;
    /// Bytes until the soft quota.
    QUOTA_AVAIL_SOFT = 39, quota_avail_soft: u64;
    /// Bytes counted by the quota.
    QUOTA_USED = 40, quota_used: u64;
    /// Numbers of a device.
    RAWDEV = 41, rawdev: SpecData;
    /// Bytes that the caller may still use.
    SPACE_AVAIL = 42, space_avail: u64;
    /// Free bytes.
    SPACE_FREE = 43, space_free: u64;
    /// All bytes.
    SPACE_TOTAL = 44, space_total: u64;
    /// Bytes that the object takes.
    SPACE_USED = 45, space_used: u64;
    /// Whether this is a system file.
    SYSTEM = 46, system: bool;
    /// Time of the last access.
    TIME_ACCESS = 47, time_access: NfsTime;
    /// Sets the time of the last access.
    TIME_ACCESS_SET = 48, time_access_set: SetTime;
    /// Time of the last backup.
    TIME_BACKUP = 49, time_backup: NfsTime;
    /// Time of creation.
    TIME_CREATE = 50, time_create: NfsTime;
    /// Smallest step of time.
    TIME_DELTA = 51, time_delta: NfsTime;
    /// Time of the last change of metadata.
    TIME_METADATA = 52, time_metadata: NfsTime;
    /// Time of the last change of data.
    TIME_MODIFY = 53, time_modify: NfsTime;
    /// Sets the time of the last change of data.
    TIME_MODIFY_SET = 54, time_modify_set: SetTime;
    /// Inode number of the directory beneath a mount point.
    MOUNTED_ON_FILEID = 55, mounted_on_fileid: u64;
    /// Shortest delay of notifications about a directory.
    DIR_NOTIF_DELAY = 56, dir_notif_delay: NfsTime;
    /// Shortest delay of notifications about entries.
    DIRENT_NOTIF_DELAY = 57, dirent_notif_delay: NfsTime;
    /// Discretionary access control list.
    DACL = 58, dacl: Acl;
    /// System access control list.
    SACL = 59, sacl: Acl;
    /// Changes with the policy of the file system.
    CHANGE_POLICY = 60, change_policy: ChangePolicy;
    /// Layout types of the file system.
    FS_LAYOUT_TYPES = 62, fs_layout_types: List<u32, LAYOUT_TYPES_MAX>;
    /// Wish for the layout of a new file.
    LAYOUT_HINT = 63, layout_hint: LayoutHint;
    /// Layout types of the file.
    LAYOUT_TYPES = 64, layout_types: List<u32, LAYOUT_TYPES_MAX>;
    /// Preferred block size in bytes for I/O with a layout.
    LAYOUT_BLKSIZE = 65, layout_blksize: u32;
    /// Alignment in bytes for I/O with a layout.
    LAYOUT_ALIGNMENT = 66, layout_alignment: u32;
    /// Sizes below which I/O should go to the metadata server.
    MDSTHRESHOLD = 68, mdsthreshold: MdsThreshold;
    /// Sets some bits of the mode.
    MODE_SET_MASKED = 74, mode_set_masked: ModeMasked;
    /// Attributes that an exclusive create can set.
    SUPPATTR_EXCLCREAT = 75, suppattr_exclcreat: Bitmap;
    /// What is known of the character set of names.
    FS_CHARSET_CAP = 76, fs_charset_cap: u32;
    /// Granularity of CLONE in bytes.
    CLONE_BLKSIZE = 77, clone_blksize: u32;
    /// Bytes that would be freed if the file were removed.
    SPACE_FREED = 78, space_freed: u64;
    /// How `change` behaves.
    CHANGE_ATTR_TYPE = 79, change_attr_type: ChangeAttrType;
    /// Mode and umask of a new object.
    MODE_UMASK = 81, mode_umask: ModeUmask;
    /// Whether the object can have extended attributes.
    XATTR_SUPPORT = 82, xattr_support: bool;
    /// Time of the last access as the holder of a delegation says (RFC 9754 §5).
    TIME_DELEG_ACCESS = 84, time_deleg_access: NfsTime;
    /// Time of the last change of data as the holder of a delegation says.
    TIME_DELEG_MODIFY = 85, time_deleg_modify: NfsTime;
    /// What OPEN may carry.
    OPEN_ARGUMENTS = 86, open_arguments: OpenArguments;
}

/// `fs_status`, which this crate does not encode.
pub const FS_STATUS: u32 = 61;
/// `fs_locations_info`, which this crate does not encode.
pub const FS_LOCATIONS_INFO: u32 = 67;
/// `retention_get`, which this crate does not encode.
pub const RETENTION_GET: u32 = 69;
/// `retention_set`, which this crate does not encode.
pub const RETENTION_SET: u32 = 70;
/// `retentevt_get`, which this crate does not encode.
pub const RETENTEVT_GET: u32 = 71;
/// `retentevt_set`, which this crate does not encode.
pub const RETENTEVT_SET: u32 = 72;
/// `retention_hold`, which this crate does not encode.
pub const RETENTION_HOLD: u32 = 73;
/// `sec_label` (RFC 7862 §12.2.4), which this crate does not encode.
pub const SEC_LABEL: u32 = 80;

/// Attributes that SETATTR, CREATE and OPEN may carry (access W or RW in RFC 8881 §5.6 and §5.7). Any other
/// known one is answered `NFS4ERR_INVAL`.
pub const WRITABLE: Bitmap = Bitmap::of(&[
    SIZE,
    ACL,
    ARCHIVE,
    HIDDEN,
    MIMETYPE,
    MODE,
    OWNER,
    OWNER_GROUP,
    SYSTEM,
    TIME_ACCESS_SET,
    TIME_BACKUP,
    TIME_CREATE,
    TIME_MODIFY_SET,
    DACL,
    SACL,
    LAYOUT_HINT,
    RETENTION_SET,
    RETENTEVT_SET,
    RETENTION_HOLD,
    MODE_SET_MASKED,
    SEC_LABEL,
    MODE_UMASK,
    TIME_DELEG_ACCESS,
    TIME_DELEG_MODIFY,
]);

/// Attributes that clients can only write; asking for them is `NFS4ERR_INVAL` (RFC 8881 §5.5, RFC 9754 §5).
pub const WRITE_ONLY: Bitmap = Bitmap::of(&[
    TIME_ACCESS_SET,
    TIME_MODIFY_SET,
    LAYOUT_HINT,
    RETENTION_SET,
    RETENTEVT_SET,
    MODE_SET_MASKED,
    MODE_UMASK,
    TIME_DELEG_ACCESS,
    TIME_DELEG_MODIFY,
]);

/// `fattr4` with its values not yet decoded: an operation decides what a bad value means. Borrowed when it was
/// decoded, owned when it was made from [`Attrs`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fattr<'a> {
    /// Which attributes.
    pub mask: Bitmap,
    /// Their values in ascending order of their numbers.
    pub values: Cow<'a, [u8]>,
}

impl Fattr<'static> {
    /// Encodes every value of `attrs`.
    #[must_use]
    pub fn new(attrs: &Attrs) -> Self {
        let mask = attrs.present();
        let mut e = Encoder::new();
        for num in mask.iter() {
            attrs.encode_one(num, &mut e);
        }
        Self {
            mask,
            values: Cow::Owned(e.into_bytes()),
        }
    }
}

impl Fattr<'_> {
    /// Decodes the values: [`decode_fattr`].
    ///
    /// # Errors
    /// [`FattrError`].
    pub fn attrs(&self) -> Result<Attrs, FattrError> {
        decode_fattr(self)
    }
}

impl<'a> Decode<'a> for Fattr<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            mask: Bitmap::decode(d)?,
            values: Cow::Borrowed(d.opaque(ATTRLIST_BYTES_MAX)?),
        })
    }
}

impl Encode for Fattr<'_> {
    fn encode(&self, e: &mut Encoder) {
        self.mask.encode(e);
        e.opaque(&self.values);
    }
}

/// Why the values of a [`Fattr`] could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FattrError {
    /// An attribute that this crate does not know: `NFS4ERR_ATTRNOTSUPP`. Nothing after it can be read.
    NotSupp(u32),
    /// A value or the length of the list is wrong: `NFS4ERR_BADXDR`.
    Decode(DecodeError),
}

impl FattrError {
    /// What a server answers.
    #[must_use]
    pub const fn status(&self) -> NfsStatus {
        match self {
            Self::NotSupp(_) => NfsStatus::AttrNotSupp,
            Self::Decode(_) => NfsStatus::BadXdr,
        }
    }
}

impl From<DecodeError> for FattrError {
    fn from(e: DecodeError) -> Self {
        Self::Decode(e)
    }
}

impl std::fmt::Display for FattrError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSupp(num) => write!(f, "attribute {num} is unknown"),
            Self::Decode(e) => write!(f, "attributes: {e}"),
        }
    }
}

impl std::error::Error for FattrError {}

/// Writes a `fattr4` of the attributes that are both in `mask` and present, in ascending order, straight into the
/// reply. Returns which ones.
///
/// # Panics
/// Above 4 GiB of values, which their bounds exclude.
pub fn encode_fattr(e: &mut Encoder, mask: &Bitmap, attrs: &Attrs) -> Bitmap {
    let begin = e.mark();
    let mut present = *mask;
    mask.encode(e);
    let len_at = e.reserve_u32();
    let start = e.len();
    for num in mask.iter() {
        if !attrs.encode_one(num, e) {
            present.remove(num);
        }
    }
    // Which ones stands in front of their values. As a rule all that are asked for are there.
    if present != *mask {
        e.truncate(begin);
        return encode_fattr(e, &present, attrs);
    }
    let len = u32::try_from(e.len() - start).expect("attribute values are bounded");
    e.patch_u32(len_at, len);
    present
}

/// A `fattr4` to encode: see [`encode_fattr`].
#[derive(Debug, Clone, Copy)]
pub struct FattrOf<'a> {
    /// The attributes asked for.
    pub mask: &'a Bitmap,
    /// Their values.
    pub attrs: &'a Attrs,
}

impl Encode for FattrOf<'_> {
    fn encode(&self, e: &mut Encoder) {
        encode_fattr(e, self.mask, self.attrs);
    }
}

/// Decodes the values of a `fattr4`.
///
/// # Errors
/// [`FattrError::NotSupp`] for the first unknown number, unless a value before it is malformed.
/// [`FattrError::Decode`] when a value is malformed or the list's length is not the sum of its values.
pub fn decode_fattr(fattr: &Fattr<'_>) -> Result<Attrs, FattrError> {
    let mut d = Decoder::new(&fattr.values);
    let mut attrs = Attrs::default();
    for num in fattr.mask.iter() {
        if !attrs.decode_one(num, &mut d)? {
            return Err(FattrError::NotSupp(num));
        }
    }
    if d.remaining() != 0 {
        return Err(d.error(DecodeErrorKind::Trailing).into());
    }
    Ok(attrs)
}
