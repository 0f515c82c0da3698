//! The metadata server as a role of the COMPOUND engine.

use crate::actor::MdsActor;
use crate::cx::Cx;
use crate::identities::Question;
use crate::mds::Mds;
use crate::ops;
use bytes::Bytes;
use fs::{Actor, is_sampled};
use namespace::Cred;
use nfs4::{ClientId, FileHandle, NfsStatus, OpNum, OpReader, ReplyWriter, SessionId};
use rpc::AuthStat;
use server::exports::{Admitted, Atime};
use server::{Role, ServerIdentity, User};
use state::{Other, RemovedClient, SlotOf};
use std::net::{IpAddr, Ipv4Addr};
use transport::{ConnHandle, Endpoint};

impl Role for Mds {
    type Actor = MdsActor;

    fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    fn admits(&self, peer: IpAddr) -> bool {
        self.exports.read().contains(peer)
    }

    async fn prepare(&self, user: &User) {
        match user {
            User::Sys(sys) if self.identities.manages_groups() => {
                self.identities.learn([Question::Groups(sys.uid)]).await;
            }
            User::Sys(_) | User::Nobody => {}
        }
    }

    fn admit(&self, conn: &ConnHandle, user: &User) -> Result<MdsActor, AuthStat> {
        // One within the process (tests, the simulator) comes from this machine, and so does an administrator without a name.
        let peer = conn
            .peer()
            .socket()
            .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |a| a.ip());
        let looked_up;
        let identity = match user {
            User::Sys(sys) => {
                looked_up = self.identities.groups(sys.uid);
                let groups = looked_up.as_deref().unwrap_or(&sys.gids);
                Some((sys.uid, sys.gid, groups))
            }
            User::Nobody => None,
        };
        let admitted = match (conn.peer(), identity) {
            // Who opened the tunnel has shown to be an administrator: no export speaks of it.
            (Endpoint::Tunnel(_), Some(identity)) => Some(Admitted::as_told(identity)),
            _ => self.exports.read().admit(peer, identity),
        };
        let admitted = admitted.ok_or(AuthStat::TooWeak)?;
        let cred = Cred {
            is_root: admitted.uid == 0,
            uid: admitted.uid,
            gid: admitted.gid,
            groups: admitted.gids,
        };
        let moves_atime = admitted.atime == Atime::Relatime;
        let actor = Actor::new(cred, admitted.read_only, moves_atime);
        Ok(MdsActor(actor.coming_from(peer)))
    }

    fn root(&self) -> Result<FileHandle, NfsStatus> {
        let root = Actor::root().ns(&self.fs, |ns, op| ns.getattr(op, namespace::FileId::ROOT));
        root.map(|root| self.fs.handle_of(&root))
    }

    fn put_fh(&self, fh: &[u8]) -> Result<(), NfsStatus> {
        self.fs.parse_handle(fh).map(drop)
    }

    async fn perform<'r>(
        &'r self,
        cx: &mut Cx<'r>,
        op: OpNum,
        args: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        if is_sampled() {
            ops::note(self, cx, op);
        }
        ops::perform(self, cx, op, args, reply).await
    }

    async fn settle(&self, actor: &MdsActor) -> Result<(), NfsStatus> {
        self.fs.durable(actor.observed).await
    }

    fn sequence_flags(&self, client: ClientId) -> u32 {
        if !self.fs.has_revoked() {
            return 0;
        }
        self.fs.state().revoked_flags(client)
    }

    fn serves_minor_0(&self) -> bool {
        self.serves_minor_0
    }

    fn client_of(&self, state: &Other) -> Result<ClientId, NfsStatus> {
        let states = self.fs.state();
        if !states.is_of_this_boot(state) {
            return Err(NfsStatus::StaleStateid);
        }
        states.client_of(state).ok_or(NfsStatus::BadStateid)
    }

    fn holds_delegations(&self, client: ClientId) -> bool {
        self.fs.state().has_delegations(client)
    }

    fn abandon_open(&self, client: ClientId, open: &Other) {
        fs::abandon_open(&self.fs, client, open);
    }

    fn release_lock_owner(&self, client: ClientId, states: &[Other]) -> Result<(), NfsStatus> {
        self.fs.state().release_lock_owner(client, states)
    }

    fn persists(&self) -> bool {
        true
    }

    fn keep(&self, slot: SlotOf, reply: &[u8]) -> Result<u64, NfsStatus> {
        fs::keep(&self.fs, slot, reply)
    }

    fn kept(&self, slot: SlotOf) -> Result<Option<Bytes>, NfsStatus> {
        fs::kept(&self.fs, slot)
    }

    fn is_ended(&self, file: &FileHandle) -> Result<(), NfsStatus> {
        fs::is_ended(&self.fs, file)
    }

    fn session_destroyed(&self, session: SessionId) {
        fs::destroyed(&self.fs, session);
    }

    fn has_state(&self, client: ClientId) -> bool {
        self.fs.state().has_state(client)
    }

    async fn client_removed(&self, removed: RemovedClient) {
        fs::removed(&self.fs, removed).await;
    }

    async fn reclaim_complete(&self, client: ClientId) -> Result<(), NfsStatus> {
        fs::reclaim_complete(&self.fs, client).await
    }
}
