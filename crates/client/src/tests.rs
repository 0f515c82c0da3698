//! Goal: what is written is what is read, whatever breaks in between, and data take the way that they should.
//! Method: a cluster in memory with real sessions and simulated time; servers crash, refuse and recall.

mod fake;
mod locks;
mod paths;
mod v3;

use crate::{
    Client, ClientConfig, Error, File, NfsStatus, OpenOptions, SetAttrs, UserIdentity, Verifier,
};
use bytes::Bytes;
use fake::{Cluster, UNIT};
use nfs4::Thresholds;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use transport::Address;
use transport::memory::{Fate, Faults, Passage};

fn config(name: &str) -> ClientConfig {
    let identity = UserIdentity {
        uid: 0,
        gid: 0,
        gids: Vec::new(),
        machine: name.to_owned(),
    };
    ClientConfig::new(
        name.as_bytes().to_vec(),
        Verifier { bytes: [7; 8] },
        identity,
    )
}

async fn connect(cluster: &Cluster, config: ClientConfig) -> Client {
    let mds = vec![Address::Memory("mds".to_owned())];
    Client::connect(mds, cluster.connector("client"), config)
        .await
        .unwrap()
}

async fn rig(ds_count: usize) -> (Cluster, Client) {
    let cluster = Cluster::new(ds_count, None);
    let client = connect(&cluster, config("a")).await;
    (cluster, client)
}

/// Bytes that differ everywhere.
fn pattern(seed: u64, len: usize) -> Bytes {
    let byte = |i: usize| {
        (i as u64)
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(seed)
            .to_be_bytes()[4]
    };
    (0..len).map(byte).collect()
}

async fn new_file(client: &Client) -> (File, u64) {
    let file = client.open("/f", OpenOptions::create(0o644)).await.unwrap();
    let id = u64::from_be_bytes(file.handle().0.clone().try_into().unwrap());
    (file, id)
}

async fn content(file: &File, len: u32) -> Bytes {
    file.read_at(0, len).await.unwrap().into_bytes()
}

const LEN: usize = 5 * UNIT as usize + 123;

#[tokio::test(start_paused = true)]
async fn a_striped_file_goes_to_the_data_servers_and_comes_back() {
    let (cluster, client) = rig(3).await;
    let data = pattern(1, LEN);
    let (file, id) = new_file(&client).await;
    file.write_at(0, data.clone()).await.unwrap();
    assert_eq!(content(&file, u32::MAX).await, data);
    assert_eq!(file.uncommitted_bytes(), LEN as u64);
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    assert!(!cluster.has_layout(id));
    assert_eq!(cluster.opens_count(), 0);

    let file = client.open("/f", OpenOptions::read()).await.unwrap();
    let middle = file.read_at(4000, 5000).await.unwrap();
    assert!(!middle.eof);
    assert_eq!(middle.into_bytes(), data.slice(4000..9000));
    let end = file.read_at(LEN as u64 - 5, 100).await.unwrap();
    assert!(end.eof);
    assert_eq!(end.into_bytes(), data.slice(LEN - 5..));
    assert!(file.read_at(LEN as u64 + 9, 10).await.unwrap().is_empty());
    assert!(file.write_at(0, data.clone()).await.is_err());
    let s = client.stats();
    assert_eq!(
        (s.mds_read_bytes, s.mds_written_bytes, s.ds_failures),
        (0, 0, 0)
    );
    assert_eq!(s.ds_written_bytes, LEN as u64);
}

