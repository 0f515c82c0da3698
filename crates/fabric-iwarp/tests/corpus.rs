//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length, and with several changes at once.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../../../fuzz/replay.rs"]
mod replay;

use fabric::{Ended, Fault};
use replay::Target;
use ropewalk_fabric_iwarp::ddp::{
    Place, QUEUE_READ_REQUEST, QUEUE_SEND, QUEUE_TERMINATE, SegmentHeader,
};
use ropewalk_fabric_iwarp::fuzz;
use ropewalk_fabric_iwarp::mpa::{self, Wish};
use ropewalk_fabric_iwarp::rdmap::{Culprit, Opcode, ReadRequest, Term, Terminate};

const TARGETS: &[Target] = &[
    ("iwarp_setup", fuzz::setup, setup),
    ("iwarp_setup/rpcrdma", fuzz::setup, setup_of_rpcrdma),
    ("iwarp_setup/reply", fuzz::setup, setup_reply),
    ("iwarp_setup/rejection", fuzz::setup, setup_rejection),
    ("iwarp_setup/revision_1", fuzz::setup, setup_of_revision_1),
    (
        "iwarp_setup/unnegotiated",
        fuzz::setup,
        setup_without_depths,
    ),
    ("iwarp_setup/full", fuzz::setup, setup_that_is_full),
    ("iwarp_terminate", fuzz::terminate, terminate),
    (
        "iwarp_terminate/write",
        fuzz::terminate,
        terminate_of_a_write,
    ),
    (
        "iwarp_terminate/crc",
        fuzz::terminate,
        terminate_without_culprit,
    ),
    ("iwarp_terminate/header", fuzz::terminate, send_header),
    ("iwarp_stream", fuzz::stream, fuzz::stream_sample),
    ("iwarp_stream/answer", fuzz::stream, stream_that_answers),
    (
        "iwarp_stream/solicited",
        fuzz::stream,
        stream_that_invalidates,
    ),
    (
        "iwarp_stream/terminate",
        fuzz::stream,
        stream_that_terminates,
    ),
    ("iwarp_stream/segments", fuzz::stream, stream_of_segments),
    ("iwarp_stream/reads", fuzz::stream, stream_of_reads),
    (
        "iwarp_stream/no_receive",
        fuzz::stream,
        stream_without_a_receive,
    ),
];

fn setup() -> Vec<u8> {
    let wish = Wish {
        ird: 5,
        ord: 6,
        crc: true,
    };
    mpa::request(wish, b"private data").encode().unwrap()
}

/// What Linux says over RPC-over-RDMA (RFC 8797): 4 KiB both ways, and replies may invalidate.
const RPCRDMA: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];

const WISH: Wish = Wish {
    ird: 16,
    ord: 16,
    crc: true,
};

fn setup_of_rpcrdma() -> Vec<u8> {
    mpa::request(WISH, &RPCRDMA).encode().unwrap()
}

fn setup_reply() -> Vec<u8> {
    let request = mpa::request(WISH, &RPCRDMA);
    let (reply, _) = mpa::respond(&request, WISH, &RPCRDMA).unwrap();
    reply.encode().unwrap()
}

fn setup_rejection() -> Vec<u8> {
    let request = mpa::request(WISH, &RPCRDMA);
    mpa::rejection(&request, b"full").encode().unwrap()
}

fn setup_of_revision_1() -> Vec<u8> {
    let mut request = mpa::plain_request(WISH, &RPCRDMA);
    request.markers = true;
    request.encode().unwrap()
}

/// Read depths that are each side's own business (RFC 6581 §9.1), and a Send as the indication that the initiator is ready.
fn setup_without_depths() -> Vec<u8> {
    let mut request = mpa::request(WISH, &RPCRDMA);
    let enhanced = request.enhanced.as_mut().unwrap();
    (enhanced.ird, enhanced.ord) = (mpa::DEPTH_UNNEGOTIATED, mpa::DEPTH_UNNEGOTIATED);
    (enhanced.rtr_send, enhanced.rtr_write) = (true, false);
    request.encode().unwrap()
}

