//! Which connections carry which sessions (RFC 8881 §2.10.3.1), found from the side of the connection.

use nfs4::{NfsStatus, SessionId};

use super::table::Clients;
use crate::{BindRequest, BoundDirection, Session};

impl Clients {
    /// BIND_CONN_TO_SESSION (RFC 8881 §18.34). `back_possible` says whether the connection's
    /// transport can carry callbacks. Binding again is no change and succeeds. An `..OrBoth` request
    /// widens a connection that SEQUENCE had bound to one channel, because Linux repairs its back
    /// channel so.
    ///
    /// # Errors
    /// `BadSession`; `Inval` for a demand to change channels, or for callbacks where they are impossible; `Delay`
    /// when the session has [`crate::CONNECTIONS_PER_SESSION_MAX`] connections.
    pub fn bind(
        &mut self,
        id: SessionId,
        connection: u64,
        request: BindRequest,
        back_possible: bool,
    ) -> Result<BoundDirection, NfsStatus> {
        let session = self.sessions.get_mut(&id).ok_or(NfsStatus::BadSession)?;
        let direction = session.bind(connection, request, back_possible)?;
        self.bindings.add(connection, id);
        Ok(direction)
    }

    /// Forgets a closed connection in every session. Returns the sessions that it was bound to: the
    /// caller ends the callbacks that it had sent there as lost.
    pub fn connection_closed(&mut self, connection: u64) -> Vec<SessionId> {
        let ended: Vec<SessionId> = self.bindings.of(connection).collect();
        for id in &ended {
            self.bindings.remove(connection, *id);
            if let Some(session) = self.sessions.get_mut(id) {
                session.unbind(connection);
            }
        }
        ended
    }

    /// Removes a session, for which its client answers.
    pub(super) fn remove_session(&mut self, id: SessionId) -> Option<Box<Session>> {
        let session = self.sessions.remove(&id)?;
        self.bindings.remove_session(&session);
        self.reply_bytes -= session.slots.held_bytes();
        Some(session)
    }
}
