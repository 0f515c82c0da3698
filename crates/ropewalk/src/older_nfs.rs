//! NFSv3 beside NFSv4: its programs, and their registration.

use std::sync::Arc;

use mds::Mds;
use mds3::{Mount, Nfs3};
use rpc_service::DynProgram;
use server::Nfsd;

use crate::config::MdsConfig;
use crate::failure::{Outcome, failed};
use crate::rpcbind::Registered;

/// The programs, where they are wanted.
pub(crate) fn programs(config: &MdsConfig, nfsd: &Arc<Nfsd<Mds>>) -> Vec<Arc<dyn DynProgram>> {
    if !config.nfs3 {
        return Vec::new();
    }
    let mount = Arc::new(Mount::new(Arc::clone(nfsd)));
    vec![Arc::new(Nfs3::new(Arc::clone(nfsd))), mount]
}

/// Registers them with rpcbind, where that is wanted.
///
/// # Errors
/// rpcbind cannot be reached, or names another server.
pub(crate) fn register(config: &MdsConfig) -> Outcome<Option<Registered>> {
    if !config.nfs3 || !config.register_rpcbind {
        return Ok(None);
    }
    let registered = Registered::new(&config.listen);
    registered.map(Some).map_err(|e| failed(e.to_string()))
}
