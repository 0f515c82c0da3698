//! How large a reply may get, for transports where the caller makes room for it (RFC 8267 §6.2).
//!
//! Estimates from above for what servers answer in practice. Some results have no bound in the protocol (ACLs, owners,
//! opaque bodies of layouts). A caller whose estimate was too small hears of it and asks again with more room.

use xdr::{Decode, Decoder};

use crate::attr::{ACL, DACL, SACL};
use crate::{Bitmap, OpNum};

/// Bytes of a reply before its results: the RPC header with a verifier, status, count, tag not counted.
const HEADER_BYTES: u32 = 64;
/// Number and status of a result.
const RESULT_BYTES: u32 = 8;
/// A result without anything of variable length.
const FIXED_BYTES: u32 = 128;
/// Owners and groups by name, and all attributes of fixed length.
const ATTRIBUTES_BYTES: u32 = 1024;
/// An access control list of some hundred entries. (Linux makes room for as much.)
const ACL_BYTES: u32 = 64 * 1024;
/// Attributes that are such lists.
const LISTS: Bitmap = Bitmap::of(&[ACL, DACL, SACL]);
/// A name of somebody, and what is fixed around it.
const NAME_BYTES: u32 = 512;
/// Names of servers, their scope and their implementation.
const SERVER_BYTES: u32 = 4096;
/// A symbolic link's text.
const LINK_BYTES: u32 = 4096;
/// One value of an extended attribute, or a list of their names.
const XATTR_BYTES: u32 = 64 * 1024;

/// Most bytes of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyBytes {
    /// What is not data of READ.
    pub plain: u32,
    /// Data of READ, padding included.
    pub data: u32,
    /// READ operations.
    pub reads: u32,
}

impl ReplyBytes {
    /// A reply without results.
    #[must_use]
    pub fn new(tag: &[u8]) -> Self {
        Self {
            plain: HEADER_BYTES.saturating_add(u32::try_from(tag.len()).unwrap_or(u32::MAX)),
            data: 0,
            reads: 0,
        }
    }

    /// Adds the result of an operation with these encoded arguments.
    pub fn add(&mut self, op: OpNum, args: &[u8]) {
        let word = |at: usize| {
            let bytes = args.get(at..at + 4).and_then(|b| b.try_into().ok());
            bytes.map_or(u32::MAX, u32::from_be_bytes)
        };
        let body = match op {
            OpNum::Read => {
                self.reads += 1;
                let count = word(24);
                self.data =
                    (self.data.saturating_add(count)).saturating_add(count.wrapping_neg() % 4);
                FIXED_BYTES
            }
            OpNum::ReadPlus => word(24).saturating_add(ATTRIBUTES_BYTES),
            OpNum::ReadDir => word(20).saturating_add(FIXED_BYTES),
            OpNum::GetDeviceInfo => word(20).saturating_add(FIXED_BYTES),
            OpNum::LayoutGet => word(52).saturating_add(FIXED_BYTES),
            OpNum::GetDeviceList | OpNum::GetXattr | OpNum::ListXattrs => XATTR_BYTES,
            OpNum::ReadLink => LINK_BYTES,
            OpNum::GetAttr => {
                let asked = Bitmap::decode(&mut Decoder::new(args)).unwrap_or_default();
                let has_lists = !asked.intersection(&LISTS).is_empty();
                ATTRIBUTES_BYTES + if has_lists { ACL_BYTES } else { 0 }
            }
            OpNum::ExchangeId => SERVER_BYTES,
            OpNum::TestStateid => word(0).saturating_mul(4).saturating_add(FIXED_BYTES),
            // An ACE names somebody, and so does the owner of a lock.
            OpNum::Open | OpNum::GetDirDelegation | OpNum::SecInfo | OpNum::SecInfoNoName => {
                NAME_BYTES
            }
            OpNum::Lock | OpNum::LockT => ATTRIBUTES_BYTES + FIXED_BYTES,
            OpNum::GetFh => FIXED_BYTES + 128,
            _ => FIXED_BYTES,
        };
        self.plain = self.plain.saturating_add(RESULT_BYTES).saturating_add(body);
    }
}

#[cfg(test)]
mod tests {
    //! The counts that arguments carry are found where they are.
    use super::*;
    use crate::attr::{MODE, SIZE};
    use crate::ops::{
        GetAttrArgs, GetDeviceInfoArgs, LayoutGetArgs, PutFhArgs, ReadArgs, ReadDirArgs,
    };
    use crate::{CompoundBuilder, DeviceId, IoMode, OpArgs, Stateid, Verifier};
    use xdr::Encoder;

    fn of<A: OpArgs<Num = OpNum>>(args: &A) -> ReplyBytes {
        let mut b = CompoundBuilder::new(Encoder::new(), b"", 2);
        b.push(args);
        b.reply_bytes()
    }

    #[test]
    fn counts_are_read_from_the_arguments() {
        const COUNT: u32 = 77_001;
        let fixed = HEADER_BYTES + RESULT_BYTES + FIXED_BYTES;
        let stateid = Stateid::ANONYMOUS;
        let read = of(&ReadArgs {
            stateid,
            offset: u64::MAX,
            count: COUNT,
        });
        assert_eq!((read.plain, read.data, read.reads), (fixed, COUNT + 3, 1));
        let readdir = of(&ReadDirArgs {
            cookie: u64::MAX,
            cookie_verifier: Verifier { bytes: [9; 8] },
            dircount: 9,
            maxcount: COUNT,
            attr_request: Bitmap::default(),
        });
        let device = of(&GetDeviceInfoArgs {
            device_id: DeviceId { bytes: [9; 16] },
            layout_type: 1,
            maxcount: COUNT,
            notify_types: Bitmap::default(),
        });
        let layout = of(&LayoutGetArgs {
            signal_layout_avail: true,
            layout_type: 1,
            iomode: IoMode::Read,
            offset: u64::MAX,
            length: u64::MAX,
            minlength: u64::MAX,
            stateid,
            maxcount: COUNT,
        });
        for plain in [readdir, device, layout] {
            assert_eq!((plain.plain, plain.data), (fixed + COUNT, 0));
        }
        for (attr, more) in [(ACL, ACL_BYTES), (DACL, ACL_BYTES), (SIZE, 0), (MODE, 0)] {
            let attributes = of(&GetAttrArgs {
                attr_request: Bitmap::of(&[attr]),
            });
            let wanted = fixed - FIXED_BYTES + ATTRIBUTES_BYTES + more;
            assert_eq!((attributes.plain, attributes.data), (wanted, 0), "{attr}");
        }
        let handle = of(&PutFhArgs {
            object: xdr::Opaque(b"x"),
        });
        assert_eq!(handle.plain, fixed);
    }
}
