//! What the metadata server does for orders about data servers, its own and those of others.

use super::refusals::{failed, of_cluster};
use crate::admin::{Refusal, Request};
use crate::config::check_fill_rate;
use crate::nfs3_servers::{self, NewServerOrder};
use ::cluster::expel;
use ::fs::Fs;
use bytesize::ByteSize;
use serde_json::Value;
use std::sync::Arc;

/// Does what an order says.
///
/// # Errors
/// [`Refusal`]: why it is not done.
pub(super) async fn run(fs: &Arc<Fs>, order: Request) -> Result<Value, Refusal> {
    let cluster = fs.cluster();
    let value = match order {
        Request::DsDrain {
            ds_id,
            substitute,
            dry_run,
        } => {
            let order = match dry_run {
                true => cluster.check_drain(ds_id, substitute),
                false => cluster.drain(ds_id, substitute).await,
            };
            serde_json::to_value(order.map_err(of_cluster)?)
        }
        Request::DsUndrain { ds_id } => {
            let order = cluster.undrain(ds_id).await;
            serde_json::to_value(order.map_err(of_cluster)?)
        }
        Request::DsRemove {
            ds_id,
            yes_lose_data,
        } => {
            let why = "removed by an administrator";
            let done = match yes_lose_data {
                true => expel(cluster, ds_id, why).await,
                false => cluster.remove(ds_id, why).await,
            };
            serde_json::to_value(done.map_err(of_cluster)?)
        }
        Request::DsRebalance { wanted } => {
            let order = cluster.rebalance(wanted).await;
            serde_json::to_value(order.map_err(of_cluster)?)
        }
        Request::FillRate { bytes_per_s } => {
            check_fill_rate(ByteSize(bytes_per_s)).map_err(Refusal::Invalid)?;
            cluster.set_fill_rate(bytes_per_s);
            serde_json::to_value(())
        }
        Request::AddNfs3 {
            target,
            port,
            mount_port,
            client_addresses,
        } => {
            let order = NewServerOrder {
                target,
                port,
                mount_port,
                client_addresses,
            };
            let added = nfs3_servers::add_at_mds(fs, order).await;
            serde_json::to_value(added?)
        }
        Request::DrainNfs3 { server_id } => {
            serde_json::to_value(nfs3_servers::drain_at_mds(fs, server_id).await?)
        }
        Request::UndrainNfs3 { server_id } => {
            serde_json::to_value(nfs3_servers::undrain_at_mds(fs, server_id).await?)
        }
        Request::RemoveNfs3 { server_id, force } => {
            serde_json::to_value(nfs3_servers::remove_at_mds(fs, server_id, force).await?)
        }
        other => {
            let why = format!("{other:?} is not for a metadata server");
            return Err(Refusal::NotFound(why));
        }
    };
    value.map_err(failed)
}
