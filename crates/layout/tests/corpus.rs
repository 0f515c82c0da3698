//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use layout::{ClientTag, DsHandle, Epoch, HandlePlace, MdsHandle, MdsHandleKind, Rights, fuzz};
use replay::Target;
use ropewalk_layout as layout;

const TARGETS: &[Target] = &[
    ("ds_handle", fuzz::ds_handle, ds_handle),
    ("mds_handle", fuzz::mds_handle, mds_handle),
];

fn ds_handle() -> Vec<u8> {
    let handle = DsHandle {
        cluster_id: fuzz::CLUSTER,
        file_id: 77,
        generation: 1,
        place: Some(HandlePlace {
            group: 3,
            place: 1,
            reign: 2,
            unit_log2: 20,
            first_index: 1,
        }),
        rights: Rights::ReadWrite,
        epoch: Epoch::from_u64(9 << 32 | 4),
        client: ClientTag::of(fuzz::CLUSTER, b"client"),
    };
    handle.sign(&fuzz::key()).as_bytes().to_vec()
}

fn mds_handle() -> Vec<u8> {
    let handle = MdsHandle {
        kind: MdsHandleKind::Inode,
        cluster_id: fuzz::CLUSTER,
        file_id: 77,
        generation: 1,
    };
    handle.to_bytes().to_vec()
}
