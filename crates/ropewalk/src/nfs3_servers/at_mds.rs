//! What the metadata server does for an order: it tries servers itself, so that what it cannot reach is never used.

use super::add::Added;
use super::found;
use super::reach::{Reached, Target};
use crate::admin::Refusal;
use crate::daemon::random_u64;
use ::fs::{Fs, NotRemoved};
use control::{ADDRESSES_MAX, NetAddr};
use foreign::{AddError, ChangeError, ExportIdentity, NewServer, ServerLimits};
use rpc::UniversalAddress;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a server may be tried.
const TRY_MAX: Duration = Duration::from_secs(30);
/// How long the directories on it may take to make.
const MAKE_MAX: Duration = Duration::from_secs(60);

/// Said of an export that a cluster has left its file in before.
const KNOWN: &str = "a server of this cluster was added with this export before; unless it was removed since, remove this one \
     with `ropewalk ds remove-nfs3`: both would have the same files, and two mirrors would be one";

/// What is to be added.
#[derive(Debug)]
pub(crate) struct NewServerOrder {
    /// HOST:/PATH
    pub(crate) target: String,
    /// Port of NFS, where it is not to be asked.
    pub(crate) port: Option<u16>,
    /// Port of MOUNT.
    pub(crate) mount_port: Option<u16>,
    /// HOST:PORT each; none for where it is found.
    pub(crate) client_addresses: Vec<String>,
}

/// Tries a server, and adds it when it is fit.
///
/// # Errors
/// [`Refusal`], when it could not be tried or was not added.
pub(crate) async fn add(fs: &Fs, order: NewServerOrder) -> Result<Added, Refusal> {
    let target = Target {
        text: &order.target,
        port: order.port,
        mount_port: order.mount_port,
    };
    target
        .check()
        .map_err(|e| Refusal::Invalid(e.to_string()))?;
    let tried = async {
        let reached = target.reach().await.map_err(|e| e.to_string())?;
        let report = reached.probe().await;
        Ok::<_, String>((reached, report.map_err(|e| e.to_string())?))
    };
    let tried = tokio::time::timeout(TRY_MAX, tried).await;
    let (reached, report) = tried.map_err(|_| {
        let seconds = TRY_MAX.as_secs();
        format!("{} was not tried within {seconds} s", order.target)
    })??;
    let mut added = Added {
        report: found::json(&report),
        report_text: found::text(&report),
        ..Added::default()
    };
    if report.is_fit() {
        let addresses = addresses(&reached, &order.client_addresses).await?;
        let told: Vec<_> = addresses.iter().map(net_addr).collect();
        // The code of an export that is used stays what it is.
        if let Some(id) = fs.foreign().server_at(&order.target, &told) {
            return Err(not_added(AddError::Known(id)));
        }
        let was_there = was_used(fs, &reached).await?;
        let identity = ExportIdentity {
            cluster_id: fs.cluster().id(),
            code: u128::from(random_u64()) << 64 | u128::from(random_u64()),
        };
        let left = identity.leave(&reached.nfs, &reached.root).await;
        let name = identity.file_name();
        left.map_err(|e| format!("cannot leave {name} there: {e}"))?;
        let new = NewServer {
            target: order.target.clone(),
            addresses: told,
            root: reached.root.clone(),
            limits: ServerLimits {
                read_bytes_max: report.io_bytes_max.0,
                write_bytes_max: report.io_bytes_max.1,
                file_bytes_max: report.file_bytes_max,
            },
            code: Some(identity.code),
        };
        let made = tokio::time::timeout(MAKE_MAX, fs.foreign().add(new)).await;
        let made = made.map_err(|_| "its directories could not be made in time".to_owned())?;
        let id = made.map_err(not_added)?;
        tracing::info!(id, target = order.target, "added a foreign server");
        added.id = Some(format!("f{id}"));
        added.client_addresses = addresses.iter().map(ToString::to_string).collect();
        added.code = Some(identity.to_string());
        added.remarks = remarks(&addresses);
        added.remarks.extend(was_there.then(|| KNOWN.to_owned()));
    }
    reached.leave().await;
    Ok(added)
}

