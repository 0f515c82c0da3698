//! The owners and the kept replies of one server.

use super::callers::Callers;
use rpc_service::Replies;
use state::{OwnerLimits, Owners};
use std::sync::atomic::AtomicU64;
use tokio::sync::Notify;
use tracing_mutex::parkinglot::Mutex;

/// What a server has for NFSv4.0 beside its clients.
#[derive(Debug)]
pub(crate) struct Minor0 {
    pub(super) owners: Mutex<Owners>,
    pub(super) replies: Replies,
    pub(crate) callers: Callers,
    /// When owners were last looked over.
    pub(super) swept_ms: AtomicU64,
    /// A request of an owner has ended.
    pub(super) ended: Notify,
}

impl Default for Minor0 {
    fn default() -> Self {
        Self {
            owners: Mutex::new(Owners::new(OwnerLimits::default())),
            replies: Replies::default(),
            callers: Callers::default(),
            swept_ms: AtomicU64::new(0),
            ended: Notify::new(),
        }
    }
}
