//! Values of attributes that are more than a number, and the constants that go with them. They are in RFC 8881 §5, §6,
//! RFC 7862 §12.2 and RFC 8275 §5.

use xdr::{List, OpaqueBuf};

use crate::{Ace, Bitmap, NfsTime, STRING_BYTES_MAX};

/// Most entries of an access control list that a decoder takes.
pub const ACES_MAX: u32 = 256;
/// Most layout types of a file system or file.
pub const LAYOUT_TYPES_MAX: u32 = 16;
/// Most components of a path in `fs_locations`.
pub const PATH_COMPONENTS_MAX: u32 = 64;
/// Most locations of a file system.
pub const LOCATIONS_MAX: u32 = 64;
/// Most servers of a location.
pub const LOCATION_SERVERS_MAX: u32 = 64;
/// Longest server name in bytes in `fs_locations` (a DNS name has at most 255).
pub const SERVER_NAME_BYTES_MAX: u32 = 1024;
/// Longest layout hint in bytes.
pub const LAYOUT_HINT_BYTES_MAX: u32 = 1024;
/// Longest list of hints of a threshold in bytes: four 64-bit values are defined.
pub const HINTLIST_BYTES_MAX: u32 = 256;

/// ACE that allows (`ACE4_ACCESS_ALLOWED_ACE_TYPE`).
pub const ACE_TYPE_ALLOW: u32 = 0;
/// ACE that denies.
pub const ACE_TYPE_DENY: u32 = 1;
/// ACE that logs.
pub const ACE_TYPE_AUDIT: u32 = 2;
/// ACE that alarms.
pub const ACE_TYPE_ALARM: u32 = 3;

/// Inherited by files.
pub const ACE_FILE_INHERIT: u32 = 0x1;
/// Inherited by directories.
pub const ACE_DIRECTORY_INHERIT: u32 = 0x2;
/// Inherited once only.
pub const ACE_NO_PROPAGATE_INHERIT: u32 = 0x4;
/// Not for the directory itself.
pub const ACE_INHERIT_ONLY: u32 = 0x8;
/// Log or alarm on success.
pub const ACE_SUCCESSFUL_ACCESS: u32 = 0x10;
/// Log or alarm on failure.
pub const ACE_FAILED_ACCESS: u32 = 0x20;
/// The principal is a group.
pub const ACE_IDENTIFIER_GROUP: u32 = 0x40;
/// The entry was inherited.
pub const ACE_INHERITED: u32 = 0x80;

/// Read data or list a directory.
pub const ACE_READ_DATA: u32 = 0x1;
/// Write data or add a file.
pub const ACE_WRITE_DATA: u32 = 0x2;
/// Append data or add a directory.
pub const ACE_APPEND_DATA: u32 = 0x4;
/// Read named attributes.
pub const ACE_READ_NAMED_ATTRS: u32 = 0x8;
/// Write named attributes.
pub const ACE_WRITE_NAMED_ATTRS: u32 = 0x10;
/// Execute or traverse.
pub const ACE_EXECUTE: u32 = 0x20;
/// Remove any entry of a directory.
pub const ACE_DELETE_CHILD: u32 = 0x40;
/// Read attributes.
pub const ACE_READ_ATTRIBUTES: u32 = 0x80;
/// Write attributes.
pub const ACE_WRITE_ATTRIBUTES: u32 = 0x100;
/// Write the retention.
pub const ACE_WRITE_RETENTION: u32 = 0x200;
/// Write the retention hold.
pub const ACE_WRITE_RETENTION_HOLD: u32 = 0x400;
/// Remove the object.
pub const ACE_DELETE: u32 = 0x1_0000;
/// Read the ACL.
pub const ACE_READ_ACL: u32 = 0x2_0000;
/// Write the ACL.
pub const ACE_WRITE_ACL: u32 = 0x4_0000;
/// Change the owner.
pub const ACE_WRITE_OWNER: u32 = 0x8_0000;
/// Use locally with synchronous I/O.
pub const ACE_SYNCHRONIZE: u32 = 0x10_0000;

/// Handles never expire (`FH4_PERSISTENT`).
pub const FH_PERSISTENT: u32 = 0;
/// Names may hold bytes that are not UTF-8 (`FSCHARSET_CAP4_CONTAINS_NON_UTF8`).
pub const CHARSET_CONTAINS_NON_UTF8: u32 = 1;
/// Only UTF-8 names are taken (`FSCHARSET_CAP4_ALLOWS_ONLY_UTF8`).
pub const CHARSET_ALLOWS_ONLY_UTF8: u32 = 2;

