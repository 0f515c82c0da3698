//! Goal: set-up frames and framing are those of RFC 5044 and RFC 6581. Method: octets from the RFCs, truncation at every octet, and
//! tables of what two sides wish and get.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod rig;

use ropewalk_fabric_iwarp::ddp::{Place, SegmentHeader};
use ropewalk_fabric_iwarp::mpa::{
    self, Agreed, DEPTH_UNNEGOTIATED, Enhanced, Rtr, Setup, Unusable, Wish,
};
use ropewalk_fabric_iwarp::rdmap::{Opcode, Term};

const WISH: Wish = Wish {
    ird: 8,
    ord: 6,
    crc: true,
};

fn plain(is_reply: bool) -> Setup {
    Setup {
        is_reply,
        markers: false,
        crc: false,
        rejected: false,
        revision: 1,
        enhanced: None,
        private_data: b"abc".to_vec(),
    }
}

fn enhanced(flags: &str, ird: u16, ord: u16) -> Enhanced {
    Enhanced {
        peer_to_peer: flags.contains('A'),
        rtr_send: flags.contains('B'),
        rtr_write: flags.contains('C'),
        rtr_read: flags.contains('D'),
        ird,
        ord,
    }
}

/// A set-up frame of revision 2 with this enhanced data.
fn second(is_reply: bool, data: Enhanced) -> Setup {
    Setup {
        revision: 2,
        enhanced: Some(data),
        ..plain(is_reply)
    }
}

/// The octets of RFC 5044 Figure 8 and RFC 6581 §6 and §9.
#[test]
fn setup_frames_have_the_octets_of_the_rfcs() {
    let key = |word: &str| format!("MPA ID {word} Frame").into_bytes();
    let cases = [
        (
            plain(false),
            [&key("Req")[..], &[0, 1, 0, 3], b"abc"].concat(),
        ),
        (
            Setup {
                rejected: true,
                crc: true,
                ..plain(true)
            },
            [&key("Rep")[..], &[0x60, 1, 0, 3], b"abc"].concat(),
        ),
        (
            Setup {
                markers: true,
                ..plain(false)
            },
            [&key("Req")[..], &[0x80, 1, 0, 3], b"abc"].concat(),
        ),
        (
            second(false, enhanced("AD", 0x0102, 0x3fff)),
            [
                &key("Req")[..],
                &[0x10, 2, 0, 7, 0x81, 0x02, 0x7f, 0xff],
                b"abc",
            ]
            .concat(),
        ),
        (
            second(true, enhanced("BC", 0x3ffe, 1)),
            [
                &key("Rep")[..],
                &[0x10, 2, 0, 7, 0x7f, 0xfe, 0x80, 0x01],
                b"abc",
            ]
            .concat(),
        ),
    ];
    for (setup, octets) in cases {
        assert_eq!(setup.encode().as_deref(), Some(&octets[..]));
        assert_eq!(Setup::decode(&octets, setup.is_reply), Ok(setup.clone()));
        // The other kind of frame is an initiator that met an initiator (RFC 5044 §7.1.2 rule 8).
        assert!(Setup::decode(&octets, !setup.is_reply).is_err());
        for cut in 0..octets.len() {
            assert!(Setup::decode(&octets[..cut], setup.is_reply).is_err());
        }
        let longer = [&octets[..], b"d"].concat();
        assert!(Setup::decode(&longer, setup.is_reply).is_err());
        for at in 0..16 {
            let mut other = octets.clone();
            other[at] ^= 0x20;
            assert!(Setup::decode(&other, setup.is_reply).is_err());
        }
    }
}

#[test]
fn wrong_setup_frames_are_refused() {
    let with = |at: usize, value: u8| {
        let mut octets = second(false, enhanced("", 1, 1)).encode().unwrap();
        octets[at] = value;
        Setup::decode(&octets, false)
    };
    assert!(with(17, 0).is_err() && with(17, 3).is_err());
    // Reserved bits are not looked at, nor is the reject bit of a request.
    assert!(!with(16, 0x3f).unwrap().rejected);
    // Revision 1 has no enhanced data: the bit was reserved then.
    assert_eq!(with(17, 1).unwrap().private_data.len(), 7);
    let mut short = second(false, enhanced("", 1, 1));
    short.enhanced = None;
    let mut octets = short.encode().unwrap();
    octets[16] |= 0x10;
    assert!(Setup::decode(&octets, false).is_err());

    let mut large = plain(false);
    large.private_data = vec![0; 512];
    let octets = large.encode().unwrap();
    assert_eq!(Setup::decode(&octets, false), Ok(large.clone()));
    large.private_data.push(0);
    assert_eq!(large.encode(), None);
    let mut too_long = octets;
    too_long[18..20].copy_from_slice(&513_u16.to_be_bytes());
    too_long.push(0);
    assert!(Setup::decode(&too_long, false).is_err());
}

