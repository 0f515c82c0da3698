//! Goal: whatever a fuzzer once found stays fixed, and mutations of real messages do no harm. Method: replay of
//! `fuzz/corpus`, and of generated messages with each byte changed and at each length.

use std::{collections::BTreeSet, path::Path};

use xdr::{Encoder, List, Opaque, encode_to_vec};

use super::flex_files;
use crate::{cb::*, fuzz, layout::*, ops::*, *};

fn compound() -> Vec<u8> {
    let mut b = CompoundBuilder::new(Encoder::new(), b"t", 2);
    b.push(&SequenceArgs {
        session_id: SessionId::default(),
        sequence_id: 1,
        slot_id: 0,
        highest_slot_id: 0,
        cache_this: false,
    })
    .push(&PutFhArgs {
        object: Opaque(b"handle"),
    })
    .push(&OpenArgs {
        seqid: 0,
        share_access: 3,
        share_deny: 0,
        owner: StateOwner {
            clientid: ClientId::default(),
            owner: Opaque(b"o"),
        },
        how: OpenHow::Create(CreateHow::Guarded(setattr())),
        claim: OpenClaim::Null(Opaque(b"name")),
    })
    .push(&GetAttrArgs {
        attr_request: attr::KNOWN,
    })
    .push(&TestStateidArgs {
        stateids: List(vec![Stateid::CURRENT; 3]),
    });
    b.finish().into_bytes()
}

fn setattr() -> Fattr<'static> {
    Fattr::new(&Attrs {
        size: Some(0),
        mode: Some(0o600),
        acl: Some(List(vec![Ace {
            ace_type: 0,
            flag: 0,
            access_mask: 1,
            who: Owner::from(&b"OWNER@"[..]),
        }])),
        time_modify_set: Some(SetTime::Server),
        ..Attrs::default()
    })
}

fn reply() -> Vec<u8> {
    let mut w = ReplyWriter::<OpNum>::new(Encoder::new(), b"t");
    let _ = w.result(&GetAttrRes {
        attributes: setattr(),
    });
    let _ = w.result(&ReadDirRes {
        cookie_verifier: Verifier::default(),
        entries: vec![DirEntry {
            cookie: 1,
            name: Opaque(b"n"),
            attrs: setattr(),
        }],
        eof: true,
    });
    let _ = w.result(&SetAttrRes {
        status: NfsStatus::Perm,
        attrsset: attr::KNOWN,
    });
    w.finish(NfsStatus::Perm).into_bytes()
}

fn callback() -> Vec<u8> {
    let mut b = CbCompoundBuilder::new(Encoder::with_buffer(vec![0]), b"", 1);
    b.push(&CbNotifyDeviceidArgs {
        changes: List(vec![DeviceNotification::Delete {
            layout_type: 1,
            device_id: DeviceId::default(),
        }]),
    });
    b.finish().into_bytes()
}

fn device() -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend(encode_to_vec(&FileLayoutDsAddr {
        stripe_indices: List(vec![0, 0]),
        multipath_ds_list: List(vec![List(vec![NetAddr {
            netid: xdr::OpaqueBuf(b"tcp".to_vec()),
            uaddr: xdr::OpaqueBuf(b"10.0.0.1.8.1".to_vec()),
        }])]),
    }));
    bytes
}

/// A message of our own for each target. A target with several has them under their names after a slash.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("compound_args", compound()),
        ("compound_reply", reply()),
        ("cb_compound", callback()),
        ("fattr", encode_to_vec(&setattr())),
        ("files_layout", device()),
        ("flex_files", flex_files::chosen(0, &flex_files::layout())),
        (
            "flex_files/device",
            flex_files::chosen(1, &flex_files::device()),
        ),
        (
            "flex_files/return",
            flex_files::chosen(2, &flex_files::layout_return()),
        ),
        (
            "flex_files/update",
            flex_files::chosen(3, &flex_files::update()),
        ),
    ]
}

fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((name, "seed"))
}

fn target(name: &str) -> fuzz::Target {
    let found = fuzz::TARGETS.iter().find(|(n, _)| *n == split(name).0);
    found.expect("every corpus folder has its target").1
}

#[test]
fn mutations_of_real_messages_do_no_harm() {
    let sampled: BTreeSet<_> = samples().iter().map(|(name, _)| split(name).0).collect();
    assert_eq!(sampled.len(), fuzz::TARGETS.len());
    for (name, sample) in samples() {
        let run = target(name);
        run(&sample);
        for at in 0..sample.len() {
            run(&sample[..at]);
            for value in [0, 1, 0x7f, 0x80, 0xff, sample[at].wrapping_add(1)] {
                let mut changed = sample.clone();
                changed[at] = value;
                run(&changed);
            }
        }
    }
}

#[test]
fn the_corpus_is_replayed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, sample) in samples() {
        let mut replayed = 0;
        let (folder, seed) = split(name);
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            target(name)(&bytes);
            replayed += 1;
        }
        assert!(replayed > 0, "{name} has a seed");
        let seed = std::fs::read(root.join(folder).join(seed)).unwrap();
        assert_eq!(seed, sample, "the seed of {name} is our own message");
    }
}

/// After a change of a sample, `ROPEWALK_WRITE_SEEDS=1 cargo test` writes the seeds anew; any other run finds them as they are.
#[test]
fn seeds_are_our_own_messages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, sample) in samples() {
        let (folder, seed) = split(name);
        let seed = root.join(folder).join(seed);
        if std::env::var_os("ROPEWALK_WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(root.join(folder)).unwrap();
            std::fs::write(&seed, &sample).unwrap();
        }
        assert!(std::fs::read(&seed).unwrap() == sample, "{name}");
    }
}
