//! Clients, sessions, slots, stateids, opens, locks, delegations and layouts: the tables of an NFSv4.1 server.
//!
//! Sans-IO: values in, verdicts out. Time is an argument (`now_ms`, milliseconds of a monotonic
//! clock), so is randomness; nothing here sleeps, locks, logs or reads a file. Whoever owns a table
//! guards it. Iteration is in the order of keys everywhere, so that a run repeats exactly.
//!
//! Entry points: [`Clients`] (EXCHANGE_ID to DESTROY_CLIENTID, SEQUENCE, leases, grace) and
//! [`FileStates`] (opens, byte-range locks, delegations, layouts, and stateids over all of them). The two know
//! each other only through the caller: `Clients` asks "has this client state?" by a closure, and
//! tells which clients are gone.
#![forbid(unsafe_code)]

mod back_channel;
mod channel;
mod clients;
mod delegations;
mod file_delegations;
mod file_states;
mod grace;
mod holders;
mod host_locks;
mod layouts;
mod listing;
mod locks;
mod minor_0;
mod name_clashes;
mod nsm_state;
mod opens;
mod owners;
mod ranges;
mod revoked;
mod session;
mod slots;
mod stateid;
mod untold_grants;
mod wanted;

pub use back_channel::{BackChannel, CallbackOutcome, CallbackSlot};
pub use channel::{CHANNEL_BYTES_MIN, ChannelAttrs, ChannelLimits, SLOTS_PER_SESSION_MAX};
pub use clients::{
    CallbackTarget, ClientIdConfirmed, ClientKind, ClientLimits, ClientRecord, ClientView, Clients,
    CreateSession, CreateSessionArgs, ExchangeArgs, Exchanged, HOST_PRINCIPAL, OWNER_BYTES_MAX,
    OWNER_PREFIX, PRINCIPAL_BYTES_MAX, Principal, RemovedClient, Sequenced, SessionCreated,
    SetClientId, SetClientIdRequest, SlotRecall,
};
pub use delegations::{
    DelegationKind, DelegationLimits, DelegationRecall, Delegations, InTheWay, Origin, RecallAny,
    SlotOf, WriteHolder,
};
pub use file_delegations::{DelegationEnded, DelegationGranted, DelegationWanted, NoDelegation};
pub use file_states::{
    ClientGone, Closed, FileStates, Ground, Io, LayoutWanted, LockArgs, StateLimits,
};
pub use grace::{Grace, GraceEnd};
pub use host_locks::HostLock;
pub use layouts::follow::{FOLLOW_FILES_MAX, Follow};
pub use layouts::{
    DeviceVersion, IoMode, IoModes, LAYOUT_SEQID_WINDOW, LayoutLimits, Layouts, Recall,
    RecallAnswer, Returned,
};
pub use listing::{Held, HeldCounts, HeldKind, HeldWhat};
pub use locks::{LockDenied, LockLimits, LockOutcome, Unblocked};
pub use name_clashes::{ClashSeen, NameClash, NameClashes};
pub use nsm_state::NsmState;
pub use opens::{ACCESS_READ, ACCESS_WRITE, DENY_READ, DENY_WRITE, OpenLimits, Opened, Share};
pub use owners::{
    OWNER_REPLY_BYTES_MAX, OwnerChange, OwnerKind, OwnerLimits, OwnerName, OwnerReply,
    OwnerVerdict, Owners,
};
pub use ranges::{LockKind, LockRange};
pub use revoked::{REVOKED_PER_CLIENT_MAX, RevokeCause};
pub(crate) use session::Channels;
pub use session::{
    BindRequest, BoundDirection, CONNECTIONS_PER_SESSION_MAX, CallbackSecurity, Session,
    SessionName, status_flags,
};
pub use slots::{Sequence, SlotTable, SlotToken, Verdict};
pub use stateid::{
    CurrentStateid, Other, StateKind, StateidSource, check_layout_seqid, check_seqid, lost_open,
    next_seqid,
};
pub use untold_grants::HostGrant;
