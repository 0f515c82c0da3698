//! What time brings to files: recalls, removals, recovery, keys.

use crate::fs::Fs;
use crate::{
    ahead, bad_mirrors, client_end, client_record, delegations, far_drain, follow, kept_replies,
    layouts, levelling, removal,
};
use crate::{restripe, resync, size_recovery, space, truncate};
use cluster::{AdminError, KeyUsers, RotatedKey, turn_keys};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// One pass of everything that time brings, clients apart. To be called about every second, after clients have expired.
pub async fn tick(fs: &Arc<Fs>) {
    client_end::poll_grace(fs).await;
    client_record::note_idle(fs);
    delegations::tick(fs);
    kept_replies::sweep(fs);
    restripe::close_leftovers(fs);
    fs.atimes.store(&fs.ns, fs.now());
    fs.busy.tick(fs.clients.now_ms());
    fs.clients.recall_slots();
    fs.cluster.tick();
    fs.foreign.tick();
    bad_mirrors::lose_unfenced(fs);
    levelling::start(fs);
    resync::start(fs);
    far_drain::start(fs);
    ahead::start(fs);
    follow::look(fs);
    fs.jobs.overdue.start(|| {
        let fs = Arc::clone(fs);
        async move { layouts::fence_overdue(&fs) }
    });
    fs.jobs.truncates.start(|| {
        let fs = Arc::clone(fs);
        async move { truncate::redo_all(&fs).await }
    });
    size_recovery::start(fs);
    fs.jobs.space.start(|| {
        let fs = Arc::clone(fs);
        async move { space::measure_all(&fs).await }
    });
    fs.jobs.removals.start(|| {
        let fs = Arc::clone(fs);
        async move { removal::drain(&fs).await }
    });
    turn_keys(&fs.cluster, Arc::clone(fs) as Arc<dyn KeyUsers>);
    if !fs.jobs.orphans_swept.load(Relaxed) {
        fs.jobs.orphans.start(|| {
            let fs = Arc::clone(fs);
            async move { removal::sweep(&fs) }
        });
    }
}

/// Makes a new signing key now, and waits a moment for it to sign ([`cluster::rotate_key`]).
///
/// # Errors
/// [`AdminError`].
pub async fn rotate_key(fs: &Arc<Fs>) -> Result<RotatedKey, AdminError> {
    cluster::rotate_key(&fs.cluster, Arc::clone(fs) as Arc<dyn KeyUsers>).await
}
