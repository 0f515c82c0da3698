//! Goal: clients follow a change of primary (rule P22): layouts of the primary before are recalled once, and versions of
//! devices that a client names no more are deleted there. Nothing waits for what a client answers. Method: real data
//! servers, clients whose back channels note what they are asked, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::placement::set_policy;
use crate::replicas::until_level;
use crate::rig::file::{File, Granted};
use crate::rig::real::cluster;
use crate::rig::{self, Client, Rig};
use nfs4::cb::{CbLayoutRecallArgs, CbNotifyDeviceidArgs, DeviceNotification, LayoutRecall};
use nfs4::layout::FileLayoutDsAddr;
use nfs4::ops::{
    GetDeviceInfoArgs, GetDeviceInfoRes, NOTIFY_DEVICEID_CHANGE, NOTIFY_DEVICEID_DELETE,
    SHARE_ACCESS_BOTH,
};
use nfs4::{Bitmap, CbOpNum, DeviceId, IoMode, NetAddr, NfsStatus, OpReader, Stateid};
use session_client::CallbackHandler;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing_mutex::parkinglot::Mutex;

/// Longer than a recall of the rig may take, and a callback is tried.
const LONG: Duration = Duration::from_secs(60);

/// What a client was asked, and what it says to a recall.
struct Asked {
    says: Option<NfsStatus>,
    files: Mutex<Vec<(Instant, Stateid)>>,
    all: Mutex<usize>,
    gone: Mutex<Vec<DeviceId>>,
}

impl CallbackHandler for Asked {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        if op == CbOpNum::NotifyDeviceid {
            let args: CbNotifyDeviceidArgs = args.args().unwrap();
            for change in args.changes.0 {
                match change {
                    DeviceNotification::Delete { device_id, .. } => {
                        self.gone.lock().push(device_id);
                    }
                    DeviceNotification::Change { .. } => panic!("addresses make another version"),
                }
            }
            return Box::pin(std::future::ready(NfsStatus::Ok));
        }
        assert_eq!(op, CbOpNum::LayoutRecall);
        let args: CbLayoutRecallArgs<'_> = args.args().unwrap();
        match args.what {
            LayoutRecall::File(file) => self.files.lock().push((Instant::now(), file.stateid)),
            LayoutRecall::Fsid(_) => *self.all.lock() += 1,
            LayoutRecall::All => panic!("there is one file system"),
        }
        let says = self.says;
        Box::pin(async move {
            match says {
                Some(status) => status,
                None => std::future::pending().await,
            }
        })
    }
}

impl Asked {
    fn stateids(&self) -> Vec<Stateid> {
        self.files.lock().iter().map(|(_, s)| *s).collect()
    }

    /// How many recalls by file there were, of how many layouts, and how many of everything.
    fn counts(&self) -> (usize, usize, usize) {
        let files = self.stateids();
        let layouts: BTreeSet<_> = files.iter().map(|s| s.other).collect();
        (files.len(), layouts.len(), *self.all.lock())
    }
}

/// A client that says `says` to recalls, or nothing.
async fn user(rig: &Rig, name: &str, says: Option<NfsStatus>) -> (Client, Arc<Asked>) {
    let asked = Arc::new(Asked {
        says,
        files: Mutex::default(),
        all: Mutex::default(),
        gone: Mutex::default(),
    });
    let client = rig
        .session_of(name, *b"boot0001", Some(asked.clone()))
        .await;
    (client, asked)
}

async fn copies(client: &Client) {
    let root = client.lookup(&[]).await.unwrap();
    let policy = set_policy(client, &root, "copies=2 inline_max=0");
    policy.await.unwrap();
}

/// So many files with layouts, of names that begin with `name`.
async fn hold<'c>(client: &'c Client, name: &str, count: usize) -> Vec<(File<'c>, Granted)> {
    let mut files = Vec::new();
    for n in 0..count {
        let file = File::create(client, &format!("{name}{n}")).await;
        let granted = file.layout(IoMode::Rw).await;
        files.push((file, granted));
    }
    files
}

