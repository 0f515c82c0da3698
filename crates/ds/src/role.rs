//! The data server under the COMPOUND engine.

use std::future::Future;
use std::net::IpAddr;

use nfs4::{FileHandle, NfsStatus, OpNum, OpReader, ReplyWriter};
use rpc::AuthStat;
use server::{Compound, Role, ServerIdentity, User};
use state::RemovedClient;
use transport::ConnHandle;

use crate::ds::Ds;
use crate::ops;

impl Role for Ds {
    type Actor = ();

    fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    fn admits(&self, peer: IpAddr) -> bool {
        self.peers.as_ref().is_none_or(|admits| admits(peer))
    }

    /// Anybody: handles decide (RFC 8881 §13.12 leaves the check of credentials to the metadata server).
    fn admit(&self, _conn: &ConnHandle, user: &User) -> Result<(), AuthStat> {
        match user {
            User::Nobody | User::Sys(_) => Ok(()),
        }
    }

    fn root(&self) -> Result<FileHandle, NfsStatus> {
        Err(NfsStatus::NotSupp)
    }

    fn put_fh(&self, fh: &[u8]) -> Result<(), NfsStatus> {
        self.gate.recognise(fh).map_err(|r| self.refused(r))
    }

    fn perform<'r>(
        &'r self,
        cx: &mut Compound<'r, Self::Actor>,
        op: OpNum,
        args: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> impl Future<Output = NfsStatus> + Send {
        ops::perform(self, cx, op, args, reply)
    }

    /// READ and WRITE promise nothing of the index; COMMIT and stable WRITEs have waited already.
    async fn settle(&self, _actor: &()) -> Result<(), NfsStatus> {
        Ok(())
    }

    fn has_state(&self, _client: nfs4::ClientId) -> bool {
        false
    }

    async fn client_removed(&self, _removed: RemovedClient) {}

    async fn reclaim_complete(&self, _client: nfs4::ClientId) -> Result<(), NfsStatus> {
        Ok(())
    }
}
