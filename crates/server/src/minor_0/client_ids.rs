//! SETCLIENTID, SETCLIENTID_CONFIRM, RENEW and RELEASE_LOCKOWNER (RFC 7530 §16.33, §16.34, §16.28, §16.37).

use crate::{Compound, Nfsd, Role, User, answer, fail};
use nfs4::ops::{
    ClientAddr, ClientIdSet, ReleaseLockOwnerArgs, ReleaseLockOwnerRes, RenewArgs, RenewRes,
    SetClientIdArgs, SetClientIdConfirmArgs, SetClientIdConfirmRes, SetClientIdRes,
};
use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};
use state::{CallbackSecurity, CallbackTarget, OwnerKind, OwnerName, SetClientId};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use xdr::Opaque;

/// How often owners are looked over for idle ones.
const SWEEP_MS: u64 = 10_000;

impl<R: Role> Nfsd<R> {
    pub(super) async fn client_op_0<'r>(
        &'r self,
        cx: &mut Compound<'r, R::Actor>,
        op: OpNum,
        ops: &mut OpReader<'r>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        let malformed = NfsStatus::BadXdr;
        match op {
            OpNum::SetClientId => match ops.args() {
                Ok(args) => self.set_client_id(cx, &args, reply),
                Err(_) => fail(reply, op, malformed),
            },
            OpNum::SetClientIdConfirm => match ops.args() {
                Ok(args) => answer(reply, self.set_client_id_confirm(cx, args).await),
                Err(_) => fail(reply, op, malformed),
            },
            OpNum::Renew => match ops.args() {
                Ok(args) => answer(reply, self.renew(args)),
                Err(_) => fail(reply, op, malformed),
            },
            OpNum::ReleaseLockOwner => match ops.args() {
                Ok(args) => answer(reply, self.release_lock_owner(&args)),
                Err(_) => fail(reply, op, malformed),
            },
            _ => fail(reply, op, NfsStatus::NotSupp),
        }
    }

    fn set_client_id(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: &SetClientIdArgs<'_>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        let location = &args.callback.location;
        let told = rpc::UniversalAddress::parse(location.netid.0, location.uaddr.0).ok();
        let is_tcp = |n| matches!(n, rpc::Netid::Tcp | rpc::Netid::Tcp6);
        let told = told.filter(|a| is_tcp(a.netid)).map(|a| a.address);
        let peer = cx.conn.peer().socket();
        let callback = CallbackTarget {
            program: args.callback.program,
            ident: args.callback_ident,
            netid: location.netid.0.to_vec(),
            uaddr: location.uaddr.0.to_vec(),
            address: told.filter(|told| is_callable(*told, peer)),
            security: security_of(&cx.user),
        };
        let request = state::SetClientIdRequest {
            id: args.client.ownerid.0,
            verifier: args.client.verifier,
            principal: &cx.user.principal(),
            callback,
            random: self.clients().random(),
        };
        let now_ms = self.clients().now_ms();
        let mut clients = self.clients().lock();
        let set = clients.set_client_id(request, now_ms, |c| self.role().has_state(c));
        drop(clients);
        match set {
            Ok(SetClientId::Set(clientid, confirm)) => {
                let set = ClientIdSet { clientid, confirm };
                answer(reply, Ok(SetClientIdRes::Ok(set)))
            }
            Ok(SetClientId::InUse(netid, uaddr)) => {
                let other = ClientAddr {
                    netid: Opaque(&netid),
                    uaddr: Opaque(&uaddr),
                };
                answer(reply, Ok(SetClientIdRes::InUse(other)))
            }
            Err(status) => fail(reply, OpNum::SetClientId, status),
        }
    }

    async fn set_client_id_confirm(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: SetClientIdConfirmArgs,
    ) -> Result<SetClientIdConfirmRes, NfsStatus> {
        let now_ms = self.clients().now_ms();
        let principal = cx.user.principal();
        let confirmed = self.clients().lock().set_client_id_confirm(
            args.clientid,
            args.confirm,
            &principal,
            now_ms,
            |c| self.role().has_state(c),
        )?;
        if confirmed.is_news {
            self.clients().dial(args.clientid);
        }
        for removed in confirmed.removed {
            self.role().client_removed(removed).await;
        }
        Ok(SetClientIdConfirmRes {})
    }

    /// The walk has renewed the lease. A client that holds delegations hears when it cannot be called.
    fn renew(&self, args: RenewArgs) -> Result<RenewRes, NfsStatus> {
        let client = args.clientid;
        if self.role().holds_delegations(client) && !self.clients().can_call_back(client) {
            return Err(NfsStatus::CbPathDown);
        }
        Ok(RenewRes {})
    }

    fn release_lock_owner(
        &self,
        args: &ReleaseLockOwnerArgs<'_>,
    ) -> Result<ReleaseLockOwnerRes, NfsStatus> {
        let name = OwnerName {
            client: args.owner.clientid,
            kind: OwnerKind::Lock,
            owner: Arc::from(args.owner.owner.0),
        };
        let states = self.minor_0().owners.lock().states_of(&name);
        self.role().release_lock_owner(name.client, &states)?;
        self.minor_0().owners.lock().remove(&name);
        Ok(ReleaseLockOwnerRes {})
    }

    /// What time brings for NFSv4.0. To be called about once a second.
    pub(crate) async fn expire_0(&self) {
        let now_ms = self.clients().now_ms();
        self.clients().hang_up();
        self.sweep_owners(now_ms);
        let over = self.clients().lock().reclaims_over(now_ms);
        for client in over {
            if let Err(status) = self.role().reclaim_complete(client).await {
                tracing::debug!(%status, client = client.value, "the record of a client");
            }
        }
    }

    /// Forgets idle owners.
    fn sweep_owners(&self, now_ms: u64) {
        let swept_ms = &self.minor_0().swept_ms;
        if now_ms.saturating_sub(swept_ms.load(Relaxed)) < SWEEP_MS {
            return;
        }
        swept_ms.store(now_ms, Relaxed);
        let late = self.minor_0().owners.lock().expire(
            now_ms,
            |client| self.clients().lock().owner(client).is_some(),
            |other| self.role().client_of(other).is_ok(),
        );
        for (client, other) in late {
            self.role().abandon_open(client, &other);
        }
    }
}

