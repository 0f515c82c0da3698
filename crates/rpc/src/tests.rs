//! Goal: every message of RFC 5531 round-trips. Every truncation and each malformed message in the table is refused
//! with the right verdict. Record marking is independent of how bytes arrive.

use xdr::{Decode, DecodeErrorKind, Decoder, Encoder, encode_to_vec};

use crate::*;

fn auth_sys() -> AuthSys {
    AuthSys {
        stamp: 7,
        machine: b"host".to_vec(),
        uid: 1000,
        gid: 100,
        gids: (0..16).collect(),
    }
}

fn call_bytes() -> Vec<u8> {
    let body = auth_sys().to_body();
    encode_to_vec(&CallStart {
        xid: 0x0102_0304,
        program: 100_003,
        version: 4,
        procedure: 1,
        credential: OpaqueAuth {
            flavor: flavor::AUTH_SYS,
            body: &body,
        },
        verifier: OpaqueAuth::NONE,
    })
}

#[test]
fn a_call_round_trips_and_leaves_the_decoder_at_its_arguments() {
    let mut bytes = call_bytes();
    bytes.extend([0, 0, 0, 9]);
    assert_eq!(peek(&bytes), Ok((0x0102_0304, MessageType::Call)));
    let mut d = Decoder::new(&bytes);
    let header = CallHeader::decode(&mut d).unwrap();
    assert_eq!(
        (header.xid, header.program, header.version, header.procedure),
        (0x0102_0304, 100_003, 4, 1)
    );
    assert_eq!(
        Credential::parse(&header.credential),
        Ok(Credential::Sys(auth_sys()))
    );
    assert_eq!(d.u32(), Ok(9));
    assert_eq!(d.finish(), Ok(()));
}

#[test]
fn a_call_truncated_at_any_byte_is_malformed() {
    let bytes = call_bytes();
    for cut in 0..bytes.len() {
        let err = CallHeader::decode(&mut Decoder::new(&bytes[..cut])).unwrap_err();
        let CallHeaderError::Malformed(e) = err else {
            panic!("cut at {cut}: {err:?}")
        };
        assert_eq!(e.kind, DecodeErrorKind::Truncated, "cut at {cut}");
    }
}

#[test]
fn calls_that_rpc_refuses_get_the_verdict_of_the_rfc() {
    let with = |at: usize, value: u32| {
        let mut bytes = call_bytes();
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        bytes
    };
    let verf_len_at = call_bytes().len() - 4;
    let refused = |verdict: CallRefusal| CallHeaderError::Refused {
        xid: 0x0102_0304,
        verdict,
    };
    for (what, bytes, expected) in [
        (
            "rpc version 3",
            with(8, 3),
            refused(Rejection::RpcMismatch { low: 2, high: 2 }.into()),
        ),
        (
            "cred of 401",
            with(28, 401),
            refused(Rejection::Auth(AuthStat::BadCred).into()),
        ),
        (
            "cred of 4 GiB",
            with(28, u32::MAX),
            refused(Rejection::Auth(AuthStat::BadCred).into()),
        ),
        (
            "verf of 401",
            with(verf_len_at, 401),
            refused(Rejection::Auth(AuthStat::BadVerf).into()),
        ),
    ] {
        assert_eq!(
            CallHeader::decode(&mut Decoder::new(&bytes)),
            Err(expected),
            "{what}"
        );
    }
    for (what, bytes) in [("a reply", with(4, 1)), ("no direction", with(4, 2))] {
        let err = CallHeader::decode(&mut Decoder::new(&bytes)).unwrap_err();
        assert!(
            matches!(err, CallHeaderError::Malformed(_)),
            "{what}: {err:?}"
        );
    }
}

