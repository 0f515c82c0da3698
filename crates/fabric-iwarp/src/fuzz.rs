//! Bodies of the fuzz targets `iwarp_setup`, `iwarp_terminate` and `iwarp_stream`; an ordinary test replays their corpus.
//!
//! Each takes bytes of a peer and must neither panic nor allocate beyond a small multiple of its input. A panic is a finding.

use crate::ddp::{SegmentHeader, UNTAGGED_BYTES};
use crate::machine::{Machine, Start};
use crate::mpa::{self, Agreed, Rtr, Setup, Wish};
use crate::rdmap::{Opcode, ReadRequest, Terminate};
use bytes::Bytes;
use fabric::{
    Completion, Ended, EndpointConfig, Memory, Part, Pool, PoolConfig, Remote, Work, WorkStatus,
};
use std::io::IoSlice;

/// Set-up frames of both kinds: what is understood encodes to the same, and both sides come to terms or say why not.
///
/// # Panics
/// When they do not.
pub fn setup(data: &[u8]) {
    let wish = Wish {
        ird: 4,
        ord: 4,
        crc: true,
    };
    for is_reply in [false, true] {
        let Ok(setup) = Setup::decode(data, is_reply) else {
            continue;
        };
        let encoded = setup.encode().expect("it was not too long");
        assert_eq!(Setup::decode(&encoded, is_reply).as_ref(), Ok(&setup));
        if is_reply {
            if let Ok(agreed) = mpa::conclude(wish, &setup) {
                assert!(agreed.ord <= wish.ord && agreed.crc);
            }
        } else if let Ok((reply, agreed)) = mpa::respond(&setup, wish, b"ok") {
            assert!(reply.encode().is_some() && agreed.ird <= wish.ird);
        }
    }
}

/// A header and a Terminate after it.
///
/// # Panics
/// When a header that was understood encodes to something else.
pub fn terminate(data: &[u8]) {
    if let Ok(Some((header, len))) = SegmentHeader::decode(data) {
        let mut encoded = Vec::new();
        header.encode(&mut encoded);
        assert_eq!(SegmentHeader::decode(&encoded), Ok(Some((header, len))));
        let _ = Opcode::of(&header);
    }
    if let Ok(terminate) = Terminate::decode(data) {
        let _ = terminate.fault();
        let mut encoded = Vec::new();
        terminate.encode(&mut encoded);
        let again = Terminate::decode(&encoded).expect("ours has a code");
        assert_eq!(again.term, terminate.term);
    }
}

/// A stream. The first octet says how long the pieces are. The rest arrives at an endpoint with a receive, memory of both kinds
/// and a read under way. CRCs are off, so that changes get beyond them.
///
/// # Panics
/// When something did not come back exactly once.
pub fn stream(data: &[u8]) {
    let _ = stream_outcome(data);
}

/// As [`stream`]; how many completions were good, and why the connection had ended before its stream did, if it had.
///
/// # Panics
/// As [`stream`].
#[must_use]
pub fn stream_outcome(data: &[u8]) -> (usize, Option<Ended>) {
    let Some((&piece_bytes, mut data)) = data.split_first() else {
        return (0, None);
    };
    let pool = four_buffers();
    let (mut machine, _) = endpoint(&pool);
    let mut done = Vec::new();
    while !data.is_empty() && machine.ended().is_none() {
        let len = data.len().min(1 + usize::from(piece_bytes));
        let (piece, rest) = data.split_at(len);
        feed(&mut machine, piece);
        speak(&mut machine);
        machine.take_completions(&mut done);
        data = rest;
    }
    let good = done.iter().filter(|c| c.status == WorkStatus::Ok).count();
    let ended = machine.ended();
    machine.end_of_stream();
    machine.take_completions(&mut done);
    assert_all_back(machine, done, &pool);
    (good, ended)
}

fn four_buffers() -> Pool {
    Pool::new(PoolConfig {
        buffer_bytes: 256,
        slab_bytes: 1024,
        bytes_max: 1024,
        free_bytes_max: usize::MAX,
    })
}

