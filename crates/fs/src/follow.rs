//! Clients follow a change of primary (rule P22): layouts of the primary before are recalled, and devices that no
//! layout names any more are deleted at clients that asked to be told (RFC 8881 §20.3, §20.12).
//!
//! # Ownership
//! The state table knows which layouts name what, and what was asked. One task for each client tells it, one thing after
//! the other.
//!
//! # Ordering
//! Rows are durable and told before layouts are recalled, so that the next LAYOUTGET of a client need not wait.
//!
//! # Failure
//! This is for speed. The handles of the layouts are refused already (rule P4). Nothing waits for an answer, nobody is
//! fenced for want of one, and what could not be told is not told again. A client that is silent holds up one task.

use crate::actor::Actor;
use crate::fs::Fs;
use crate::layouts::settle_returned;
use client_table::CallbackError;
use layout::{DeviceName, LayoutKind};
use namespace::{Cred, FileId, Op};
use nfs4::cb::{
    CbLayoutRecallArgs, CbNotifyDeviceidArgs, DeviceNotification, LayoutRecall, LayoutRecallFile,
    NOTIFICATIONS_MAX,
};
use nfs4::layout::LENGTH_TO_EOF;
use nfs4::{ClientId, DeviceId, FsId, IoMode, NfsStatus};
use state::{DeviceVersion, Follow, Recall};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Clients that are being told at one time.
const CLIENTS_MAX: usize = 1_024;
/// How long a recall of one file waits for its answer before the client is asked no more.
const ANSWER_MS_MAX: u64 = 2_000;
/// How long one client is told by file.
const CLIENT_MS_MAX: u64 = 15_000;

/// A client has fetched a device and wants to hear when it is gone.
pub fn watch_device(fs: &Fs, actor: &Actor, id: DeviceId) {
    let name = DeviceName::from_device_id(id);
    if let Ok(client) = actor.client() {
        let device = DeviceVersion {
            group: name.group,
            version: name.version,
        };
        fs.state().layouts.watch_device(client, device);
    }
}

/// Looks for clients that are to be told something, and begins to tell them. To be called about every second.
pub(crate) fn look(fs: &Arc<Fs>) {
    let versions = fs.cluster.versions();
    let current = versions.iter().map(|(id, version, _)| (*id, *version));
    let current: BTreeMap<u32, u32> = current.collect();
    // Before the first change of a primary there is no older one.
    let reigns = versions.iter().filter(|(_, _, reign)| *reign > 1);
    let reigns = reigns.filter(|(id, ..)| fs.cluster.are_rows_told(*id));
    let reigns: BTreeMap<u32, u32> = reigns.map(|(id, _, reign)| (*id, *reign)).collect();
    let mut busy = fs.layouts.following.busy.lock();
    let room = CLIENTS_MAX.saturating_sub(busy.len());
    let (asks, gone) = {
        let mut state = fs.state();
        let asks = state.layouts.ask_to_follow(&reigns, &busy, room);
        let gone = state
            .layouts
            .take_gone_devices(&current, &busy, NOTIFICATIONS_MAX as usize);
        (asks, gone)
    };
    let mut told: BTreeMap<ClientId, (Option<Follow>, Vec<DeviceVersion>)> = BTreeMap::new();
    for (client, follow) in asks {
        told.entry(client).or_default().0 = Some(follow);
    }
    for (client, devices) in gone {
        told.entry(client).or_default().1 = devices;
    }
    for (client, (follow, devices)) in told {
        busy.insert(client);
        let fs = Arc::clone(fs);
        tokio::spawn(async move {
            tell(&fs, client, follow, &devices).await;
            fs.layouts.following.busy.lock().remove(&client);
        });
    }
}

