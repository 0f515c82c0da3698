//! NSM version 1 beside NLM: a host's status monitor says that it has restarted, so its locks end. Nobody is watched here for others.
//!
//! # Failure
//! Anybody can send NOTIFY. It counts only for hosts at the address that it comes from, and with a newer state than the host has told: a
//! repetition, or an older one that comes late, does not take the locks that the host has got since.

use super::host::{HostName, peer_of};
use mds::Mds;
use nlm::nsm::{NsmCall, NsmProc, NsmReply, NsmRes, PROGRAM, SmStat, SmStatRes, VERSION};
use rpc::AcceptError;
use rpc_service::{Call, Program, Seal};
use server::Nfsd;
use state::NsmState;
use std::ops::RangeInclusive;
use std::sync::Arc;
use transport::Message;
use xdr::{Decode, Decoder, Encode, Encoder};

/// The NSM program over a metadata server.
pub struct Nsm {
    nfsd: Arc<Nfsd<Mds>>,
}

impl Nsm {
    /// Ends locks of hosts of `nfsd`.
    #[must_use]
    pub fn new(nfsd: Arc<Nfsd<Mds>>) -> Self {
        Self { nfsd }
    }

    /// Our own state: odd, and greater after each restart.
    fn state(&self) -> i32 {
        state_of(self.nfsd.role().fs().namespace().boot())
    }

    async fn perform(&self, call: &Call<'_>, args: &NsmCall<'_>) -> NsmReply {
        let watched = SmStatRes {
            res_stat: NsmRes::Fail,
            state: self.state(),
        };
        let own = SmStat {
            state: self.state(),
        };
        match args {
            NsmCall::Null => NsmReply::Null,
            NsmCall::Stat(_) => NsmReply::Stat(watched),
            NsmCall::Mon(_) => NsmReply::Mon(watched),
            NsmCall::Unmon(_) => NsmReply::Unmon(own),
            NsmCall::UnmonAll(_) => NsmReply::UnmonAll(own),
            NsmCall::SimuCrash => NsmReply::SimuCrash,
            NsmCall::Notify(change) => {
                self.notified(&peer_of(call.conn), change.mon_name.0, change.state)
                    .await;
                NsmReply::Notify
            }
        }
    }

    /// A host at this address says that it has restarted.
    async fn notified(&self, peer: &str, name: &[u8], state: i32) {
        let fs = self.nfsd.role().fs();
        let at_peer: Vec<HostName> = {
            let clients = fs.clients().lock();
            let hosts = clients
                .hosts()
                .filter_map(|(name, _)| HostName::parse(name));
            hosts.filter(|host| host.is_at(peer)).collect()
        };
        let named: Vec<&HostName> = at_peer.iter().filter(|h| h.is_named(name)).collect();
        let host = match (&*named, &*at_peer) {
            ([host], _) => *host,
            // The monitor may know its host by another name.
            ([], [host]) => host,
            _ => {
                tracing::debug!(peer, "NOTIFY of a host that has no locks here");
                return;
            }
        };
        if fs::host_restarted(fs, &host.to_bytes(), NsmState::new(state)).await {
            tracing::info!(%host, "a host has restarted: its locks end");
        }
    }
}

/// The NSM state of a server run.
pub(super) fn state_of(boot: u32) -> i32 {
    let state = boot.wrapping_mul(2).wrapping_add(1) & 0x7fff_ffff;
    i32::try_from(state).unwrap_or(1)
}

impl Program for Nsm {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        VERSION..=VERSION
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let number = call.header.procedure.to_be_bytes();
        let Ok(proc) = NsmProc::decode(&mut Decoder::new(&number)) else {
            return call.refuse(AcceptError::ProcUnavail);
        };
        let Ok(args) = NsmCall::decode(proc, call.args.rest()) else {
            return call.refuse(AcceptError::GarbageArgs);
        };
        let reply = self.perform(&call, &args).await;
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        reply.encode(&mut e);
        Some(e.into())
    }
}

#[cfg(test)]
mod tests {
    use super::state_of;

    #[test]
    fn a_state_is_odd_and_another_one_after_a_restart() {
        for boot in [0, 1, 7, u32::MAX] {
            assert_eq!(state_of(boot) & 1, 1);
            assert!(state_of(boot) > 0);
            assert_ne!(state_of(boot), state_of(boot.wrapping_add(1)));
        }
    }
}
