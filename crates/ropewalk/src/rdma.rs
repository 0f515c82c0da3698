//! RDMA of the server processes: the built-in software provider, and its listeners.

use crate::daemon;
use crate::failure::Outcome;
use std::net::SocketAddr;
use std::sync::Arc;
use transport::rdma::{self, Config, Listener, Rdma};
use transport::workers::ShutdownSignal;
use transport::{Context, DynService};

/// RDMA in software, for machines without a device. One for each process.
pub(crate) fn software() -> Rdma {
    software_with(true)
}

/// The same; frames go without a checksum when neither `crc` nor the peer wants one.
pub(crate) fn software_with(crc: bool) -> Rdma {
    let config = Config {
        crc,
        ..Config::default()
    };
    Rdma::new(Arc::new(fabric_iwarp::Iwarp::default()), config)
}

/// Where a server listens for RDMA.
#[derive(Debug, Clone)]
pub(crate) struct RdmaListen {
    rdma: Rdma,
    addresses: Vec<SocketAddr>,
}

impl RdmaListen {
    /// Makes sure that nobody else listens on these addresses. `change` says how to choose another port.
    pub(crate) fn reserve(rdma: Rdma, addresses: &[SocketAddr], change: &str) -> Outcome<Self> {
        // Software iWARP listens on a port of TCP. Workers share the address, as another process of the same user
        // could; these sockets find that out, and are gone before the workers listen.
        let probes = daemon::listen(addresses, 1, change)?;
        let taken = probes.iter().flatten();
        let addresses = taken
            .map(|probe| {
                probe
                    .local_addr()
                    .map_err(|e| daemon::busy(addresses[0], &e, change))
            })
            .collect::<Outcome<_>>()?;
        Ok(Self { rdma, addresses })
    }

    /// Serves on the runtime of one worker.
    ///
    /// # Errors
    /// When an address cannot be listened on.
    pub(crate) async fn serve(
        self,
        service: Arc<dyn DynService>,
        context: Context,
        stop: ShutdownSignal,
    ) -> std::io::Result<()> {
        let mut listeners: Vec<Listener> = Vec::new();
        for address in self.addresses {
            listeners.push(rdma::listen(address, &self.rdma).await?);
        }
        if !listeners.is_empty() {
            rdma::serve(listeners, self.rdma, service, context, stop).await;
        }
        Ok(())
    }
}
