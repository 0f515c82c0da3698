//! Goal: a way between two data servers that carries nothing more, without an error, costs no copy while there is another way.
//! Method: a metadata server and real data servers over stores in memory, time paused; the network loses what goes that way.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::replicas::{keep_two_copies, until_level};
use crate::rig::Rig;
use crate::rig::cluster::Port;
use crate::rig::file::{File, patiently};
use crate::rig::real::{Real, bytes_of, fill, pattern, try_commit, write};
use nfs4::StableHow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::Instant;
use transport::memory::{Fate, Faults, Passage};

/// As long as a member may be without progress.
const NO_PROGRESS: Duration = Duration::from_secs(5);

/// The first addresses of the data servers, which only these use.
#[derive(Default)]
struct FirstWay {
    is_silent: AtomicBool,
    lost: AtomicU64,
    others: AtomicU64,
}

impl Faults for FirstWay {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        let (from, to) = (passage.from, passage.to);
        let is_between = from.starts_with("ds") && to.starts_with("ds");
        if !is_between || !self.is_silent.load(SeqCst) {
            return Fate::Deliver;
        }
        if from.ends_with('b') || to.ends_with('b') {
            self.others.fetch_add(1, SeqCst);
            return Fate::Deliver;
        }
        self.lost.fetch_add(1, SeqCst);
        Fate::Lose
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_way_to_a_member_costs_no_copy_where_there_is_another() {
    let way = Arc::new(FirstWay::default());
    let rig = Rig::troubled(way.clone()).await;
    let port = Port::open(&rig);
    let mut servers = Vec::new();
    for number in 1..=2 {
        let mut server = Real::new(number);
        server.second_name = Some(format!("ds{number}b"));
        server.start(&rig, &port, u64::from(number)).await;
        servers.push(server);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    keep_two_copies(&alice).await;
    let file = File::create(&alice, "file").await;
    let mut model = pattern(100_000);
    fill(&file, 0, &model).await;
    patiently(|| try_commit(&file)).await.unwrap();
    until_level(&rig).await;
    let rows = || {
        let places = rig.nfsd.role().fs().cluster().status().places;
        let row = |p: cluster::PlaceStatus| (p.primary, p.sync);
        places.into_iter().map(row).collect::<Vec<_>>()
    };
    let before = rows();
    way.is_silent.store(true, SeqCst);
    for at in (0..model.len()).step_by(4096) {
        let begun = Instant::now();
        write(&file, at as u64, StableHow::FileSync, b"written over it").await;
        model[at..at + 15].copy_from_slice(b"written over it");
        assert!(begun.elapsed() < NO_PROGRESS, "{:?}", begun.elapsed());
    }
    assert!(way.lost.load(SeqCst) > 0 && way.others.load(SeqCst) > 0);
    assert_eq!(rows(), before, "no member was left out");
    assert!(bytes_of(&file, 0, usize::MAX).await == model);
}
