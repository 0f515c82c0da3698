//! Connections over a stream of bytes that somebody else has opened, and whose peer it knows: the administrator's way in.
//!
//! The stream is as trustworthy as what opened it. Who serves one answers for the peer's rights.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::accept::Host;
use crate::copy_wire::CopyWire;
use crate::handle::ConnInfo;
use crate::stream::StreamLink;
use crate::{
    CloseReason, ConnHandle, ConnectError, Context, Counters, DynService, Endpoint, TransportKind,
    engine,
};

/// A stream that can be a tunnel.
pub trait TunnelStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> TunnelStream for S {}

fn info(peer: &Arc<str>) -> ConnInfo {
    let end = Endpoint::Tunnel(Arc::clone(peer));
    ConnInfo {
        kind: TransportKind::Tunnel,
        peer: end.clone(),
        local: end,
        tls: None,
    }
}

/// Serves one connection until it ends; `peer` is the name of whom the tunnel is open to. When `until` is ready the
/// connection is closed, and what is being served runs to its end. Returns at once when there are too many connections.
pub async fn serve(
    stream: impl TunnelStream,
    peer: &Arc<str>,
    service: Arc<dyn DynService>,
    context: &Context,
    until: impl Future<Output = ()>,
) {
    let info = info(peer);
    let Some(admission) = context.admit_peer(&info.peer) else {
        return;
    };
    Counters::add(&context.counters().connections_accepted, 1);
    let conn = ConnHandle::new(info, context.clone());
    let link = StreamLink::new(CopyWire::new(stream), &conn);
    let host = Host::new(context.clone(), service);
    let mut running = pin!(host.run(link, conn.clone(), admission));
    tokio::select! {
        () = &mut running => return,
        () = until => conn.close(CloseReason::Shutdown),
    }
    running.await;
}

/// A connection to whom `peer` names. Calls that it sends go to `reverse`. Needs a runtime.
///
/// # Errors
/// [`ConnectError::TooMany`].
pub fn connect(
    stream: impl TunnelStream,
    peer: &Arc<str>,
    reverse: Arc<dyn DynService>,
    context: &Context,
) -> Result<ConnHandle, ConnectError> {
    let admission = context.admit().ok_or(ConnectError::TooMany)?;
    Counters::add(&context.counters().connections_made, 1);
    let conn = ConnHandle::new(info(peer), context.clone());
    let link = StreamLink::new(CopyWire::new(stream), &conn);
    tokio::spawn(engine::run(link, conn.clone(), reverse, admission));
    Ok(conn)
}
