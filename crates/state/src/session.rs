//! One session: its slots, its channel attributes and the connections bound to it (RFC 8881 §2.10).
//!
//! A connection is a number that the caller gives out and never reuses; what it is (TCP, TLS, RDMA)
//! is no matter here. Lookup, leases and destruction are the business of [`crate::Clients`].

use std::collections::BTreeMap;

use nfs4::{ClientId, NfsStatus, SessionId};

use crate::{BackChannel, ChannelAttrs, SlotTable};

/// Most connections bound to one session. Linux opens at most 16 (`nconnect`) for each address.
pub const CONNECTIONS_PER_SESSION_MAX: usize = 64;

/// `sr_status_flags` of SEQUENCE (RFC 8881 §18.46.2).
pub mod status_flags {
    /// No session of the client has a back channel.
    pub const CB_PATH_DOWN: u32 = 0x0000_0001;
    /// The lease ended and all state is gone, not yet acknowledged by FREE_STATEID.
    pub const EXPIRED_ALL_STATE_REVOKED: u32 = 0x0000_0008;
    /// As above, for a part of the state.
    pub const EXPIRED_SOME_STATE_REVOKED: u32 = 0x0000_0010;
    /// An administrator took state away.
    pub const ADMIN_STATE_REVOKED: u32 = 0x0000_0020;
    /// A recall was not answered and its object is revoked.
    pub const RECALLABLE_STATE_REVOKED: u32 = 0x0000_0040;
    /// The server restarted, and this client has not yet sent RECLAIM_COMPLETE.
    pub const RESTART_RECLAIM_NEEDED: u32 = 0x0000_0100;
    /// This session has no back channel.
    pub const CB_PATH_DOWN_SESSION: u32 = 0x0000_0200;
    /// The back channel's sequence ids are lost.
    pub const BACKCHANNEL_FAULT: u32 = 0x0000_0400;
    /// A device id that the client asked to be notified of has changed.
    pub const DEVID_CHANGED: u32 = 0x0000_0800;
    /// A device id that the client asked to be notified of is deleted.
    pub const DEVID_DELETED: u32 = 0x0000_1000;
}

/// `channel_dir_from_client4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindRequest {
    /// CDFC4_FORE.
    Fore,
    /// CDFC4_BACK.
    Back,
    /// CDFC4_FORE_OR_BOTH.
    ForeOrBoth,
    /// CDFC4_BACK_OR_BOTH.
    BackOrBoth,
}

/// `channel_dir_from_server4`: what a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundDirection {
    /// Requests of the client.
    Fore,
    /// Callbacks of the server.
    Back,
    /// Both.
    Both,
}

impl BoundDirection {
    /// Whether callbacks may be sent.
    #[must_use]
    pub fn is_back(self) -> bool {
        matches!(self, Self::Back | Self::Both)
    }

    /// Whether requests may come.
    #[must_use]
    pub fn is_fore(self) -> bool {
        matches!(self, Self::Fore | Self::Both)
    }
}

/// A credential that the client accepts on callbacks (`callback_sec_parms4`), without RPCSEC_GSS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackSecurity {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys {
        /// Name of the machine, as the client gave it.
        machine: Vec<u8>,
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
        /// Other groups, at most 16 (RFC 5531 §14; the codec's bound).
        gids: Vec<u32>,
    },
}

/// The channels of a new session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channels {
    pub(crate) fore: ChannelAttrs,
    pub(crate) back: ChannelAttrs,
    pub(crate) back_slots: u32,
}

/// What a session id says of itself: boot number (4 bytes), counter (4) and 63 random bits. The last bit says whether
/// the session is persistent. So a later run knows of a session that it has no record of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionName {
    /// The run of the server that made it.
    pub boot: u32,
    /// Whether its reply cache outlives that run.
    pub is_persistent: bool,
}

impl SessionName {
    /// Reads an id.
    #[must_use]
    pub fn of(id: SessionId) -> Self {
        let [a, b, c, d, .., last] = id.bytes;
        Self {
            boot: u32::from_be_bytes([a, b, c, d]),
            is_persistent: last & 1 != 0,
        }
    }

    pub(crate) fn with(self, counter: u32, random: u64) -> SessionId {
        let random = random & !1 | u64::from(self.is_persistent);
        let mut id = SessionId::default();
        id.bytes[..4].copy_from_slice(&self.boot.to_be_bytes());
        id.bytes[4..8].copy_from_slice(&counter.to_be_bytes());
        id.bytes[8..].copy_from_slice(&random.to_be_bytes());
        id
    }
}

