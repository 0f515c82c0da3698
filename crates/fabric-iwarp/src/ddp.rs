//! DDP: the headers that say where a segment goes (RFC 5041 §4).

use crate::term::Term;

/// Octets of a tagged header, control fields included.
pub const TAGGED_BYTES: usize = 14;
/// Octets of an untagged header, control fields included.
pub const UNTAGGED_BYTES: usize = 18;
/// Queue of Sends (RFC 5040 §5.3).
pub const QUEUE_SEND: u32 = 0;
/// Queue of Read Requests (RFC 5040 §5.2.1).
pub const QUEUE_READ_REQUEST: u32 = 1;
/// Queue of Terminate messages (RFC 5040 §5.4).
pub const QUEUE_TERMINATE: u32 = 2;

const FLAG_TAGGED: u8 = 0x80;
const FLAG_LAST: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;
const VERSION: u8 = 1;

/// Where the payload of a segment goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Into advertised memory.
    Tagged {
        /// Its steering tag.
        stag: u32,
        /// Tagged offset.
        to: u64,
    },
    /// Into a buffer that the receiver queued.
    Untagged {
        /// Invalidate STag of the RDMAP message, else zero.
        invalidate: u32,
        /// Queue number.
        queue: u32,
        /// Message sequence number, from 1.
        msn: u32,
        /// Message offset.
        mo: u32,
    },
}

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The last segment of its message.
    pub last: bool,
    /// The octet that belongs to RDMAP: version and opcode.
    pub control: u8,
    /// Where it goes.
    pub place: Place,
}

impl SegmentHeader {
    /// Octets of a header that begins with this octet.
    #[must_use]
    pub const fn bytes_of(first: u8) -> usize {
        if first & FLAG_TAGGED != 0 {
            TAGGED_BYTES
        } else {
            UNTAGGED_BYTES
        }
    }

    /// Reads a header from the beginning of `bytes`; `None` when it is cut off.
    ///
    /// # Errors
    /// What to terminate with: another version.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Term> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        let tagged = first & FLAG_TAGGED != 0;
        if first & VERSION_MASK != VERSION {
            return Err(if tagged {
                Term::TAGGED_VERSION
            } else {
                Term::UNTAGGED_VERSION
            });
        }
        let len = Self::bytes_of(first);
        let Some(bytes) = bytes.get(..len) else {
            return Ok(None);
        };
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let place = if tagged {
            Place::Tagged {
                stag: word(2),
                to: u64::from(word(6)) << 32 | u64::from(word(10)),
            }
        } else {
            Place::Untagged {
                invalidate: word(2),
                queue: word(6),
                msn: word(10),
                mo: word(14),
            }
        };
        let header = Self {
            last: first & FLAG_LAST != 0,
            control: bytes[1],
            place,
        };
        Ok(Some((header, len)))
    }

    /// Octets of this header.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        match self.place {
            Place::Tagged { .. } => TAGGED_BYTES,
            Place::Untagged { .. } => UNTAGGED_BYTES,
        }
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut impl bytes::BufMut) {
        let last = if self.last { FLAG_LAST } else { 0 };
        match self.place {
            Place::Tagged { stag, to } => {
                out.put_u8(FLAG_TAGGED | last | VERSION);
                out.put_u8(self.control);
                out.put_u32(stag);
                out.put_u64(to);
            }
            Place::Untagged {
                invalidate,
                queue,
                msn,
                mo,
            } => {
                out.put_u8(last | VERSION);
                out.put_u8(self.control);
                out.put_u32(invalidate);
                out.put_u32(queue);
                out.put_u32(msn);
                out.put_u32(mo);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! The bytes of RFC 5041 §4 and what is cut off or of another version.
    use super::*;

    /// Headers and their octets.
    fn examples() -> [(SegmentHeader, &'static str); 3] {
        [
            (
                SegmentHeader {
                    last: true,
                    control: 0x43,
                    place: Place::Untagged {
                        invalidate: 0,
                        queue: 0,
                        msn: 1,
                        mo: 0,
                    },
                },
                "414300000000000000000000000100000000",
            ),
            (
                SegmentHeader {
                    last: false,
                    control: 0x41,
                    place: Place::Untagged {
                        invalidate: 0x0102_0304,
                        queue: 1,
                        msn: 0xffff_ffff,
                        mo: 0x0a0b_0c0d,
                    },
                },
                "01410102030400000001ffffffff0a0b0c0d",
            ),
            (
                SegmentHeader {
                    last: true,
                    control: 0x40,
                    place: Place::Tagged {
                        stag: 0xdead_beef,
                        to: 0x0102_0304_0506_0708,
                    },
                },
                "c140deadbeef0102030405060708",
            ),
        ]
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2)
            .map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
            .collect()
    }

    #[test]
    fn headers_have_the_octets_of_the_rfc_and_cut_ones_wait() {
        for (header, hex) in examples() {
            let expected = bytes(hex);
            let mut out = Vec::new();
            header.encode(&mut out);
            assert_eq!(out, expected);
            assert_eq!(header.len_bytes(), out.len());
            for cut in 0..out.len() {
                assert_eq!(SegmentHeader::decode(&out[..cut]), Ok(None));
            }
            out.push(0xff);
            assert_eq!(
                SegmentHeader::decode(&out),
                Ok(Some((header, expected.len())))
            );
        }
    }

    #[test]
    fn other_versions_are_refused_as_tagged_or_untagged() {
        for version in [0, 2, 3] {
            assert_eq!(
                SegmentHeader::decode(&[0xc0 | version]),
                Err(Term::TAGGED_VERSION)
            );
            assert_eq!(
                SegmentHeader::decode(&[0x40 | version]),
                Err(Term::UNTAGGED_VERSION)
            );
        }
        // The reserved bits are not looked at (RFC 5041 §4.1).
        assert!(
            SegmentHeader::decode(&[0x7d; UNTAGGED_BYTES])
                .unwrap()
                .is_some()
        );
    }
}
