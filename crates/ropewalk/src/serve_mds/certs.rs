//! The certificates that `admin_listen` shows: the kept one of the cluster's CA, and the one that `admin_cert` names.
//!
//! # Failure
//! What is wrong with the operator's files ends the start. A certificate of the cluster's CA that cannot be kept is good until the
//! next start, and the log says so.

use crate::config::MdsConfig;
use crate::failure::{Outcome, cannot, failed};
use cluster_tls::{AdminCert, AdminCerts, ClusterCa};
use std::path::Path;
use std::sync::Arc;
use transport::tcp::Listener;

/// Name of the kept certificate in a state directory.
const FILE_NAME: &str = "admin.pem";

/// The certificates for these listeners; none where nothing listens.
///
/// # Errors
/// One sentence: what is wrong with the operator's files, or with the names.
pub(super) fn open(
    config: &MdsConfig,
    state_dir: &Path,
    ca: &ClusterCa,
    listeners: &[Listener],
) -> Outcome<Option<Arc<AdminCerts>>> {
    let what = "set up TLS for `admin_listen`";
    if listeners.is_empty() {
        return Ok(None);
    }
    let own = config.own_cert().map_err(failed)?;
    let mut names = config.admin_names.clone();
    for listener in listeners {
        let ip = listener.local_addr().map_err(cannot(what))?.ip();
        if !ip.is_unspecified() {
            names.push(ip.to_string());
        }
    }
    let cert = of_cluster(&state_dir.join(FILE_NAME), ca, &names).map_err(cannot(what))?;
    let certs = AdminCerts::new(&cert).map_err(cannot(what))?;
    certs.set_own(own);
    Ok(Some(Arc::new(certs)))
}

/// The kept certificate, or a new one: browsers that have taken one need not be asked again.
fn of_cluster(
    path: &Path,
    ca: &ClusterCa,
    names: &[String],
) -> Result<AdminCert, cluster_tls::ClusterTlsError> {
    let why = match AdminCert::load(path, ca, names) {
        Ok(kept) => return Ok(kept),
        Err(why) => why,
    };
    tracing::debug!("the API gets a new certificate: {why}");
    let made = AdminCert::make(ca, names)?;
    if let Err(error) = made.save(path) {
        tracing::warn!(
            "browsers will ask again after the next start: cannot keep the certificate of `admin_listen`: {error}"
        );
    }
    Ok(made)
}
