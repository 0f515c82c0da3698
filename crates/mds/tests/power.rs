//! Goal: a power cut at any call of the metadata server's store takes no change of names, and no byte of an inline file, that was acknowledged. What a
//! metadata server recovers from it is a name space. Every name leads to its file, links are counted right, and parents
//! are those that list a directory. Nothing is left over that is not to be removed. Method: `powercut` records this
//! test as its own workload. Three clients make, write, cut, link, rename, change and remove files and directories. Each act is
//! said before it begins and when it is answered. A metadata server over what a cut left is asked for all names, by a
//! client; one act of each may have happened or not.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod power {
    pub(super) mod model;
    pub(super) mod names;
}
#[path = "mds/rig/mod.rs"]
mod rig;

use meta_fjall::{FjallStore, Options};
use power::model::{Act, Model, Seen, Tree};
use power::names;
use powercut::{Dice, ack, record, scratch, workload};
use rig::cluster::{FakeDs, Port};
use rig::{Client, Rig};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Points in the short form.
const POINTS: usize = 60;
const POINTS_PER_RECORDING: usize = 30;
/// Recordings in one line, each in what a cut of the one before left.
const LINE: u64 = 3;
/// Metadata server processes in one recording.
const STARTS: u64 = 2;
/// Clients, each in directories of its own.
pub(crate) const CLIENTS: usize = 3;
const ACTS_PER_CLIENT: u64 = 20;
/// How long the removals of a recovered name space may take, in tries that are 0.1 s apart.
const DRAIN_TRIES: usize = 1200;

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// A metadata server over the store in `root`. `at` says in which cut, when it does not open.
async fn server(root: &Path, at: &str) -> (Arc<FjallStore>, Rig) {
    let options = Options {
        reserve_bytes: 0,
        ..Options::default()
    };
    let store = FjallStore::open(root, options).unwrap_or_else(|e| panic!("{at}: {e}"));
    let store = Arc::new(store);
    (Arc::clone(&store), Rig::over(store).await)
}

/// The data server that files lie on; the cut may have taken that it joined.
async fn data_server(rig: &Rig) -> (Port, FakeDs) {
    let port = Port::open(rig);
    let mut ds = FakeDs::known(1);
    if ds.say_hello(rig, &port).await.is_err() {
        ds = FakeDs::joined(rig, &port, 1).await;
    }
    (port, ds)
}

/// The clients of a recording; earlier incarnations of theirs are gone with their opens.
async fn clients(rig: &Rig, incarnation: u64) -> Vec<Client> {
    let mut all = Vec::new();
    for number in 0..CLIENTS {
        let verifier = incarnation.to_be_bytes();
        all.push(
            rig.session_of(&format!("client {number}"), verifier, None)
                .await,
        );
    }
    all
}

async fn client_work(client: &Client, number: usize, tree: &mut Tree, mut dice: Dice) {
    let dirs = names::dirs(client, number).await;
    ack(&format!("{number} dirs"));
    for _ in 0..ACTS_PER_CLIENT {
        let act = Act::any(&mut dice, tree);
        ack(&format!("{number} begins {act}"));
        let file_id = names::perform(client, &dirs, act).await;
        tree.apply(act, Some(file_id));
        ack(&format!("{number} ends {file_id}"));
    }
}

fn work(root: &Path, seed: u64) {
    let dice = &mut Dice::new(seed);
    let mut trees: Option<Vec<Tree>> = None;
    for start in 0..STARTS {
        runtime().block_on(async {
            let at = format!("the workload of seed {seed}");
            let (_store, rig) = server(root, &at).await;
            let (_port, _ds) = data_server(&rig).await;
            let clients = clients(&rig, seed << 8 | start).await;
            let mut found = Vec::new();
            for (number, client) in clients.iter().enumerate() {
                // What a cut left is what the workload goes on with.
                let seen = names::look(&rig, client, number, &at).await;
                found.push(seen.map_or_else(Tree::default, |seen| seen.tree()));
            }
            let trees = trees.get_or_insert(found);
            let work = trees.iter_mut().zip(&clients).enumerate();
            let work = work.map(|(number, (tree, client))| {
                client_work(client, number, tree, Dice::new(dice.roll(u64::MAX)))
            });
            futures_util::future::join_all(work.collect::<Vec<_>>()).await;
        });
    }
}

/// Compares a metadata server over what a cut left with the model, and tells the model what is there. Returns how many files it has
/// without a name, all to be removed.
async fn check(root: &Path, model: &mut Model, at: &str) -> u64 {
    let (store, rig) = server(root, at).await;
    let report = namespace::check(&*store).unwrap();
    assert!(report.is_clean(), "{at}: {:?}", report.problems);
    let judge = rig.session("judge").await;
    for (number, of_client) in model.clients.iter_mut().enumerate() {
        let at = format!("{at}, client {number}");
        let seen: Option<Seen> = names::look(&rig, &judge, number, &at).await;
        of_client.judge(seen.as_ref(), &at);
    }
    report.orphans + report.removals
}

/// Nothing is left of what was removed once the clients and the data server are back.
async fn drain(root: &Path, at: &str) {
    let (store, rig) = server(root, at).await;
    let (_port, _ds) = data_server(&rig).await;
    let _clients = clients(&rig, u64::MAX).await;
    let mut report = namespace::check(&*store).unwrap();
    for _ in 0..DRAIN_TRIES {
        if report.orphans == 0 && report.removals == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        report = rig.nfsd.role().fs().namespace().check().unwrap();
    }
    assert!(report.is_clean(), "{at}: {:?}", report.problems);
    assert_eq!((report.orphans, report.removals), (0, 0), "{at}");
}

#[test]
fn a_cut_at_any_call_takes_no_name_that_was_acknowledged() {
    if let Some(workload) = workload() {
        return work(&workload.root, workload.seed);
    }
    let name = "a_cut_at_any_call_takes_no_name_that_was_acknowledged";
    let recordings = powercut::points(POINTS).div_ceil(POINTS_PER_RECORDING) as u64;
    let scratch = scratch();
    let mut root = scratch.path().join("none");
    let mut before = Model::default();
    let (mut answers, mut nameless) = (0, 0);
    for seed in 0..recordings {
        if seed % LINE == 0 {
            root = scratch.path().join(format!("root-{seed}"));
            before = Model::default();
        }
        let recording = record(name, &root, seed).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        let dice = &mut Dice::new(seed);
        let mut last = None;
        for cut in 0..POINTS_PER_RECORDING {
            let points = recording.points();
            let point = points.start + dice.below(points.len());
            let image = scratch.path().join(format!("image-{seed}-{cut}"));
            recording.leave(point, dice, &image).unwrap();
            let mut model = before.clone();
            recording
                .acknowledged(point)
                .for_each(|line| model.take(line));
            answers += model.answers;
            let at = format!("seed {seed} point {point} of {points:?}");
            nameless += runtime().block_on(check(&image, &mut model, &at));
            if let Some((image, _)) = last.replace((image, model)) {
                std::fs::remove_dir_all(image).unwrap();
            }
        }
        (root, before) = last.unwrap();
    }
    runtime().block_on(drain(&root, "the last image"));
    // The test has met what it is about.
    assert!(answers > recordings * 100, "{answers}");
    assert!(nameless > 0);
}