#[test]
fn every_verdict_round_trips_and_refuses_truncation() {
    let mut verdicts: Vec<CallRefusal> = vec![
        AcceptError::ProgUnavail.into(),
        AcceptError::ProgMismatch { low: 3, high: 4 }.into(),
        AcceptError::ProcUnavail.into(),
        AcceptError::GarbageArgs.into(),
        AcceptError::SystemErr.into(),
        Rejection::RPC_MISMATCH.into(),
    ];
    verdicts.extend(
        AuthStat::ALL
            .iter()
            .map(|s| CallRefusal::from(Rejection::Auth(*s))),
    );
    for verdict in verdicts {
        let mut e = Encoder::new();
        encode_error(&mut e, 5, verdict);
        let bytes = e.into_bytes();
        let expected = ReplyHeader {
            xid: 5,
            verdict: ReplyVerdict::Error(verdict),
        };
        assert_eq!(xdr::decode_all::<ReplyHeader<'_>>(&bytes), Ok(expected));
        for cut in 0..bytes.len() {
            let err = xdr::decode_all::<ReplyHeader<'_>>(&bytes[..cut]).unwrap_err();
            assert_eq!(
                err.kind,
                DecodeErrorKind::Truncated,
                "{verdict:?} cut at {cut}"
            );
        }
    }
}

#[test]
fn a_success_reply_round_trips_with_its_verifier() {
    let mut e = Encoder::new();
    begin_success(&mut e, 6, OpaqueAuth::TLS_ACCEPTED);
    e.u32(42);
    let bytes = e.into_bytes();
    let mut d = Decoder::new(&bytes);
    let header = ReplyHeader::decode(&mut d).unwrap();
    let verifier = OpaqueAuth {
        flavor: flavor::AUTH_NONE,
        body: b"STARTTLS",
    };
    assert_eq!(
        header,
        ReplyHeader {
            xid: 6,
            verdict: ReplyVerdict::Success { verifier }
        }
    );
    assert_eq!(d.u32(), Ok(42));
    for cut in 0..bytes.len() - 4 {
        assert!(
            ReplyHeader::decode(&mut Decoder::new(&bytes[..cut])).is_err(),
            "cut at {cut}"
        );
    }
}

#[test]
fn malformed_replies_are_refused() {
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|w| w.to_be_bytes())
            .collect::<Vec<u8>>()
    };
    for (what, bytes) in [
        ("a call", words(&[1, 0, 0, 0, 0, 0])),
        ("reply_stat 2", words(&[1, 1, 2])),
        ("accept_stat 6", words(&[1, 1, 0, 0, 0, 6])),
        ("reject_stat 2", words(&[1, 1, 1, 2])),
        ("auth_stat 15", words(&[1, 1, 1, 1, 15])),
        ("verifier of 401", words(&[1, 1, 0, 0, 401])),
    ] {
        let err = ReplyHeader::decode(&mut Decoder::new(&bytes)).unwrap_err();
        assert_ne!(err.kind, DecodeErrorKind::Truncated, "{what}");
    }
}

#[test]
fn credentials_are_told_apart_by_flavour_and_bounds() {
    let parse = |flavor, body: &[u8]| match Credential::parse(&OpaqueAuth { flavor, body }) {
        Ok(_) => AuthStat::Ok,
        Err(stat) => stat,
    };
    let mut seventeen_gids = auth_sys().to_body();
    let gid_count_at = seventeen_gids.len() - 17 * 4;
    seventeen_gids[gid_count_at..gid_count_at + 4].copy_from_slice(&17_u32.to_be_bytes());
    seventeen_gids.extend([0; 4]);
    let mut long_name = 0_u32.to_be_bytes().to_vec();
    long_name.extend(256_u32.to_be_bytes());
    long_name.extend([b'x'; 256]);
    long_name.extend([0; 12]);
    let good = auth_sys().to_body();
    let mut trailing = good.clone();
    trailing.extend([0; 4]);
    for (what, flavor, body, expected) in [
        ("none", flavor::AUTH_NONE, &[][..], AuthStat::Ok),
        ("sys", flavor::AUTH_SYS, &good, AuthStat::Ok),
        (
            "sys, 17 groups",
            flavor::AUTH_SYS,
            &seventeen_gids,
            AuthStat::BadCred,
        ),
        (
            "sys, 256-byte name",
            flavor::AUTH_SYS,
            &long_name,
            AuthStat::BadCred,
        ),
        (
            "sys, trailing",
            flavor::AUTH_SYS,
            &trailing,
            AuthStat::BadCred,
        ),
        ("sys, empty", flavor::AUTH_SYS, &[], AuthStat::BadCred),
        ("short", flavor::AUTH_SHORT, &[], AuthStat::RejectedCred),
        ("DH", 3, &[], AuthStat::RejectedCred),
        ("gss", flavor::RPCSEC_GSS, &[1], AuthStat::Ok),
        ("tls", flavor::AUTH_TLS, &[], AuthStat::Ok),
        ("tls with a body", flavor::AUTH_TLS, &[1], AuthStat::BadCred),
    ] {
        assert_eq!(parse(flavor, body), expected, "{what}");
    }
    for cut in 0..good.len() {
        assert_eq!(
            parse(flavor::AUTH_SYS, &good[..cut]),
            AuthStat::BadCred,
            "cut at {cut}"
        );
    }
}

const LIMITS: RecordLimits = RecordLimits {
    record_bytes_max: 100,
    fragments_max: 3,
};

fn fragments(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        out.extend(fragment_header(
            u32::try_from(part.len()).unwrap(),
            i + 1 == parts.len(),
        ));
        out.extend_from_slice(part);
    }
    out
}

/// Feeds `stream` in pieces of `step` bytes and returns the records.
fn read_all(stream: &[u8], step: usize, limits: RecordLimits) -> Result<Vec<Vec<u8>>, RecordError> {
    let mut reader = RecordReader::new(limits);
    let mut records = Vec::new();
    for piece in stream.chunks(step) {
        let mut at = 0;
        while at < piece.len() {
            let fed = reader.feed(&piece[at..])?;
            at += fed.consumed;
            records.extend(fed.record);
        }
    }
    assert!(reader.is_between_records());
    Ok(records)
}

#[test]
fn records_do_not_depend_on_how_the_bytes_arrive() {
    let mut stream = fragments(&[b"whole"]);
    stream.extend(fragments(&[b"two ", b"parts"]));
    stream.extend(fragments(&[b"", b"x", b""]));
    let expected = vec![b"whole".to_vec(), b"two parts".to_vec(), b"x".to_vec()];
    for step in 1..=stream.len() {
        assert_eq!(
            read_all(&stream, step, LIMITS).as_ref(),
            Ok(&expected),
            "step {step}"
        );
    }
}