fn not_added(error: AddError) -> Refusal {
    let text = error.to_string();
    match error {
        AddError::Known(_) | AddError::Full | AddError::Server(_) => Refusal::Refused(text),
        AddError::Invalid(_) => Refusal::Invalid(text),
        AddError::Store(_) => Refusal::Failed(text),
    }
}

/// Whether the cluster has left its file in an export before. One of a server that is used is refused: two mirrors would be one.
async fn was_used(fs: &Fs, reached: &Reached) -> Result<bool, String> {
    let cluster_id = fs.cluster().id();
    let read = ExportIdentity::read(cluster_id, &reached.nfs, &reached.root).await;
    let Some(identity) = read.map_err(|e| format!("cannot look at the export: {e}"))? else {
        return Ok(false);
    };
    match fs.foreign().server_with(&identity).await {
        Some(id) => Err(format!(
            "it is the export of server f{id} already; its code is {identity}"
        )),
        None => Ok(true),
    }
}

/// Gives a server no new files.
///
/// # Errors
/// [`Refusal`].
pub(crate) async fn drain(fs: &Fs, id: u32) -> Result<(), Refusal> {
    let drained = fs.foreign().drain(id).await;
    drained.map_err(|e| refusal(id, &e))
}

/// Gives a server that was drained new files again.
///
/// # Errors
/// [`Refusal`].
pub(crate) async fn undrain(fs: &Fs, id: u32) -> Result<(), Refusal> {
    let undrained = fs.foreign().undrain(id).await;
    undrained.map_err(|e| refusal(id, &e))
}

/// Uses a server no more.
///
/// # Errors
/// [`Refusal`].
pub(crate) async fn remove(fs: &Arc<Fs>, id: u32, is_forced: bool) -> Result<(), Refusal> {
    let removed = ::fs::remove_far_server(fs, id, is_forced).await;
    removed.map_err(|why| not_removed(id, why))
}

fn not_removed(id: u32, why: NotRemoved) -> Refusal {
    let forced = "or give --force, and what files have there alone is lost";
    let text = match why {
        NotRemoved::NotDrained => format!(
            "files may lie on server f{id}: `ropewalk ds drain-nfs3 f{id}` moves them away, {forced}"
        ),
        NotRemoved::NotYet => {
            format!("files may be on their way to server f{id}: ask again in 10 s, {forced}")
        }
        NotRemoved::Files(count) => format!(
            "{count} files lie on server f{id}: `ropewalk ds list` shows how many are left; wait, or remove them, {forced}"
        ),
        NotRemoved::TooManyFiles => format!("server f{id} may have files: {why}; {forced}"),
        NotRemoved::Change(error) => return refusal(id, &error),
        NotRemoved::Store(error) => return Refusal::Failed(error.to_string()),
    };
    Refusal::Refused(text)
}

fn refusal(id: u32, error: &ChangeError) -> Refusal {
    match error {
        ChangeError::Unknown => Refusal::NotFound(format!(
            "the cluster has no server f{id}; `ropewalk ds list` shows them"
        )),
        ChangeError::InUse => Refusal::Refused(format!("files may lie on server f{id}")),
        ChangeError::Store(e) => Refusal::Failed(e.to_string()),
    }
}

/// Where clients are told that it is.
async fn addresses(reached: &Reached, wanted: &[String]) -> Result<Vec<SocketAddr>, Refusal> {
    if wanted.is_empty() {
        return Ok(vec![reached.address]);
    }
    let mut addresses = Vec::new();
    for name in wanted {
        let found = tokio::net::lookup_host(name.as_str()).await;
        let found = found.map_err(|e| {
            Refusal::Invalid(format!("{name} is no HOST:PORT that is known here: {e}"))
        })?;
        addresses.extend(found);
    }
    addresses.truncate(ADDRESSES_MAX as usize);
    Ok(addresses)
}

fn net_addr(address: &SocketAddr) -> NetAddr {
    NetAddr::from(UniversalAddress::tcp(*address))
}

/// What would surprise an administrator later.
fn remarks(addresses: &[SocketAddr]) -> Vec<String> {
    let local = addresses.iter().find(|a| a.ip().is_loopback());
    let said = local.map(|a| {
        format!("clients on other machines do not reach {a}: name another with --client-address")
    });
    said.into_iter().collect()
}
