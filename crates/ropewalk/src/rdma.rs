//! RDMA of the server processes and client commands: which provider, and its listeners.

use crate::config::{DsConfig, MdsConfig};
use crate::failure::{Outcome, cannot, failed};
use crate::listeners;
use crate::rdma_provider::ProviderChoice;
use bytesize::ByteSize;
use fabric_iwarp::Iwarp;
use fabric_verbs::Verbs;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use transport::rdma::{self, Config, Rdma};
use transport::workers::ShutdownSignal;
use transport::{Context, DynService};

/// A provider, and how connections over it are made.
pub(crate) type Wish = (ProviderChoice, Config);

fn config(crc: bool, inline: ByteSize) -> Config {
    Config {
        crc,
        // At most 64 KiB, as was checked.
        inline_bytes: u32::try_from(inline.as_u64()).unwrap_or(u32::MAX),
        ..Config::default()
    }
}

impl MdsConfig {
    /// What RDMA runs on.
    pub(crate) fn rdma(&self) -> Wish {
        let config = config(self.rdma_crc, self.rdma_inline);
        (self.rdma_provider, config)
    }
}

impl DsConfig {
    /// What RDMA runs on.
    pub(crate) fn rdma(&self) -> Wish {
        let config = config(self.rdma_crc, self.rdma_inline);
        (self.rdma_provider, config)
    }
}

/// Software iWARP, for machines without a device.
pub(crate) fn software(config: Config) -> Rdma {
    Rdma::new(Arc::new(Iwarp::default()), config)
}

fn devices(verbs: Verbs, config: Config) -> Rdma {
    Rdma::new(Arc::new(verbs), config)
}

fn unusable(why: &str) -> crate::failure::Failure {
    failed(format!(
        "`rdma_provider` is \"verbs\", but RDMA devices cannot be used: {why} (`ropewalk rdma` says more)"
    ))
}

/// The devices, or why these addresses are not served by any.
fn devices_for(addresses: &[SocketAddr]) -> Result<Verbs, String> {
    let verbs = Verbs::open()?;
    match addresses.iter().find(|address| !verbs.has(**address)) {
        Some(address) => Err(format!("{} is on no RDMA device", address.ip())),
        None => Ok(verbs),
    }
}

/// The devices that serve these addresses, or none where software iWARP does, and why.
fn choose(choice: ProviderChoice, addresses: &[SocketAddr]) -> Outcome<(Option<Verbs>, String)> {
    match choice {
        ProviderChoice::Iwarp => Ok((None, "asked for".to_owned())),
        ProviderChoice::Verbs => {
            let verbs = Verbs::open().map_err(|why| unusable(&why))?;
            Ok((Some(verbs), "asked for".to_owned()))
        }
        ProviderChoice::Auto => match devices_for(addresses) {
            Ok(verbs) => Ok((Some(verbs), "its device is up".to_owned())),
            Err(why) => Ok((None, why)),
        },
    }
}

/// Whether software iWARP serves these addresses. Its sockets can be handed to another process, and a device's cannot.
///
/// # Errors
/// When devices are asked for and there are none.
pub(crate) fn is_by_software((choice, _): Wish, addresses: &[SocketAddr]) -> Outcome<bool> {
    if addresses.is_empty() {
        return Ok(false);
    }
    let (devices, why) = choose(choice, addresses)?;
    if devices.is_none() {
        tracing::info!(why, "software iWARP serves RDMA");
    }
    Ok(devices.is_none())
}

/// Whether this choice comes to devices on these addresses.
pub(crate) fn uses_devices(choice: ProviderChoice, addresses: &[SocketAddr]) -> bool {
    match choice {
        ProviderChoice::Verbs => true,
        ProviderChoice::Iwarp => false,
        ProviderChoice::Auto => devices_for(addresses).is_ok(),
    }
}

