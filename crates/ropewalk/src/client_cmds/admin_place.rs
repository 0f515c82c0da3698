//! `admin:/PATH`: the file system with root's rights, by the tunnel of the administration API.
//!
//! The metadata server is reached by the tunnel alone. Data go to data servers as ever.

use super::CliError;
use crate::admin::{MdsPlace, Server, mds_server};
use ::admin::Stream;
use client::{ClientConfig, UserIdentity};
use parking_lot::Mutex;
use std::sync::Arc;
use transport::{
    Address, AnyConnector, BoxFuture, ConnHandle, ConnectError, Connector, Context, DynService,
};

/// What the metadata server is called at the end of a tunnel.
const MDS_NAME: &str = "metadata server";

/// The address of the metadata server for [`TunnelConnector`].
pub(super) fn address() -> Address {
    Address::Tunnel(MDS_NAME.to_owned())
}

/// Where the tunnel leads: what ROPEWALK_DIR or ROPEWALK_SERVER say, or to the server of `ropewalk up` here.
pub(super) fn server() -> Result<Server, CliError> {
    mds_server(&MdsPlace::default()).map_err(|e| CliError::new(e.to_string()))
}

/// Makes a configuration that of root.
pub(super) fn as_root(config: &mut ClientConfig) {
    config.identity = UserIdentity {
        uid: 0,
        gid: 0,
        gids: Vec::new(),
        machine: std::mem::take(&mut config.identity.machine),
    };
}

/// Connects by the tunnel to the metadata server, and to everything else as usual.
pub(super) struct TunnelConnector {
    server: Server,
    /// The tunnel that showed that the server lets the caller in.
    first: Mutex<Option<Box<dyn Stream>>>,
    context: Context,
    others: AnyConnector,
}

impl TunnelConnector {
    /// By tunnels to this server. The first is open when this returns: who is not let in is told at once.
    pub(super) async fn open(server: Server, context: &Context) -> Result<Self, CliError> {
        let what = format!("open a tunnel to the metadata server at {server}");
        let first = ::admin::open_tunnel(&server).await;
        let first = first.map_err(|e| CliError::new(format!("cannot {what}: {e}")))?;
        Ok(Self {
            server,
            first: Mutex::new(Some(first)),
            context: context.clone(),
            others: AnyConnector::new(context, Vec::new()),
        })
    }
}

impl Connector for TunnelConnector {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        let Address::Tunnel(name) = address else {
            return self.others.connect(address, reverse);
        };
        Box::pin(async move {
            let first = self.first.lock().take();
            let stream = match first {
                Some(first) => first,
                None => {
                    let opened = ::admin::open_tunnel(&self.server).await;
                    opened.map_err(|error| ConnectError::Io(std::io::Error::other(error)))?
                }
            };
            let peer = name.as_str().into();
            transport::tunnel::connect(stream, &peer, reverse, &self.context)
        })
    }
}
