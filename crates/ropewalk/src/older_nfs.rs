//! NFSv3 beside NFSv4: its programs, their registration, and the task that tells hosts of their locks.

use std::sync::Arc;

use mds::Mds;
use mds3::{Mount, Nfs3, Nlm, Nsm};
use rpc_service::DynProgram;
use server::{Nfsd, Programs};
use tokio::task::JoinHandle;
use transport::Context;
use transport::tcp::TcpConnector;

use crate::config::MdsConfig;
use crate::failure::{Outcome, failed};
use crate::rpcbind::Registered;

/// The programs, where they are wanted.
pub(crate) struct OlderNfs {
    programs: Vec<Arc<dyn DynProgram>>,
    nlm: Option<Arc<Nlm>>,
}

impl OlderNfs {
    /// Over the files of `nfsd`. Hosts are called over connections of `context`.
    pub(crate) fn new(config: &MdsConfig, nfsd: &Arc<Nfsd<Mds>>, context: &Context) -> Self {
        if !config.nfs3 {
            return Self {
                programs: Vec::new(),
                nlm: None,
            };
        }
        let connector = Arc::new(TcpConnector::new(context.sibling()));
        let nlm = Arc::new(Nlm::new(Arc::clone(nfsd), connector));
        let programs: Vec<Arc<dyn DynProgram>> = vec![
            Arc::new(Nfs3::new(Arc::clone(nfsd))),
            Arc::new(Mount::new(Arc::clone(nfsd))),
            Arc::clone(&nlm) as Arc<dyn DynProgram>,
            Arc::new(Nsm::new(Arc::clone(nfsd))),
        ];
        Self {
            programs,
            nlm: Some(nlm),
        }
    }

    /// NFSv4 with these programs beside it.
    pub(crate) fn beside(&self, nfsd: &Arc<Nfsd<Mds>>) -> Arc<Programs<Mds>> {
        Arc::new(Arc::clone(nfsd).with_programs(self.programs.clone()))
    }

    /// Registers them with rpcbind, where that is wanted, and begins to tell hosts of their locks.
    ///
    /// # Errors
    /// rpcbind cannot be reached, or names another server.
    pub(crate) fn start(self, config: &MdsConfig) -> Outcome<Running> {
        let registered = match config.nfs3 && config.register_rpcbind {
            true => Some(Registered::new(&config.listen).map_err(|e| failed(e.to_string()))?),
            false => None,
        };
        let teller = self.nlm.map(|nlm| {
            tokio::spawn(async move {
                nlm.tell_hosts(&host_name()).await;
            })
        });
        Ok(Running {
            _registered: registered,
            teller,
        })
    }
}

/// The programs as long as they are served.
pub(crate) struct Running {
    _registered: Option<Registered>,
    teller: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(teller) = &self.teller {
            teller.abort();
        }
    }
}

/// What this machine calls itself.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
