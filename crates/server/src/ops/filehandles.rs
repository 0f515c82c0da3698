//! The current and the saved file handle: PUTFH, PUTROOTFH, PUTPUBFH, GETFH, SAVEFH, RESTOREFH (RFC 8881 §18.8,
//! §18.19 to §18.21, §18.27, §18.28). A stateid travels with its handle (§16.2.3.1.2).

use super::arguments::args;
use crate::{Compound, Nfsd, Role, answer, fail};
use nfs4::ops::{
    GetFhRes, PutFhArgs, PutFhRes, PutPubFhRes, PutRootFhRes, RestoreFhRes, SaveFhRes,
};
use nfs4::{FileHandle, NfsStatus, OpNum, OpReader, ReplyWriter};

impl<R: Role> Nfsd<R> {
    pub(super) fn filehandle_op<'r>(
        &self,
        cx: &mut Compound<'r, R::Actor>,
        op: OpNum,
        ops: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        match op {
            OpNum::PutFh => answer(reply, args(ops).and_then(|a| self.put_fh(cx, a))),
            OpNum::PutRootFh => answer(reply, self.put_root(cx).map(|()| PutRootFhRes {})),
            OpNum::PutPubFh => answer(reply, self.put_root(cx).map(|()| PutPubFhRes {})),
            OpNum::GetFh => match cx.current_fh.as_ref() {
                Some(fh) => answer(
                    reply,
                    Ok(GetFhRes {
                        object: xdr::Opaque(&fh.0),
                    }),
                ),
                None => fail(reply, op, NfsStatus::NoFileHandle),
            },
            OpNum::SaveFh => {
                if cx.current_fh.is_none() {
                    return fail(reply, op, NfsStatus::NoFileHandle);
                }
                cx.saved_fh.clone_from(&cx.current_fh);
                cx.saved_stateid = cx.current_stateid;
                answer(reply, Ok(SaveFhRes {}))
            }
            OpNum::RestoreFh => {
                if cx.saved_fh.is_none() {
                    return fail(reply, op, NfsStatus::NoFileHandle);
                }
                cx.current_fh.clone_from(&cx.saved_fh);
                cx.current_stateid = cx.saved_stateid;
                answer(reply, Ok(RestoreFhRes {}))
            }
            _ => fail(reply, op, NfsStatus::NotSupp),
        }
    }

    fn put_fh(
        &self,
        cx: &mut Compound<'_, R::Actor>,
        args: PutFhArgs<'_>,
    ) -> Result<PutFhRes, NfsStatus> {
        self.role().put_fh(args.object.0)?;
        cx.set_fh(FileHandle::from(args.object.0));
        Ok(PutFhRes {})
    }

    fn put_root(&self, cx: &mut Compound<'_, R::Actor>) -> Result<(), NfsStatus> {
        cx.set_fh(self.role().root()?);
        Ok(())
    }
}
