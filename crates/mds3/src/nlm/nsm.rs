//! NSM version 1 beside NLM: a host's status monitor says that it has restarted, so its locks end. Nobody is watched here for others.
//!
//! # Failure
//! Anybody can send NOTIFY. Over a connection it counts only for hosts at the address that it comes from (`datagrams` has those that come without), and with a newer state than the host has told: a
//! repetition, or an older one that comes late, does not take the locks that the host has got since.

use super::host::{HostName, peer_of};
use super::host_calls::HostCalls;
use mds::Mds;
use nlm::nsm::{NsmCall, NsmProc, NsmReply, NsmRes, PROGRAM, SmStat, SmStatRes, VERSION};
use rpc::AcceptError;
use rpc_service::{Call, Program, Seal};
use server::Nfsd;
use state::NsmState;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tracing_mutex::parkinglot::Mutex;
use transport::{Connector, Message};
use xdr::{Decode, Decoder, Encode, Encoder};

/// The NSM program over a metadata server.
pub struct Nsm {
    nfsd: Arc<Nfsd<Mds>>,
    calls: HostCalls,
    /// Hosts whose monitors are being asked.
    asked: Mutex<BTreeSet<Vec<u8>>>,
}

impl Nsm {
    /// Ends locks of hosts of `nfsd`. `connector` reaches the monitors of those that say by datagrams that they have restarted.
    #[must_use]
    pub fn new(nfsd: Arc<Nfsd<Mds>>, connector: Arc<dyn Connector>) -> Self {
        Self {
            nfsd,
            calls: HostCalls::new(connector),
            asked: Mutex::default(),
        }
    }

    pub(super) fn nfsd(&self) -> &Nfsd<Mds> {
        &self.nfsd
    }

    pub(super) fn calls(&self) -> &HostCalls {
        &self.calls
    }

    pub(super) fn asked(&self) -> &Mutex<BTreeSet<Vec<u8>>> {
        &self.asked
    }

    /// Our own state: odd, and greater after each restart.
    fn state(&self) -> i32 {
        state_of(self.nfsd.role().fs().namespace().boot())
    }

    async fn perform(&self, call: &Call<'_>, args: &NsmCall<'_>) -> NsmReply {
        if let NsmCall::Notify(change) = args
            && let Some(host) = self.host_of(&peer_of(call.conn), change.mon_name.0)
        {
            self.restarted(&host, NsmState::new(change.state)).await;
        }
        self.answer(args)
    }

    /// The answer to a call. Nothing is done for it.
    pub(super) fn answer(&self, args: &NsmCall<'_>) -> NsmReply {
        let state = self.state();
        let watched = SmStatRes {
            res_stat: NsmRes::Fail,
            state,
        };
        match args {
            NsmCall::Null => NsmReply::Null,
            NsmCall::Stat(_) => NsmReply::Stat(watched),
            NsmCall::Mon(_) => NsmReply::Mon(watched),
            NsmCall::Unmon(_) => NsmReply::Unmon(SmStat { state }),
            NsmCall::UnmonAll(_) => NsmReply::UnmonAll(SmStat { state }),
            NsmCall::SimuCrash => NsmReply::SimuCrash,
            NsmCall::Notify(_) => NsmReply::Notify,
        }
    }

    /// The host at an address that calls itself so, if it has locks here.
    pub(super) fn host_of(&self, peer: &str, name: &[u8]) -> Option<HostName> {
        let fs = self.nfsd.role().fs();
        let mut at_peer: Vec<HostName> = {
            let clients = fs.clients().lock();
            let hosts = clients
                .hosts()
                .filter_map(|(name, _)| HostName::parse(name));
            hosts.filter(|host| host.is_at(peer)).collect()
        };
        if let Some(at) = at_peer.iter().position(|host| host.is_named(name)) {
            let others = at_peer.iter().skip(at + 1);
            if others.filter(|host| host.is_named(name)).count() == 0 {
                return Some(at_peer.swap_remove(at));
            }
        } else if at_peer.len() == 1 {
            // The monitor may know its host by another name.
            return at_peer.pop();
        }
        tracing::debug!(peer, "NOTIFY of a host that has no locks here");
        None
    }

    /// Whether a host has told no state that is as new as this one.
    pub(super) fn is_news(&self, host: &HostName, state: NsmState) -> bool {
        let clients = self.nfsd.role().fs().clients().lock();
        clients.is_news_of_host(&host.to_bytes(), state)
    }

    /// A host has restarted, and is in this state.
    pub(super) async fn restarted(&self, host: &HostName, state: NsmState) {
        let fs = self.nfsd.role().fs();
        if fs::host_restarted(fs, &host.to_bytes(), state).await {
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
