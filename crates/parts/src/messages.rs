//! The procedures and their messages.

use crate::item::{BLOCK_BYTES, BLOCKS_MAX, Block, FileGeneration, StreamItem};
use crate::open::CHALLENGE_BYTES;
use crate::{PROGRAM, VERSION};
use control::{Answer, Refusal, ReplyError};
use nfs4::NfsTime;
use rpc::{CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, List, OpaqueBuf};

/// Most parts in one answer of [`StreamItem::Parts`].
pub const PARTS_MAX: u32 = 4096;

xdr::xdr_enum! {
    /// Procedure numbers. 0 does nothing, as everywhere.
    pub enum PartsProc {
        /// Does nothing.
        Null = 0,
        /// Says who is called, with a challenge.
        Greet = 1,
        /// Proves the caller and names the stream.
        Open = 2,
        /// One item.
        Pass = 3,
    }
}

xdr::xdr_struct! {
    /// Answer of GREET.
    #[derive(Copy)]
    pub struct GreetOk {
        /// The data server that answers.
        pub ds_id: u32,
        /// Its process.
        pub nonce: u64,
        /// To be covered by the MAC of OPEN on this connection.
        pub challenge: [u8; CHALLENGE_BYTES],
    }

    /// OPEN: from now on the connection carries a stream.
    #[derive(Copy)]
    pub struct StreamOpenArgs {
        /// The data server that calls.
        pub from: u32,
        /// Its process.
        pub from_nonce: u64,
        /// The stream.
        pub stream: u64,
        /// Which key made the MAC.
        pub key_id: u32,
        /// See [`crate::Opening`].
        pub mac: [u8; layout::MAC_BYTES],
    }

    /// Answer of PASS.
    #[derive(Default)]
    pub struct PassOk {
        /// Of [`StreamItem::Sums`]: the size of the part in bytes; 0 when there is none.
        pub size_bytes: u64,
        /// Of [`StreamItem::Sums`]: where the part has data beyond the blocks; the largest number when it has none.
        pub next_data: u64,
        /// Of [`StreamItem::Sums`]: one for each block.
        pub blocks: List<Block, BLOCKS_MAX>,
        /// Of [`StreamItem::Parts`], ascending; fewer than [`PARTS_MAX`] are the last.
        pub parts: List<FileGeneration, PARTS_MAX>,
        /// Of [`StreamItem::Fetch`]: the bytes up to the end of the part; none when this member cannot give them.
        pub data: OpaqueBuf<BLOCK_BYTES>,
        /// Bytes that clients may still have passed on to this member: its free bytes without those that it keeps for what
        /// was let in already (rule P24).
        pub room_bytes: u64,
    }
}

/// PASS: one item of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassArgs<'a> {
    /// The lane.
    pub lane: u32,
    /// The number in the lane, from 0.
    pub number: u64,
    /// The placement group.
    pub group: u32,
    /// The place in it.
    pub place: u32,
    /// The reign of the primary.
    pub reign: u32,
    /// The file.
    pub file: FileGeneration,
    /// When the primary applied it, by its clock.
    pub time: NfsTime,
    /// What is done.
    pub item: StreamItem<'a>,
}

impl PassArgs<'_> {
    fn encode_head(&self, e: &mut Encoder) {
        e.u32(self.lane);
        e.u64(self.number);
        e.u32(self.group);
        e.u32(self.place);
        e.u32(self.reign);
        self.file.encode(e);
        self.time.encode(e);
        self.item.encode_head(e);
    }
}

impl<'a> Decode<'a> for PassArgs<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            lane: d.u32()?,
            number: d.u64()?,
            group: d.u32()?,
            place: d.u32()?,
            reign: d.u32()?,
            file: FileGeneration::decode(d)?,
            time: NfsTime::decode(d)?,
            item: StreamItem::decode(d)?,
        })
    }
}

fn begin(e: &mut Encoder, proc: PartsProc) {
    let start = CallStart {
        xid: 0,
        program: PROGRAM,
        version: VERSION,
        procedure: proc as u32,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    };
    start.encode(e);
}

/// The record of a PASS; the bytes of a WRITE are a payload of their own.
#[must_use]
pub fn encode_pass(args: &PassArgs<'_>) -> Encoder {
    let mut e = Encoder::new();
    begin(&mut e, PartsProc::Pass);
    args.encode_head(&mut e);
    e
}

/// The record of any other call.
#[must_use]
pub fn encode_call(proc: PartsProc, args: &impl Encode) -> Encoder {
    let mut e = Encoder::new();
    begin(&mut e, proc);
    args.encode(&mut e);
    e
}

/// The result in the record of a reply.
///
/// # Errors
/// [`ReplyError`].
pub fn read_answer<T: for<'a> Decode<'a>>(record: &[u8]) -> Result<T, ReplyError> {
    let mut d = Decoder::new(record);
    let header = ReplyHeader::decode(&mut d).map_err(ReplyError::Malformed)?;
    if let ReplyVerdict::Error(verdict) = header.verdict {
        return Err(ReplyError::Verdict(verdict));
    }
    let answer: Answer<T> = xdr::decode_all(d.rest()).map_err(ReplyError::Malformed)?;
    let result: Result<T, Refusal> = answer.into_result();
    result.map_err(ReplyError::Refused)
}