/// Returns the layouts as they were recalled.
async fn give_back(files: &[(File<'_>, Granted)], asked: &Asked) {
    for (file, granted) in files {
        let recalled = asked.stateids();
        let stateid = recalled.iter().find(|s| s.other == granted.stateid.other);
        let left = file.layout_return(*stateid.unwrap()).await;
        assert_eq!(left, Ok(None), "it was not fenced");
    }
}

/// GETDEVICEINFO, to hear of what `notify` says. Returns the addresses, by stripe.
async fn fetch(client: &Client, device_id: DeviceId, notify: Bitmap) -> Vec<Vec<String>> {
    let done = client
        .run(|b| {
            b.push(&GetDeviceInfoArgs {
                device_id,
                layout_type: 1,
                maxcount: 4096,
                notify_types: notify,
            });
        })
        .await;
    let mut reply = done.results().unwrap();
    match reply.take::<GetDeviceInfoRes<'_>>().unwrap() {
        GetDeviceInfoRes::Ok(info) => {
            assert_eq!(info.notification, notify);
            let device: FileLayoutDsAddr = xdr::decode_all(info.device_addr.body.0).unwrap();
            let text = |a: &NetAddr| String::from_utf8(a.uaddr.0.clone()).unwrap();
            let entry = |index: &u32| {
                let entry = &device.multipath_ds_list.0[*index as usize];
                entry.0.iter().map(text).collect()
            };
            device.stripe_indices.0.iter().map(entry).collect()
        }
        GetDeviceInfoRes::TooSmall { .. } => panic!("it is small"),
    }
}

#[tokio::test(start_paused = true)]
async fn few_layouts_are_recalled_by_file_and_many_at_once_and_nothing_waits_for_answers() {
    let (rig, _port, mut servers) = cluster(3).await;
    sleep(Duration::from_secs(3)).await;
    let (few, few_asked) = user(&rig, "few", Some(NfsStatus::Ok)).await;
    let (many, many_asked) = user(&rig, "many", Some(NfsStatus::NoMatchingLayout)).await;
    let (mute, mute_asked) = user(&rig, "mute", None).await;
    let (later, later_asked) = user(&rig, "later", Some(NfsStatus::Delay)).await;
    let (forgetful, forgetful_asked) =
        user(&rig, "forgetful", Some(NfsStatus::NoMatchingLayout)).await;
    copies(&few).await;
    let fews = hold(&few, "few", 3).await;
    let _manys = hold(&many, "many", 200).await;
    let mutes = hold(&mute, "mute", 3).await;
    let _laters = hold(&later, "later", 3).await;
    let _forgotten = hold(&forgetful, "forgetful", 3).await;
    until_level(&rig).await;
    servers[0].stop().await;

    // While the mute one is asked, others get its file as well as it does itself.
    assert_eq!(mute_asked.counts().0, 1);
    let since = Instant::now();
    let theirs = File::open(&few, "mute0", SHARE_ACCESS_BOTH).await.unwrap();
    let new = theirs.try_layout(IoMode::Read).await.unwrap();
    assert_ne!(new.body.device_id, mutes[0].1.body.device_id);
    let own = mutes[0].0.try_layout(IoMode::Rw).await.unwrap();
    assert_eq!(own.body.device_id, new.body.device_id);
    assert!(since.elapsed() < Duration::from_secs(1));

    sleep(LONG).await;
    assert_eq!(few_asked.counts(), (3, 3, 0));
    assert_eq!(many_asked.counts(), (0, 0, 1));
    assert_eq!(forgetful_asked.counts(), (3, 3, 0));
    // Tries of one call, which end; the next file is not asked for.
    let (calls, layouts, all) = mute_asked.counts();
    assert!(calls <= 3 && (layouts, all) == (1, 0), "{calls} {layouts}");
    let (calls, layouts, all) = later_asked.counts();
    assert!(
        calls <= 60 && (1..=3).contains(&layouts) && all == 0,
        "{calls} {layouts}"
    );
    give_back(&fews, &few_asked).await;
    sleep(LONG).await;
    assert_eq!((later_asked.counts().0, few_asked.counts().0), (calls, 3));
    // Nobody was fenced. Only what came back, or was said not to be there, is gone.
    mutes[0].0.layout_return(own.stateid).await.unwrap();
    assert_eq!(rig.nfsd.role().fs().state().layouts.len(), 200 + 2 + 3 + 1);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_layouts_of_four_clients_are_recalled_once_each_within_the_rate() {
    let (rig, port, mut servers) = cluster(3).await;
    sleep(Duration::from_secs(3)).await;
    let mut users = Vec::new();
    for n in 0..4 {
        users.push(user(&rig, &format!("user{n}"), Some(NfsStatus::Ok)).await);
    }
    copies(&users[0].0).await;
    let mut files = Vec::new();
    for (n, (client, _)) in users.iter().enumerate() {
        files.push(hold(client, &format!("of{n}"), 50).await);
    }
    until_level(&rig).await;
    let recalled = || users.iter().map(|(_, asked)| asked.counts());
    assert_eq!(recalled().map(|c| c.0).sum::<usize>(), 0);
    servers[0].stop().await;
    sleep(LONG).await;
    assert_eq!(recalled().collect::<Vec<_>>(), [(50, 50, 0); 4]);
    let times = users.iter().flat_map(|(_, asked)| {
        let files = asked.files.lock();
        files.iter().map(|(at, _)| *at).collect::<Vec<_>>()
    });
    let mut times: Vec<Instant> = times.collect();
    times.sort_unstable();
    let took = times[199] - times[0];
    assert!(
        took >= Duration::from_millis(99),
        "{took:?} at 2,000 a second"
    );
    // It comes back, and its place as well: another primary, another recall of what is still held.
    for (held, (_, asked)) in files.iter().zip(&users).skip(1) {
        give_back(held, asked).await;
    }
    servers[0].start(&rig, &port, 90).await;
    until_level(&rig).await;
    sleep(2 * LONG).await;
    let again: Vec<_> = recalled().collect();
    assert_eq!(again, [(100, 50, 0), (50, 50, 0), (50, 50, 0), (50, 50, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_a_client_names_no_more_is_deleted_there_if_it_asked_for_that() {
    let (rig, _port, mut servers) = cluster(3).await;
    sleep(Duration::from_secs(3)).await;
    let (alice, alices) = user(&rig, "alice", Some(NfsStatus::Ok)).await;
    let (bob, bobs) = user(&rig, "bob", Some(NfsStatus::Ok)).await;
    copies(&alice).await;
    let held = hold(&alice, "alice", 2).await;
    let _held = hold(&bob, "bob", 1).await;
    let both = Bitmap::of(&[NOTIFY_DEVICEID_CHANGE, NOTIFY_DEVICEID_DELETE]);
    let change = Bitmap::of(&[NOTIFY_DEVICEID_CHANGE]);
    for (_, granted) in &held {
        fetch(&alice, granted.body.device_id, both).await;
        fetch(&bob, granted.body.device_id, change).await;
    }
    until_level(&rig).await;
    servers[0].stop().await;
    sleep(LONG).await;
    assert_eq!(alices.gone.lock()[..], [], "her layouts name it");
    give_back(&held, &alices).await;
    let again = held[0].0.layout(IoMode::Rw).await;
    fetch(&alice, again.body.device_id, both).await;
    sleep(LONG).await;
    let devices: BTreeSet<_> = held.iter().map(|(_, g)| g.body.device_id.bytes).collect();
    let gone: Vec<_> = alices.gone.lock().iter().map(|id| id.bytes).collect();
    assert_eq!(gone.len(), devices.len(), "each once");
    assert_eq!(gone.into_iter().collect::<BTreeSet<_>>(), devices);
    assert_eq!(bobs.gone.lock()[..], [], "he did not ask");
}

/// Linux takes a data server that it knows for another one when it finds an address of it in the other's entry.
#[tokio::test(start_paused = true)]
async fn an_entry_of_a_device_has_all_addresses_of_one_data_server_also_after_a_takeover() {
    let (rig, port, mut servers) = rig::cluster::cluster(3).await;
    for ds in &mut servers {
        ds.go_away().await;
        ds.uaddr = format!("{0}a,{0}b", ds.name);
        ds.say_hello(&rig, &port).await.unwrap();
    }
    sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    copies(&alice).await;
    let files = hold(&alice, "f", 4).await;
    let both = |ds: u32| vec![format!("ds{ds}a"), format!("ds{ds}b")];
    let entries = async || {
        let mut all = BTreeSet::new();
        for (file, _) in &files {
            let id = file.layout(IoMode::Read).await.body.device_id;
            all.extend(fetch(&alice, id, Bitmap::EMPTY).await);
        }
        all
    };
    assert_eq!(entries().await, [1, 2, 3].map(both).into());
    servers[0].go_away().await;
    sleep(Duration::from_secs(12)).await;
    // Its places are served by those that had their copies: several stripes may have one entry.
    assert_eq!(entries().await, [2, 3].map(both).into());
}
