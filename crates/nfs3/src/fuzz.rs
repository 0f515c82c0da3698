//! Bodies of the fuzz targets. They live here so that an ordinary test replays the corpus and generated samples; the
//! `fuzz` package at the root only calls them.
//!
//! Each takes bytes of a peer and must neither panic nor allocate beyond a small multiple of its input. What decodes
//! must also encode, in as many bytes, and decode to the same value again; a panic here is a finding.

use xdr::{Decode, Decoder, Encode, Encoder};

use crate::mount::{self, DumpRes, ExportRes, MntArgs, MntRes, UmntArgs};
use crate::{Proc, procs::*};

/// What the first word of an input chooses: a word, so that what follows stays aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// A procedure of NFSv3.
    Nfs(Proc),
    /// A procedure of MOUNT.
    Mount(mount::Proc),
}

impl Choice {
    /// Every choice, in the order of the first word.
    pub fn all() -> impl Iterator<Item = Self> {
        let nfs = Proc::ALL.iter().copied().map(Self::Nfs);
        nfs.chain(mount::Proc::ALL.iter().copied().map(Self::Mount))
    }

    /// The choice of an input, and what follows its word.
    fn of(data: &[u8]) -> Option<(Self, &[u8])> {
        let mut d = Decoder::new(data);
        let selector = usize::try_from(d.u32().ok()?).ok()?;
        let count = Self::all().count();
        Some((Self::all().nth(selector % count)?, d.rest()))
    }

    /// An input that chooses this, with `message` after its word.
    ///
    /// # Panics
    /// Never: there are few choices.
    #[must_use]
    pub fn input(self, message: &impl Encode) -> Vec<u8> {
        let at = Self::all().position(|choice| choice == self);
        let mut e = Encoder::new();
        e.count(at.expect("all has it"));
        message.encode(&mut e);
        e.into_bytes()
    }
}

/// Sends a value that decodes through a round trip. A macro, because input and copy have different lifetimes.
macro_rules! round_trip {
    ($ty:ty, $bytes:expr) => {{
        let mut d = Decoder::new($bytes);
        if let Ok(value) = <$ty>::decode(&mut d) {
            let encoded = xdr::encode_to_vec(&value);
            assert_eq!(encoded.len(), d.position(), "another length: {value:?}");
            // Padding is not checked, so bytes may differ; values may not.
            let again: $ty = xdr::decode_all(&encoded).expect("what was encoded decodes");
            assert_eq!(again, value, "a round trip changed a value");
        }
    }};
}

/// Arguments of any procedure, as a server reads them: the first word chooses which.
///
/// # Panics
/// When a round trip changes them: a bug of the codec.
pub fn args(data: &[u8]) {
    let Some((choice, bytes)) = Choice::of(data) else {
        return;
    };
    match choice {
        Choice::Nfs(proc) => nfs_args(proc, bytes),
        Choice::Mount(mount::Proc::Mnt) => round_trip!(MntArgs<'_>, bytes),
        Choice::Mount(mount::Proc::Umnt) => round_trip!(UmntArgs<'_>, bytes),
        Choice::Mount(_) => {}
    }
}

/// Result of any procedure, as a client reads it: the first word chooses which.
///
/// # Panics
/// When a round trip changes it: a bug of the codec.
pub fn results(data: &[u8]) {
    let Some((choice, bytes)) = Choice::of(data) else {
        return;
    };
    match choice {
        Choice::Nfs(proc) => nfs_result(proc, bytes),
        Choice::Mount(mount::Proc::Mnt) => round_trip!(MntRes<'_>, bytes),
        Choice::Mount(mount::Proc::Dump) => round_trip!(DumpRes<'_>, bytes),
        Choice::Mount(mount::Proc::Export) => round_trip!(ExportRes<'_>, bytes),
        Choice::Mount(_) => {}
    }
}

fn nfs_args(proc: Proc, bytes: &[u8]) {
    match proc {
        Proc::Null => {}
        Proc::GetAttr => round_trip!(GetAttrArgs<'_>, bytes),
        Proc::SetAttr => round_trip!(SetAttrArgs<'_>, bytes),
        Proc::Lookup => round_trip!(LookupArgs<'_>, bytes),
        Proc::Access => round_trip!(AccessArgs<'_>, bytes),
        Proc::ReadLink => round_trip!(ReadLinkArgs<'_>, bytes),
        Proc::Read => round_trip!(ReadArgs<'_>, bytes),
        Proc::Write => round_trip!(WriteArgs<'_>, bytes),
        Proc::Create => round_trip!(CreateArgs<'_>, bytes),
        Proc::MkDir => round_trip!(MkDirArgs<'_>, bytes),
        Proc::Symlink => round_trip!(SymlinkArgs<'_>, bytes),
        Proc::MkNod => round_trip!(MkNodArgs<'_>, bytes),
        Proc::Remove => round_trip!(RemoveArgs<'_>, bytes),
        Proc::RmDir => round_trip!(RmDirArgs<'_>, bytes),
        Proc::Rename => round_trip!(RenameArgs<'_>, bytes),
        Proc::Link => round_trip!(LinkArgs<'_>, bytes),
        Proc::ReadDir => round_trip!(ReadDirArgs<'_>, bytes),
        Proc::ReadDirPlus => round_trip!(ReadDirPlusArgs<'_>, bytes),
        Proc::FsStat => round_trip!(FsStatArgs<'_>, bytes),
        Proc::FsInfo => round_trip!(FsInfoArgs<'_>, bytes),
        Proc::PathConf => round_trip!(PathConfArgs<'_>, bytes),
        Proc::Commit => round_trip!(CommitArgs<'_>, bytes),
    }
}

fn nfs_result(proc: Proc, bytes: &[u8]) {
    match proc {
        Proc::Null => {}
        Proc::GetAttr => round_trip!(GetAttrRes, bytes),
        Proc::SetAttr => round_trip!(SetAttrRes, bytes),
        Proc::Lookup => round_trip!(LookupRes<'_>, bytes),
        Proc::Access => round_trip!(AccessRes, bytes),
        Proc::ReadLink => round_trip!(ReadLinkRes<'_>, bytes),
        Proc::Read => round_trip!(ReadRes<'_>, bytes),
        Proc::Write => round_trip!(WriteRes, bytes),
        Proc::Create => round_trip!(CreateRes<'_>, bytes),
        Proc::MkDir => round_trip!(MkDirRes<'_>, bytes),
        Proc::Symlink => round_trip!(SymlinkRes<'_>, bytes),
        Proc::MkNod => round_trip!(MkNodRes<'_>, bytes),
        Proc::Remove => round_trip!(RemoveRes, bytes),
        Proc::RmDir => round_trip!(RmDirRes, bytes),
        Proc::Rename => round_trip!(RenameRes, bytes),
        Proc::Link => round_trip!(LinkRes, bytes),
        Proc::ReadDir => round_trip!(ReadDirRes<'_>, bytes),
        Proc::ReadDirPlus => round_trip!(ReadDirPlusRes<'_>, bytes),
        Proc::FsStat => round_trip!(FsStatRes, bytes),
        Proc::FsInfo => round_trip!(FsInfoRes, bytes),
        Proc::PathConf => round_trip!(PathConfRes, bytes),
        Proc::Commit => round_trip!(CommitRes, bytes),
    }
}