#[test]
fn bodies_read_straight_into_the_buffer_give_the_same_records() {
    let limits = RecordLimits {
        record_bytes_max: 1 << 20,
        fragments_max: 3,
    };
    let (a, b) = (vec![1; 300_000], vec![2; 500_000]);
    let stream = fragments(&[&a, &b]);
    let mut reader = RecordReader::new(limits);
    let (mut at, mut record, mut arrived) = (0, None, 0_usize);
    while record.is_none() {
        let appended = reader.body_buffer().map(|(buffer, room)| {
            let most = (2 * arrived).max(arrived + RESERVE_STEP_BYTES);
            assert!(
                buffer.capacity() <= most,
                "{} for {arrived}",
                buffer.capacity()
            );
            let len = room.min(10_000);
            buffer.extend_from_slice(&stream[at..at + len]);
            len
        });
        if let Some(len) = appended {
            (at, arrived) = (at + len, arrived + len);
            record = reader.body_appended(len);
        } else {
            let fed = reader.feed(&stream[at..at + 4]).unwrap();
            at += fed.consumed;
            record = fed.record;
        }
    }
    assert_eq!((at, record.unwrap()), (stream.len(), [a, b].concat()));
    assert!(reader.is_between_records());
}

#[test]
fn records_beyond_their_limits_are_refused() {
    let long = [0; 101];
    let half = [0; 51];
    for (what, stream, expected) in [
        (
            "101 bytes",
            fragments(&[&long]),
            RecordError::TooLong {
                announced: 101,
                limit: 100,
            },
        ),
        (
            "51 + 51",
            fragments(&[&half, &half]),
            RecordError::TooLong {
                announced: 102,
                limit: 100,
            },
        ),
        (
            "4 empty fragments",
            fragments(&[b"", b"", b"", b"x"]),
            RecordError::TooManyFragments { limit: 3 },
        ),
        ("nothing", fragments(&[b""]), RecordError::Empty),
        ("nothing in two", fragments(&[b"", b""]), RecordError::Empty),
    ] {
        for step in [1, 3, 1000] {
            assert_eq!(
                read_all(&stream, step, LIMITS),
                Err(expected),
                "{what} by {step}"
            );
        }
    }
}

#[test]
fn an_announced_length_alone_reserves_at_most_one_step() {
    let limits = RecordLimits {
        record_bytes_max: FRAGMENT_BYTES_MAX,
        fragments_max: 1,
    };
    let mut reader = RecordReader::new(limits);
    reader
        .feed(&fragment_header(FRAGMENT_BYTES_MAX, true))
        .unwrap();
    assert_eq!(reader.announced(), FRAGMENT_BYTES_MAX as usize);
    let (buffer, room) = reader.body_buffer().unwrap();
    assert!(buffer.capacity() <= RESERVE_STEP_BYTES && room <= RESERVE_STEP_BYTES);
}

#[test]
fn universal_addresses_round_trip_and_bad_ones_are_refused() {
    for (netid, text, address) in [
        ("tcp", "127.0.0.1.8.1", "127.0.0.1:2049"),
        ("rdma", "10.1.2.3.78.33", "10.1.2.3:20001"),
        ("tcp6", "::1.8.1", "[::1]:2049"),
        ("rdma6", "2001:db8::5.0.0", "[2001:db8::5]:0"),
    ] {
        let parsed = UniversalAddress::parse(netid.as_bytes(), text.as_bytes()).unwrap();
        assert_eq!(parsed.address, address.parse().unwrap());
        assert_eq!(
            (parsed.netid.as_str(), parsed.to_text().as_str()),
            (netid, text)
        );
    }
    let mapped = UniversalAddress::parse(b"tcp6", b"::ffff:10.0.0.1.8.1").unwrap();
    assert_eq!(mapped.to_text(), "::ffff:10.0.0.1.8.1");
    assert_eq!(
        UniversalAddress::parse(b"udp", b"127.0.0.1.8.1"),
        Err(AddressError::UnknownNetid)
    );
    for text in [
        "",
        ".",
        "127.0.0.1",
        "127.0.0.1.8",
        "127.0.0.1.8.256",
        "127.0.0.1.+8.1",
        "127.0.0.1.-8.1",
        "127.0.0.1.8.1.",
        "::1.8.1",
        "127.0.0.1.8.1\0",
        "1.2.3.4.5.6.7",
        "a.b.c.d.e.f",
    ] {
        let parsed = UniversalAddress::parse(b"tcp", text.as_bytes());
        assert_eq!(parsed, Err(AddressError::BadAddress), "{text:?}");
    }
    assert_eq!(
        UniversalAddress::parse(b"tcp6", &[b'1'; 65]),
        Err(AddressError::BadAddress)
    );
    assert_eq!(
        UniversalAddress::parse(b"tcp6", b"\xff"),
        Err(AddressError::BadAddress)
    );
}
