//! The MOUNT protocol (RFC 1813 §5): how a client gets the handle of an export's root, and lists of mounts and exports.
//!
//! Version 3 is here whole. Of version 1 (RFC 1094 Appendix A) there are the procedures without a handle, which are the
//! same on the wire: old `showmount` and `umount` use them. MNT of version 1 is left out, because its handle has 32 bytes
//! and cannot carry ours.
//!
//! The lists of mounts are for people. No server relies on them (§5.2.2).

use xdr::{Chain, Decode, DecodeError, Decoder, Encode, Encoder, List, Opaque};

use crate::Handle;

/// ONC RPC program number of MOUNT.
pub const PROGRAM: u32 = 100_005;
/// ONC RPC version of MOUNT that goes with NFSv3.
pub const VERSION: u32 = 3;
/// The older version, without MNT.
pub const VERSION_1: u32 = 1;

/// Longest path in bytes.
pub const MNTPATHLEN: u32 = 1024;
/// Longest name of a host or group in bytes.
pub const MNTNAMLEN: u32 = 255;
/// Most flavors of authentication that a decoder takes; there are seven pseudo-flavors with names (RFC 2623 §2.1).
pub const AUTH_FLAVORS_MAX: u32 = 32;
/// Most mounts of one DUMP that a decoder takes.
pub const MOUNTS_MAX: u32 = 1 << 16;
/// Most exports of one EXPORT that a decoder takes.
pub const EXPORTS_MAX: u32 = 4096;
/// Most groups of one export that a decoder takes.
pub const GROUPS_MAX: u32 = 4096;

/// A borrowed `dirpath`.
pub type DirPath<'a> = Opaque<'a, MNTPATHLEN>;
/// A borrowed `name`: of a host, or of a group of hosts.
pub type HostName<'a> = Opaque<'a, MNTNAMLEN>;

xdr::xdr_enum! {
    /// A procedure of MOUNT.
    pub enum Proc {
        /// Does nothing.
        Null = 0,
        /// The handle of an export; version 3 only.
        Mnt = 1,
        /// Lists the mounts, each with its client.
        Dump = 2,
        /// A mount has ended.
        Umnt = 3,
        /// All mounts of the client have ended.
        UmntAll = 4,
        /// What is exported, to whom.
        Export = 5,
    }

    /// Result of MNT (`mountstat3`).
    pub enum MountStatus {
        /// `MNT3_OK`.
        Ok = 0,
        /// `MNT3ERR_PERM`.
        Perm = 1,
        /// `MNT3ERR_NOENT`.
        NoEnt = 2,
        /// `MNT3ERR_IO`.
        Io = 5,
        /// `MNT3ERR_ACCES`.
        Access = 13,
        /// `MNT3ERR_NOTDIR`.
        NotDir = 20,
        /// `MNT3ERR_INVAL`.
        Inval = 22,
        /// `MNT3ERR_NAMETOOLONG`.
        NameTooLong = 63,
        /// `MNT3ERR_NOTSUPP`.
        NotSupp = 10004,
        /// `MNT3ERR_SERVERFAULT`.
        ServerFault = 10006,
    }
}

impl Proc {
    /// Whether `version` has the procedure as far as it is spoken here.
    #[must_use]
    pub const fn is_in(self, version: u32) -> bool {
        match version {
            VERSION => true,
            VERSION_1 => !matches!(self, Self::Mnt),
            _ => false,
        }
    }

    /// The RFC's name, `UMNTALL`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Mnt => "MNT",
            Self::Dump => "DUMP",
            Self::Umnt => "UMNT",
            Self::UmntAll => "UMNTALL",
            Self::Export => "EXPORT",
        }
    }
}

impl std::fmt::Display for Proc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl MountStatus {
    /// The RFC's name, `MNT3ERR_NOENT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "MNT3_OK",
            Self::Perm => "MNT3ERR_PERM",
            Self::NoEnt => "MNT3ERR_NOENT",
            Self::Io => "MNT3ERR_IO",
            Self::Access => "MNT3ERR_ACCES",
            Self::NotDir => "MNT3ERR_NOTDIR",
            Self::Inval => "MNT3ERR_INVAL",
            Self::NameTooLong => "MNT3ERR_NAMETOOLONG",
            Self::NotSupp => "MNT3ERR_NOTSUPP",
            Self::ServerFault => "MNT3ERR_SERVERFAULT",
        }
    }
}

impl std::fmt::Display for MountStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for MountStatus {}

xdr::xdr_struct! {
    /// Arguments of MNT.
    #[derive(Copy)]
    pub struct MntArgs<'a> {
        /// The path of an export, or below one.
        pub dirpath: DirPath<'a>,
    }

    /// Success of MNT.
    pub struct MntOk<'a> {
        /// The directory.
        pub fhandle: Handle<'a>,
        /// Flavors that the server takes, the preferred one first.
        pub auth_flavors: List<u32, AUTH_FLAVORS_MAX>,
    }

    /// Arguments of UMNT; it has no result.
    #[derive(Copy)]
    pub struct UmntArgs<'a> {
        /// As in MNT.
        pub dirpath: DirPath<'a>,
    }

    /// `mountbody`: a mount that somebody has made.
    #[derive(Copy)]
    pub struct MountEntry<'a> {
        /// The client.
        pub hostname: HostName<'a>,
        /// What it has mounted.
        pub directory: DirPath<'a>,
    }

    /// `exportnode`: an export.
    pub struct ExportEntry<'a> {
        /// Its path.
        pub dir: DirPath<'a>,
        /// Who may mount it; nobody is everybody.
        pub groups: Chain<HostName<'a>, GROUPS_MAX>,
    }
}

/// Result of DUMP.
pub type DumpRes<'a> = Chain<MountEntry<'a>, MOUNTS_MAX>;
/// Result of EXPORT.
pub type ExportRes<'a> = Chain<ExportEntry<'a>, EXPORTS_MAX>;

/// Result of MNT (`mountres3`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MntRes<'a> {
    /// `MNT3_OK`.
    Ok(MntOk<'a>),
    /// Any other status.
    Fail(MountStatus),
}

impl<'a> Decode<'a> for MntRes<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        match MountStatus::decode(d)? {
            MountStatus::Ok => MntOk::decode(d).map(Self::Ok),
            status => Ok(Self::Fail(status)),
        }
    }
}

impl Encode for MntRes<'_> {
    /// # Panics
    /// For a failure with the status of a success, which would be read with a body.
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok(ok) => {
                MountStatus::Ok.encode(e);
                ok.encode(e);
            }
            Self::Fail(status) => {
                let is_failure = *status != MountStatus::Ok;
                assert!(is_failure, "a failure has another status than MNT3_OK");
                status.encode(e);
            }
        }
    }
}
