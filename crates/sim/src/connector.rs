//! Connections by number: data servers say TCP addresses, as real ones do, and the simulator knows whose they are.

use crate::rng::Rng;
use control::{NetAddr, Text};
use std::net::SocketAddr;
use std::sync::Arc;
use transport::memory::{MemoryConnector, Network};
use transport::{
    Address, BoxFuture, ConnHandle, ConnectError, Connector, Context, DynService, Limits,
};

/// Connects within the network; a TCP address means the data server of its last number.
#[derive(Debug)]
pub(crate) struct ByNumber(MemoryConnector);

impl ByNumber {
    /// A connector whose end is called `name`.
    pub(crate) fn new(network: &Network, name: &str) -> Arc<Self> {
        Arc::new(Self(
            network.connector(name, Context::new(Limits::default())),
        ))
    }
}

/// The host name of data server number `index`.
pub(crate) fn ds_name(index: usize) -> String {
    format!("ds-{index}")
}

/// What data server number `index` advertises.
pub(crate) fn ds_address(index: usize) -> NetAddr {
    NetAddr {
        netid: Text::cut("tcp"),
        uaddr: Text::cut(&format!("10.0.0.{index}.8.1")),
    }
}

impl Connector for ByNumber {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            let Address::Tcp(SocketAddr::V4(v4)) = address else {
                return self.0.connect(address, reverse).await;
            };
            let name = ds_name(usize::from(v4.ip().octets()[3]));
            self.0.connect(&Address::Memory(name), reverse).await
        })
    }
}

/// A verifier drawn from `rng`.
pub(crate) fn verifier(rng: &mut Rng) -> nfs4::Verifier {
    nfs4::Verifier {
        bytes: rng.bits().to_be_bytes(),
    }
}