/// `thi_hintset` bit: files below this size are read through the MDS.
pub const TH_READ_SIZE: u32 = 0;
/// `thi_hintset` bit: files below this size are written through the MDS.
pub const TH_WRITE_SIZE: u32 = 1;
/// `thi_hintset` bit: reads below this size go to the MDS.
pub const TH_READ_IOSIZE: u32 = 2;
/// `thi_hintset` bit: writes below this size go to the MDS.
pub const TH_WRITE_IOSIZE: u32 = 3;

/// A server name of `fs_locations`.
pub type ServerName = OpaqueBuf<SERVER_NAME_BYTES_MAX>;
/// A path by its components.
pub type PathName = List<OpaqueBuf<STRING_BYTES_MAX>, PATH_COMPONENTS_MAX>;
/// A MIME type.
pub type MimeType = OpaqueBuf<STRING_BYTES_MAX>;

xdr::xdr_union! {
    /// `settime4`: how to set a time.
    #[derive(Copy)]
    pub union SetTime {
        /// To the server's clock.
        Server = 0,
        /// To this time.
        Client(time: NfsTime) = 1,
    }
}

xdr::xdr_enum! {
    /// `change_attr_type4` (RFC 7862 §12.2.3).
    pub enum ChangeAttrType {
        /// Only rises.
        MonotonicIncr = 0,
        /// Rises by one with each change.
        VersionCounter = 1,
        /// Rises by one with each change, but not while layouts are out.
        VersionCounterNoPnfs = 2,
        /// Is the time of the last change of metadata.
        TimeMetadata = 3,
        /// Only differs.
        Undefined = 4,
    }
}

xdr::xdr_struct! {
    /// `nfsacl41`.
    pub struct Acl {
        /// `ACL4_AUTO_INHERIT` and the like.
        pub flag: u32,
        /// The entries.
        pub aces: List<Ace, ACES_MAX>,
    }

    /// `change_policy4`.
    #[derive(Copy)]
    pub struct ChangePolicy {
        /// First half.
        pub major: u64,
        /// Second half.
        pub minor: u64,
    }

    /// `fs_location4`.
    pub struct FsLocation {
        /// Names or addresses.
        pub servers: List<ServerName, LOCATION_SERVERS_MAX>,
        /// Path at those servers.
        pub rootpath: PathName,
    }

    /// `fs_locations4`.
    pub struct FsLocations {
        /// Path at this server.
        pub fs_root: PathName,
        /// Where else.
        pub locations: List<FsLocation, LOCATIONS_MAX>,
    }

    /// `layouthint4`.
    pub struct LayoutHint {
        /// Layout type.
        pub layout_type: u32,
        /// Meaning depends on the type.
        pub body: OpaqueBuf<LAYOUT_HINT_BYTES_MAX>,
    }

    /// `mode_masked4`.
    #[derive(Copy)]
    pub struct ModeMasked {
        /// Values of the bits in `mask`.
        pub value: u32,
        /// Bits to change.
        pub mask: u32,
    }

    /// `mode_umask4` (RFC 8275 §5).
    #[derive(Copy)]
    pub struct ModeUmask {
        /// Mode that the application asked for.
        pub mode: u32,
        /// Its umask, to apply unless the directory has a default ACL.
        pub umask: u32,
    }

    /// `open_arguments4` (RFC 9754 §3): the flags and choices of OPEN that a server knows, each a set of bit numbers.
    pub struct OpenArguments {
        /// `OPEN_ARGS_SHARE_ACCESS_*`.
        pub share_access: Bitmap,
        /// `OPEN_ARGS_SHARE_DENY_*`.
        pub share_deny: Bitmap,
        /// `OPEN_ARGS_SHARE_ACCESS_WANT_*`.
        pub share_access_want: Bitmap,
        /// Discriminants of `open_claim4`.
        pub open_claim: Bitmap,
        /// Discriminants of `createhow4`.
        pub create_mode: Bitmap,
    }

    /// `threshold_item4`: the thresholds of one layout type.
    pub struct ThresholdItem {
        /// Layout type.
        pub layout_type: u32,
        /// Which values `hints` holds: `TH_*` bits.
        pub hintset: Bitmap,
        /// The values, 64-bit each, in ascending order of their bits.
        pub hints: OpaqueBuf<HINTLIST_BYTES_MAX>,
    }

    /// `mdsthreshold4` (RFC 8881 §5.12.4).
    pub struct MdsThreshold {
        /// One item for each layout type.
        pub items: List<ThresholdItem, LAYOUT_TYPES_MAX>,
    }
}
