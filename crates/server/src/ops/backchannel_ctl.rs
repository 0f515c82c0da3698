//! `BACKCHANNEL_CTL` (RFC 8881 §18.33): new program and credentials for callbacks of this
//! session. Credentials are added to (RFC 8881 §18.33.3), so an empty list leaves those that there are.

use super::arguments::usable;
use crate::{Compound, Nfsd, Role};
use nfs4::NfsStatus;
use nfs4::ops::{BackchannelCtlArgs, BackchannelCtlRes};

impl<R: Role> Nfsd<R> {
    pub(super) fn backchannel_ctl(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: &BackchannelCtlArgs<'_>,
    ) -> Result<BackchannelCtlRes, NfsStatus> {
        let context = cx.session.as_ref().ok_or(NfsStatus::OpNotInSession)?;
        let offered = &args.sec_parms.0;
        // A GSS handle that does not exist MUST be refused here.
        if offered.iter().any(|parm| usable(parm).is_none()) {
            return Err(NfsStatus::NoEnt);
        }
        let mut clients = self.clients().lock();
        let session = clients
            .session_mut(context.id)
            .ok_or(NfsStatus::BadSession)?;
        session.callback_program = args.cb_program;
        if let Some(security) = offered.first().and_then(usable) {
            session.callback_security = security;
        }
        Ok(BackchannelCtlRes {})
    }
}