/// What to connect with, in the order of tries.
pub(crate) fn connecting((choice, config): Wish) -> Outcome<Vec<Rdma>> {
    match choice {
        ProviderChoice::Iwarp => Ok(vec![software(config)]),
        ProviderChoice::Verbs => {
            let verbs = Verbs::open().map_err(|why| unusable(&why))?;
            Ok(vec![devices(verbs, config)])
        }
        ProviderChoice::Auto => Ok(any(config)),
    }
}

/// Devices where there are any, then software iWARP: what a client tries that does not know what the server has.
pub(crate) fn any(config: Config) -> Vec<Rdma> {
    let verbs = Verbs::open().ok().map(|verbs| devices(verbs, config));
    verbs.into_iter().chain([software(config)]).collect()
}

/// Where a server listens for RDMA.
#[derive(Debug, Clone)]
pub(crate) struct RdmaListen {
    rdma: Rdma,
    addresses: Vec<SocketAddr>,
}

impl RdmaListen {
    /// Listens with these sockets by software iWARP. Without any it chooses the provider, and makes sure that nobody else listens
    /// on these addresses. Says which and why. `change` says how to choose another port.
    pub(crate) fn reserve(
        (choice, config): Wish,
        addresses: &[SocketAddr],
        sockets: Vec<TcpListener>,
        change: &str,
    ) -> Outcome<Self> {
        if addresses.is_empty() {
            let rdma = software(config);
            let addresses = Vec::new();
            return Ok(Self { rdma, addresses });
        }
        let (rdma, addresses, why) = if sockets.is_empty() {
            match choose(choice, addresses)? {
                (Some(verbs), why) => (devices(verbs, config), addresses.to_vec(), why),
                (None, why) => (software(config), reserve_tcp(addresses, change)?, why),
            }
        } else {
            let locals = sockets.iter().map(TcpListener::local_addr);
            let locals: BTreeSet<_> = locals
                .collect::<Result<_, _>>()
                .map_err(cannot("use a listening socket"))?;
            let fabric = Iwarp::default().listening_with(sockets);
            let rdma = Rdma::new(Arc::new(fabric), config);
            let why = "its sockets outlive this process".to_owned();
            (rdma, locals.into_iter().collect(), why)
        };
        tracing::info!(provider = rdma.fabric().name(), why, "RDMA");
        Ok(Self { rdma, addresses })
    }

    /// The provider, where anything listens.
    pub(crate) fn provider(&self) -> Option<&'static str> {
        (!self.addresses.is_empty()).then(|| self.rdma.fabric().name())
    }

    /// Credits that clients have borrowed, and that they could, where anything listens.
    pub(crate) fn credits_lent(&self) -> Option<(u32, u32)> {
        (!self.addresses.is_empty()).then(|| self.rdma.credits_lent())
    }

    /// Bytes of buffers for bulk that nobody has.
    pub(crate) fn free_bulk_bytes(&self) -> usize {
        self.rdma.free_bulk_bytes()
    }

    /// Serves on the runtime of one worker.
    ///
    /// # Errors
    /// When an address cannot be listened on, other than for want of its device while there is another one.
    pub(crate) async fn serve(
        self,
        service: Arc<dyn DynService>,
        context: Context,
        stop: ShutdownSignal,
    ) -> std::io::Result<()> {
        let listeners = rdma::listen_all(&self.addresses, &self.rdma).await?;
        if !listeners.is_empty() {
            rdma::serve(listeners, self.rdma, service, context, stop).await;
        }
        Ok(())
    }
}

/// Software iWARP listens on a port of TCP. Workers share the address, as another process of the same user could; these
/// sockets find that out, and are gone before the workers listen.
fn reserve_tcp(addresses: &[SocketAddr], change: &str) -> Outcome<Vec<SocketAddr>> {
    let probes = listeners::listen_briefly(addresses, change)?;
    probes
        .iter()
        .map(|probe| {
            probe
                .local_addr()
                .map_err(|e| listeners::busy(addresses[0], &e, change))
        })
        .collect()
}
