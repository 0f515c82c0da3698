//! Goal: what a client is asked reaches it in the end, also a client that is slow or was cut off. Its back channel
//! outlives that (RFC 8881 §2.10.6, §20.1, §20.3). Method: clients behind a gate that holds their callbacks up, or cuts
//! their connections, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::delegated::{BOTH, Back, User};
use crate::rig::file::{File, patiently};
use crate::rig::gate::gated;
use crate::rig::{Client, delegated};
use nfs4::cb::{CbLayoutRecallArgs, LayoutRecall};
use nfs4::{CbOpNum, IoMode, NfsStatus, OpReader, Stateid};
use session_client::CallbackHandler;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing_mutex::parkinglot::Mutex;

/// Files that are asked about: more than a back channel has slots.
const FILES: usize = 12;

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_slow_to_tell_the_size_can_still_be_called_back() {
    let (rig, _port, _ds) = delegated::cluster().await;
    let back = Arc::new(Back::default());
    let (client, gate) = gated(&rig, "alice", back.clone()).await;
    let alice = User { client, back };
    let bob = Arc::new(User::new(&rig, "bob").await);
    let mut files = Vec::new();
    for n in 0..FILES {
        files.push(alice.open(&format!("f{n}"), BOTH).await);
    }
    gate.be_busy(true);
    let mut asks = JoinSet::new();
    for file in &files {
        let (bob, fh) = (Arc::clone(&bob), file.fh.clone());
        asks.spawn(async move { bob.attrs(&fh).await.err() });
    }
    // Nobody waits for long for somebody else's client.
    let asked = Instant::now();
    while let Some(refused) = asks.join_next().await {
        assert_eq!(refused.unwrap(), Some(NfsStatus::Delay));
    }
    assert!(asked.elapsed() < Duration::from_secs(3));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(alice.recalls(), 0);
    gate.be_busy(false);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(alice.recalls(), FILES, "each has been recalled meanwhile");
}

/// Notes recalls of layouts, and says that they will be returned.
#[derive(Default)]
struct Recalls(Mutex<Vec<Stateid>>);

impl CallbackHandler for Recalls {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        assert_eq!(op, CbOpNum::LayoutRecall);
        let args: CbLayoutRecallArgs<'_> = args.args().unwrap();
        if let LayoutRecall::File(file) = args.what {
            self.0.lock().push(file.stateid);
        }
        Box::pin(std::future::ready(NfsStatus::Ok))
    }
}

impl Recalls {
    /// The next recall after the first `known` ones.
    async fn next(&self, known: usize) -> Stateid {
        for _ in 0..1200 {
            if let Some(stateid) = self.0.lock().get(known) {
                return *stateid;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("no recall in a minute");
    }
}

/// Alice's file for another session of hers.
fn moved<'c>(file: &File<'_>, client: &'c Client) -> File<'c> {
    File {
        client,
        name: file.name.clone(),
        fh: file.fh.clone(),
        open: file.open,
    }
}

/// Longer than one callback is tried.
const CUT_OFF: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn a_writer_that_was_cut_off_is_asked_for_its_layout_when_it_is_back() {
    let (rig, _port, _servers) = rig::cluster::cluster(1).await;
    let recalls = Arc::new(Recalls::default());
    let (alice, gate) = gated(&rig, "alice", recalls.clone()).await;
    let bob = rig.session("bob").await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    let bobs = File::create(&bob, "f").await;
    gate.cut();
    let back = async {
        sleep(CUT_OFF).await;
        gate.mend();
        alice.session.renew().await.unwrap();
        let stateid = recalls.next(0).await;
        file.layout_return(stateid).await
    };
    let (returned, cut) = tokio::join!(back, patiently(|| bobs.try_truncate(10)));
    assert_eq!(returned, Ok(None), "it was not fenced");
    assert_eq!(cut, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_replaces_a_lost_one_hears_of_the_recall() {
    let (rig, _port, _servers) = rig::cluster::cluster(1).await;
    let (before, after) = (Arc::new(Recalls::default()), Arc::new(Recalls::default()));
    let (alice, gate) = gated(&rig, "alice", before.clone()).await;
    let bob = rig.session("bob").await;
    let file = File::create(&alice, "f").await;
    file.layout(IoMode::Rw).await;
    let bobs = File::create(&bob, "f").await;
    let (known, anew) = tokio::join!(before.next(0), async {
        let cut = bobs.try_truncate(10).await;
        assert_eq!(cut, Err(NfsStatus::Delay));
        gate.cut();
        let again = rig.stranger("alice", *b"boot0001", Some(after.clone()));
        again.session.establish().await.unwrap();
        again
    });
    // Once more what it has said that it will return: who said so may have lost it.
    let stateid = after.next(0).await;
    assert_eq!(stateid, known, "the same recall");
    assert_eq!(moved(&file, &anew).layout_return(stateid).await, Ok(None));
    assert_eq!(patiently(|| bobs.try_truncate(10)).await, Ok(()));
}