/// An endpoint that has spoken, and what it said: its Read Request.
fn endpoint(pool: &Pool) -> (Machine, Vec<u8>) {
    let mut machine = Machine::new(Start {
        config: EndpointConfig::default(),
        agreed: Agreed {
            ird: 2,
            ord: 1,
            crc: false,
            rtr: Rtr::None,
        },
        is_initiator: true,
        mulpdu: 200,
        seed: SEED,
    });
    let buffer = || pool.take().expect("there are four");
    let _ = machine.post_receive(1, buffer());
    let _ = machine.expose(Memory::Buffer(buffer()));
    let _ = machine.expose(Memory::Bytes(Bytes::from_static(&[1; 300])));
    let remote = Remote {
        key: 1,
        offset: 2,
        len: 200,
    };
    let (sink, at) = (buffer(), 10);
    let _ = machine.post(
        2,
        Work::Read {
            sink,
            parts: vec![Part { at, remote }],
        },
        true,
    );
    let said = speak(&mut machine);
    (machine, said)
}

/// The Read Request that [`stream`]'s endpoint has sent, for answers to it in the corpus.
///
/// # Panics
/// Never: it has sent one.
#[must_use]
pub fn stream_read() -> ReadRequest {
    let (_machine, said) = endpoint(&four_buffers());
    // Behind the length of the frame and the header.
    let request = said
        .get(2 + UNTAGGED_BYTES..)
        .and_then(|at| at.first_chunk());
    ReadRequest::decode(request.expect("it has sent one"))
}

/// The keys of the memory that [`stream`]'s endpoint exposes: 256 bytes to be written, 300 to be read.
///
/// # Panics
/// Never: it has exposed both.
#[must_use]
pub fn stream_keys() -> [u32; 2] {
    let (mut machine, _) = endpoint(&four_buffers());
    machine.end(fabric::Ended::Closed);
    let mut done = Vec::new();
    machine.take_completions(&mut done);
    let keys = done.iter().filter_map(|c| match &c.done {
        fabric::Done::Exposed { .. } => u32::try_from(c.id).ok(),
        _ => None,
    });
    let keys: Vec<u32> = keys.collect();
    keys.try_into().expect("it has exposed both")
}

/// Fixed, so that inputs name the right keys.
const SEED: u64 = 7;

/// Everything that the machine has to say, as the wire takes it.
fn speak(machine: &mut Machine) -> Vec<u8> {
    let mut said = Vec::new();
    loop {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = machine.outgoing(&mut slices).pieces;
        let bytes: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        if bytes == 0 {
            return said;
        }
        said.extend(slices[..count].iter().flat_map(|slice| slice.iter()));
        machine.wrote(bytes);
    }
}

fn feed(machine: &mut Machine, mut bytes: &[u8]) {
    while !bytes.is_empty() && machine.ended().is_none() {
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
}

/// A receive, two memories and a read: each once, and the pool has its buffers.
fn assert_all_back(machine: Machine, done: Vec<Completion>, pool: &Pool) {
    use fabric::Done;
    let mut counts = [0; 3];
    for completion in &done {
        match &completion.done {
            Done::Receive { invalidated, .. } => {
                counts[0] += 1;
                counts[1] += usize::from(invalidated.is_some());
            }
            Done::Exposed { .. } => counts[1] += 1,
            Done::Read { .. } => counts[2] += 1,
            Done::Send | Done::Write | Done::Invalidate { .. } => {}
        }
    }
    assert_eq!(counts, [1, 2, 1], "{:?}", machine.ended());
    drop((machine, done));
    assert_eq!(pool.taken(), 0);
}

/// A stream that does all that a peer may do to [`stream`]'s endpoint, as the seed of its corpus.
///
/// # Panics
/// Never: the keys are those of a fixed seed.
#[must_use]
pub fn stream_sample() -> Vec<u8> {
    let pool = four_buffers();
    let keys = stream_keys();
    let mut peer = Machine::new(Start {
        config: EndpointConfig::default(),
        agreed: Agreed {
            ird: 1,
            ord: 2,
            crc: false,
            rtr: Rtr::Write,
        },
        is_initiator: true,
        mulpdu: 150,
        seed: SEED,
    });
    let remote = |key| Remote {
        key,
        offset: 20,
        len: 200,
    };
    let data = vec![Bytes::from_static(&[5; 200])];
    let write = Work::Write {
        data: data.clone(),
        remote: remote(keys[0]),
    };
    let (sink, at) = (pool.take().expect("there is one"), 0);
    let read = Work::Read {
        sink,
        parts: vec![Part {
            at,
            remote: remote(keys[1]),
        }],
    };
    let invalidate = Some(keys[0]);
    let send = Work::Send { data, invalidate };
    for work in [write, read, send] {
        let _ = peer.post(0, work, true);
    }
    let mut sample = vec![60];
    sample.extend(speak(&mut peer));
    sample
}
