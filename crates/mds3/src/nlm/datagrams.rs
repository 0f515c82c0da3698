//! NSM in datagrams: `sm-notify` of Linux says over UDP alone that its host has restarted.
//!
//! # Failure
//! The address that a datagram comes from proves nothing, other than that of a connection. So the monitor of the host is asked first,
//! over a connection to that address (`SM_STAT`): it must be in the state that the datagram tells, or in a newer one. A host
//! that answers and has no monitor has just restarted, as its locks need one. One that does not answer is not believed, and
//! gets no answer: its `sm-notify` sends again, for a quarter of an hour.

use super::host::{HostName, peer_of_endpoint};
use super::host_calls::{HostCallError, Procedure};
use super::nsm::Nsm;
use nlm::nsm::{NsmCall, NsmProc, NsmReply, NsmRes, PROGRAM, SmName, SmStatRes, StatChge, VERSION};
use rpc::{AcceptError, CallHeader, CallHeaderError, CallRefusal};
use rpc_service::Seal;
use state::NsmState;
use transport::{Endpoint, Service};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque, decode_all, encode_to_vec};

/// Longest datagram in bytes: NOTIFY with the longest name, credential and verifier has 1,872.
pub const DATAGRAM_BYTES_MAX: usize = 2048;
/// Hosts whose monitors are asked at once. Further ones have to say it again.
const ASKED_AT_ONCE_MAX: usize = 64;
/// A name that every monitor takes: what it is asked about.
const ASKED_NAME: &[u8] = b"127.0.0.1";

/// What the monitor of a host says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Monitor {
    /// Its host is in this state.
    State(NsmState),
    /// The host answers, and has none.
    Missing,
    /// Nothing that makes sense.
    Silent,
}

impl Monitor {
    /// Whether its host has come to the state that was told for it.
    fn confirms(self, told: NsmState) -> bool {
        match self {
            Self::State(state) => state == told || state.is_newer_than(told),
            Self::Missing => true,
            Self::Silent => false,
        }
    }
}

impl Nsm {
    /// Hears one datagram, a whole RPC message. Returns the answer, if there is one. Takes as long as the host that it comes from
    /// needs to answer calls.
    pub async fn datagram(&self, from: &Endpoint, datagram: &[u8]) -> Option<Vec<u8>> {
        if datagram.len() > DATAGRAM_BYTES_MAX || !self.nfsd().admits(from) {
            return None;
        }
        let mut args = Decoder::new(datagram);
        let header = match CallHeader::decode(&mut args) {
            Ok(header) => header,
            Err(CallHeaderError::Refused { xid, verdict }) => return Some(refuse(xid, verdict)),
            Err(CallHeaderError::Malformed(_)) => return None,
        };
        let reply = match read(&header, args.rest()) {
            Ok(NsmCall::Notify(change)) => {
                self.hear(&peer_of_endpoint(from), &change).await?;
                NsmReply::Notify
            }
            Ok(call) => self.answer(&call),
            Err(why) => return Some(refuse(header.xid, why.into())),
        };
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, header.xid);
        reply.encode(&mut e);
        Some(e.into_bytes())
    }

    /// NOTIFY from an address that may be forged. `None` if it is to come again.
    async fn hear(&self, peer: &str, change: &StatChge<'_>) -> Option<()> {
        let Some(host) = self.host_of(peer, change.mon_name.0) else {
            return Some(());
        };
        let told = NsmState::new(change.state);
        if !self.is_news(&host, told) {
            return Some(());
        }
        let _asked = Asked::begin(self, host.to_bytes())?;
        let monitor = self.ask_monitor(&host).await;
        if !monitor.confirms(told) {
            tracing::debug!(%host, ?told, ?monitor, "NOTIFY in a datagram is not believed");
            return None;
        }
        self.restarted(&host, told).await;
        Some(())
    }

    async fn ask_monitor(&self, host: &HostName) -> Monitor {
        let procedure = Procedure {
            program: PROGRAM,
            version: VERSION,
            procedure: NsmProc::Stat as u32,
        };
        let args = encode_to_vec(&SmName {
            mon_name: Opaque(ASKED_NAME),
        });
        match self.calls().call(host, procedure, &args).await {
            Ok(body) => match decode_all::<SmStatRes>(&body) {
                Ok(res) if res.res_stat == NsmRes::Succ => Monitor::State(NsmState::new(res.state)),
                Ok(_) | Err(_) => Monitor::Silent,
            },
            Err(HostCallError::NoProgram) => Monitor::Missing,
            Err(_) => Monitor::Silent,
        }
    }
}

/// The place of a host whose monitor is being asked. A host has one, however often it is named.
struct Asked<'n> {
    nsm: &'n Nsm,
    host: Vec<u8>,
}

impl<'n> Asked<'n> {
    fn begin(nsm: &'n Nsm, host: Vec<u8>) -> Option<Self> {
        let mut asked = nsm.asked().lock();
        let has_place = asked.len() < ASKED_AT_ONCE_MAX && asked.insert(host.clone());
        // Not made before it is known: its end takes the host out.
        match has_place {
            true => Some(Self { nsm, host }),
            false => None,
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.nsm.asked().lock().remove(&self.host);
    }
}

fn read<'a>(header: &CallHeader<'_>, args: &'a [u8]) -> Result<NsmCall<'a>, AcceptError> {
    if header.program != PROGRAM {
        return Err(AcceptError::ProgUnavail);
    }
    if header.version != VERSION {
        return Err(AcceptError::ProgMismatch {
            low: VERSION,
            high: VERSION,
        });
    }
    let number = header.procedure.to_be_bytes();
    let proc = NsmProc::decode(&mut Decoder::new(&number));
    let proc = proc.map_err(|_| AcceptError::ProcUnavail)?;
    NsmCall::decode(proc, args).map_err(|_| AcceptError::GarbageArgs)
}

fn refuse(xid: u32, verdict: CallRefusal) -> Vec<u8> {
    let mut e = Encoder::new();
    rpc::encode_error(&mut e, xid, verdict);
    e.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_confirms_its_own_state_and_a_host_without_one_is_believed() {
        let state = NsmState::new;
        for (monitor, is_believed) in [
            (Monitor::State(state(5)), true),
            (Monitor::State(state(7)), true),
            (Monitor::State(state(3)), false),
            (Monitor::Missing, true),
            (Monitor::Silent, false),
        ] {
            assert_eq!(monitor.confirms(state(5)), is_believed, "{monitor:?}");
        }
    }
}
