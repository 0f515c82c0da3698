//! The small types that everything else is made of, and the bounds of what has none in RFC 1813 (§2.4, §2.5).

use xdr::Opaque;

/// Longest file handle in bytes.
pub const NFS3_FHSIZE: u32 = 64;
/// Bytes of the verifier that goes with cookies of READDIR and READDIRPLUS.
pub const NFS3_COOKIEVERFSIZE: usize = 8;
/// Bytes of the verifier of an exclusive CREATE.
pub const NFS3_CREATEVERFSIZE: usize = 8;
/// Bytes of the verifier that WRITE and COMMIT answer.
pub const NFS3_WRITEVERFSIZE: usize = 8;
/// Longest name in bytes that a decoder takes. It is above what file systems take, so that a server can answer
/// `NFS3ERR_NAMETOOLONG` where the bytes are well formed.
pub const NAME_BYTES_MAX: u32 = 1024;
/// Longest text of a symbolic link in bytes that a decoder takes: the longest path of POSIX systems.
pub const PATH_BYTES_MAX: u32 = 4096;
/// Most bytes of one READ or WRITE that a decoder takes. What FSINFO answers bounds it further.
pub const IO_BYTES_MAX: u32 = 16 << 20;

/// A borrowed `nfs_fh3`: opaque to clients.
pub type Handle<'a> = Opaque<'a, NFS3_FHSIZE>;
/// A borrowed `filename3`, not yet checked as a name.
pub type FileName<'a> = Opaque<'a, NAME_BYTES_MAX>;
/// A borrowed `nfspath3`: the text of a symbolic link.
pub type PathText<'a> = Opaque<'a, PATH_BYTES_MAX>;
/// `post_op_fh3`: the handle of a new object, if the server has it at hand.
pub type PostOpFh<'a> = Option<Handle<'a>>;
/// `cookieverf3`: compared only for equality; zeros at the start of a directory.
pub type CookieVerf = [u8; NFS3_COOKIEVERFSIZE];
/// `createverf3`: names one exclusive CREATE.
pub type CreateVerf = [u8; NFS3_CREATEVERFSIZE];
/// `writeverf3`: changes when unstable writes may have been lost.
pub type WriteVerf = [u8; NFS3_WRITEVERFSIZE];

xdr::xdr_struct! {
    /// `nfstime3`: time since 1970-01-01 UTC.
    #[derive(Copy, Hash, PartialOrd, Ord, Default)]
    pub struct NfsTime3 {
        /// Whole seconds.
        pub seconds: u32,
        /// Nanoseconds, below 10^9. A decoder takes any value.
        pub nanoseconds: u32,
    }

    /// `diropargs3`: a name in a directory.
    #[derive(Copy)]
    pub struct DirOpArgs<'a> {
        /// The directory.
        pub dir: Handle<'a>,
        /// The name.
        pub name: FileName<'a>,
    }
}

xdr::xdr_enum! {
    /// How stable a write is (`stable_how`, RFC 1813 §3.3.7).
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