/// What the responder makes of requests: flag A comes back, read depths fit, an RTR that both know is named.
#[test]
fn the_responder_fits_itself_to_the_request() {
    let unset = DEPTH_UNNEGOTIATED;
    let cases = [
        ("", 5, 4, "", (4, 5), (4, 5), Rtr::None),
        ("", 50, 40, "", (8, 6), (8, 6), Rtr::None),
        ("", 0, 0, "", (0, 0), (0, 0), Rtr::None),
        // Flags without A mean nothing (RFC 6581 §9.2).
        ("BCD", 5, 4, "", (4, 5), (4, 5), Rtr::None),
        ("AC", 5, 4, "AC", (4, 5), (4, 5), Rtr::Write),
        ("AD", 5, 4, "AD", (4, 5), (4, 5), Rtr::Read),
        ("ACD", 5, 4, "AC", (4, 5), (4, 5), Rtr::Write),
        // A Read as RTR needs a place even from who plans none.
        ("AD", 5, 0, "AD", (1, 5), (1, 5), Rtr::Read),
        // Nothing in common: what we take is named all the same, and the initiator gives up.
        ("AB", 5, 4, "AC", (4, 5), (4, 5), Rtr::Write),
        ("A", 5, 4, "AC", (4, 5), (4, 5), Rtr::Write),
        // All ones leave a depth to the upper layer, and go back as such.
        ("", unset, 4, "", (4, unset), (4, 6), Rtr::None),
        ("", 5, unset, "", (unset, 5), (8, 5), Rtr::None),
    ];
    for (flags, ird, ord, back, said, got, rtr) in cases {
        let request = second(false, enhanced(flags, ird, ord));
        let (reply, agreed) = mpa::respond(&request, WISH, b"hi").unwrap();
        let what = format!("{flags} {ird} {ord}");
        assert_eq!(
            reply.enhanced,
            Some(enhanced(back, said.0, said.1)),
            "{what}"
        );
        let expected = Agreed {
            ird: got.0,
            ord: got.1,
            crc: true,
            rtr,
        };
        assert_eq!(agreed, expected, "{what}");
        assert_eq!((reply.revision, reply.rejected), (2, false));
        assert_eq!(reply.private_data, b"hi");
    }
    let none = Wish { ird: 0, ..WISH };
    let request = second(false, enhanced("AD", 5, 4));
    let (reply, agreed) = mpa::respond(&request, none, b"").unwrap();
    assert_eq!((reply.enhanced.unwrap().ird, agreed.ird), (1, 1));
    let (reply, agreed) = mpa::respond(&plain(false), WISH, b"").unwrap();
    assert_eq!((reply.revision, reply.enhanced), (1, None));
    assert_eq!((agreed.ird, agreed.ord, agreed.rtr), (8, 6, Rtr::None));
    let markers = Setup {
        markers: true,
        ..plain(false)
    };
    assert!(mpa::respond(&markers, WISH, b"").is_err());
    let no = mpa::rejection(&second(false, enhanced("AC", 1, 1)), b"no");
    assert!(no.rejected && no.is_reply && no.enhanced == Some(enhanced("A", 0, 0)));
}

/// What the initiator makes of replies.
#[test]
fn the_initiator_fits_itself_to_the_reply() {
    let unset = DEPTH_UNNEGOTIATED;
    let cases = [
        ("AC", 4, 5, Ok((8, 4, Rtr::Write))),
        ("AD", 4, 5, Ok((8, 4, Rtr::Read))),
        ("ACD", 4, 5, Ok((8, 4, Rtr::Write))),
        ("A", 4, 5, Err(Term::NO_MATCHING_RTR)),
        ("AB", 4, 5, Err(Term::NO_MATCHING_RTR)),
        // A Read cannot announce anything where no read is served.
        ("AD", 0, 5, Err(Term::NO_MATCHING_RTR)),
        ("", 4, 5, Ok((8, 4, Rtr::None))),
        ("AC", 40, 8, Ok((8, 6, Rtr::Write))),
        ("AC", 4, 9, Err(Term::INSUFFICIENT_IRD)),
        ("AC", unset, unset, Ok((8, 6, Rtr::Write))),
    ];
    for (flags, ird, ord, expected) in cases {
        let got = mpa::conclude(WISH, &second(true, enhanced(flags, ird, ord)));
        let expected = match expected {
            Ok((ird, ord, rtr)) => Ok(Agreed {
                ird,
                ord,
                crc: true,
                rtr,
            }),
            Err(term) => Err(Unusable::Terminate(term)),
        };
        assert_eq!(got, expected, "{flags} {ird} {ord}");
    }
    for wrong in [
        plain(true),
        Setup {
            markers: true,
            ..second(true, enhanced("AC", 1, 1))
        },
    ] {
        assert!(matches!(
            mpa::conclude(WISH, &wrong),
            Err(Unusable::Malformed(_))
        ));
    }
}

