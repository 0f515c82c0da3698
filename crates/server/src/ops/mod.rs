//! Operations that are the same on every server: sessions and the current file handle.

mod backchannel_ctl;
mod bind_conn_to_session;
mod create_session;
mod destroy_clientid;
mod destroy_session;
mod exchange_id;
mod filehandles;
mod reclaim_complete;

use crate::{Compound, Nfsd, Role, answer};
use nfs4::ops::{CallbackSecParms, SetSsvArgs};
use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};
use state::CallbackSecurity;
use xdr::Decode;

impl<R: Role> Nfsd<R> {
    /// Executes an operation of the engine.
    pub(crate) async fn session_op<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        op: OpNum,
        ops: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        match op {
            OpNum::ExchangeId => match args(ops) {
                Ok(args) => self.exchange_id(cx, &args, reply).await,
                Err(status) => fail(reply, op, status),
            },
            OpNum::CreateSession => match args(ops) {
                Ok(args) => answer(reply, self.create_session(cx, &args).await),
                Err(status) => fail(reply, op, status),
            },
            OpNum::DestroySession => match args(ops) {
                Ok(args) => answer(reply, self.destroy_session(cx, args, ops.left())),
                Err(status) => fail(reply, op, status),
            },
            OpNum::DestroyClientId => match args(ops) {
                Ok(args) => answer(reply, self.destroy_clientid(cx, args).await),
                Err(status) => fail(reply, op, status),
            },
            OpNum::BindConnToSession => match args(ops) {
                Ok(_) if cx.session.is_some() => fail(reply, op, NfsStatus::NotOnlyOp),
                Ok(args) => answer(reply, self.bind_conn_to_session(cx, args)),
                Err(status) => fail(reply, op, status),
            },
            OpNum::BackchannelCtl => match args(ops) {
                Ok(args) => answer(reply, self.backchannel_ctl(cx, &args)),
                Err(status) => fail(reply, op, status),
            },
            OpNum::ReclaimComplete => match args(ops) {
                Ok(args) => answer(reply, self.reclaim_complete(cx, args).await),
                Err(status) => fail(reply, op, status),
            },
            // No client has SP4_SSV, without which there is no SSV to set (RFC 8881 §18.47.3).
            OpNum::SetSsv => fail(
                reply,
                op,
                match args::<SetSsvArgs<'_>>(ops) {
                    Ok(_) => NfsStatus::Inval,
                    Err(status) => status,
                },
            ),
            // SEQUENCE may only be the first one (RFC 8881 §18.46.3).
            OpNum::Sequence => fail(reply, op, NfsStatus::SequencePos),
            _ => self.filehandle_op(cx, op, ops, reply),
        }
    }
}

/// Decodes arguments; malformed ones are `BadXdr`.
pub(crate) fn args<'r, T: Decode<'r>>(ops: &mut OpReader<'r>) -> Result<T, NfsStatus> {
    ops.args().map_err(|_| NfsStatus::BadXdr)
}

pub(crate) fn fail(reply: &mut ReplyWriter<OpNum>, op: OpNum, status: NfsStatus) -> NfsStatus {
    reply.error(op, status);
    status
}

/// A credential for callbacks, unless it is a GSS handle: none exists here.
fn usable(offered: &CallbackSecParms<'_>) -> Option<CallbackSecurity> {
    match offered {
        CallbackSecParms::None => Some(CallbackSecurity::None),
        CallbackSecParms::Sys(sys) => Some(CallbackSecurity::Sys {
            machine: sys.machine_name.0.to_vec(),
            uid: sys.uid,
            gid: sys.gid,
            gids: sys.gids.0.clone(),
        }),
        CallbackSecParms::Gss(_) => None,
    }
}