/// As much private data as there may be.
fn setup_that_is_full() -> Vec<u8> {
    let data = [7; mpa::PRIVATE_DATA_BYTES_MAX - mpa::ENHANCED_BYTES];
    mpa::request(WISH, &data).encode().unwrap()
}

fn untagged(opcode: Opcode, queue: u32, msn: u32) -> SegmentHeader {
    let (invalidate, mo) = (0, 0);
    SegmentHeader {
        last: true,
        control: opcode.control(),
        place: Place::Untagged {
            invalidate,
            queue,
            msn,
            mo,
        },
    }
}

fn tagged(opcode: Opcode, stag: u32, to: u64, last: bool) -> SegmentHeader {
    SegmentHeader {
        last,
        control: opcode.control(),
        place: Place::Tagged { stag, to },
    }
}

/// A frame without a CRC (RFC 5044 §4.1): length, segment, pad, and four octets of nothing.
fn frame(header: &SegmentHeader, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    header.encode(&mut segment);
    segment.extend_from_slice(payload);
    let mut frame = u16::try_from(segment.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(&segment);
    frame.resize(frame.len() + mpa::pad_bytes(segment.len()) + 4, 0);
    frame
}

/// Frames as [`fuzz::stream`] takes them, in pieces of so many octets and one more.
fn arriving(piece_bytes: u8, frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut stream = vec![piece_bytes];
    stream.extend(frames.into_iter().flatten());
    stream
}

/// The answer to the endpoint's read in two segments, and one that nobody asked for.
fn stream_that_answers() -> Vec<u8> {
    let read = fuzz::stream_read();
    let answer = |at: u64, last| {
        let to = read.sink_to + at;
        tagged(Opcode::ReadResponse, read.sink_stag, to, last)
    };
    arriving(
        99,
        [
            frame(&answer(0, false), &[1; 120]),
            frame(&answer(120, true), &[2; 80]),
            frame(&answer(0, true), &[3; 200]),
        ],
    )
}

/// A Send with Solicited Event and Invalidate of what may be written, then one of the same key.
fn stream_that_invalidates() -> Vec<u8> {
    let [key, _] = fuzz::stream_keys();
    let send = |msn| {
        let mut header = untagged(Opcode::SendSolicitedInvalidate, QUEUE_SEND, msn);
        if let Place::Untagged { invalidate, .. } = &mut header.place {
            *invalidate = key;
        }
        frame(&header, b"solicited")
    };
    let write = tagged(Opcode::Write, key, 0, true);
    arriving(12, [frame(&write, &[9; 256]), send(1), send(2)])
}

fn stream_that_terminates() -> Vec<u8> {
    let header = untagged(Opcode::Terminate, QUEUE_TERMINATE, 1);
    arriving(255, [frame(&header, &terminate())])
}

/// A Send of three segments with Writes between them, and an empty Write.
fn stream_of_segments() -> Vec<u8> {
    let [key, _] = fuzz::stream_keys();
    let part = |offset: u32, last| {
        let mut header = untagged(Opcode::Send, QUEUE_SEND, 1);
        header.last = last;
        if let Place::Untagged { mo, .. } = &mut header.place {
            *mo = offset;
        }
        frame(&header, &[6; 85])
    };
    let write = |to, payload: &[u8]| frame(&tagged(Opcode::Write, key, to, true), payload);
    arriving(
        7,
        [
            write(0, &[]),
            part(0, false),
            write(10, &[1; 50]),
            part(85, false),
            write(255, &[2]),
            part(170, true),
        ],
    )
}

/// As many Read Requests as were agreed on, one of no bytes, then one too many.
fn stream_of_reads() -> Vec<u8> {
    let [_, key] = fuzz::stream_keys();
    let request = |msn: u32| {
        let mut payload = Vec::new();
        ReadRequest {
            sink_stag: 77,
            sink_to: 1000,
            len: [300, 0, 1][msn as usize % 3],
            source_stag: key,
            source_to: 0,
        }
        .encode(&mut payload);
        let header = untagged(Opcode::ReadRequest, QUEUE_READ_REQUEST, msn);
        frame(&header, &payload)
    };
    arriving(255, (1..=4).map(request))
}

/// Two Sends where there is one receive; the first is as long as that.
fn stream_without_a_receive() -> Vec<u8> {
    let send = |msn| untagged(Opcode::Send, QUEUE_SEND, msn);
    arriving(
        200,
        [frame(&send(1), &[4; 256]), frame(&send(2), b"one more")],
    )
}

fn terminate_of(term: Term, culprit: Option<Culprit>) -> Vec<u8> {
    let mut out = Vec::new();
    Terminate { term, culprit }.encode(&mut out);
    out
}

fn terminate_of_a_write() -> Vec<u8> {
    let culprit = Culprit {
        segment_bytes: 1400,
        header: tagged(Opcode::Write, 0x1234_5600, 1 << 40, false),
        read: None,
    };
    terminate_of(Term::BOUNDS, Some(culprit))
}

fn terminate_without_culprit() -> Vec<u8> {
    terminate_of(Term::CRC, None)
}

/// No Terminate at all, but a header that the target looks for, too.
fn send_header() -> Vec<u8> {
    let mut out = Vec::new();
    untagged(Opcode::SendInvalidate, QUEUE_SEND, 3).encode(&mut out);
    out
}

/// The seeds get where they are meant to: whoever changes the protocol's machine changes them along.
#[test]
fn seeds_are_understood() {
    for (name, _, sample) in TARGETS {
        let sample = sample();
        if name.starts_with("iwarp_setup") {
            let is_reply = name.ends_with("reply") || name.ends_with("rejection");
            let setup = mpa::Setup::decode(&sample, is_reply).unwrap();
            assert_eq!(setup.rejected, name.ends_with("rejection"), "{name}");
        }
        if name.starts_with("iwarp_stream") {
            let (good, ended) = fuzz::stream_outcome(&sample);
            let expected = match name.rsplit('/').next() {
                Some("answer") => (1, Some(Ended::Faulted(Fault::Protocol))),
                Some("solicited" | "no_receive") => (1, Some(Ended::Faulted(Fault::NoReceive))),
                Some("terminate") => (0, Some(Ended::Accused(Fault::OutOfBounds))),
                Some("reads") => (0, Some(Ended::Faulted(Fault::TooManyReads))),
                _ => (1, None),
            };
            assert_eq!((good, ended), expected, "{name}");
        }
    }
}

fn terminate() -> Vec<u8> {
    let culprit = Culprit {
        segment_bytes: 46,
        header: SegmentHeader {
            last: true,
            control: Opcode::ReadRequest.control(),
            place: Place::Untagged {
                invalidate: 0,
                queue: 1,
                msn: 2,
                mo: 0,
            },
        },
        read: Some(ReadRequest {
            sink_stag: 1,
            sink_to: 2,
            len: 3,
            source_stag: 4,
            source_to: 5,
        }),
    };
    let mut out = Vec::new();
    Terminate {
        term: Term::READ_BOUNDS,
        culprit: Some(culprit),
    }
    .encode(&mut out);
    out
}

/// Included headers survive, and a Terminate cut anywhere still has its code or none.
#[test]
fn terminate_messages_keep_their_headers() {
    let whole = terminate();
    let decoded = Terminate::decode(&whole).unwrap();
    let culprit = decoded.culprit.unwrap();
    assert_eq!(
        (decoded.term, culprit.segment_bytes),
        (Term::READ_BOUNDS, 46)
    );
    assert_eq!(culprit.read.map(|read| read.source_to), Some(5));
    for cut in 0..whole.len() {
        match Terminate::decode(&whole[..cut]) {
            Ok(decoded) => assert_eq!(decoded.term, Term::READ_BOUNDS),
            Err(term) => assert!(cut < 4 && term == Term::UNSPECIFIED),
        }
    }
}
