//! Calls of NLM and NSM as the trace tells of them.

use nlm::nsm::{NsmCall, NsmProc};
use nlm::{Nlm4Res, Nlm4ShareRes, Nlm4Stats, Nlm4TestReply, Nlm4TestRes, NlmCall, NlmProc};
use std::fmt;
use xdr::{Decode, Decoder, decode_all};

/// A procedure by its number.
fn procedure<'a, P: Decode<'a>>(number: &'a [u8; 4]) -> Option<P> {
    P::decode(&mut Decoder::new(number)).ok()
}

/// A call: program, procedure and arguments.
pub(crate) struct HostAsked<'a>(pub(crate) u32, pub(crate) u32, pub(crate) &'a [u8]);

impl fmt::Display for HostAsked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.1.to_be_bytes();
        if self.0 == nlm::nsm::PROGRAM {
            let proc = procedure::<NsmProc>(&number);
            let call = proc.map(|proc| NsmCall::decode(proc, self.2));
            return match call {
                Some(Ok(NsmCall::Notify(change))) => write!(f, "NSM NOTIFY {}", change.state),
                _ => write!(f, "NSM {}", self.1),
            };
        }
        let Some(proc) = procedure::<NlmProc>(&number) else {
            return write!(f, "NLM {}", self.1);
        };
        write!(f, "NLM {}", proc.name())?;
        let (alock, is_exclusive, mark) = match NlmCall::decode(proc, self.2) {
            Ok(NlmCall::Lock(a)) => {
                let mark = match (a.block, a.reclaim) {
                    (_, true) => " reclaim",
                    (true, _) => " block",
                    _ => "",
                };
                (a.alock, a.exclusive, mark)
            }
            Ok(NlmCall::Test(a) | NlmCall::Granted(a)) => (a.alock, a.exclusive, ""),
            Ok(NlmCall::Cancel(a)) => (a.alock, a.exclusive, ""),
            Ok(NlmCall::Unlock(a)) => (a.alock, false, ""),
            Ok(NlmCall::Share(a)) => {
                let mark = if a.reclaim { " reclaim" } else { "" };
                return write!(f, " {:?}/{:?}{mark}", a.share.access, a.share.mode);
            }
            _ => return Ok(()),
        };
        let kind = if is_exclusive { " exclusive" } else { "" };
        let (offset, len) = (alock.l_offset, alock.l_len);
        write!(f, "({offset}+{len} by {}{kind}{mark})", alock.svid)
    }
}

/// An answer: program, procedure and result.
pub(crate) struct HostAnswered<'a>(pub(crate) u32, pub(crate) u32, pub(crate) &'a [u8]);

impl HostAnswered<'_> {
    fn stat(&self, proc: NlmProc) -> Option<Nlm4Stats> {
        match proc {
            NlmProc::Test => match decode_all::<Nlm4TestRes<'_>>(self.2).ok()?.stat {
                Nlm4TestReply::Denied(_) => Some(Nlm4Stats::Denied),
                Nlm4TestReply::Other(stat) => Some(stat),
            },
            NlmProc::Share | NlmProc::Unshare => {
                Some(decode_all::<Nlm4ShareRes<'_>>(self.2).ok()?.stat)
            }
            _ => Some(decode_all::<Nlm4Res<'_>>(self.2).ok()?.stat),
        }
    }
}

impl fmt::Display for HostAnswered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.1.to_be_bytes();
        let proc = procedure::<NlmProc>(&number).filter(|_| self.0 == nlm::PROGRAM);
        match proc.and_then(|proc| Some((proc, self.stat(proc)?))) {
            Some((proc, stat)) => write!(f, "{} {stat}", proc.name()),
            None => f.write_str("done"),
        }
    }
}
