//! NFSv3 beside NFSv4: its programs, their registration, the task that tells hosts of their locks, and the sockets on which they say
//! that they have restarted.

use std::sync::Arc;

use mds::Mds;
use mds3::{Mount, Nfs3, Nlm, Nsm};
use rpc_service::DynProgram;
use server::{Nfsd, Programs};
use tokio::task::{JoinHandle, JoinSet};
use transport::tcp::TcpConnector;
use transport::{Connector, Context};

use crate::config::MdsConfig;
use crate::failure::{Outcome, failed};
use crate::nsm_datagrams;
use crate::rpcbind::Registered;

/// The programs, where they are wanted.
pub(crate) struct OlderNfs {
    programs: Vec<Arc<dyn DynProgram>>,
    lockers: Option<(Arc<Nlm>, Arc<Nsm>)>,
}

impl OlderNfs {
    /// Over the files of `nfsd`. Hosts are called over connections of `context`.
    pub(crate) fn new(config: &MdsConfig, nfsd: &Arc<Nfsd<Mds>>, context: &Context) -> Self {
        if !config.nfs3 {
            return Self {
                programs: Vec::new(),
                lockers: None,
            };
        }
        let connector = Arc::new(TcpConnector::new(context.sibling()));
        let nsm = Arc::new(Nsm::new(
            Arc::clone(nfsd),
            Arc::clone(&connector) as Arc<dyn Connector>,
        ));
        let nlm = Arc::new(Nlm::new(Arc::clone(nfsd), connector));
        let programs: Vec<Arc<dyn DynProgram>> = vec![
            Arc::new(Nfs3::new(Arc::clone(nfsd))),
            Arc::new(Mount::new(Arc::clone(nfsd))),
            Arc::clone(&nlm) as Arc<dyn DynProgram>,
            Arc::clone(&nsm) as Arc<dyn DynProgram>,
        ];
        Self {
            programs,
            lockers: Some((nlm, nsm)),
        }
    }

    /// NFSv4 with these programs beside it.
    pub(crate) fn beside(&self, nfsd: &Arc<Nfsd<Mds>>) -> Arc<Programs<Mds>> {
        Arc::new(Arc::clone(nfsd).with_programs(self.programs.clone()))
    }

    /// Registers them with rpcbind, where that is wanted. Begins to tell hosts of their locks, and to hear datagrams of theirs.
    ///
    /// # Errors
    /// rpcbind cannot be reached, or names another server.
    pub(crate) fn start(self, config: &MdsConfig) -> Outcome<Running> {
        let datagrams = self
            .lockers
            .as_ref()
            .map(|(_, nsm)| nsm_datagrams::serve(&config.listen, nsm));
        let registered = match config.nfs3 && config.register_rpcbind {
            true => Some(Registered::new(&config.listen).map_err(|e| failed(e.to_string()))?),
            false => None,
        };
        let teller = self.lockers.map(|(nlm, _)| {
            tokio::spawn(async move {
                nlm.tell_hosts(&host_name()).await;
            })
        });
        Ok(Running {
            _registered: registered,
            _datagrams: datagrams,
            teller,
        })
    }
}

/// The programs as long as they are served.
pub(crate) struct Running {
    _registered: Option<Registered>,
    /// Ends with this.
    _datagrams: Option<JoinSet<()>>,
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
