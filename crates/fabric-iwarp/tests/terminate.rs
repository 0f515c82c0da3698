//! Goal: each thing that a peer can do wrong is answered with the layer, type and code of the RFCs. The answer includes
//! the headers that RFC 5040 Figure 10 wants. Method: one wrong frame after good ones, made by hand.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod rig;

use fabric::{Ended, Fault, Memory};
use rig::{Party, agreed, deliver, frame, pair, terminate_in};
use ropewalk_fabric_iwarp::ddp::{Place, SegmentHeader};
use ropewalk_fabric_iwarp::mpa::Rtr;
use ropewalk_fabric_iwarp::rdmap::{Culprit, Opcode, ReadRequest, Term, Terminate};

fn tagged(control: u8, stag: u32, to: u64) -> SegmentHeader {
    SegmentHeader {
        last: true,
        control,
        place: Place::Tagged { stag, to },
    }
}

fn untagged(opcode: Opcode, queue: u32, msn: u32, mo: u32) -> SegmentHeader {
    SegmentHeader {
        last: true,
        control: opcode.control(),
        place: Place::Untagged {
            invalidate: 0x0bad_0bad,
            queue,
            msn,
            mo,
        },
    }
}

fn segment(header: &SegmentHeader, payload: &[u8]) -> Vec<u8> {
    let mut ulpdu = Vec::new();
    header.encode(&mut ulpdu);
    ulpdu.extend(payload);
    ulpdu
}

fn request(stag: u32, to: u64, len: u32) -> ReadRequest {
    ReadRequest {
        sink_stag: 77,
        sink_to: 3,
        len,
        source_stag: stag,
        source_to: to,
    }
}

fn read(msn: u32, request: &ReadRequest) -> Vec<u8> {
    let mut payload = Vec::new();
    request.encode(&mut payload);
    segment(&untagged(Opcode::ReadRequest, 1, msn, 0), &payload)
}

/// What is wrong, made for a victim, and how that ends.
type Case<'a, T> = (&'a dyn Fn(&Victim) -> T, Term, Fault);

/// A responder with a receive of 100 bytes, 1000 bytes to be written and 1000 to be read.
struct Victim {
    party: Party,
    write: u32,
    read: u32,
}

fn victim() -> Victim {
    let (_, mut party) = pair(1448, agreed(2, true, Rtr::None));
    let mut buffer = party.pool.take().unwrap();
    buffer.set_len(100);
    assert!(party.machine.post_receive(1, buffer).is_ok());
    let write = party.expose_buffer(1000).key;
    let read = party.expose_bytes(1000, 1).key;
    Victim { party, write, read }
}

/// What the victim says to these ULPDUs, the last of which is wrong.
fn verdict(mut victim: Victim, ulpdus: &[Vec<u8>]) -> (Terminate, Ended) {
    for ulpdu in ulpdus {
        assert_eq!(victim.party.machine.ended(), None, "it ended too early");
        deliver(&mut victim.party.machine, &frame(ulpdu));
    }
    let ended = victim.party.machine.ended().expect("it ended");
    let (header, terminate) = terminate_in(&victim.party.machine.last_words());
    let expected = Place::Untagged {
        invalidate: 0,
        queue: 2,
        msn: 1,
        mo: 0,
    };
    assert_eq!(
        (header.last, header.control, header.place),
        (true, 0x47, expected)
    );
    (terminate, ended)
}

fn assert_terminates(victim: Victim, ulpdus: &[Vec<u8>], term: Term, fault: Fault) {
    let what = format!("{term:?}");
    let (terminate, ended) = verdict(victim, ulpdus);
    assert_eq!(
        (terminate.term, ended),
        (term, Ended::Faulted(fault)),
        "{what}"
    );
    let wrong = ulpdus.last().unwrap();
    let culprit = terminate.culprit.expect("the segment is named");
    let (header, used) = SegmentHeader::decode(wrong).unwrap().unwrap();
    assert_eq!(culprit.header, header, "{what}");
    assert_eq!(usize::from(culprit.segment_bytes), wrong.len());
    // RDMAP names the Read Request too when it is to blame.
    let names_read = header.control & 0x0f == 1 && term.layer == 0 && term.kind == 1;
    let named = names_read.then(|| ReadRequest::decode(wrong[used..].first_chunk().unwrap()));
    assert_eq!(culprit.read, named, "{what}");
}

