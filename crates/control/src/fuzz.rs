//! Entry point of the fuzzer: any bytes, as every message of both directions.

use xdr::{Decode, Encode};

use crate::answer::Answer;
use crate::proc::{Proc, Request, ToDs, ToMds};
use crate::{to_ds, to_mds};

/// Decodes `bytes` as the arguments and as the answer of every procedure. What decodes must encode
/// to bytes that decode to the same value.
///
/// # Panics
/// When it does not: a bug of the codec.
pub fn message(bytes: &[u8]) {
    for proc in Proc::ALL {
        let _ = ToMds::decode(*proc as u32, bytes);
        let _ = ToDs::decode(*proc as u32, bytes);
    }
    both::<to_mds::JoinArgs>(bytes);
    both::<to_mds::HelloArgs>(bytes);
    both::<to_mds::HeartbeatArgs>(bytes);
    both::<to_mds::SizeArgs>(bytes);
    both::<to_mds::WroteArgs>(bytes);
    both::<to_mds::OutArgs>(bytes);
    both::<to_mds::FilledArgs>(bytes);
    both::<to_mds::LeftArgs>(bytes);
    both::<to_mds::StoppingArgs>(bytes);
    both::<to_ds::StatArgs>(bytes);
    both::<to_ds::SetSizeArgs>(bytes);
    both::<to_ds::CommitObjectsArgs>(bytes);
    both::<to_ds::RemoveObjectsArgs>(bytes);
    both::<to_ds::FenceArgs>(bytes);
    both::<to_ds::KeysArgs>(bytes);
    both::<to_ds::FloorsArgs>(bytes);
    both::<to_ds::ExpelArgs>(bytes);
    both::<to_ds::ShutdownArgs>(bytes);
    both::<to_ds::MapArgs>(bytes);
    both::<to_ds::PunchArgs>(bytes);
    both::<to_ds::ReserveArgs>(bytes);
    both::<to_ds::CloneObjectArgs>(bytes);
    both::<to_ds::RowsArgs>(bytes);
    both::<to_ds::YieldArgs>(bytes);
}

fn both<R: Request>(bytes: &[u8]) {
    stable::<R>(bytes);
    stable::<Answer<R::Ok>>(bytes);
}

/// The first encoding may differ from `bytes` (padding is not checked); the second may not.
fn stable<T: Encode + for<'a> Decode<'a>>(bytes: &[u8]) {
    if let Ok(value) = xdr::decode_all::<T>(bytes) {
        let first = xdr::encode_to_vec(&value);
        let again = xdr::decode_all::<T>(&first).expect("what we encode decodes");
        assert_eq!(first, xdr::encode_to_vec(&again), "encoding is not stable");
        assert_eq!(first.len(), bytes.len(), "encoding has another length");
    }
}
