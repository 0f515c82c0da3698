//! Composite types that several operations share (RFC 8881 §3.3), and the bounds of strings.

use xdr::{Opaque, OpaqueBuf};

use crate::{ClientId, FH_BYTES_MAX, NfsTime, OPAQUE_BYTES_MAX, Verifier};

/// Longest name or link text in bytes that a decoder takes. It is above
/// [`crate::NAME_BYTES_MAX`] and [`crate::LINK_BYTES_MAX`], so that a server can answer
/// `NFS4ERR_NAMETOOLONG` where the bytes are well formed.
pub const STRING_BYTES_MAX: u32 = 8192;
/// Longest owner, group or ACE principal (`utf8str_mixed`) in bytes.
pub const OWNER_BYTES_MAX: u32 = 1024;
/// Longest netid in bytes; those of RFC 5665 have at most 7.
pub const NETID_BYTES_MAX: u32 = 16;
/// Longest universal address in bytes: an IPv6 address with a scope and a port (RFC 5665 §5.2.3).
pub const UADDR_BYTES_MAX: u32 = 128;
/// Longest mechanism OID (`sec_oid4`) in bytes.
pub const OID_BYTES_MAX: u32 = 128;
/// Longest RPCSEC_GSS context handle in bytes (RFC 2203 gives no limit; ours are 4 to 16).
pub const GSS_HANDLE_BYTES_MAX: u32 = 1024;
/// Most bytes of one READ or WRITE that a decoder takes. The session's sizes bound it further.
pub const IO_BYTES_MAX: u32 = 16 << 20;

/// A borrowed `component4`, not yet checked as a name.
pub type Name<'a> = Opaque<'a, STRING_BYTES_MAX>;
/// A borrowed `nfs_fh4`.
pub type FhRef<'a> = Opaque<'a, FH_BYTES_MAX>;
/// `fattr4_owner` and the like, as bytes.
pub type Owner = OpaqueBuf<OWNER_BYTES_MAX>;

xdr::xdr_enum! {
    /// Type of a file system object (`nfs_ftype4`).
    pub enum FileType {
        /// Regular file.
        Reg = 1,
        /// Directory.
        Dir = 2,
        /// Block device.
        Blk = 3,
        /// Character device.
        Chr = 4,
        /// Symbolic link.
        Lnk = 5,
        /// Socket.
        Sock = 6,
        /// Named pipe.
        Fifo = 7,
        /// Directory of named attributes.
        AttrDir = 8,
        /// Named attribute.
        NamedAttr = 9,
    }

    /// What a layout allows (`layoutiomode4`).
    pub enum IoMode {
        /// Reading.
        Read = 1,
        /// Reading and writing.
        Rw = 2,
        /// Both, when layouts are returned or recalled.
        Any = 3,
    }

    /// Kind of a byte-range lock (`nfs_lock_type4`).
    pub enum LockType {
        /// `READ_LT`.
        Read = 1,
        /// `WRITE_LT`.
        Write = 2,
        /// `READW_LT`: the client will wait.
        ReadW = 3,
        /// `WRITEW_LT`: the client will wait.
        WriteW = 4,
    }

    /// How stable a write is (`stable_how4`, RFC 8881 §18.32).
    #[derive(Default)]
    pub enum StableHow {
        /// May be lost until a COMMIT.
        #[default]
        Unstable = 0,
        /// Data are on stable storage.
        DataSync = 1,
        /// Data and metadata are.
        FileSync = 2,
    }
}

impl LockType {
    /// Whether the lock excludes other writers and readers.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteW)
    }

    /// Whether the client will wait for the lock.
    #[must_use]
    pub const fn is_blocking(self) -> bool {
        matches!(self, Self::ReadW | Self::WriteW)
    }
}

xdr::xdr_struct! {
    /// `change_info4`: the change attribute of a directory around an operation.
    #[derive(Copy, Default)]
    pub struct ChangeInfo {
        /// Whether `before` and `after` enclose this operation only.
        pub atomic: bool,
        /// Change attribute before.
        pub before: u64,
        /// Change attribute after.
        pub after: u64,
    }

    /// `specdata4`: device numbers.
    #[derive(Copy, Hash, Default)]
    pub struct SpecData {
        /// Major number.
        pub major: u32,
        /// Minor number.
        pub minor: u32,
    }

    /// `nfsace4`: an access control entry (RFC 8881 §6.2.1).
    pub struct Ace {
        /// Allow, deny, audit or alarm.
        pub ace_type: u32,
        /// Inheritance and group flags.
        pub flag: u32,
        /// The permissions.
        pub access_mask: u32,
        /// The principal.
        pub who: Owner,
    }

    /// `netaddr4`, owned: where a data server listens.
    #[derive(Hash)]
    pub struct NetAddr {
        /// `tcp`, `tcp6`, `rdma` or `rdma6`.
        pub netid: OpaqueBuf<NETID_BYTES_MAX>,
        /// Universal address: `192.0.2.1.8.1`.
        pub uaddr: OpaqueBuf<UADDR_BYTES_MAX>,
    }

    /// `client_owner4`.
    #[derive(Copy)]
    pub struct ClientOwner<'a> {
        /// Changes when the client restarts.
        pub verifier: Verifier,
        /// Names the client.
        pub ownerid: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// `server_owner4`.
    #[derive(Copy)]
    pub struct ServerOwner<'a> {
        /// Equal for addresses of one server that may share sessions.
        pub minor_id: u64,
        /// Names the server.
        pub major_id: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// `state_owner4`: an open or lock owner.
    #[derive(Copy)]
    pub struct StateOwner<'a> {
        /// Ignored in NFSv4.1 (RFC 8881 §18.16.3): the session names the client.
        pub clientid: ClientId,
        /// Names the owner within its client.
        pub owner: Opaque<'a, OPAQUE_BYTES_MAX>,
    }

    /// `nfs_impl_id4`: for logs only.
    #[derive(Copy)]
    pub struct ImplId<'a> {
        /// Domain of the maker.
        pub domain: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Product and version.
        pub name: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Date of the build.
        pub date: NfsTime,
    }
}