#[test]
fn tagged_segments_are_checked_before_they_are_placed() {
    let write = Opcode::Write.control();
    let cases: &[Case<'_, Vec<u8>>] = &[
        (
            &|_| segment(&tagged(write, 5, 0), b"x"),
            Term::INVALID_STAG,
            Fault::BadKey,
        ),
        (
            &|v| segment(&tagged(write, v.write ^ 1, 0), b"x"),
            Term::INVALID_STAG,
            Fault::BadKey,
        ),
        (
            &|v| segment(&tagged(write, v.write, 999), b"xx"),
            Term::BOUNDS,
            Fault::OutOfBounds,
        ),
        (
            &|v| segment(&tagged(write, v.write, u64::MAX), b"xx"),
            Term::TO_WRAP,
            Fault::OutOfBounds,
        ),
        (
            &|v| segment(&tagged(write, v.write, 1 << 40), b"x"),
            Term::BOUNDS,
            Fault::OutOfBounds,
        ),
        (
            &|v| segment(&tagged(write, v.read, 0), b"x"),
            Term::ACCESS_RIGHTS,
            Fault::WrongRights,
        ),
        // A response to nothing, an opcode that is not tagged, unknown opcodes, another version of RDMAP.
        (
            &|v| segment(&tagged(0x42, v.write, 0), b"x"),
            Term::UNEXPECTED_OPCODE,
            Fault::Protocol,
        ),
        (
            &|v| segment(&tagged(0x43, v.write, 0), b"x"),
            Term::UNEXPECTED_OPCODE,
            Fault::Protocol,
        ),
        (
            &|v| segment(&tagged(0x48, v.write, 0), b"x"),
            Term::UNEXPECTED_OPCODE,
            Fault::Protocol,
        ),
        (
            &|v| segment(&tagged(0x80, v.write, 0), b"x"),
            Term::RDMAP_VERSION,
            Fault::Protocol,
        ),
    ];
    for (wrong, term, fault) in cases {
        let victim = victim();
        let ulpdu = wrong(&victim);
        assert_terminates(victim, &[ulpdu], *term, *fault);
    }
}

#[test]
fn untagged_segments_are_checked_before_they_are_placed() {
    let send = |queue, msn, mo, len: usize| {
        segment(&untagged(Opcode::Send, queue, msn, mo), &vec![1; len])
    };
    let first = |opcode: Opcode| {
        let mut header = untagged(opcode, 0, 1, 0);
        header.last = false;
        segment(&header, &[1; 10])
    };
    let cases = [
        (vec![send(3, 1, 0, 1)], Term::INVALID_QUEUE, Fault::Protocol),
        (
            vec![send(1, 1, 0, 1)],
            Term::UNEXPECTED_OPCODE,
            Fault::Protocol,
        ),
        (vec![send(0, 2, 0, 1)], Term::MSN_RANGE, Fault::Protocol),
        (vec![send(0, 0, 0, 1)], Term::MSN_RANGE, Fault::Protocol),
        (vec![send(0, 1, 1, 1)], Term::INVALID_MO, Fault::Protocol),
        (
            vec![send(0, 1, 0, 101)],
            Term::TOO_LONG,
            Fault::ReceiveTooSmall,
        ),
        (
            vec![first(Opcode::Send), send(0, 1, 10, 91)],
            Term::TOO_LONG,
            Fault::ReceiveTooSmall,
        ),
        (
            vec![first(Opcode::Send), send(0, 1, 9, 1)],
            Term::INVALID_MO,
            Fault::Protocol,
        ),
        (
            vec![first(Opcode::Send), send(0, 2, 0, 1)],
            Term::MSN_RANGE,
            Fault::Protocol,
        ),
        (
            vec![first(Opcode::SendSolicited), send(0, 1, 10, 1)],
            Term::UNEXPECTED_OPCODE,
            Fault::Protocol,
        ),
        (
            vec![send(0, 1, 0, 1), send(0, 2, 0, 1)],
            Term::NO_BUFFER,
            Fault::NoReceive,
        ),
        (
            vec![send(0, 1, 0, 0), send(0, 2, 0, 0)],
            Term::NO_BUFFER,
            Fault::NoReceive,
        ),
    ];
    for (ulpdus, term, fault) in cases {
        assert_terminates(victim(), &ulpdus, term, fault);
    }
    for opcode in [Opcode::SendInvalidate, Opcode::SendSolicitedInvalidate] {
        let wrong = segment(&untagged(opcode, 0, 1, 0), b"x");
        let (term, fault) = (Term::CANNOT_INVALIDATE, Fault::CannotInvalidate);
        assert_terminates(victim(), &[wrong], term, fault);
    }
}