async fn tell(fs: &Arc<Fs>, client: ClientId, follow: Option<Follow>, gone: &[DeviceVersion]) {
    let recalled = match follow {
        Some(Follow::Files(recalls)) => recall_files(fs, client, recalls).await,
        Some(Follow::All) => recall_all(fs, client).await,
        None => Ok(()),
    };
    let told = match recalled {
        Ok(()) if !gone.is_empty() => delete_devices(fs, client, gone).await,
        recalled => recalled,
    };
    if let Err(error) = told {
        tracing::info!(
            ?error,
            client = client.value,
            "a client was not told of other primaries; it finds out by itself"
        );
    }
}

/// One recall for each file, until one is not answered.
async fn recall_files(
    fs: &Arc<Fs>,
    client: ClientId,
    recalls: Vec<Recall>,
) -> Result<(), CallbackError> {
    let until = Instant::now() + Duration::from_millis(CLIENT_MS_MAX);
    let cred = Cred::root();
    for recall in recalls {
        let mut op = Op::new(&cred, fs.now());
        let Ok(inode) = fs.ns.getattr(&mut op, FileId(recall.file)) else {
            continue;
        };
        fs.layouts.following.turn().await;
        if Instant::now() >= until {
            return Err(CallbackError::Lost);
        }
        match recall_file(fs, client, &recall, fs.handle_of(&inode).0).await {
            Err(CallbackError::Status(NfsStatus::NoMatchingLayout)) => {
                let returned = fs.state().layouts.follow_unmatched(&recall);
                settle_returned(fs, returned.into_iter().collect());
            }
            // Whatever else it says of this file may be otherwise with the next.
            Ok(()) | Err(CallbackError::Status(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn recall_file(
    fs: &Arc<Fs>,
    client: ClientId,
    recall: &Recall,
    fh: Vec<u8>,
) -> Result<(), CallbackError> {
    let stateid = recall.stateid;
    let build = move |b: &mut nfs4::CbCompoundBuilder| {
        b.push(&recall_of(LayoutRecall::File(LayoutRecallFile {
            fh: xdr::Opaque(&fh),
            offset: 0,
            length: LENGTH_TO_EOF,
            stateid,
        })));
    };
    let take = client_table::status_only;
    fs.clients
        .callback_within(client, ANSWER_MS_MAX, build, take)
        .await
}

/// Everything of the file system, as there is one. What the client answers proves nothing: it may still use layouts of
/// which it says that it has none. So they stay in the table until they are returned, closed or got anew.
async fn recall_all(fs: &Arc<Fs>, client: ClientId) -> Result<(), CallbackError> {
    fs.layouts.following.turn().await;
    let fsid = FsId {
        major: fs.cluster.id(),
        minor: 0,
    };
    let build = |b: &mut nfs4::CbCompoundBuilder| {
        b.push(&recall_of(LayoutRecall::Fsid(fsid)));
    };
    match fs.clients.callback(client, &build).await {
        Err(CallbackError::Status(_)) => Ok(()),
        answered => answered,
    }
}

fn recall_of(what: LayoutRecall<'_>) -> CbLayoutRecallArgs<'_> {
    CbLayoutRecallArgs {
        layout_type: LayoutKind::Files.number(),
        iomode: IoMode::Any,
        changed: false,
        what,
    }
}

/// Versions of devices that are of no more use to a client.
async fn delete_devices(
    fs: &Arc<Fs>,
    client: ClientId,
    gone: &[DeviceVersion],
) -> Result<(), CallbackError> {
    fs.layouts.following.turn().await;
    let delete = |device: &DeviceVersion| DeviceNotification::Delete {
        layout_type: LayoutKind::Files.number(),
        device_id: DeviceName {
            cluster_id: fs.cluster.id(),
            group: device.group,
            version: device.version,
        }
        .to_device_id(),
    };
    let changes: Vec<DeviceNotification> = gone.iter().map(delete).collect();
    let build = |b: &mut nfs4::CbCompoundBuilder| {
        b.push(&CbNotifyDeviceidArgs {
            changes: changes.clone().into(),
        });
    };
    match fs.clients.callback(client, &build).await {
        Err(CallbackError::Status(_)) => Ok(()),
        answered => answered,
    }
}