#[tokio::test(start_paused = true)]
async fn holes_are_zeros_also_before_anything_is_committed() {
    let (_cluster, client) = rig(3).await;
    let (file, _) = new_file(&client).await;
    let at = 3 * u64::from(UNIT) + 10;
    file.write_at(at, Bytes::from_static(b"end")).await.unwrap();
    let mut want = vec![0; usize::try_from(at).unwrap()];
    want.extend_from_slice(b"end");
    let got = file.read_at(0, 1 << 20).await.unwrap();
    assert!(got.eof);
    assert_eq!(got.into_bytes(), want);
    file.flush().await.unwrap();
    assert_eq!(content(&file, 1 << 20).await, want);
    assert_eq!(file.metadata().await.unwrap().size, want.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn names_are_made_found_and_listed() {
    let (_cluster, client) = rig(1).await;
    client.mkdir("/d", 0o755).await.unwrap();
    client.mkdir("/d/e", 0o755).await.unwrap();
    for i in 0..25 {
        let path = format!("/d/e/{i:02}");
        let file = client
            .open(&path, OpenOptions::create(0o644))
            .await
            .unwrap();
        file.close().await.unwrap();
    }
    let page = client
        .read_dir("/d/e")
        .await
        .unwrap()
        .next_page()
        .await
        .unwrap();
    assert!(page.unwrap().len() < 25);
    let names = client
        .read_dir("d//e/")
        .await
        .unwrap()
        .rest()
        .await
        .unwrap();
    let names: Vec<_> = names
        .iter()
        .map(|e| String::from_utf8_lossy(&e.name))
        .collect();
    assert_eq!(
        names,
        (0..25).map(|i| format!("{i:02}")).collect::<Vec<_>>()
    );

    client.symlink("d/e", "/link").await.unwrap();
    client.symlink("../e/07", "/d/e/loop").await.unwrap();
    assert_eq!(client.readlink("/link").await.unwrap(), b"d/e");
    assert!(client.metadata("/link").await.unwrap().is_dir());
    assert!(
        client
            .lookup_link("/link")
            .await
            .unwrap()
            .metadata
            .is_symlink()
    );
    let through = client.lookup("/link/loop").await.unwrap();
    assert_eq!(through.fh, client.lookup("/d/e/07").await.unwrap().fh);
    let file = client
        .open("/link/loop", OpenOptions::read())
        .await
        .unwrap();
    assert_eq!(file.handle(), &through.fh);
    file.close().await.unwrap();
    client.symlink("self", "/self").await.unwrap();
    let endless = client.lookup("/self").await.unwrap_err();
    assert_eq!(endless.status(), Some(NfsStatus::Symlink));
}

#[tokio::test(start_paused = true)]
async fn names_are_renamed_linked_changed_and_removed() {
    let (_cluster, client) = rig(1).await;
    client.mkdir("/d", 0o755).await.unwrap();
    let file = client
        .open("/d/0", OpenOptions::create(0o644))
        .await
        .unwrap();
    file.close().await.unwrap();
    client.symlink("0", "/d/link").await.unwrap();
    client.rename("/d/0", "/renamed").await.unwrap();
    client.link("/renamed", "/linked").await.unwrap();
    assert!(client.metadata("/d/0").await.unwrap_err().is_not_found());
    assert_eq!(client.metadata("/linked").await.unwrap().links_count, 2);
    let full = client.remove("/d").await.unwrap_err();
    assert_eq!(full.status(), Some(NfsStatus::NotEmpty));
    client.remove("/linked").await.unwrap();
    let attrs = SetAttrs {
        mode: Some(0o600),
        ..SetAttrs::default()
    };
    client.set_attrs("/renamed", &attrs).await.unwrap();
    assert_eq!(client.metadata("/renamed").await.unwrap().mode, 0o600);
    let exclusive = OpenOptions {
        exclusive: true,
        ..OpenOptions::create(0o644)
    };
    let exists = client.open("/renamed", exclusive).await.unwrap_err();
    assert_eq!(exists.status(), Some(NfsStatus::Exist));
}

#[tokio::test(start_paused = true)]
async fn what_is_done_by_a_handle_is_done_to_what_was_seen_wherever_its_name_leads_now() {
    let (_cluster, client) = rig(1).await;
    for dir in ["/d", "/d/e", "/other"] {
        client.mkdir(dir, 0o755).await.unwrap();
    }
    for name in ["/d/e/f", "/other/f"] {
        let made = client.open(name, OpenOptions::create(0o644)).await;
        made.unwrap().close().await.unwrap();
    }
    let plain = client.read_dir("/d").await.unwrap().rest().await.unwrap();
    assert!(plain.iter().all(|e| e.fh.is_none()));
    let dir = client.read_dir("/d").await.unwrap().with_handles();
    let mut seen = dir.rest().await.unwrap();
    let fh = seen.pop().unwrap().fh.unwrap();
    client.rename("/d/e", "/moved").await.unwrap();
    client.symlink("/other", "/d/e").await.unwrap();

    let attrs = SetAttrs {
        mode: Some(0o700),
        ..SetAttrs::default()
    };
    client.set_attrs_of(&fh, &attrs).await.unwrap();
    assert_eq!(client.metadata("/moved").await.unwrap().mode, 0o700);
    assert_ne!(client.metadata("/other").await.unwrap().mode, 0o700);
    let inside = client.read_dir_of(fh.clone()).rest().await.unwrap();
    assert_eq!(inside.len(), 1);
    client.remove_in(&fh, "f").await.unwrap();
    assert!(client.lookup("/moved/f").await.unwrap_err().is_not_found());
    assert!(client.lookup("/other/f").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn data_that_a_crashed_data_server_lost_are_written_again() {
    let (cluster, client) = rig(3).await;
    let data = pattern(2, LEN);
    let (file, id) = new_file(&client).await;
    file.write_at(0, data.clone()).await.unwrap();
    cluster.crash_ds(1).await;
    // Before the loss is even known, the client reads what it wrote.
    assert_eq!(content(&file, u32::MAX).await, data);
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    let stats = client.stats();
    assert!(
        stats.resent_bytes > 0 && stats.resent_bytes < LEN as u64,
        "{stats:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn data_are_written_again_as_often_as_servers_lose_them_until_the_client_gives_up() {
    let (cluster, client) = rig(3).await;
    let data = pattern(2, LEN);
    let (file, id) = new_file(&client).await;
    file.write_at(0, data.clone()).await.unwrap();
    cluster.state.lock().lost_commits = 20;
    file.flush().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    file.write_at(0, data).await.unwrap();
    cluster.state.lock().lost_commits = u32::MAX;
    let begin = tokio::time::Instant::now();
    let end = file.flush().await;
    assert!(matches!(end, Err(Error::NotCommitted)), "{end:?}");
    assert!(begin.elapsed() >= config("a").give_up);
}

#[tokio::test(start_paused = true)]
async fn a_dead_data_server_is_passed_over_and_counted() {
    let (cluster, client) = rig(3).await;
    let data = pattern(3, LEN);
    let (file, id) = new_file(&client).await;
    cluster.stop("ds2a").await;
    file.write_at(0, data.clone()).await.unwrap();
    assert_eq!(content(&file, u32::MAX).await, data);
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    let stats = client.stats();
    assert!(
        stats.mds_written_bytes > 0 && stats.ds_written_bytes > 0,
        "{stats:?}"
    );
    assert!(
        stats.mds_fallbacks > 0 && stats.ds_failures > 0,
        "{stats:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_data_server_that_refuses_the_layout_ends_in_mds_io() {
    for status in [
        NfsStatus::PnfsNoLayout,
        NfsStatus::Stale,
        NfsStatus::BadHandle,
    ] {
        let (cluster, client) = rig(2).await;
        let data = pattern(4, LEN);
        let (file, id) = new_file(&client).await;
        cluster.state.lock().refusing.insert(1, status);
        file.write_at(0, data.clone()).await.unwrap();
        let stats = client.stats();
        assert!(
            stats.layouts_granted > 1 && stats.mds_written_bytes > 0,
            "{stats:?}"
        );
        cluster.state.lock().refusing.clear();
        assert_eq!(content(&file, u32::MAX).await, data);
        file.close().await.unwrap();
        assert_eq!(cluster.durable(id), data);
    }
    let (cluster, client) = rig(2).await;
    let (file, _) = new_file(&client).await;
    cluster.state.lock().refusing.insert(0, NfsStatus::NoSpc);
    let full = file.write_at(0, pattern(4, LEN)).await.unwrap_err();
    assert_eq!(full.status(), Some(NfsStatus::NoSpc));
}

#[tokio::test(start_paused = true)]
async fn without_layouts_all_goes_through_the_mds() {
    let (cluster, client) = rig(2).await;
    let data = pattern(5, LEN);
    let (file, id) = new_file(&client).await;
    cluster.state.lock().no_layouts.insert(id);
    file.write_at(0, data.clone()).await.unwrap();
    assert_eq!(content(&file, u32::MAX).await, data);
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    let stats = client.stats();
    assert_eq!((stats.layouts_refused, stats.mds_fallbacks), (1, 0));
    assert_eq!(stats.ds_written_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_delegation_that_was_not_asked_for_goes_back() {
    let (cluster, client) = rig(3).await;
    cluster.state.lock().delegates = true;
    let (file, id) = new_file(&client).await;
    let settle = || tokio::time::sleep(std::time::Duration::from_secs(1));
    settle().await;
    assert!(cluster.state.lock().delegations.is_empty());
    file.write_at(0, Bytes::from_static(b"data")).await.unwrap();
    cluster.recall_delegation(id).await;
    settle().await;
    assert!(cluster.state.lock().delegations.is_empty());
    file.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_small_file_goes_through_the_mds_that_wants_it_and_a_large_one_does_not() {
    let (cluster, client) = rig(2).await;
    cluster.state.lock().thresholds = Some(Thresholds {
        write_file_bytes: Some(10_000),
        write_io_bytes: Some(10_000),
        ..Thresholds::default()
    });
    let data = pattern(5, 20_000);
    let (file, id) = new_file(&client).await;
    file.write_at(0, data.slice(..6000)).await.unwrap();
    assert_eq!(file.uncommitted_bytes(), 0, "it was written stably");
    assert_eq!(cluster.durable(id), data[..6000]);
    file.write_at(6000, data.slice(6000..9000)).await.unwrap();
    assert!(!cluster.has_layout(id));
    let stats = client.stats();
    assert_eq!((stats.mds_written_bytes, stats.layouts_granted), (9000, 0));
    // From here on it is no small file: nothing more goes through the MDS, and all of it is there.
    file.write_at(9000, data.slice(9000..)).await.unwrap();
    assert_eq!(content(&file, u32::MAX).await, data);
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    let stats = client.stats();
    assert_eq!(
        (stats.mds_written_bytes, stats.ds_written_bytes),
        (9000, 11_000)
    );
    assert_eq!((stats.mds_read_bytes, stats.mds_fallbacks), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_recalled_layout_is_flushed_and_returned_and_asked_for_again() {
    let (cluster, client) = rig(3).await;
    let data = pattern(6, LEN);
    let (file, id) = new_file(&client).await;
    file.write_at(0, data.clone()).await.unwrap();
    cluster.recall(id).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!cluster.has_layout(id));
    assert_eq!(cluster.durable(id), data);
    assert_eq!(file.uncommitted_bytes(), 0);
    file.write_at(0, Bytes::from_static(b"again"))
        .await
        .unwrap();
    assert!(cluster.has_layout(id));
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id)[..5], *b"again");
    let stats = client.stats();
    assert_eq!((stats.layouts_recalled, stats.mds_written_bytes), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_layoutcommit_writes_the_data_again() {
    let (cluster, client) = rig(2).await;
    let data = pattern(7, LEN);
    let (file, id) = new_file(&client).await;
    file.write_at(0, data.clone()).await.unwrap();
    cluster.state.lock().refuse_layoutcommits = 2;
    file.flush().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    assert_eq!(client.stats().resent_bytes, 2 * LEN as u64);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_mds_gets_its_opens_back_and_nothing_is_lost() {
    let (cluster, client) = rig(3).await;
    let data = pattern(8, LEN);
    let (file, id) = new_file(&client).await;
    file.write_at(0, data.clone()).await.unwrap();
    cluster.restart_mds().await;
    file.write_at(LEN as u64, Bytes::from_static(b"more"))
        .await
        .unwrap();
    file.close().await.unwrap();
    let mut want = data.to_vec();
    want.extend_from_slice(b"more");
    assert_eq!(cluster.durable(id), want);
    assert_eq!(cluster.state.lock().reclaims, 1);
    let stats = client.stats();
    assert_eq!((stats.sessions_recovered, stats.opens_recovered), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_learns_of_the_restart_and_reclaims() {
    let (cluster, client) = rig(1).await;
    let (_file, _) = new_file(&client).await;
    cluster.restart_mds().await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(cluster.state.lock().reclaims, 1);
    assert_eq!(client.stats().opens_recovered, 1);
}

#[tokio::test(start_paused = true)]
async fn an_open_that_the_server_forgot_is_opened_again() {
    let (cluster, client) = rig(2).await;
    let data = pattern(9, LEN);
    let (file, id) = new_file(&client).await;
    cluster.forget_opens();
    file.write_at(0, data.clone()).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    assert_eq!(client.stats().opens_recovered, 1);
}

#[tokio::test(start_paused = true)]
async fn delays_are_waited_out() {
    let (cluster, client) = rig(2).await;
    cluster.state.lock().delays = 4;
    let (file, id) = new_file(&client).await;
    cluster.state.lock().delays = 6;
    let data = pattern(10, LEN);
    file.write_at(0, data.clone()).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), data);
    assert_eq!(client.stats().mds_fallbacks, 0);
}

#[tokio::test(start_paused = true)]
async fn uncommitted_data_are_bounded() {
    let cluster = Cluster::new(2, None);
    let config = ClientConfig {
        uncommitted_bytes_max: 2 * u64::from(UNIT),
        ..config("a")
    };
    let client = connect(&cluster, config).await;
    let (file, id) = new_file(&client).await;
    let data = pattern(11, 20 * UNIT as usize);
    for (i, part) in data.chunks(UNIT as usize).enumerate() {
        let at = i as u64 * u64::from(UNIT);
        file.write_at(at, Bytes::copy_from_slice(part))
            .await
            .unwrap();
        assert!(file.uncommitted_bytes() < 4 * u64::from(UNIT));
    }
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), data);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_file_is_closed_and_a_closed_client_says_so() {
    let (cluster, client) = rig(2).await;
    let (file, id) = new_file(&client).await;
    file.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    drop(file);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(cluster.durable(id), b"x");
    assert_eq!(cluster.opens_count(), 0);
    let other = client.clone();
    client.close().await.unwrap();
    assert!(matches!(other.metadata("/").await, Err(Error::Closed)));
}

/// Loses, delays and cuts, seeded by a count.
struct Rough(AtomicU64);

impl Faults for Rough {
    fn fate(&self, _: &Passage<'_>) -> Fate {
        let n = self.0.fetch_add(1, Relaxed);
        match (n ^ (n >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58 {
            0 => Fate::Lose,
            1 => Fate::Cut,
            2 => Fate::Double,
            3..6 => Fate::Delay(std::time::Duration::from_millis(300)),
            _ => Fate::Deliver,
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64, usize),
    Read(u64, u32),
    Truncate(u64),
    Flush,
    CrashDs(usize),
    RestartMds,
    Recall,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0u64..40_000;
    prop_oneof![
        6 => (at.clone(), 1usize..20_000).prop_map(|(a, l)| Step::Write(a, l)),
        4 => (at.clone(), 1u32..30_000).prop_map(|(a, l)| Step::Read(a, l)),
        1 => at.prop_map(Step::Truncate),
        1 => Just(Step::Flush),
        1 => (0usize..3).prop_map(Step::CrashDs),
        1 => Just(Step::RestartMds),
        1 => Just(Step::Recall),
        1 => Just(Step::Reopen),
    ]
}

async fn run_steps(steps: Vec<Step>, rough: Option<u64>) {
    let faults = rough.map(|seed| Arc::new(Rough(AtomicU64::new(seed))) as Arc<dyn Faults>);
    let cluster = Cluster::new(3, faults);
    let client = connect(&cluster, config("a")).await;
    let (mut file, id) = new_file(&client).await;
    let mut model: Vec<u8> = Vec::new();
    for (i, step) in steps.into_iter().enumerate() {
        match step {
            Step::Write(at, len) => {
                let data = pattern(i as u64 * 77, len);
                let from = usize::try_from(at).unwrap();
                model.resize(model.len().max(from + len), 0);
                model[from..from + len].copy_from_slice(&data);
                file.write_at(at, data).await.unwrap();
            }
            Step::Read(at, len) => {
                let got = file.read_at(at, len).await.unwrap();
                let from = usize::try_from(at).unwrap().min(model.len());
                let to = (from + len as usize).min(model.len());
                assert_eq!(got.clone().into_bytes(), model[from..to], "step {i}");
                assert!(got.eof || to < model.len() || from + len as usize == to);
            }
            Step::Truncate(size) => {
                model.resize(usize::try_from(size).unwrap(), 0);
                file.set_len(size).await.unwrap();
            }
            Step::Flush => {
                file.flush().await.unwrap();
                assert_eq!(cluster.durable(id), model, "step {i}");
            }
            Step::CrashDs(n) => cluster.crash_ds(n).await,
            Step::RestartMds => cluster.restart_mds().await,
            Step::Recall if cluster.has_layout(id) && rough.is_none() => cluster.recall(id).await,
            Step::Recall => {}
            Step::Reopen => {
                file.close().await.unwrap();
                assert_eq!(cluster.durable(id), model, "step {i}");
                let options = OpenOptions::read_write();
                file = client.open("/f", options).await.unwrap();
            }
        }
    }
    file.close().await.unwrap();
    assert_eq!(cluster.durable(id), model);
}

fn simulated(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_is_like_its_model(steps in prop::collection::vec(step(), 1..30)) {
        simulated(run_steps(steps, None));
    }

    #[test]
    fn a_file_is_like_its_model_over_a_rough_network(
        steps in prop::collection::vec(step(), 1..15),
        seed in any::<u64>(),
    ) {
        simulated(run_steps(steps, Some(seed)));
    }
}