#[test]
fn read_requests_are_checked_before_they_are_answered() {
    let cases: &[Case<'_, ReadRequest>] = &[
        (
            &|v| request(v.read ^ 1, 0, 1),
            Term::READ_INVALID_STAG,
            Fault::BadKey,
        ),
        (
            &|v| request(v.read, 1, 1000),
            Term::READ_BOUNDS,
            Fault::OutOfBounds,
        ),
        (
            &|v| request(v.read, u64::MAX, 1),
            Term::READ_TO_WRAP,
            Fault::OutOfBounds,
        ),
        (
            &|v| request(v.read, 1 << 50, 1),
            Term::READ_BOUNDS,
            Fault::OutOfBounds,
        ),
        (
            &|v| request(v.write, 0, 1),
            Term::ACCESS_RIGHTS,
            Fault::WrongRights,
        ),
    ];
    for (wrong, term, fault) in cases {
        let victim = victim();
        let ulpdu = read(1, &wrong(&victim));
        assert_terminates(victim, &[ulpdu], *term, *fault);
    }
    let good = |v: &Victim, msn| read(msn, &request(v.read, 0, 10));
    let victim_ = victim();
    let three = [good(&victim_, 1), good(&victim_, 2), good(&victim_, 3)];
    assert_terminates(victim_, &three, Term::NO_BUFFER, Fault::TooManyReads);
    let victim_ = victim();
    let skipped = [good(&victim_, 2)];
    assert_terminates(victim_, &skipped, Term::MSN_RANGE, Fault::Protocol);
    for (payload, mo, term) in [
        (27, 0, Term::UNSPECIFIED),
        (29, 0, Term::TOO_LONG),
        (28, 4, Term::INVALID_MO),
    ] {
        let wrong = segment(&untagged(Opcode::ReadRequest, 1, 1, mo), &vec![0; payload]);
        assert_terminates(victim(), &[wrong], term, term.fault());
    }
}

#[test]
fn frames_without_a_segment_name_none() {
    let other_version = |tagged: u8| vec![vec![tagged << 7 | 0x42; 20]];
    for (ulpdus, term) in [
        (vec![vec![]], Term::DDP_CATASTROPHIC),
        (vec![vec![0xc1; 13]], Term::DDP_CATASTROPHIC),
        (vec![vec![0x41; 17]], Term::DDP_CATASTROPHIC),
        (other_version(1), Term::TAGGED_VERSION),
        (other_version(0), Term::UNTAGGED_VERSION),
    ] {
        let (terminate, ended) = verdict(victim(), &ulpdus);
        assert_eq!((terminate.term, terminate.culprit), (term, None));
        assert_eq!(ended, Ended::Faulted(Fault::Protocol));
    }
}

#[test]
fn a_wrong_crc_ends_the_stream_when_agreed_and_is_not_looked_at_otherwise() {
    let send = segment(&untagged(Opcode::Send, 0, 1, 0), b"x");
    let mut bytes = frame(&send);
    *bytes.last_mut().unwrap() ^= 1;
    let mut with = victim();
    deliver(&mut with.party.machine, &bytes);
    assert_eq!(
        with.party.machine.ended(),
        Some(Ended::Faulted(Fault::Damaged))
    );
    let (_, terminate) = terminate_in(&with.party.machine.last_words());
    assert_eq!((terminate.term, terminate.culprit), (Term::CRC, None));
    let (_, mut without) = pair(1448, agreed(2, false, Rtr::None));
    without.post_receive(1);
    deliver(&mut without.machine, &bytes);
    assert_eq!(without.machine.ended(), None);
    without.completed(1);
}

