//! The metadata server's administration API: its OpenAPI document.
//!
//! Owns which command is answered with which type. May call the types of answers alone.

use crate::access::{AccessRow, NewAccess};
use crate::busiest::TopPage;
use crate::clients::{ClientHolds, ClientPage, EvictedRow, FileHolds};
use crate::expel::Loss;
use crate::key::RotatedKey;
use crate::nfs3_servers::Added;
use crate::nlm_hosts::HostRow;
use crate::reload::Reloaded;
use crate::scrub::DamagedFile;
use crate::status::ServerStatus;
use crate::status::health::Health;
use crate::token::{Token, WaitingToken};
use ::admin::{Answers, EventPage};
use serde_json::Value;

/// The OpenAPI document.
pub(crate) fn document() -> Value {
    let answers = Answers::default()
        .with::<ServerStatus>("status")
        .with::<Health>("health")
        .with::<EventPage>("events")
        .with::<TopPage>("top")
        .with::<Value>("config")
        .with::<()>("ds-drain")
        .with::<()>("ds-undrain")
        .with::<Loss>("ds-loss")
        .with::<()>("ds-remove")
        .with::<()>("expel")
        .with::<()>("ds-rebalance")
        .with::<()>("fill-rate")
        .with::<u64>("scrub")
        .with::<Added>("add-nfs3")
        .with::<()>("drain-nfs3")
        .with::<()>("undrain-nfs3")
        .with::<()>("remove-nfs3")
        .with::<ClientPage>("client-list")
        .with::<ClientHolds>("client-show")
        .with::<EvictedRow>("client-evict")
        .with::<Vec<HostRow>>("nlm-hosts")
        .with::<HostRow>("nlm-free")
        .with::<FileHolds>("lock-list")
        .with::<Vec<DamagedFile>>("file-paths")
        .with::<Token>("token-create")
        .with::<Vec<WaitingToken>>("token-list")
        .with::<RotatedKey>("key-rotate")
        .with::<u64>("accept-state")
        .with::<Reloaded>("reload")
        .with::<NewAccess>("access-create")
        .with::<Vec<AccessRow>>("access-list")
        .with::<()>("access-revoke");
    ::admin::document(env!("CARGO_PKG_VERSION"), answers)
}
