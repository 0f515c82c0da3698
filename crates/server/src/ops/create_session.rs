//! `CREATE_SESSION` (RFC 8881 §18.36).

use crate::{Compound, Nfsd, Role};
use nfs4::NfsStatus;
use nfs4::ops::{
    CREATE_SESSION_CONN_BACK_CHAN, CREATE_SESSION_CONN_RDMA, CREATE_SESSION_PERSIST,
    CallbackSecParms, CreateSessionArgs, CreateSessionRes,
};
use state::{BindRequest, CallbackSecurity, ChannelAttrs, CreateSession, SessionCreated};

/// Smallest request and reply in bytes with which a callback is possible: RPC header, CB_SEQUENCE, a recall with a handle.
const CALLBACK_BYTES_MIN: u32 = 512;
/// CB_SEQUENCE and one more.
const CALLBACK_OPS_MIN: u32 = 2;
const FLAGS_KNOWN: u32 =
    CREATE_SESSION_PERSIST | CREATE_SESSION_CONN_BACK_CHAN | CREATE_SESSION_CONN_RDMA;

impl<R: Role> Nfsd<R> {
    pub(super) async fn create_session(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: &CreateSessionArgs<'_>,
    ) -> Result<CreateSessionRes, NfsStatus> {
        let wants_back = args.flags & CREATE_SESSION_CONN_BACK_CHAN != 0;
        let (security, refused) = match judge(args) {
            Ok(security) => (security, None),
            Err(status) => (CallbackSecurity::None, Some(status)),
        };
        let request = state::CreateSessionArgs {
            client: args.clientid,
            seqid: args.sequence,
            principal: &cx.user.principal(),
            fore: from_wire(&args.fore_chan_attrs),
            back: from_wire(&args.back_chan_attrs),
            back_channel: wants_back,
            persistent: args.flags & CREATE_SESSION_PERSIST != 0 && self.role().persists(),
            callback_program: args.cb_program,
            callback_security: security,
            connection: cx.conn.id(),
            random: self.clients().random(),
            refused,
        };
        let now_ms = self.clients().now_ms();
        let outcome = {
            let mut clients = self.clients().lock();
            let outcome = clients.create_session(request, now_ms, |c| self.role().has_state(c))?;
            match &outcome {
                CreateSession::New { created, .. } => {
                    if let Some(session) = clients.session_mut(created.session) {
                        session.minor_version = cx.minor_version;
                    }
                }
                // The connection that asked first is gone, or it would not ask again: this one takes its place.
                CreateSession::Replay(created) if created.back_channel => {
                    let id = cx.conn.id();
                    let _ = clients.bind(created.session, id, BindRequest::ForeOrBoth, true);
                }
                CreateSession::Replay(_) => {}
            }
            outcome
        };
        let created = match outcome {
            CreateSession::Replay(created) => created,
            CreateSession::New { created, removed } => {
                if created.back_channel {
                    self.clients().probe(cx.conn.clone(), args.cb_program);
                }
                for removed in removed {
                    self.role().client_removed(removed).await;
                }
                created
            }
        };
        Ok(to_wire(&created))
    }
}

/// Refuses what this server cannot do; the answer comes when the sequence id is judged.
fn judge(args: &CreateSessionArgs<'_>) -> Result<CallbackSecurity, NfsStatus> {
    if args.flags & !FLAGS_KNOWN != 0 {
        return Err(NfsStatus::Inval);
    }
    let back = &args.back_chan_attrs;
    let fits = back.request_bytes_max >= CALLBACK_BYTES_MIN
        && back.response_bytes_max >= CALLBACK_BYTES_MIN
        && back.operations_max >= CALLBACK_OPS_MIN;
    // Without slots there will be no back channel, on this connection or a later one.
    let wants_back = args.flags & CREATE_SESSION_CONN_BACK_CHAN != 0 || back.requests_max > 0;
    if wants_back && !fits {
        return Err(NfsStatus::TooSmall);
    }
    offered_security(&args.sec_parms.0)
}

/// The first credential for callbacks that this server can use. The list names alternatives: a GSS handle, which cannot
/// exist here, is an error only where there is nothing else (RFC 8881 §18.36.3).
fn offered_security(offered: &[CallbackSecParms<'_>]) -> Result<CallbackSecurity, NfsStatus> {
    match offered.iter().find_map(super::arguments::usable) {
        Some(security) => Ok(security),
        None if offered.is_empty() => Ok(CallbackSecurity::None),
        None => Err(NfsStatus::NoEnt),
    }
}

fn to_wire(created: &SessionCreated) -> CreateSessionRes {
    CreateSessionRes {
        session_id: created.session,
        sequence: created.seqid,
        flags: flag(created.back_channel, CREATE_SESSION_CONN_BACK_CHAN)
            | flag(created.persistent, CREATE_SESSION_PERSIST),
        fore_chan_attrs: attrs_to_wire(&created.fore),
        back_chan_attrs: attrs_to_wire(&created.back),
    }
}

const fn flag(set: bool, flag: u32) -> u32 {
    if set { flag } else { 0 }
}

fn from_wire(a: &nfs4::ops::ChannelAttrs) -> ChannelAttrs {
    ChannelAttrs {
        header_pad_bytes: a.header_pad_bytes,
        request_bytes_max: a.request_bytes_max,
        response_bytes_max: a.response_bytes_max,
        response_cached_bytes_max: a.response_cached_bytes_max,
        operations_max: a.operations_max,
        requests_max: a.requests_max,
        rdma_ird: a.rdma_ird,
    }
}

fn attrs_to_wire(a: &ChannelAttrs) -> nfs4::ops::ChannelAttrs {
    nfs4::ops::ChannelAttrs {
        header_pad_bytes: a.header_pad_bytes,
        request_bytes_max: a.request_bytes_max,
        response_bytes_max: a.response_bytes_max,
        response_cached_bytes_max: a.response_cached_bytes_max,
        operations_max: a.operations_max,
        requests_max: a.requests_max,
        rdma_ird: a.rdma_ird,
    }
}
