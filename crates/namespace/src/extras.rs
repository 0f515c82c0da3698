//! What few inodes have: sums of their extended attributes, a layout policy, an access control list.
//!
//! An inode without any of it stores nothing for it and keeps one empty pointer in memory.

use crate::Acl;
use std::sync::Arc;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr::xdr_struct! {
    /// Extended attributes of one inode, all together.
    #[derive(Copy, Default)]
    pub struct XattrTotals {
        /// How many.
        pub count: u32,
        /// Bytes of their names and values.
        pub bytes: u32,
    }

    /// How new files below a directory are to be cut.
    #[derive(Copy, Default)]
    pub struct LayoutPolicy {
        /// Bytes of a stripe unit; 0 is the server's own choice.
        pub stripe_unit: u32,
        /// Data servers of a file; 0 is all of a placement group.
        pub stripe_count: u32,
    }

    /// The rare attributes.
    #[derive(Default)]
    pub struct Rare {
        /// Extended attributes (RFC 8276).
        pub xattrs: XattrTotals,
        /// The policy for new files; directories only.
        pub layout: Option<LayoutPolicy>,
        /// The access control list, unless the mode says it all.
        pub acl: Option<Acl>,
    }
}

/// [`Rare`] attributes, or none of them. Its stored form is the last part of an inode's, and empty for none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extras(Option<Arc<Rare>>);

impl Extras {
    /// Whether there are none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// What there is.
    #[must_use]
    pub fn rare(&self) -> Option<&Rare> {
        self.0.as_deref()
    }

    /// Changes them.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = self.rare().cloned().unwrap_or_default();
        change(&mut rare);
        self.0 = (rare != Rare::default()).then(|| Arc::new(rare));
    }
}

impl Encode for Extras {
    fn encode(&self, e: &mut Encoder) {
        if let Some(rare) = self.rare() {
            rare.encode(e);
        }
    }
}

impl Decode<'_> for Extras {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        if d.remaining() == 0 {
            return Ok(Self::default());
        }
        Ok(Self(Some(Arc::new(Rare::decode(d)?))))
    }
}
