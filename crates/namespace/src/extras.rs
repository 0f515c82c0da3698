//! What few inodes have: sums of their extended attributes, a layout policy, an access control list, marks.
//!
//! An inode without any of it stores nothing for it and keeps one empty pointer in memory.

use crate::{Acl, FileId, Time};
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

    /// The stored form of a layout policy, apart from what came later.
    #[derive(Copy)]
    struct Stripes {
        stripe_unit: u32,
        stripe_count: u32,
    }

    /// What people and their backups note on a file, and this server only keeps (RFC 8881 §5.8.2).
    #[derive(Copy, Default)]
    pub struct Marks {
        /// Hidden as Windows understands it.
        pub hidden: bool,
        /// A system file as Windows understands it.
        pub system: bool,
        /// The modification time that the file had when somebody said that it is archived. With another one it is so no more.
        pub archived: Option<Time>,
        /// When it was backed up last; 1970 when nobody said so.
        pub backup: Time,
    }
}

xdr::xdr_struct! {
    /// By which file and generation data servers know the data of a file that has been given other objects.
    #[derive(Copy)]
    pub struct DataName {
        /// A number that no inode has.
        pub file: FileId,
        /// The generation under it.
        pub generation: u32,
    }
}

/// What an inode of a foreign tree has: a tree whose files lie on NFSv3 servers of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForeignTree {
    /// Bit m: mirror m of the file does not count, since a write has failed there.
    pub bad_mirrors: u32,
    /// The objects of all mirrors that count were made: one that is missing is lost. False says nothing.
    pub has_objects: bool,
}

/// Stored last where all objects were made, and nothing otherwise.
const HAS_OBJECTS: u32 = 1;

/// Stored for objects under the file's own name, when more follows: no file has the number 0.
const OWN_NAME: DataName = DataName {
    file: FileId(0),
    generation: 0,
};

/// Stored for a policy that says nothing of inline files, when more follows.
const INLINE_MAX_UNSET: u32 = u32::MAX;

/// How new files below a directory are to be cut. An inline file keeps that of its directory until it has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayoutPolicy {
    /// Bytes of a stripe unit; 0 is the server's own choice.
    pub stripe_unit: u32,
    /// Data servers of a file; 0 is all of a placement group.
    pub stripe_count: u32,
    /// Largest inline file in bytes, 0 for none; `None` is the server's own choice.
    pub inline_max_bytes: Option<u32>,
    /// Copies of a file at data servers; 0 is the server's own choice.
    pub copies: u32,
}

/// The rare attributes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rare {
    /// Extended attributes (RFC 8276).
    pub xattrs: XattrTotals,
    /// The policy for new files of a directory, or that by which an inline file is placed.
    pub layout: Option<LayoutPolicy>,
    /// The access control list, unless the mode says it all.
    pub acl: Option<Acl>,
    /// Marks. Stored after the others, and only where there are any: a file without them is stored as before there were any.
    pub marks: Marks,
    /// The name of its objects, unless that is its own.
    pub data: Option<DataName>,
    /// It belongs to a foreign tree. Stored last.
    pub foreign: Option<ForeignTree>,
}

impl Encode for Rare {
    fn encode(&self, e: &mut Encoder) {
        self.xattrs.encode(e);
        let stripes = |policy: LayoutPolicy| Stripes {
            stripe_unit: policy.stripe_unit,
            stripe_count: policy.stripe_count,
        };
        self.layout.map(stripes).encode(e);
        self.acl.encode(e);
        let inline_max_bytes = self.layout.and_then(|policy| policy.inline_max_bytes);
        let copies = self.layout.map_or(0, |policy| policy.copies);
        let is_named = self.data.is_some() || self.foreign.is_some();
        let has_more = inline_max_bytes.is_some() || copies > 0 || is_named;
        if self.marks != Marks::default() || has_more {
            self.marks.encode(e);
        }
        if has_more {
            e.u32(inline_max_bytes.unwrap_or(INLINE_MAX_UNSET));
        }
        if copies > 0 || is_named {
            e.u32(copies);
        }
        if is_named {
            self.data.unwrap_or(OWN_NAME).encode(e);
        }
        if let Some(foreign) = &self.foreign {
            e.u32(foreign.bad_mirrors);
            if foreign.has_objects {
                e.u32(HAS_OBJECTS);
            }
        }
    }
}

impl Decode<'_> for Rare {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let xattrs = Decode::decode(d)?;
        let stripes: Option<Stripes> = Decode::decode(d)?;
        let acl = Decode::decode(d)?;
        let marks = match d.remaining() {
            0 => Marks::default(),
            _ => Decode::decode(d)?,
        };
        let inline_max_bytes = match d.remaining() {
            0 => None,
            _ => Some(d.u32()?).filter(|bytes| *bytes != INLINE_MAX_UNSET),
        };
        let copies = match d.remaining() {
            0 => 0,
            _ => d.u32()?,
        };
        let data = match d.remaining() {
            0 => None,
            _ => Some(Decode::decode(d)?).filter(|data| *data != OWN_NAME),
        };
        let foreign = match d.remaining() {
            0 => None,
            _ => Some(decode_foreign(d)?),
        };
        let policy = |stripes: Stripes| LayoutPolicy {
            stripe_unit: stripes.stripe_unit,
            stripe_count: stripes.stripe_count,
            inline_max_bytes,
            copies,
        };
        Ok(Self {
            xattrs,
            layout: stripes.map(policy),
            acl,
            marks,
            data,
            foreign,
        })
    }
}

fn decode_foreign(d: &mut Decoder<'_>) -> Result<ForeignTree, DecodeError> {
    let bad_mirrors = d.u32()?;
    // An earlier program, which stores nothing here, did not note it.
    let has_objects = d.remaining() > 0 && d.u32()? == HAS_OBJECTS;
    Ok(ForeignTree {
        bad_mirrors,
        has_objects,
    })
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
