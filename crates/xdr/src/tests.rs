//! Goal: every item round-trips, every truncation is an error and no length allocates ahead of its
//! bytes. Method: one struct that holds each kind of item, cut at every byte.

use crate::{
    Chain, Decode, DecodeErrorKind, Decoder, Encode, Encoder, List, Opaque, OpaqueBuf, decode_all,
    encode_to_vec,
};

crate::xdr_enum! {
    /// A colour.
    enum Colour {
        /// Red.
        Red = 1,
        /// Blue.
        Blue = 7,
    }
}

crate::xdr_struct! {
    /// One of each.
    struct Sample<'a> {
        a: u32,
        b: i64,
        c: bool,
        d: [u8; 5],
        e: Opaque<'a, 10>,
        f: OpaqueBuf<10>,
        g: List<u64, 4>,
        h: Option<Colour>,
    }
}

fn sample() -> Sample<'static> {
    Sample {
        a: 0xdead_beef,
        b: -2,
        c: true,
        d: *b"hello",
        e: Opaque(b"abc"),
        f: OpaqueBuf(b"wxyz!".to_vec()),
        g: List(vec![1, u64::MAX]),
        h: Some(Colour::Blue),
    }
}

#[test]
fn a_struct_of_every_item_round_trips() {
    let bytes = encode_to_vec(&sample());
    assert_eq!(bytes.len() % 4, 0);
    assert_eq!(decode_all::<Sample<'_>>(&bytes), Ok(sample()));
}

#[test]
fn truncation_at_every_byte_is_refused() {
    let bytes = encode_to_vec(&sample());
    for cut in 0..bytes.len() {
        let err = decode_all::<Sample<'_>>(&bytes[..cut]).unwrap_err();
        assert_eq!(err.kind, DecodeErrorKind::Truncated, "cut at {cut}");
    }
}

#[test]
fn trailing_bytes_are_refused() {
    let mut bytes = encode_to_vec(&sample());
    bytes.push(0);
    assert_eq!(
        decode_all::<Sample<'_>>(&bytes).unwrap_err().kind,
        DecodeErrorKind::Trailing
    );
}

#[test]
fn lengths_above_the_limit_are_refused_before_any_byte_is_taken() {
    let bytes = 11_u32.to_be_bytes();
    let err = Decoder::new(&bytes).opaque(10).unwrap_err();
    assert_eq!(err.kind, DecodeErrorKind::TooLong { len: 11, limit: 10 });
    assert_eq!(err.offset, 0);
}

#[test]
fn a_list_reserves_no_more_than_the_bytes_that_are_there() {
    let mut bytes = u32::MAX.to_be_bytes().to_vec();
    bytes.extend([0; 8]);
    let err = Decoder::new(&bytes).list::<u32>(u32::MAX).unwrap_err();
    assert_eq!(err.kind, DecodeErrorKind::Truncated);
}

#[test]
fn unknown_discriminants_and_booleans_name_their_value() {
    assert_eq!(Colour::ALL, [Colour::Red, Colour::Blue]);
    let two = 2_u32.to_be_bytes();
    assert_eq!(
        Colour::decode(&mut Decoder::new(&two)).unwrap_err().kind,
        DecodeErrorKind::BadDiscriminant(2)
    );
    assert_eq!(
        Decoder::new(&two).bool().unwrap_err().kind,
        DecodeErrorKind::BadBool(2)
    );
}

#[test]
fn a_payload_is_a_span_and_counts_with_its_padding_on_the_wire() {
    let mut e = Encoder::new();
    e.u32(9);
    let start = e.mark();
    assert_eq!(e.payload(5), 0);
    7_u32.encode(&mut e);
    assert_eq!(e.spans()[0].at, 8);
    assert_eq!((e.len(), e.wire_len()), (12, 20));
    e.truncate(start);
    assert_eq!((e.len(), e.wire_len(), e.spans().len()), (4, 4, 0));
}

#[test]
fn a_reserved_value_is_patched_in_place() {
    let mut e = Encoder::new();
    let count = e.reserve_u32();
    e.u32(5);
    e.patch_u32(count, 1);
    assert_eq!(e.into_bytes(), [0, 0, 0, 1, 0, 0, 0, 5]);
}

crate::xdr_union! {
    /// A thing with or without a body.
    union Shape<'a> {
        /// Nothing.
        Point = 0,
        /// A number.
        Circle(radius: u32) = 2,
        /// A name.
        Other(name: Opaque<'a, 4>) = 3,
    }
}

#[test]
fn a_union_is_its_discriminant_and_the_body_of_its_arm() {
    let table: [(Shape<'_>, &[u8]); 3] = [
        (Shape::Point, &[0, 0, 0, 0]),
        (Shape::Circle(9), &[0, 0, 0, 2, 0, 0, 0, 9]),
        (
            Shape::Other(Opaque(b"ab")),
            &[0, 0, 0, 3, 0, 0, 0, 2, b'a', b'b', 0, 0],
        ),
    ];
    for (value, bytes) in table {
        assert_eq!(encode_to_vec(&value), bytes);
        assert_eq!(decode_all(bytes), Ok(value));
    }
    let err = decode_all::<Shape<'_>>(&[0, 0, 0, 1]).unwrap_err();
    assert_eq!(err.kind, DecodeErrorKind::BadDiscriminant(1));
}

#[test]
fn a_chain_is_items_that_follow_each_other_up_to_its_limit() {
    let chain: Chain<u32, 2> = vec![5, 6].into();
    let bytes = [0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0];
    assert_eq!(encode_to_vec(&chain), bytes);
    assert_eq!(decode_all(&bytes), Ok(chain));
    let err = decode_all::<Chain<u32, 1>>(&bytes).unwrap_err();
    assert_eq!(err.kind, DecodeErrorKind::TooLong { len: 2, limit: 1 });
    assert_eq!(err.offset, 8);
    for cut in 0..bytes.len() {
        let err = decode_all::<Chain<u32, 2>>(&bytes[..cut]).unwrap_err();
        assert_eq!(err.kind, DecodeErrorKind::Truncated, "cut at {cut}");
    }
}
