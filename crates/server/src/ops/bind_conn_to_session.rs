//! `BIND_CONN_TO_SESSION` (RFC 8881 §18.34).

use crate::{Compound, Nfsd, Role};
use nfs4::NfsStatus;
use nfs4::ops::{
    BindConnToSessionArgs, BindConnToSessionRes, ChannelDirFromClient, ChannelDirFromServer,
};
use state::{BindRequest, BoundDirection};

impl<R: Role> Nfsd<R> {
    pub(super) fn bind_conn_to_session(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: BindConnToSessionArgs,
    ) -> Result<BindConnToSessionRes, NfsStatus> {
        let request = match args.dir {
            ChannelDirFromClient::Fore => BindRequest::Fore,
            ChannelDirFromClient::Back => BindRequest::Back,
            ChannelDirFromClient::ForeOrBoth => BindRequest::ForeOrBoth,
            ChannelDirFromClient::BackOrBoth => BindRequest::BackOrBoth,
        };
        let bound = self
            .clients()
            .lock()
            .bind(args.session_id, cx.conn.id(), request, true)?;
        let dir = match bound {
            BoundDirection::Fore => ChannelDirFromServer::Fore,
            BoundDirection::Back => ChannelDirFromServer::Back,
            BoundDirection::Both => ChannelDirFromServer::Both,
        };
        Ok(BindConnToSessionRes {
            session_id: args.session_id,
            dir,
            use_conn_in_rdma_mode: false,
        })
    }
}
