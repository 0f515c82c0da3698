//! `BIND_CONN_TO_SESSION` (RFC 8881 §18.34).

use crate::{OpNum, SessionId};

xdr::xdr_enum! {
    /// `channel_dir_from_client4`.
    pub enum ChannelDirFromClient {
        /// Fore channel only.
        Fore = 1,
        /// Back channel only.
        Back = 2,
        /// Fore, and back if the server agrees.
        ForeOrBoth = 3,
        /// Back, and fore if the server agrees.
        BackOrBoth = 7,
    }

    /// `channel_dir_from_server4`.
    pub enum ChannelDirFromServer {
        /// Fore channel only.
        Fore = 1,
        /// Back channel only.
        Back = 2,
        /// Both.
        Both = 3,
    }
}

xdr::xdr_struct! {
    /// Arguments of `BIND_CONN_TO_SESSION`.
    #[derive(Copy)]
    pub struct BindConnToSessionArgs {
        /// The session.
        pub session_id: SessionId,
        /// Channels that this connection is to carry.
        pub dir: ChannelDirFromClient,
        /// Whether the connection is to switch to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }

    /// Result of `BIND_CONN_TO_SESSION`.
    #[derive(Copy)]
    pub struct BindConnToSessionRes {
        /// The session.
        pub session_id: SessionId,
        /// Channels that this connection carries.
        pub dir: ChannelDirFromServer,
        /// Whether the connection switches to RDMA.
        pub use_conn_in_rdma_mode: bool,
    }
}

operations! { OpNum::BindConnToSession: BindConnToSessionArgs => BindConnToSessionRes; }
