//! Operations that stand alone in their COMPOUND, without a SEQUENCE (RFC 8881 §2.10.2), and the tying of connections by one of them.

use crate::SessionError;
use crate::compound_call::{call_header, session_result};
use crate::config::{MESSAGE_BYTES_MAX, SessionConfig};
use crate::room::{Estimate, reply_room};
use bytes::Bytes;
use nfs4::ops::{BindConnToSessionArgs, BindConnToSessionRes, ChannelDirFromClient};
use nfs4::{CompoundBuilder, SessionId};
use std::sync::Arc;
use transport::{CallError, ConnHandle, Message};

/// Sends one operation that stands alone.
pub(crate) async fn bare(
    config: &SessionConfig,
    conn: &ConnHandle,
    build: &(dyn Fn(&mut CompoundBuilder) + Send + Sync),
) -> Result<Bytes, SessionError> {
    let header = call_header(config.caller.credential());
    let mut b = CompoundBuilder::new(header, b"", config.minor_version);
    build(&mut b);
    let room = reply_room(b.reply_bytes(), MESSAGE_BYTES_MAX, Estimate::Usual);
    let message = Message::from(b.finish()).with_reply_room(room);
    let call = conn.call(message, config.try_timeout).await;
    call.map_err(|e| match e {
        CallError::Refused => SessionError::NotCarried,
        _ => SessionError::TimedOut,
    })
}

/// What ties a new connection to a session.
#[derive(Clone)]
pub(crate) struct Binding {
    pub(crate) config: Arc<SessionConfig>,
    pub(crate) session: SessionId,
}

impl Binding {
    /// Ties a connection to the session, so that it may carry callbacks too, and proves that it leads to the session's server. A list
    /// of addresses may be wrong, and a request in another server's hands would end the session (RFC 8881 §2.10.5.1). A connection
    /// without callbacks to the only address of a server needs no word.
    pub(crate) async fn bind(&self, conn: &ConnHandle) -> Result<(), SessionError> {
        let session_id = self.session;
        let dir = match self.config.callbacks {
            Some(_) => ChannelDirFromClient::ForeOrBoth,
            None if self.config.addresses.len() < 2 => return Ok(()),
            None => ChannelDirFromClient::Fore,
        };
        let record = bare(&self.config, conn, &|b| {
            b.push(&BindConnToSessionArgs {
                session_id,
                dir,
                use_conn_in_rdma_mode: false,
            });
        })
        .await?;
        session_result::<BindConnToSessionRes>(&record).map(drop)
    }
}
