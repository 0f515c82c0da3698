//! Bodies of the fuzz targets `ds_handle` and `mds_handle`; an ordinary test replays their corpus.
//!
//! Each takes bytes of a client. A panic is a finding: a forged handle that passes, or one of ours that does not.

use crate::handle::first;
use crate::{
    ClientTag, DS_HANDLE_BYTES, DsHandle, Epoch, HandlePlace, KEY_BYTES, KeyBytes, KeyRing,
    MdsHandle, Rights, SigningKey,
};

/// The cluster of all samples.
pub const CLUSTER: u64 = 0x0102_0304_0506_0708;

/// The key that signs samples.
#[must_use]
pub fn key() -> SigningKey {
    SigningKey::new(5, KeyBytes::from_random([0x5a; KEY_BYTES]))
}

/// A data-server handle of a client, and the handle that the same bytes would make up. What passes was signed by us,
/// bit by bit. What we signed passes until one bit of it changes.
///
/// # Panics
/// When that is not so.
pub fn ds_handle(data: &[u8]) {
    let mut ring = KeyRing::new();
    ring.insert_active(key()).expect("the ring is empty");
    if let Ok(handle) = DsHandle::verify(data, CLUSTER, &ring) {
        assert_eq!(
            handle.sign(&key()).as_bytes().as_slice(),
            data,
            "a forged handle passed"
        );
    }
    let Some(fields) = data.first_chunk::<40>() else {
        return;
    };
    let handle = DsHandle {
        cluster_id: CLUSTER,
        file_id: u64::from_be_bytes(first(&fields[0..])),
        generation: u32::from_be_bytes(first(&fields[8..])),
        place: fields[12].is_multiple_of(2).then(|| HandlePlace {
            group: u32::from_be_bytes(first(&fields[22..])),
            place: fields[12],
            reign: u32::from_be_bytes(first(&fields[26..])),
            unit_log2: fields[13] % 64,
            first_index: fields[14],
        }),
        rights: if fields[13] % 2 == 0 {
            Rights::Read
        } else {
            Rights::ReadWrite
        },
        epoch: Epoch::from_u64(u64::from_be_bytes(first(&fields[14..]))),
        client: ClientTag::of(CLUSTER, &fields[22..38]),
    };
    let mut signed = *handle.sign(&key()).as_bytes();
    assert_eq!(DsHandle::verify(&signed, CLUSTER, &ring), Ok(handle));
    signed[usize::from(fields[38]) % DS_HANDLE_BYTES] ^= 1 << (fields[39] % 8);
    let altered = DsHandle::verify(&signed, CLUSTER, &ring);
    assert!(altered.is_err(), "an altered handle passed");
}

/// A metadata-server handle: what is understood is written back bit by bit.
///
/// # Panics
/// When it is not.
pub fn mds_handle(data: &[u8]) {
    if let Ok(handle) = MdsHandle::parse(data, CLUSTER) {
        assert_eq!(handle.to_bytes(), data, "a handle has two spellings");
    }
}
