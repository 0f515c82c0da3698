//! Which transport a path takes, where its peer can be reached over several.

use crate::rdma::{Rdma, RdmaConnector};
use crate::tcp::TcpConnector;
use crate::{Address, BoxFuture, ConnHandle, ConnectError, Connector, Context, DynService};
use std::sync::Arc;

/// What a path may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Preference {
    /// RDMA where the peer offers it, TCP where that does not come up, which is logged and counted.
    #[default]
    Auto,
    /// RDMA and nothing else.
    Rdma,
    /// TCP and nothing else.
    Tcp,
}

impl Preference {
    /// The addresses of one server that may be tried, in order. Those within a process are neither TCP nor RDMA, and stay.
    #[must_use]
    pub fn order(self, addresses: Vec<Address>) -> Vec<Address> {
        let (rdma, others): (Vec<_>, Vec<_>) = addresses
            .into_iter()
            .partition(|a| matches!(a, Address::Rdma(_)));
        let is_tcp = |a: &Address| matches!(a, Address::Tcp(_) | Address::Tls { .. });
        match self {
            Self::Auto => rdma.into_iter().chain(others).collect(),
            Self::Rdma => {
                let within = others.into_iter().filter(|a| !is_tcp(a));
                rdma.into_iter().chain(within).collect()
            }
            Self::Tcp => others,
        }
    }
}

/// Connects to TCP, TLS and RDMA addresses.
#[derive(Debug, Clone)]
pub struct AnyConnector {
    tcp: TcpConnector,
    rdma: RdmaConnector,
}

impl AnyConnector {
    /// Without TLS; RDMA over these providers, tried in order.
    #[must_use]
    pub fn new(context: &Context, providers: Vec<Rdma>) -> Self {
        Self {
            tcp: TcpConnector::new(context.clone()),
            rdma: RdmaConnector::new(context.clone(), providers),
        }
    }
}

impl Connector for AnyConnector {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        match address {
            Address::Rdma(_) => self.rdma.connect(address, reverse),
            _ => self.tcp.connect(address, reverse),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each preference tries what it may, RDMA first, and never what it may not.
    use super::*;

    #[test]
    fn a_preference_orders_and_leaves_out() {
        let tcp = Address::Tcp(([127, 0, 0, 1], 2049).into());
        let rdma = Address::Rdma(([127, 0, 0, 1], 20049).into());
        let memory = Address::Memory("here".into());
        let all = vec![tcp.clone(), memory.clone(), rdma.clone()];
        for (preference, order) in [
            (Preference::Auto, vec![&rdma, &tcp, &memory]),
            (Preference::Rdma, vec![&rdma, &memory]),
            (Preference::Tcp, vec![&tcp, &memory]),
        ] {
            let order: Vec<Address> = order.into_iter().cloned().collect();
            assert_eq!(preference.order(all.clone()), order, "{preference:?}");
        }
        assert!(Preference::Rdma.order(vec![tcp]).is_empty());
    }
}
