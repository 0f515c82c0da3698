//! Goal: every item comes back as it was passed, and no prefix of one is taken for an item. Only a data server with a
//! live key opens a stream, and only on the connection of the challenge.

use crate::*;
use control::{Range, Stripes};
use layout::{KeyBytes, SigningKey};
use nfs4::NfsTime;

const DATA: &[u8] = b"seven b";

fn pass(item: StreamItem<'_>) -> PassArgs<'_> {
    PassArgs {
        lane: 3,
        number: 1 << 40,
        group: 9,
        place: 2,
        reign: 5,
        file: FileGeneration {
            file_id: 77,
            generation: 1,
        },
        time: NfsTime {
            seconds: 8,
            nanoseconds: 9,
        },
        item,
    }
}

/// The arguments as they lie in a record: payloads in their places.
fn on_the_wire(args: &PassArgs<'_>) -> Vec<u8> {
    let (mut bytes, spans) = encode_pass(args).into_parts();
    let spans: Vec<_> = spans.iter().map(|s| s.at).collect();
    for at in spans {
        let mut data = DATA.to_vec();
        data.resize(DATA.len().next_multiple_of(4), 0);
        bytes.splice(at..at, data);
    }
    let mut d = xdr::Decoder::new(&bytes);
    let header = rpc::CallHeader::decode(&mut d).expect("a header");
    assert_eq!((header.program, header.version), (PROGRAM, VERSION));
    assert_eq!(header.procedure, PartsProc::Pass as u32);
    d.rest().to_vec()
}

#[test]
fn items_come_back_and_no_prefix_is_one() {
    let range = Range { start: 1, end: 2 };
    let stripes = Stripes {
        unit_bytes: 4096,
        width: 4,
        first_index: 1,
        index: 2,
    };
    for item in [
        StreamItem::Write {
            offset: 1 << 33,
            is_stable: true,
            data: DATA,
        },
        StreamItem::Sync,
        StreamItem::Cut { size_bytes: 4 },
        StreamItem::Punch { range },
        StreamItem::Reserve { stripes, range },
        StreamItem::Clone {
            src_file_id: 4,
            src_generation: 5,
            src_offset: 6,
            range,
            size_bytes: 9,
        },
        StreamItem::Drop,
        StreamItem::Nothing,
        StreamItem::Parts {
            after: None,
            which: PartsAsked::All,
        },
        StreamItem::Parts {
            after: Some(FileGeneration {
                file_id: 3,
                generation: 2,
            }),
            which: PartsAsked::Unsettled,
        },
        StreamItem::Settle,
        StreamItem::Sums {
            first: 7,
            count: 16,
        },
    ] {
        let args = pass(item);
        let bytes = on_the_wire(&args);
        assert_eq!(xdr::decode_all::<PassArgs<'_>>(&bytes), Ok(args));
        for len in 0..bytes.len() {
            assert!(
                xdr::decode_all::<PassArgs<'_>>(&bytes[..len]).is_err(),
                "{item:?}"
            );
        }
    }
    for count in [0, BLOCKS_MAX + 1] {
        let bytes = on_the_wire(&pass(StreamItem::Sums { first: 0, count }));
        assert!(xdr::decode_all::<PassArgs<'_>>(&bytes).is_err());
    }
}

#[test]
fn an_opening_is_proved_by_its_key_for_all_that_it_says() {
    let key = SigningKey::new(1, KeyBytes::from_random([7; 32]));
    let good = Opening {
        cluster_id: 1,
        from: 2,
        from_nonce: 3,
        to: 4,
        to_nonce: 5,
        stream: 6,
        challenge: [8; CHALLENGE_BYTES],
    };
    let mac = good.mac(&key);
    assert!(good.is_proved(&key, &mac));
    let other_key = SigningKey::new(1, KeyBytes::from_random([9; 32]));
    assert!(!good.is_proved(&other_key, &mac));
    for other in [
        Opening {
            cluster_id: 9,
            ..good
        },
        Opening { from: 9, ..good },
        Opening {
            from_nonce: 9,
            ..good
        },
        Opening { to: 9, ..good },
        Opening {
            to_nonce: 9,
            ..good
        },
        Opening { stream: 9, ..good },
        Opening {
            challenge: [9; CHALLENGE_BYTES],
            ..good
        },
    ] {
        assert!(!other.is_proved(&key, &mac), "{other:?}");
    }
}