/// Responses must be what was asked for: the oldest read's memory, its next byte, and all of it.
#[test]
fn responses_are_checked_before_they_are_placed() {
    let cases: &[(u32, u64, usize, bool, Term)] = &[
        (1, 10, 5, true, Term::INVALID_STAG),
        (0, 11, 5, true, Term::BOUNDS),
        (0, 9, 5, false, Term::BOUNDS),
        (0, 10, 101, true, Term::BOUNDS),
        (0, u64::MAX, 5, true, Term::TO_WRAP),
        (0, 10, 5, true, Term::UNSPECIFIED),
    ];
    for (key, to, len, last, term) in cases {
        let (mut a, _) = pair(1448, agreed(2, true, Rtr::None));
        let (sink, at) = (a.pool.take().unwrap(), 10);
        let remote = fabric::Remote {
            key: 9,
            offset: 0,
            len: 100,
        };
        a.post(
            0,
            fabric::Work::Read {
                sink,
                parts: vec![fabric::Part { at, remote }],
            },
        );
        let asked = a.said();
        let asked = rig::ulpdus(&asked)[0].to_vec();
        let sink_stag = ReadRequest::decode(asked[18..].first_chunk().unwrap()).sink_stag;
        let mut header = tagged(0x42, sink_stag ^ key, *to);
        header.last = *last;
        let wrong = segment(&header, &vec![0; *len]);
        deliver(&mut a.machine, &frame(&wrong));
        assert_eq!(
            a.machine.ended(),
            Some(Ended::Faulted(term.fault())),
            "{term:?}"
        );
        assert_eq!(terminate_in(&a.machine.last_words()).1.term, *term);
        // A Write into the sink of a read is as forbidden.
        let (mut a, _) = pair(1448, agreed(2, true, Rtr::None));
        let (sink, at) = (a.pool.take().unwrap(), 10);
        a.post(
            0,
            fabric::Work::Read {
                sink,
                parts: vec![fabric::Part { at, remote }],
            },
        );
        a.said();
        let wrong = segment(&tagged(0x40, sink_stag, 10), b"x");
        deliver(&mut a.machine, &frame(&wrong));
        assert_eq!(
            terminate_in(&a.machine.last_words()).1.term,
            Term::ACCESS_RIGHTS
        );
    }
}

/// What a peer's Terminate says is why the stream ended, for every code that has a name; others are violations of the protocol.
#[test]
fn received_codes_are_told_in_common_words() {
    let told = |terminate: &Terminate| {
        let mut victim = victim();
        let mut payload = Vec::new();
        terminate.encode(&mut payload);
        let wrong = segment(&untagged(Opcode::Terminate, 2, 1, 0), &payload);
        deliver(&mut victim.party.machine, &frame(&wrong));
        // There is no answer to a Terminate.
        assert_eq!(victim.party.machine.last_words(), b"");
        victim.party.machine.ended()
    };
    for (name, term, fault) in Term::ALL {
        let culprit = None;
        let term = *term;
        assert_eq!(
            told(&Terminate { term, culprit }),
            Some(Ended::Accused(*fault)),
            "{name}"
        );
    }
    let term = Term {
        layer: 15,
        kind: 15,
        code: 99,
    };
    let culprit = None;
    assert_eq!(
        told(&Terminate { term, culprit }),
        Some(Ended::Accused(Fault::Protocol))
    );
    let culprit = Some(Culprit {
        segment_bytes: 46,
        header: untagged(Opcode::ReadRequest, 1, 3, 0),
        read: None,
    });
    let term = Term::NO_BUFFER;
    assert_eq!(
        told(&Terminate { term, culprit }),
        Some(Ended::Accused(Fault::TooManyReads))
    );
}

/// Nothing is placed by a segment that is refused.
#[test]
fn a_refused_segment_changes_no_byte() {
    let mut victim = victim();
    let wrong = segment(&tagged(0x40, victim.write, 500), &[0xff; 501]);
    deliver(&mut victim.party.machine, &frame(&wrong));
    let mut done = Vec::new();
    victim.party.take(&mut done);
    let untouched = done.into_iter().any(|c| match c.done {
        fabric::Done::Exposed {
            memory: Memory::Buffer(buffer),
        } => buffer.iter().all(|byte| *byte == 0),
        _ => false,
    });
    assert!(untouched);
}
