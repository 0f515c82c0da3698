//! `DESTROY_SESSION` (RFC 8881 §18.37).

use crate::{Compound, Nfsd, Role};
use nfs4::NfsStatus;
use nfs4::ops::{DestroySessionArgs, DestroySessionRes};

impl<R: Role> Nfsd<R> {
    pub(super) fn destroy_session(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: DestroySessionArgs,
        ops_left: u32,
    ) -> Result<DestroySessionRes, NfsStatus> {
        let own = cx.session.as_ref().is_some_and(|s| s.id == args.session_id);
        // The reply cache goes with the session: nothing may follow (RFC 8881 §18.37.3).
        if own && ops_left > 0 {
            return Err(NfsStatus::NotOnlyOp);
        }
        self.clients()
            .lock()
            .destroy_session(args.session_id, cx.conn.id(), u32::from(own))?;
        self.role().session_destroyed(args.session_id);
        Ok(DestroySessionRes {})
    }
}
