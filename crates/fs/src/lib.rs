//! The file service: what keeps names, state, layouts and the data servers of files in step.
//!
//! [`Fs`] owns the name space, the open state and what is under way on files. Each module is one thing that it does:
//!
//! - `layouts` and `delegations` grant and recall, and `follow` tells clients of other primaries;
//! - `names` and `attributes` change what the name space has of a file, once nobody relies on it;
//! - `truncate` and `removal` are durable intents;
//! - `size_recovery` finds what lost writers left;
//! - `io` serves clients without layouts, and `inline` those of files in the metadata store, which `placing` ends;
//! - `copy`, `offload` and `clone` move data within the cluster, and `restripe` gives a file other objects;
//! - `client_record` and `client_end` begin and end the claims of clients;
//! - `busy` counts for administrators which directories and clients are busiest.
//!
//! Functions take an [`Actor`]: for whom they act, and what the request has observed.
//!
//! May call: `namespace`, `state`, `stripes`, `cluster` and `client-table`. May not call: COMPOUNDs, sessions or
//! attributes as they are on the wire. Those are the operations' of the `mds` crate.
#![forbid(unsafe_code)]

mod actor;
mod ahead;
mod atimes;
mod attributes;
mod bad_mirrors;
mod busy;
mod busy_tables;
mod client_end;
mod client_record;
mod clone;
mod copy;
mod copy_job;
mod copy_small;
mod delegating;
mod delegations;
mod device_faults;
mod eager;
mod enter;
mod evict;
mod far_drain;
mod far_drains;
mod fencing;
mod file_paths;
mod files;
mod follow;
mod following;
mod foreign_files;
mod foreign_layouts;
mod foreign_place;
mod fresh;
mod fs;
mod heavy_hitters;
mod hint;
mod host_grants;
mod host_locks;
mod inline;
mod io;
mod kept_replies;
mod layout_tables;
mod layouts;
mod levelling;
mod lock_notify;
mod lost_files;
mod mirror_looks;
mod mirror_reports;
mod names;
mod offload;
mod offloads;
mod own_writes;
mod own_writing;
mod placing;
mod pools;
mod quiesce;
mod ranges;
mod removal;
mod restripe;
mod restripes;
mod resync;
mod resyncs;
mod sampling;
mod size_recovery;
mod space;
mod space_notes;
mod status;
mod target;
mod tick;
mod truncate;
mod unknown_sizes;
mod waits;
mod writer_set;

pub use actor::{Actor, Prepared};
pub use attributes::{apply_attributes, set_attributes};
pub use busy::{busiest, note_operation, note_read, note_written};
pub use busy_tables::{BUSY_COUNTERS_MAX, Busiest, BusyClient, BusyClientRates, BusyDirectory};
pub use client_end::{check_grace, poll_grace, reclaim_complete, removed, revoke_if_lapsed};
pub use client_record::{ensure, forget_revoked, load_client_records};
pub use clone::{CLONE_BLOCK_BYTES, CloneJob, clone_range};
pub use copy::copy;
pub use copy_job::{Copy, is_zero};
pub use delegating::DelegationCounts;
pub use delegations::{Clearing, Excluded, clear, exclude, recall, settle_ended};
pub use device_faults::{DeviceFault, note_device_faults};
pub use eager::make_objects;
pub use evict::{Evicted, evict};
pub use far_drain::{NotRemoved, files_left_on, remove_far_server};
pub use file_paths::{FILE_PATHS_MAX, NamedFile, file_paths, likely_paths};
pub use follow::watch_device;
pub use foreign_files::is_lost;
pub use foreign_layouts::{ForeignObjects, foreign_objects, grant_foreign};
pub use fresh::{Fresh, better_known, fresh, fresh_entries, kept_mtime};
pub use fs::{
    COPY_ASYNC_ABOVE_BYTES, Creation, DataConfig, FOREIGN_POOL_MAX, Fs, FsConfig, FsError,
    STRIPE_UNIT_BYTES_MAX, STRIPE_UNIT_BYTES_MIN, WallClock, status,
};
pub use host_grants::HostGrants;
pub use host_locks::{
    cancel_by_host, enter_host, grant_answered, host_gone, host_restarted, lock_by_host,
    share_by_host, test_by_host, unlock_by_host, unshare_by_host,
};
pub use io::{WriteJob, commit, read, write};
pub use kept_replies::{destroyed, is_ended, keep, kept, key};
pub use layouts::{
    GrantRequest, commit_layout, grant, grantable, is_unsettled, may_have_data, return_layouts,
    settle_returned,
};
pub use lock_notify::notify_unblocked;
pub use lost_files::{LOST_PATHS_MAX, LostFiles, WALK_NAMES_MAX, lost_files};
pub use names::{KeepResult, create, link, remove, rename};
pub use offload::{offload_cancel, offload_status, start as start_offload};
pub use offloads::CopyDone;
pub use placing::place;
pub use quiesce::{LayoutHold, writes_reported};
pub use ranges::{Content, Sought, allocate, deallocate, end_of, seek};
pub use removal::{REMOVALS_COUNTED_MAX, abandon_open, last_close, removals_waiting};
pub use restripe::{restripe, restripe_state, restriping, shape_of};
pub use restripes::{RestripeState, Shape};
pub use resync::{files_with_bad_mirrors, servers_waited_for};
pub use sampling::{SAMPLED_ONE_IN, is_sampled};
pub use size_recovery::{ready, stamps, until_ready};
pub use space::{look_at_space, space};
pub use status::FsStatus;
pub use tick::{rotate_key, tick};
pub use waits::RecallWait;
