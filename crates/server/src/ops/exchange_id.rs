//! `EXCHANGE_ID` (RFC 8881 §18.35): who the client is, and which role this server has.

use crate::{Compound, Counters, Nfsd, Role, fail};
use nfs4::ops::{
    EXCHGID_CONFIRMED_R, EXCHGID_MASK_A, EXCHGID_SUPP_FENCE_OPS, EXCHGID_UPD_CONFIRMED_REC_A,
    ExchangeIdArgs, ExchangeIdRes, StateProtectArgs, StateProtectRes,
};
use nfs4::{ImplId, NfsStatus, NfsTime, OpNum, ReplyWriter, ServerOwner};
use state::{ExchangeArgs, Exchanged};
use xdr::Opaque;

impl<R: Role> Nfsd<R> {
    pub(super) async fn exchange_id(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: &ExchangeIdArgs<'_>,
        reply: &mut ReplyWriter<OpNum>,
    ) -> NfsStatus {
        let exchanged = match self.exchange(cx, args) {
            Ok(exchanged) => exchanged,
            Err(status) => return fail(reply, OpNum::ExchangeId, status),
        };
        self.note_name(cx, args);
        if let Some(told) = &args.client_impl_id {
            self.clients()
                .note_implementation(exchanged.client, told.name.0);
        }
        if let Some(removed) = exchanged.removed {
            self.role().client_removed(removed).await;
        }
        let identity = self.role().identity();
        let name = identity.major_id.as_bytes();
        // No referral, migration or binding of stateids is ever done, so none is announced.
        let mut flags = identity.role_flag;
        if exchanged.confirmed {
            flags |= EXCHGID_CONFIRMED_R;
        }
        let _ = reply.result(&ExchangeIdRes {
            clientid: exchanged.client,
            sequence: exchanged.create_seqid,
            flags,
            state_protect: StateProtectRes::None,
            server_owner: ServerOwner {
                minor_id: 0,
                major_id: Opaque(name),
            },
            server_scope: Opaque(name),
            server_impl_id: Some(ImplId {
                domain: Opaque(b"ropewalk.invalid"),
                name: Opaque(concat!("Ropewalk ", env!("CARGO_PKG_VERSION")).as_bytes()),
                date: NfsTime::default(),
            }),
        });
        NfsStatus::Ok
    }

    /// Tells people of machines that end each other's sessions, since no status tells the clients (§18.35.4).
    fn note_name(&self, cx: &Compound<'_, R::Actor>, args: &ExchangeIdArgs<'_>) {
        let owner = &args.client_owner;
        let address = cx.conn.peer().socket().map(|a| a.ip().to_canonical());
        let seen = (self.clients()).note_name(owner.ownerid.0, owner.verifier, address);
        let Some(seen) = seen else { return };
        Counters::add(&self.counters().name_clashes);
        if seen.is_news {
            let [one, other] = seen.clash.address_texts();
            tracing::warn!(
                owner = seen.clash.owner_text(),
                one,
                other,
                "two clients have one name and end each other's sessions: give each machine a host name of its own, \
                 or set the nfs4_unique_id of its nfs module"
            );
        }
    }

    fn exchange(
        &self,
        cx: &Compound<'_, R::Actor>,
        args: &ExchangeIdArgs<'_>,
    ) -> Result<Exchanged, NfsStatus> {
        let known = match cx.minor_version {
            // RFC 7862 §14.1 defines this one for the second minor version.
            1 => EXCHGID_MASK_A & !EXCHGID_SUPP_FENCE_OPS,
            _ => EXCHGID_MASK_A,
        };
        if args.flags & !known != 0 {
            return Err(NfsStatus::Inval);
        }
        match args.state_protect {
            StateProtectArgs::None => {}
            // Only a caller with RPCSEC_GSS may ask for it (RFC 8881 §18.35.3), and none gets here.
            StateProtectArgs::MachCred(_) => return Err(NfsStatus::Inval),
            StateProtectArgs::Ssv(_) => return Err(NfsStatus::EncrAlgUnsupp),
        }
        let exchange = ExchangeArgs {
            owner: args.client_owner.ownerid.0,
            verifier: args.client_owner.verifier,
            principal: &cx.user.principal(),
            update: args.flags & EXCHGID_UPD_CONFIRMED_REC_A != 0,
            bind_enforced: false,
        };
        let now_ms = self.clients().now_ms();
        self.clients()
            .lock()
            .exchange_id(&exchange, now_ms, |c| self.role().has_state(c))
    }
}
