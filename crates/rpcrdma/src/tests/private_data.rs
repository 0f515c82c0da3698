//! Goal: private data are found and read as RFC 8797 says, whatever else stands there. Method: tables.

use crate::*;

const DATA: PrivateData = PrivateData {
    remote_invalidation: true,
    send_bytes: 4096,
    receive_bytes: 8192,
};
const BYTES: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 7];

#[test]
fn the_message_has_the_bytes_of_the_rfc() {
    assert_eq!(DATA.encode(), BYTES);
    assert_eq!(PrivateData::decode(&BYTES), DATA);
    let none = PrivateData::default().encode();
    assert_eq!(none, [0xf6, 0xab, 0x0e, 0x18, 1, 0, 0, 0]);
}

#[test]
fn it_is_found_at_any_place() {
    for before in 0..12 {
        let mut bytes = vec![0xf6; before];
        bytes.extend(BYTES);
        bytes.extend(b"more");
        assert_eq!(PrivateData::decode(&bytes), DATA, "behind {before} bytes");
    }
}

#[test]
fn what_is_not_understood_means_the_defaults() {
    let default = PrivateData::default();
    assert_eq!(default.send_bytes, 1024);
    for len in 0..BYTES.len() {
        assert_eq!(PrivateData::decode(&BYTES[..len]), default, "{len} bytes");
    }
    let mut other_version = BYTES;
    other_version[4] = 2;
    assert_eq!(PrivateData::decode(&other_version), default);
    assert_eq!(PrivateData::decode(&[0; 56]), default);
}

#[test]
fn reserved_bits_are_ignored() {
    let mut reserved = BYTES;
    reserved[5] = 0xff;
    assert_eq!(PrivateData::decode(&reserved), DATA);
    reserved[5] = 0xfe;
    assert!(!PrivateData::decode(&reserved).remote_invalidation);
}

#[test]
fn sizes_are_whole_kibibytes_within_what_can_be_said() {
    for (bytes, said) in [
        (0, 1024),
        (1024, 1024),
        (2047, 1024),
        (2048, 2048),
        (4096, 4096),
        (262_144, 262_144),
        (u32::MAX, 262_144),
    ] {
        let data = PrivateData {
            send_bytes: bytes,
            receive_bytes: 1024,
            remote_invalidation: false,
        };
        assert_eq!(PrivateData::decode(&data.encode()).send_bytes, said);
    }
}
