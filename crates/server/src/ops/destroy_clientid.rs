//! `DESTROY_CLIENTID` (RFC 8881 §18.50).

use crate::{Compound, Nfsd, Role};
use nfs4::NfsStatus;
use nfs4::ops::{DestroyClientIdArgs, DestroyClientIdRes};

impl<R: Role> Nfsd<R> {
    pub(super) async fn destroy_clientid(
        &self,
        _cx: &Compound<'_, R::Actor>,
        args: DestroyClientIdArgs,
    ) -> Result<DestroyClientIdRes, NfsStatus> {
        let removed = self
            .clients()
            .lock()
            .destroy_client(args.clientid, |c| self.role().has_state(c))?;
        self.role().client_removed(removed).await;
        Ok(DestroyClientIdRes {})
    }
}