/// CRCs are on unless both sides forgo them (RFC 5044 §7.1.1).
#[test]
fn crcs_are_off_only_when_both_forgo_them() {
    for (ours, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
        let wish = Wish { crc: ours, ..WISH };
        let crc = theirs;
        let request = Setup {
            crc,
            ..second(false, enhanced("", 1, 1))
        };
        let (reply, responder) = mpa::respond(&request, wish, b"").unwrap();
        assert_eq!((reply.crc, responder.crc), (ours || theirs, ours || theirs));
        let reply = Setup {
            crc,
            ..second(true, enhanced("", 1, 1))
        };
        assert_eq!(mpa::conclude(wish, &reply).unwrap().crc, ours || theirs);
    }
}

/// Both of ours come to the same terms, whatever they wish.
#[test]
fn our_two_sides_agree() {
    let depths = [0, 1, 3, 100, 0x3ffe];
    for n in 0..625_usize {
        let depth = |at: u32| depths[n / 5_usize.pow(at) % 5];
        let (ird, ord, crc) = (depth(0), depth(1), n % 2 == 0);
        let a = Wish { ird, ord, crc };
        let (ird, ord) = (depth(2), depth(3));
        let b = Wish { ird, ord, crc };
        let (reply, responder) = mpa::respond(&mpa::request(a, b""), b, b"").unwrap();
        let initiator = mpa::conclude(a, &reply).unwrap();
        assert!(initiator.ord <= responder.ird && responder.ord <= initiator.ird);
        assert!(initiator.ord <= a.ord && responder.ord <= b.ord);
        assert_eq!(
            (initiator.rtr, initiator.crc),
            (responder.rtr, responder.crc)
        );
    }
}

/// RFC 3720 §B.4 and the frame of RFC 5044 Figure 5, whose CRC covers the marker before it.
#[test]
fn the_crc_is_that_of_iscsi() {
    assert_eq!(
        rig::crc32c(&[0; 32]).to_le_bytes(),
        [0xaa, 0x36, 0x91, 0x8a]
    );
    assert_eq!(
        rig::crc32c(&[0xff; 32]).to_le_bytes(),
        [0x43, 0xab, 0xa8, 0x62]
    );
    let header = SegmentHeader {
        last: true,
        control: Opcode::Send.control(),
        place: Place::Untagged {
            invalidate: 0,
            queue: 0,
            msn: 1,
            mo: 0,
        },
    };
    let mut ulpdu = Vec::new();
    header.encode(&mut ulpdu);
    ulpdu.resize(42, 0);
    let frame = rig::frame(&ulpdu);
    let marked = [&[0; 4][..], &frame[..frame.len() - 4]].concat();
    assert_eq!(rig::crc32c(&marked).to_le_bytes(), [0x52, 0x23, 0x99, 0x83]);
}

#[test]
fn frames_are_multiples_of_four_and_fit_their_segment() {
    for len in 0..2000 {
        assert_eq!((2 + len + mpa::pad_bytes(len)) % 4, 0);
        assert!(mpa::pad_bytes(len) < 4);
    }
    // RFC 5044 §4.5: MULPDU = EMSS - (6 + EMSS mod 4).
    assert_eq!(mpa::mulpdu_for_segment(1460), 1454);
    assert_eq!(mpa::mulpdu_for_segment(1448), 1442);
    assert_eq!(mpa::mulpdu_for_segment(65_483), 65_474);
    assert_eq!(mpa::mulpdu_for_segment(0), 128);
    assert_eq!(mpa::mulpdu_for_segment(usize::MAX), 65_535);
    for segment in 134..70_000 {
        let mulpdu = mpa::mulpdu_for_segment(segment);
        assert!(2 + mulpdu + mpa::pad_bytes(mulpdu) + 4 <= segment || mulpdu == 128);
    }
}
