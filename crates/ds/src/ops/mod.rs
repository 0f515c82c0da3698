//! The operations of a data server (RFC 8881 §13.6): READ, WRITE, COMMIT, and the few that cost nothing to have. Sessions and
//! the current file handle are the engine's. Everything else is `NOTSUPP`, as a server that is only a data server may answer.

mod commit;
mod getattr;
mod read;
mod secinfo;
mod stateids;
mod write;

use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};
use server::{Compound, answer, fail};
use xdr::Decode;

use crate::ds::Ds;

pub(crate) async fn perform<'r>(
    ds: &'r Ds,
    cx: &mut Compound<'r, ()>,
    op: OpNum,
    ops: &mut OpReader<'r>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match op {
        OpNum::Read => match args(ops) {
            Ok(a) => {
                let room = cx.room(reply.wire_len());
                let done = read::read(ds, cx, a, room).await;
                answer(reply, done)
            }
            Err(status) => fail(reply, op, status),
        },
        OpNum::Write => match args(ops) {
            Ok(a) => answer(reply, write::write(ds, cx, a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::Commit => match args(ops) {
            Ok(a) => answer(reply, commit::commit(ds, cx, a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::GetAttr => match args(ops) {
            Ok(a) => getattr::getattr(ds, cx, a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::SecInfoNoName => match args(ops) {
            Ok(a) => answer(reply, secinfo::secinfo_no_name(cx, a)),
            Err(status) => fail(reply, op, status),
        },
        OpNum::TestStateid => match args(ops) {
            Ok(a) => answer(reply, Ok(stateids::test_stateid(&a))),
            Err(status) => fail(reply, op, status),
        },
        OpNum::FreeStateid => match args(ops) {
            Ok(a) => answer(reply, stateids::free_stateid(a)),
            Err(status) => fail(reply, op, status),
        },
        _ => fail(reply, op, NfsStatus::NotSupp),
    }
}

fn args<'r, T: Decode<'r>>(ops: &mut OpReader<'r>) -> Result<T, NfsStatus> {
    ops.args().map_err(|_| NfsStatus::BadXdr)
}
