//! Goal: a file that has data gets other stripes and copies while it is used, and no byte or time shows it. The change attribute
//! does, as clients keep extended attributes by it.
//! Method: a metadata server and real data servers over stores in memory, in one process, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::after_putfh;
use crate::rig::file::{File, patiently};
use crate::rig::real::{bytes_of, cluster, fill, fill_sparse, write, write_untold};
use nfs4::ops::{GetXattrArgs, GetXattrRes, SetXattrArgs, SetXattrOption, SetXattrRes};
use nfs4::{NfsStatus, StableHow};
use std::time::Duration;
use xdr::Opaque;

const MIB: u64 = 1 << 20;

pub(crate) async fn set(file: &File<'_>, text: &str) -> Result<(), NfsStatus> {
    let done = file.client.on(&file.fh, |b| {
        b.push(&SetXattrArgs {
            option: SetXattrOption::Either,
            name: Opaque(b"ropewalk.layout"),
            value: Opaque(text.as_bytes()),
        });
    });
    let done = done.await;
    let res = after_putfh(&done).take::<SetXattrRes>();
    res.map(drop).map_err(|e| e.status().unwrap())
}

pub(crate) async fn layout(file: &File<'_>) -> String {
    let done = file.client.on(&file.fh, |b| {
        b.push(&GetXattrArgs {
            name: Opaque(b"ropewalk.layout"),
        });
    });
    let done = done.await;
    let mut reply = after_putfh(&done);
    let value = reply.take::<GetXattrRes<'_>>().unwrap().value;
    String::from_utf8(value.0.to_vec()).unwrap()
}

/// Waits until no restriping of the file goes on; returns its layout then.
pub(crate) async fn ended(file: &File<'_>) -> String {
    for _ in 0..600 {
        let text = layout(file).await;
        if !text.contains("restriped=") {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("it goes on: {}", layout(file).await);
}

#[tokio::test(start_paused = true)]
async fn a_file_gets_another_unit_width_and_two_copies_and_nothing_else_changes() {
    let (rig, _port, servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let model = fill_sparse(&file).await;
    let (size, mut change) = patiently(|| file.try_attrs()).await.unwrap();
    for (wanted, is) in [
        ("copies=2", "stripe_count=3 copies=2"),
        (
            "stripe_unit=64K",
            "stripe_unit=65536 stripe_count=3 copies=2",
        ),
        (
            "stripe_count=2",
            "stripe_unit=65536 stripe_count=2 copies=2",
        ),
        (
            "copies=1 stripe_count=1",
            "stripe_unit=65536 stripe_count=1",
        ),
    ] {
        patiently(|| set(&file, wanted)).await.unwrap();
        let text = ended(&file).await;
        assert!(text.ends_with(is), "{wanted}: {text}");
        assert!(bytes_of(&file, 0, usize::MAX).await == model, "{wanted}");
        let now = patiently(|| file.try_attrs()).await.unwrap();
        assert_eq!(now.0, size, "{wanted}");
        assert!(now.1 > change, "{wanted}: clients would show what they set");
        change = now.1;
        // What it is already needs no job.
        patiently(|| set(&file, wanted)).await.unwrap();
        assert!(!layout(&file).await.contains("restriped"), "{wanted}");
    }
    // A layout names the new objects.
    write_untold(&rig, &file, vec![7; 5000]).await;
    drop(servers);
}

#[tokio::test(start_paused = true)]
async fn a_writer_goes_on_while_its_file_is_restriped_and_loses_nothing() {
    let (rig, _port, _servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    let mut model = vec![1; usize::try_from(12 * MIB).unwrap()];
    fill(&file, 0, &model).await;
    patiently(|| set(&file, "copies=2 stripe_unit=128K"))
        .await
        .unwrap();
    let mut round = 0_u8;
    while layout(&file).await.contains("restriped=") {
        round = round.wrapping_add(1);
        let at = usize::from(round) * 40_000 % (11 << 20);
        let bytes = vec![round.max(2); 9000];
        write(&file, at as u64, StableHow::Unstable, &bytes).await;
        model[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    assert!(round > 1, "nothing was written meanwhile");
    assert!(layout(&file).await.ends_with("copies=2"));
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
}

#[tokio::test(start_paused = true)]
async fn a_truncation_meanwhile_is_not_undone() {
    let (rig, _port, _servers) = cluster(3).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    fill(&file, 0, &vec![1; 6 << 20]).await;
    patiently(|| set(&file, "copies=2")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    patiently(|| file.try_truncate(100)).await.unwrap();
    patiently(|| file.try_truncate(200)).await.unwrap();
    assert!(ended(&file).await.ends_with("copies=2"));
    let mut model = vec![1; 100];
    model.resize(200, 0);
    assert_eq!(bytes_of(&file, 0, usize::MAX).await, model);
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_restripes_a_file() {
    let (rig, _port, _servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    let file = File::create(&alice, "f").await;
    fill(&file, 0, &[1; 100]).await;
    let mallory = alice.user(4242);
    let theirs = File {
        client: &mallory,
        name: file.name.clone(),
        fh: file.fh.clone(),
        open: file.open,
    };
    assert_eq!(set(&theirs, "copies=2").await, Err(NfsStatus::Perm));
    assert_eq!(set(&file, "copies=9").await, Err(NfsStatus::Inval));
}
