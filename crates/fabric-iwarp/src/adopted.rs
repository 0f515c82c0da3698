//! Software iWARP on sockets that listen already, because another process of the same service holds them too.

use crate::setup::{Iwarp, IwarpListener};
use bytes::Bytes;
use fabric::{
    BoxFuture, ConnectError, Connected, EndpointConfig, Fabric, Listener, ProviderLimits, Receive,
};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// [`Iwarp`] that listens with given sockets. A peer that connects while no process serves waits in the queue of a socket, and
/// is not refused.
#[derive(Debug)]
pub struct AdoptedIwarp {
    iwarp: Iwarp,
    /// Those that nobody listens with yet.
    sockets: Mutex<Vec<TcpListener>>,
}

impl AdoptedIwarp {
    /// A provider that takes these sockets, which must listen, for the addresses that they have. Each address should have as many
    /// as listeners will be asked for. Further listeners bind sockets of their own, as those of [`Iwarp`] do.
    #[must_use]
    pub const fn new(iwarp: Iwarp, sockets: Vec<TcpListener>) -> Self {
        Self {
            iwarp,
            sockets: Mutex::new(sockets),
        }
    }

    fn take(&self, address: SocketAddr) -> Option<TcpListener> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |socket: &TcpListener| socket.local_addr().is_ok_and(|at| at == address);
        let at = sockets.iter().position(is_there)?;
        Some(sockets.swap_remove(at))
    }
}

impl Fabric for AdoptedIwarp {
    fn name(&self) -> &'static str {
        self.iwarp.name()
    }

    fn is_hardware(&self) -> bool {
        self.iwarp.is_hardware()
    }

    fn limits(&self) -> ProviderLimits {
        self.iwarp.limits()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        let Some(socket) = self.take(address) else {
            return self.iwarp.listen(address);
        };
        let iwarp = self.iwarp;
        Box::pin(async move {
            let listener: Box<dyn Listener> = Box::new(IwarpListener::adopt(iwarp, socket)?);
            Ok(listener)
        })
    }

    fn connect(
        &self,
        address: SocketAddr,
        config: EndpointConfig,
        private_data: Bytes,
        receives: Vec<Receive>,
    ) -> BoxFuture<'_, Result<Connected, ConnectError>> {
        self.iwarp.connect(address, config, private_data, receives)
    }
}
