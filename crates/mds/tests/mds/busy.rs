//! Goal: whoever works most in which directory is found, by NFSv4.1 and by NFSv4.0.
//! Method: calls by hand, more than enough of them for one in [`fs::SAMPLED_ONE_IN`] to tell.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::delegated::cluster;
use crate::rig::old::Old;
use crate::rig::{Client, Rig};
use fs::{BusyClient, busiest};
use nfs4::attr::{self, Attrs};
use nfs4::ops::*;
use nfs4::{Bitmap, CompoundBuilder, Fattr, FileHandle, NfsStatus};
use xdr::Opaque;

/// Operations of each kind: some hundred are sampled.
const ROUNDS: usize = 1500;

/// Makes something of this name; returns its handle.
async fn make(client: &Client, dir: &[&str], kind: CreateType<'static>, name: &str) -> FileHandle {
    let dir_fh = client.lookup(dir).await.unwrap();
    let made = client.on(&dir_fh, |b: &mut CompoundBuilder| {
        b.push(&CreateArgs {
            object_type: kind,
            name: Opaque(name.as_bytes()),
            attrs: Fattr::new(&Attrs {
                mode: Some(0o755),
                ..Attrs::default()
            }),
        });
    });
    assert_eq!(made.await.results().unwrap().status, NfsStatus::Ok);
    client.lookup(&[dir, &[name]].concat()).await.unwrap()
}

fn number(rig: &Rig, handle: &FileHandle) -> u64 {
    rig.nfsd
        .role()
        .fs()
        .parse_handle(&handle.0)
        .unwrap()
        .file_id
}

#[tokio::test]
async fn names_count_for_their_directory_and_what_is_no_directory_for_the_one_of_its_name() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let looked = make(&client, &[], CreateType::Dir, "looked").await;
    let quiet = make(&client, &[], CreateType::Dir, "quiet").await;
    let inner = make(&client, &["looked"], CreateType::Fifo, "fifo").await;
    for _ in 0..ROUNDS {
        let absent = client.on(&looked, |b: &mut CompoundBuilder| {
            b.push(&LookupArgs {
                name: Opaque(b"absent"),
            });
        });
        assert_eq!(absent.await.results().unwrap().status, NfsStatus::NoEnt);
        let look = client.on(&inner, |b: &mut CompoundBuilder| {
            b.push(&GetAttrArgs {
                attr_request: Bitmap::of(&[attr::SIZE]),
            });
        });
        assert_eq!(look.await.results().unwrap().status, NfsStatus::Ok);
    }
    let told = busiest(rig.nfsd.role().fs(), 3);
    let first = told.directories[0];
    assert_eq!(first.file, number(&rig, &looked));
    // Both kinds, counted over a second at least.
    let counted = first.operations_per_s * told.seconds;
    let wanted = 2.0 * ROUNDS as f64;
    assert!((counted - wanted).abs() < wanted / 4.0, "{told:?}");
    let rest = told
        .directories
        .iter()
        .find(|d| d.file == number(&rig, &quiet));
    assert!(rest.is_none_or(|d| d.operations_per_s < first.operations_per_s / 20.0));
    let BusyClient::Known(_) = told.clients[0].client else {
        panic!("{told:?}");
    };
}

#[tokio::test]
async fn nfsv4_0_counts_too() {
    let (rig, _port, _ds) = cluster().await;
    let old = Old::new(&rig, "host").await;
    for _ in 0..ROUNDS {
        let absent = old.run(|b: &mut CompoundBuilder| {
            b.push(&PutRootFhArgs {});
            b.push(&LookupArgs {
                name: Opaque(b"absent"),
            });
        });
        assert_eq!(absent.await.status(), NfsStatus::NoEnt);
    }
    let told = busiest(rig.nfsd.role().fs(), 3);
    assert_eq!(told.directories[0].file, namespace::FileId::ROOT.0);
    let counted = told.directories[0].operations_per_s * told.seconds;
    assert!(counted > ROUNDS as f64 / 2.0, "{told:?}");
    assert!(told.clients[0].operations_per_s * told.seconds > ROUNDS as f64 / 2.0);
}
