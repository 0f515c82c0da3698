//! Machines with what they need, bytes moved between them, and frames made by hand.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "a rig may panic")]

use bytes::Bytes;
use fabric::{Completion, EndpointConfig, Memory, Pool, PoolConfig, Remote, Work};
use ropewalk_fabric_iwarp::ddp::SegmentHeader;
use ropewalk_fabric_iwarp::machine::{Machine, Outgoing, Start};
use ropewalk_fabric_iwarp::mpa::{self, Agreed, Rtr};
use ropewalk_fabric_iwarp::rdmap::Terminate;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;

/// Seeded numbers.
pub(crate) struct Roll(u64);

impl Roll {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    /// The same bytes in pieces.
    pub(crate) fn pieces(&mut self, bytes: &[u8]) -> Vec<Bytes> {
        let mut rest = Bytes::copy_from_slice(bytes);
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let len = 1 + self.below(rest.len().min(5000));
            pieces.push(rest.split_to(len));
        }
        pieces
    }
}

pub(crate) fn pool() -> Pool {
    Pool::new(PoolConfig {
        buffer_bytes: 64 * 1024,
        slab_bytes: 1 << 20,
        bytes_max: 32 << 20,
        free_bytes_max: usize::MAX,
    })
}

/// Bytes that tell where they belong.
pub(crate) fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let byte =
        |n: usize| n.to_le_bytes()[0].wrapping_mul(31) ^ n.to_le_bytes()[1] ^ seed.to_le_bytes()[0];
    (0..len).map(byte).collect()
}

pub(crate) fn agreed(depth: u16, crc: bool, rtr: Rtr) -> Agreed {
    Agreed {
        ird: depth,
        ord: depth,
        crc,
        rtr,
    }
}

pub(crate) fn start(
    config: EndpointConfig,
    agreed: Agreed,
    is_initiator: bool,
    mulpdu: usize,
) -> Start {
    Start {
        config,
        agreed,
        is_initiator,
        mulpdu,
        seed: if is_initiator { 1 } else { 2 },
    }
}

/// One end.
pub(crate) struct Party {
    pub(crate) machine: Machine,
    pub(crate) pool: Pool,
}

/// Initiator and responder.
pub(crate) fn pair(mulpdu: usize, agreed: Agreed) -> (Party, Party) {
    pair_with(EndpointConfig::default(), mulpdu, agreed)
}

pub(crate) fn pair_with(config: EndpointConfig, mulpdu: usize, agreed: Agreed) -> (Party, Party) {
    let party = |is_initiator| Party {
        machine: Machine::new(start(config, agreed, is_initiator, mulpdu)),
        pool: pool(),
    };
    (party(true), party(false))
}

impl Party {
    pub(crate) fn post(&mut self, id: u32, work: Work) {
        assert!(self.machine.post(id.into(), work, true).is_ok());
    }

    pub(crate) fn post_receive(&mut self, id: u32) {
        let buffer = self.pool.take().unwrap();
        assert!(self.machine.post_receive(id.into(), buffer).is_ok());
    }

    pub(crate) fn expose_buffer(&mut self, len: usize) -> Remote {
        let mut buffer = self.pool.take().unwrap();
        buffer.set_len(len);
        buffer.fill(0);
        self.machine.expose(Memory::Buffer(buffer)).unwrap()
    }

    pub(crate) fn expose_bytes(&mut self, len: usize, seed: u32) -> Remote {
        let bytes = Bytes::from(pattern(len, seed));
        self.machine.expose(Memory::Bytes(bytes)).unwrap()
    }

    pub(crate) fn take(&mut self, done: &mut Vec<Completion>) {
        self.machine.take_completions(done);
    }

    /// The one completion there is, which has this id.
    pub(crate) fn completed(&mut self, id: u64) -> Completion {
        let mut done = Vec::new();
        self.take(&mut done);
        let at = done.iter().position(|c| c.id == id);
        done.remove(at.expect("it is complete"))
    }

    /// All that it has to say.
    pub(crate) fn said(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let some = written(&mut self.machine, usize::MAX);
            if some.is_empty() {
                return all;
            }
            all.extend(some);
        }
    }
}

/// At most `max` bytes of what the machine has to say, taken by the wire.
pub(crate) fn written(machine: &mut Machine, max: usize) -> Vec<u8> {
    let mut slices = [IoSlice::new(&[]); 64];
    let Outgoing { pieces, file } = machine.outgoing(&mut slices);
    let in_memory = slices[..pieces].iter().flat_map(|slice| slice.iter());
    let mut bytes: Vec<u8> = in_memory.copied().collect();
    if let Some(range) = file {
        let mut rest = vec![0; range.len.try_into().unwrap()];
        range.file.read_exact_at(&mut rest, range.offset).unwrap();
        bytes.extend(rest);
    }
    bytes.truncate(max);
    machine.wrote(bytes.len());
    bytes
}

/// Hands bytes to a machine as they would be read, as long as it lives. Returns in how many reads.
pub(crate) fn deliver(machine: &mut Machine, mut bytes: &[u8]) -> usize {
    let mut reads = 0;
    while !bytes.is_empty() && machine.ended().is_none() {
        reads += 1;
        let mut room = machine.room();
        let mut count = 0;
        for place in room.pieces() {
            let len = place.len().min(bytes.len());
            place[..len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            count += len;
        }
        machine.read(count);
    }
    reads
}

/// Some bytes in each direction, in pieces.
pub(crate) fn wire(a: &mut Party, b: &mut Party, roll: &mut Roll) {
    let max = [1, 3, 20, 700, 3000, 100_000][roll.below(6)];
    for a_sends in [true, false] {
        let (from, to) = if a_sends {
            (&mut *a, &mut *b)
        } else {
            (&mut *b, &mut *a)
        };
        let bytes = written(&mut from.machine, max);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = 1 + roll.below(rest.len());
            deliver(&mut to.machine, &rest[..len]);
            rest = &rest[len..];
        }
    }
}

/// A frame around a ULPDU.
pub(crate) fn frame(ulpdu: &[u8]) -> Vec<u8> {
    let mut frame = u16::try_from(ulpdu.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(ulpdu);
    frame.resize(frame.len() + mpa::pad_bytes(ulpdu.len()), 0);
    let crc = crc32c(&frame);
    frame.extend(crc.to_le_bytes());
    frame
}

/// CRC32c bit by bit, as RFC 3720 §12.1 has it.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    let octet = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), bit);
    !bytes.iter().fold(!0, octet)
}

/// The ULPDUs of whole frames.
pub(crate) fn ulpdus(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some((len, rest)) = stream.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len));
        found.push(&rest[..len]);
        stream = &rest[len + mpa::pad_bytes(len) + 4..];
    }
    found
}

/// Opcodes of the messages that end in these frames, the empty Write of an RTR left out.
pub(crate) fn opcodes_of_messages(stream: &[u8]) -> Vec<u8> {
    let ends = |ulpdu: &&[u8]| {
        let (header, len) = SegmentHeader::decode(ulpdu).unwrap().unwrap();
        (header.last && ulpdu.len() > len || header.control == 0x43)
            .then_some(header.control & 0x0f)
    };
    ulpdus(stream).iter().filter_map(ends).collect()
}

/// The Terminate that these frames end with.
pub(crate) fn terminate_in(stream: &[u8]) -> (SegmentHeader, Terminate) {
    let ulpdus = ulpdus(stream);
    let last = ulpdus.last().expect("there is a frame");
    let (header, len) = SegmentHeader::decode(last).unwrap().unwrap();
    (header, Terminate::decode(&last[len..]).unwrap())
}