/// One session.
#[derive(Debug)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) client: ClientId,
    pub(crate) fore: ChannelAttrs,
    pub(crate) back: ChannelAttrs,
    /// Slots used of those that the client offered; none on a server that never calls back.
    back_slots: u32,
    /// Slots and the reply cache. [`crate::Clients`] counts what all of them hold.
    pub(crate) slots: SlotTable,
    /// The server's own slots for callbacks.
    pub back_channel: BackChannel,
    /// Whether its reply cache outlives the server (RFC 8881 §2.10.6.5).
    pub persistent: bool,
    /// `csa_cb_program` or the later BACKCHANNEL_CTL's.
    pub callback_program: u32,
    /// What callbacks are sent with.
    pub callback_security: CallbackSecurity,
    /// Minor version of the COMPOUND that created the session; callbacks use it too.
    pub minor_version: u32,
    /// Whether a connection must be bound by BIND_CONN_TO_SESSION before it may carry SEQUENCE
    /// (SP4_MACH_CRED; RFC 8881 §18.35.3).
    pub(crate) bind_enforced: bool,
    connections: BTreeMap<u64, BoundDirection>,
}

impl Session {
    pub(crate) fn new(
        id: SessionId,
        client: ClientId,
        channels: Channels,
        bind_enforced: bool,
    ) -> Self {
        let Channels {
            fore,
            back,
            back_slots,
        } = channels;
        Self {
            id,
            client,
            fore,
            back,
            back_slots,
            slots: SlotTable::new(fore.requests_max, fore.response_cached_bytes_max),
            back_channel: BackChannel::new(back_slots),
            persistent: false,
            callback_program: 0,
            callback_security: CallbackSecurity::None,
            minor_version: 1,
            bind_enforced,
            connections: BTreeMap::new(),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// The client that it belongs to.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// The negotiated fore channel.
    #[must_use]
    pub fn fore(&self) -> &ChannelAttrs {
        &self.fore
    }

    /// The negotiated back channel.
    #[must_use]
    pub fn back(&self) -> &ChannelAttrs {
        &self.back
    }

    /// What `connection` carries, if it is bound.
    #[must_use]
    pub fn direction(&self, connection: u64) -> Option<BoundDirection> {
        self.connections.get(&connection).copied()
    }

    /// Connections that callbacks may be sent on, in ascending order.
    pub fn back_connections(&self) -> impl Iterator<Item = u64> + '_ {
        self.connections
            .iter()
            .filter(|(_, direction)| direction.is_back())
            .map(|(connection, _)| *connection)
    }

    /// All bound connections, in ascending order.
    pub fn connections(&self) -> impl Iterator<Item = u64> + '_ {
        self.connections.keys().copied()
    }

    /// The slots of its fore channel.
    #[must_use]
    pub fn slots(&self) -> &SlotTable {
        &self.slots
    }

    /// Whether a callback can be sent now.
    #[must_use]
    pub fn has_back_channel(&self) -> bool {
        self.back_slots > 0 && self.back_connections().next().is_some()
    }

    /// Takes a request on `connection`: an unbound one is bound to the fore channel, unless binding
    /// is enforced (RFC 8881 §18.34.3). Beyond the limit of connections a request is served without
    /// being remembered, which only means that callbacks never go there. Returns whether it is bound since now.
    ///
    /// # Errors
    /// `ConnNotBoundToSession`.
    pub(crate) fn admit(&mut self, connection: u64) -> Result<bool, NfsStatus> {
        match self.connections.get(&connection) {
            Some(direction) if direction.is_fore() => Ok(false),
            // A connection for callbacks only may come to carry requests under SP4_NONE.
            Some(_) if !self.bind_enforced => {
                self.connections.insert(connection, BoundDirection::Both);
                Ok(false)
            }
            None if !self.bind_enforced => {
                let has_room = self.connections.len() < CONNECTIONS_PER_SESSION_MAX;
                if has_room {
                    self.connections.insert(connection, BoundDirection::Fore);
                }
                Ok(has_room)
            }
            _ => Err(NfsStatus::ConnNotBoundToSession),
        }
    }

    /// See [`crate::Clients::bind`].
    pub(crate) fn bind(
        &mut self,
        connection: u64,
        request: BindRequest,
        back_possible: bool,
    ) -> Result<BoundDirection, NfsStatus> {
        let back_possible = back_possible && self.back_slots > 0;
        let current = self.connections.get(&connection).copied();
        let direction = match (request, current) {
            (BindRequest::Fore, None | Some(BoundDirection::Fore)) => BoundDirection::Fore,
            (BindRequest::Back, None | Some(BoundDirection::Back)) if back_possible => {
                BoundDirection::Back
            }
            (BindRequest::ForeOrBoth, None | Some(BoundDirection::Fore | BoundDirection::Both)) => {
                if back_possible {
                    BoundDirection::Both
                } else {
                    BoundDirection::Fore
                }
            }
            (BindRequest::BackOrBoth, None | Some(BoundDirection::Back | BoundDirection::Both))
                if back_possible =>
            {
                BoundDirection::Both
            }
            _ => return Err(NfsStatus::Inval),
        };
        if current.is_none() && self.connections.len() >= CONNECTIONS_PER_SESSION_MAX {
            return Err(NfsStatus::Delay);
        }
        self.connections.insert(connection, direction);
        Ok(direction)
    }

    /// Forgets a connection that is closed; see [`crate::Clients::connection_closed`].
    pub(crate) fn unbind(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }

    /// The bits of `sr_status_flags` that this session alone decides.
    pub(crate) fn status_flags(&self) -> u32 {
        let mut flags = 0;
        if !self.has_back_channel() {
            flags |= status_flags::CB_PATH_DOWN_SESSION;
        }
        if self.back_channel.is_faulty() {
            flags |= status_flags::BACKCHANNEL_FAULT;
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(back_slots: u32, bind_enforced: bool) -> Session {
        let fore = ChannelAttrs {
            header_pad_bytes: 0,
            request_bytes_max: 4096,
            response_bytes_max: 4096,
            response_cached_bytes_max: 100,
            operations_max: 8,
            requests_max: 4,
            rdma_ird: None,
        };
        let back = ChannelAttrs {
            requests_max: back_slots,
            ..fore
        };
        Session::new(
            SessionId::default(),
            ClientId::default(),
            Channels {
                fore,
                back,
                back_slots,
            },
            bind_enforced,
        )
    }

    #[test]
    fn bind_answers_as_the_table_says() {
        use BindRequest as R;
        use BoundDirection as D;
        let inval = Err(NfsStatus::Inval);
        // (bound before, request, callbacks possible, answer)
        for (before, request, back, answer) in [
            (None, R::Fore, true, Ok(D::Fore)),
            (None, R::Back, true, Ok(D::Back)),
            (None, R::ForeOrBoth, true, Ok(D::Both)),
            (None, R::BackOrBoth, true, Ok(D::Both)),
            (None, R::Back, false, inval),
            (None, R::ForeOrBoth, false, Ok(D::Fore)),
            (None, R::BackOrBoth, false, inval),
            (Some(D::Fore), R::Fore, true, Ok(D::Fore)),
            (Some(D::Fore), R::ForeOrBoth, true, Ok(D::Both)),
            (Some(D::Fore), R::Back, true, inval),
            (Some(D::Fore), R::BackOrBoth, true, inval),
            (Some(D::Back), R::Back, true, Ok(D::Back)),
            (Some(D::Back), R::BackOrBoth, true, Ok(D::Both)),
            (Some(D::Back), R::Fore, true, inval),
            (Some(D::Both), R::ForeOrBoth, true, Ok(D::Both)),
            (Some(D::Both), R::BackOrBoth, true, Ok(D::Both)),
            (Some(D::Both), R::Fore, true, inval),
            (Some(D::Both), R::Back, true, inval),
        ] {
            let mut s = session(2, false);
            if let Some(direction) = before {
                s.connections.insert(7, direction);
            }
            assert_eq!(
                s.bind(7, request, back),
                answer,
                "{before:?} {request:?} {back}"
            );
        }
    }

    #[test]
    fn a_session_without_back_slots_has_no_back_channel() {
        let mut s = session(0, false);
        assert_eq!(s.bind(1, BindRequest::Back, true), Err(NfsStatus::Inval));
        assert_eq!(
            s.bind(1, BindRequest::ForeOrBoth, true),
            Ok(BoundDirection::Fore)
        );
        assert!(!s.has_back_channel());
    }

    #[test]
    fn sequence_binds_unless_binding_is_enforced() {
        let mut s = session(1, false);
        assert_eq!(s.admit(1), Ok(true));
        assert_eq!(s.admit(1), Ok(false));
        assert_eq!(s.direction(1), Some(BoundDirection::Fore));
        s.bind(2, BindRequest::Back, true).unwrap();
        assert_eq!(s.admit(2), Ok(false));
        assert_eq!(s.direction(2), Some(BoundDirection::Both));

        let mut s = session(1, true);
        assert_eq!(s.admit(1), Err(NfsStatus::ConnNotBoundToSession));
        s.bind(1, BindRequest::Back, true).unwrap();
        assert_eq!(s.admit(1), Err(NfsStatus::ConnNotBoundToSession));
        s.bind(2, BindRequest::Fore, true).unwrap();
        assert_eq!(s.admit(2), Ok(false));
    }

    #[test]
    fn connections_are_bounded_and_flags_follow_them() {
        let mut s = session(1, false);
        for connection in 0..CONNECTIONS_PER_SESSION_MAX as u64 {
            s.admit(connection).unwrap();
        }
        assert_eq!(s.admit(1000), Ok(false));
        assert_eq!(s.direction(1000), None);
        assert_eq!(s.bind(1000, BindRequest::Back, true), Err(NfsStatus::Delay));
        assert_eq!(s.status_flags(), status_flags::CB_PATH_DOWN_SESSION);
        s.bind(3, BindRequest::ForeOrBoth, true).unwrap();
        assert_eq!(s.status_flags(), 0);
        assert_eq!(s.back_connections().collect::<Vec<_>>(), [3]);
        s.unbind(3);
        assert_eq!(s.status_flags(), status_flags::CB_PATH_DOWN_SESSION);
        s.bind(1000, BindRequest::ForeOrBoth, true).unwrap();
    }
}
