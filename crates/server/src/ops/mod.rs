//! Operations that are the same on every server: sessions and the current file handle.

mod arguments;
mod backchannel_ctl;
mod bind_conn_to_session;
mod create_session;
mod destroy_clientid;
mod destroy_session;
mod exchange_id;
mod filehandles;
mod reclaim_complete;

use crate::{Compound, Nfsd, Role, answer, fail};
use arguments::args;
use nfs4::ops::SetSsvArgs;
use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};

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
