//! Plain values that go in and out of every call.

use meta::Seq;
use std::any::Any;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// An inode number: never 0, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl FileId {
    /// The root directory.
    pub const ROOT: Self = Self(1);
}

impl Encode for FileId {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.0);
    }
}

impl Decode<'_> for FileId {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u64().map(Self)
    }
}

xdr::xdr_struct! {
    /// Wall time since 1970 (nfstime4, RFC 8881 §3.3.1).
    #[derive(Copy, PartialOrd, Ord, Hash, Default)]
    pub struct Time {
        /// Whole seconds, negative before 1970.
        pub secs: i64,
        /// 0..=999_999_999.
        pub nanos: u32,
    }

    /// Numbers of a block or character device.
    #[derive(Copy, Default)]
    pub struct Device {
        /// Major number.
        pub major: u32,
        /// Minor number.
        pub minor: u32,
    }

    /// Where a file's data go; chosen at its creation, never changed. Opaque to this crate.
    #[derive(Copy)]
    pub struct Placement {
        /// Placement group.
        pub group: u32,
        /// Stripe unit in bytes.
        pub stripe_unit: u32,
        /// First stripe index.
        pub first_index: u32,
    }
}

/// Who asks, after squashing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cred {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups; bounded by whoever decodes the credential.
    pub groups: Vec<u32>,
    /// Passes the permission bits. Not derived from `uid`: a squashed root is not root.
    pub is_root: bool,
}

impl Cred {
    /// The superuser.
    #[must_use]
    pub const fn root() -> Self {
        Self {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            is_root: true,
        }
    }

    /// An ordinary user.
    #[must_use]
    pub const fn user(uid: u32, gid: u32, groups: Vec<u32>) -> Self {
        Self {
            uid,
            gid,
            groups,
            is_root: false,
        }
    }
}

/// One call's circumstances, and what it observed. One value may serve a whole COMPOUND: what was
/// observed accumulates.
pub struct Op<'c> {
    /// Who asks.
    pub cred: &'c Cred,
    /// Wall time of the request.
    pub now: Time,
    observed: Seq,
    keep: Option<&'c Keep<'c>>,
}

/// From what a transaction's call returns to a key and a value that are written in it, not of this crate's own keys. A
/// reply so becomes durable with the effect that it tells of (rule R15).
pub type Keep<'c> = dyn Fn(&dyn Any) -> Option<(Vec<u8>, Vec<u8>)> + Sync + 'c;

impl std::fmt::Debug for Op<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Op")
            .field("cred", &self.cred)
            .field("now", &self.now)
            .field("observed", &self.observed)
            .finish_non_exhaustive()
    }
}

impl<'c> Op<'c> {
    /// Nothing observed yet.
    #[must_use]
    pub const fn new(cred: &'c Cred, now: Time) -> Self {
        Self {
            cred,
            now,
            observed: Seq(0),
            keep: None,
        }
    }

    /// The same, whose transactions that change anything also write what `keep` makes of their result.
    #[must_use]
    pub const fn keeping(self, keep: &'c Keep<'c>) -> Self {
        Self {
            keep: Some(keep),
            ..self
        }
    }

    pub(crate) fn kept(&self, result: &dyn Any) -> Option<(Vec<u8>, Vec<u8>)> {
        self.keep.and_then(|keep| keep(result))
    }

    /// The transaction to wait for before anything of what the calls answered, errors included, leaves
    /// the server (R7).
    #[must_use]
    pub const fn observed(&self) -> Seq {
        self.observed
    }

    /// The caller saw effects of `seq`.
    pub fn observe(&mut self, seq: Seq) {
        self.observed = self.observed.max(seq);
    }
}

/// A directory's change counter around one transaction (change_info4, RFC 8881 §3.3.3); always atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeInfo {
    /// Before the transaction.
    pub before: u64,
    /// After it; equal to `before` when nothing happened.
    pub after: u64,
}