/// Whether this server calls back there. It connects to nobody but the machine that asked, so that no client can have it knock at the
/// doors of others. A client whose callbacks would go elsewhere gets no delegations.
fn is_callable(told: SocketAddr, peer: Option<SocketAddr>) -> bool {
    let own = |a: SocketAddr| a.ip().to_canonical();
    // An end within the process is on this machine.
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), own);
    told.port() != 0 && peer == own(told)
}

/// Callbacks go under the credential that the client set itself up with (RFC 7530 §3.3.3).
fn security_of(user: &User) -> CallbackSecurity {
    match user {
        User::Nobody => CallbackSecurity::None,
        User::Sys(sys) => CallbackSecurity::Sys {
            machine: sys.machine.clone(),
            uid: sys.uid,
            gid: sys.gid,
            gids: sys.gids.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::is_callable;
    use std::net::SocketAddr;

    #[test]
    fn callbacks_go_to_the_machine_that_asked_and_to_no_other() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (told, peer, want) in [
            ("192.0.2.1:4000", Some("192.0.2.1:700"), true),
            ("192.0.2.2:4000", Some("192.0.2.1:700"), false),
            ("192.0.2.1:0", Some("192.0.2.1:700"), false),
            ("192.0.2.1:4000", Some("[::ffff:192.0.2.1]:700"), true),
            ("[2001:db8::1]:4000", Some("[2001:db8::1]:700"), true),
            ("[2001:db8::2]:4000", Some("[2001:db8::1]:700"), false),
            ("127.0.0.1:4000", Some("192.0.2.1:700"), false),
            ("127.0.0.1:4000", None, true),
            ("192.0.2.1:4000", None, false),
        ] {
            assert_eq!(is_callable(at(told), peer.map(at)), want, "{told} {peer:?}");
        }
    }
}
