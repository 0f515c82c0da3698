//! Goal: whatever a fuzzer once found stays fixed, and changes of real messages do no harm. Method: replay of `fuzz/corpus`, and of
//! each seed with every byte changed and at every length.

#[path = "../../../fuzz/replay.rs"]
mod replay;

use replay::Target;
use ropewalk_rpc as rpc;
use rpc::{AuthSys, CallStart, OpaqueAuth, flavor, fragment_header, fuzz, rpcbind};
use xdr::{Chain, Opaque};

const TARGETS: &[Target] = &[
    ("rpc_call", fuzz::call, call),
    ("record_reader", fuzz::record_reader, stream),
    ("rpcbind_answer", fuzz::rpcbind_answer, listing),
    ("rpcbind_answer/address", fuzz::rpcbind_answer, address),
];

fn call() -> Vec<u8> {
    let identity = AuthSys {
        stamp: 1,
        machine: b"host".to_vec(),
        uid: 2,
        gid: 3,
        gids: vec![4, 5],
    };
    xdr::encode_to_vec(&CallStart {
        xid: 6,
        program: 100_003,
        version: 4,
        procedure: 1,
        credential: OpaqueAuth {
            flavor: flavor::AUTH_SYS,
            body: &identity.to_body(),
        },
        verifier: OpaqueAuth::NONE,
    })
}

/// What DUMP answers.
fn listing() -> Vec<u8> {
    let mapping = |program, netid, address| rpcbind::Mapping {
        program,
        version: 4,
        netid: Opaque(netid),
        address: Opaque(address),
        owner: Opaque(b"superuser"),
    };
    let listed = vec![
        mapping(100_000, &b"udp6"[..], &b"::.0.111"[..]),
        mapping(100_003, b"tcp", b"192.0.2.7.8.1"),
    ];
    xdr::encode_to_vec::<rpcbind::Listing<'_>>(&Chain(listed))
}

/// What GETADDR answers.
fn address() -> Vec<u8> {
    xdr::encode_to_vec(&Opaque::<{ rpcbind::TEXT_BYTES_MAX }>(b"192.0.2.7.8.1"))
}

/// Pieces of three bytes: a record in one fragment, one in two with an empty one between, the start of a third.
fn stream() -> Vec<u8> {
    let mut out = vec![3];
    for (bytes, last) in [
        (&b"whole"[..], true),
        (b"fi", false),
        (b"", false),
        (b"rst", true),
    ] {
        out.extend(fragment_header(
            u32::try_from(bytes.len()).expect("a few bytes"),
            last,
        ));
        out.extend(bytes);
    }
    out.extend(fragment_header(60_000, true));
    out.extend(b"begun");
    out
}
