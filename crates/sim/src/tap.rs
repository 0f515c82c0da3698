//! The wire tap: sees every record as it is sent, tells the trace, and feeds the checkers that watch the wire.
//!
//! A reply is judged when it is sent, whether or not it arrives: a promise is made by sending it.

use crate::check::Findings;
use crate::check::{attrs, io, once, promises, roles, stateids};
use crate::tap_hosts::{HostAnswered, HostAsked};
use crate::trace::{MDS_NAME, Trace, host};
use crate::wire::{self, Ask, Got, OlderKey, Reply, Request, SlotKey};
use control::{Answer, Proc, ToDs};
use nfs4::OpNum;
use parking_lot::Mutex;
use parts::{PartsProc, PassArgs, StreamItem};
use rpc::{CallHeader, MessageType, ReplyHeader, ReplyVerdict};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use transport::memory::{Fate, Passage};
use xdr::{Decode, Decoder};

/// A call whose reply may still come.
enum Call {
    Nfs(Request),
    Control(Vec<u8>),
    /// A call of a primary to a member, and the part that is synced there when it is done.
    Parts(Option<promises::PartName>),
    /// A call of NFSv3: its procedure, and its name where it must not be done twice.
    Older(u32, Option<OlderKey>),
    /// A call of NLM or NSM: program and procedure.
    Host(u32, u32),
    Other,
}

struct State {
    calls: BTreeMap<(String, String, u32), Call>,
    /// When a request was first sent: the number of that event.
    first_sent: BTreeMap<SlotKey, u64>,
    incarnations: BTreeMap<String, u32>,
    attrs: attrs::Checker,
    stateids: stateids::Checker,
    once: once::Checker,
    io: io::Checker,
    promises: promises::Checker,
    roles: roles::Checker,
}

/// The tap. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tap {
    state: Arc<Mutex<State>>,
    trace: Trace,
    findings: Findings,
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tap").finish_non_exhaustive()
    }
}

impl Tap {
    /// A tap that reports to `findings`.
    #[must_use]
    pub(crate) fn new(trace: Trace, findings: Findings, copies_min: u32) -> Self {
        let state = State {
            calls: BTreeMap::new(),
            first_sent: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            attrs: attrs::Checker::default(),
            stateids: stateids::Checker::default(),
            once: once::Checker::default(),
            io: io::Checker::default(),
            promises: promises::Checker::new(copies_min),
            roles: roles::Checker::default(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            trace,
            findings,
        }
    }

    /// A server begins another incarnation.
    pub(crate) fn incarnation(&self, name: &str, number: u32) {
        let mut state = self.state.lock();
        state.incarnations.insert(name.to_owned(), number);
    }

    /// Looks at a record.
    pub(crate) fn record(&self, passage: &Passage<'_>, fate: Fate) {
        let Ok((xid, kind)) = rpc::peek(passage.bytes) else {
            return;
        };
        let mut state = self.state.lock();
        match kind {
            MessageType::Call => self.call(&mut state, passage, fate, xid),
            MessageType::Reply => self.reply(&mut state, passage, fate, xid),
        }
    }

    fn call(&self, state: &mut State, passage: &Passage<'_>, fate: Fate, xid: u32) {
        let mut d = Decoder::new(passage.bytes);
        let Ok(header) = CallHeader::decode(&mut d) else {
            return;
        };
        let call = match header.program {
            nfs3::PROGRAM if header.version == nfs3::VERSION => {
                let what = OlderAsked(header.procedure);
                let what = format_args!("> {}: {what}{}", host(passage.to), Fated(fate));
                self.trace.tell(passage.from, what);
                let is_kept = KEPT.contains(&header.procedure);
                let key = is_kept.then(|| (passage.from.to_owned(), passage.bytes.to_vec()));
                Call::Older(header.procedure, key)
            }
            nfs4::PROGRAM => {
                let request = wire::request(d);
                let to = host(passage.to);
                let what = format_args!("> {to}: {}{}", Asked(&request), Fated(fate));
                let now = self.trace.tell(passage.from, what);
                if let Some(key) = request.key {
                    state.first_sent.entry(key).or_insert(now);
                }
                Call::Nfs(request)
            }
            control::PROGRAM => {
                let (to, args) = (host(passage.to), d.rest());
                let asked = Controlled(header.procedure, args);
                let what = format_args!("> {to}: {asked}{}", Fated(fate));
                self.trace.tell(passage.from, what);
                let promises = &mut state.promises;
                promises.control_call(to, header.procedure, args);
                let mut kept = header.procedure.to_be_bytes().to_vec();
                kept.extend(args);
                Call::Control(kept)
            }
            parts::PROGRAM => {
                let (to, args) = (host(passage.to), d.rest());
                let asked = Passed(header.procedure, args);
                let what = format_args!("> {to}: {asked}{}", Fated(fate));
                self.trace.tell(passage.from, what);
                Call::Parts(promises::synced(header.procedure, args))
            }
            nlm::PROGRAM | nlm::nsm::PROGRAM => {
                let (to, args) = (host(passage.to), d.rest());
                let asked = HostAsked(header.program, header.procedure, args);
                let what = format_args!("> {to}: {asked}{}", Fated(fate));
                self.trace.tell(passage.from, what);
                Call::Host(header.program, header.procedure)
            }
            _ => {
                let what = format_args!("> {}: callback{}", host(passage.to), Fated(fate));
                self.trace.tell(passage.from, what);
                Call::Other
            }
        };
        let key = (passage.from.to_owned(), passage.to.to_owned(), xid);
        state.calls.insert(key, call);
    }

    fn reply(&self, state: &mut State, passage: &Passage<'_>, fate: Fate, xid: u32) {
        let key = (passage.to.to_owned(), passage.from.to_owned(), xid);
        let Some(call) = state.calls.get(&key) else {
            return;
        };
        let mut d = Decoder::new(passage.bytes);
        let Ok(header) = ReplyHeader::decode(&mut d) else {
            return;
        };
        if !matches!(header.verdict, ReplyVerdict::Success { .. }) {
            let what = format_args!("< {}: refused{}", host(passage.to), Fated(fate));
            self.trace.tell(passage.from, what);
            return;
        }
        match call {
            Call::Nfs(request) => {
                let request = request.clone();
                let body = d.rest();
                let Some(reply) = wire::reply(d) else {
                    let text = format!("{} sent a reply that does not decode", passage.from);
                    self.findings.add(text);
                    return;
                };
                let to = host(passage.to);
                let what = format_args!("< {to}: {}{}", Answered(&reply), Fated(fate));
                let now = self.trace.tell(passage.from, what);
                self.nfs_reply(state, passage, &request, &reply, body, now);
            }
            Call::Control(call) => {
                let call = call.clone();
                let what = format_args!("< {}: control{}", host(passage.to), Fated(fate));
                let now = self.trace.tell(passage.from, what);
                control_reply(state, passage, &call, d.rest(), now);
            }
            Call::Parts(synced) => {
                let synced = *synced;
                let (to, answer) = (host(passage.to), Taken(d.rest()));
                let what = format_args!("< {to}: {answer}{}", Fated(fate));
                let now = self.trace.tell(passage.from, what);
                if let Some(part) = synced.filter(|_| promises::is_done(d.rest())) {
                    let member = host(passage.from);
                    state.promises.synced(member, part, now);
                }
            }
            Call::Older(procedure, key) => {
                let (procedure, key) = (*procedure, key.clone());
                self.older_reply(state, passage, (procedure, key), (d.rest(), fate));
            }
            Call::Host(program, procedure) => {
                let answered = HostAnswered(*program, *procedure, d.rest());
                let what = format_args!("< {}: {answered}{}", host(passage.to), Fated(fate));
                self.trace.tell(passage.from, what);
            }
            Call::Other => {
                let what = format_args!("< {}: callback{}", host(passage.to), Fated(fate));
                self.trace.tell(passage.from, what);
            }
        }
    }

    /// A reply of NFSv3.
    fn older_reply(
        &self,
        state: &mut State,
        passage: &Passage<'_>,
        (procedure, key): (u32, Option<OlderKey>),
        (body, fate): (&[u8], Fate),
    ) {
        let asked = OlderAsked(procedure);
        let status = body.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
        let status = status.unwrap_or(u32::MAX);
        let to = host(passage.to);
        let what = format_args!("< {to}: {asked} status {status}{}", Fated(fate));
        self.trace.tell(passage.from, what);
        let server = host(passage.from);
        let run = state.incarnations.get(server).copied().unwrap_or(0);
        if let Some(text) = key.and_then(|key| state.once.older(run, key, body)) {
            self.findings.add(format!("{server}: {text}: {asked}"));
        }
    }

    fn nfs_reply(
        &self,
        state: &mut State,
        passage: &Passage<'_>,
        request: &Request,
        reply: &Reply,
        body: &[u8],
        now: u64,
    ) {
        let Some(key) = request.key.filter(|key| reply.answers(key)) else {
            return;
        };
        let server = host(passage.from);
        let sent = state.first_sent.get(&key).copied().unwrap_or(now);
        let is_uncached = reply.ops.last().map(|(_, status, _)| *status)
            == Some(nfs4::NfsStatus::RetryUncachedRep);
        if is_uncached {
            return;
        }
        let ops = || reply.ops.iter().map(|(op, ..)| format!("{op:?}"));
        if let Some(text) = state.once.reply(key, body) {
            let list: Vec<String> = ops().collect();
            self.findings.add(format!("{server}: {text}: {list:?}"));
        }
        if server != MDS_NAME {
            let found = state.io.ds_reply(server, request, reply, sent);
            found.into_iter().for_each(|text| self.findings.add(text));
            let found = state.promises.ds_reply(server, request, reply, sent);
            found.into_iter().for_each(|text| self.findings.add(text));
            let answered = (server, request, reply);
            let found = state.roles.ds_reply(answered, (sent, now));
            found.into_iter().for_each(|text| self.findings.add(text));
            return;
        }
        let incarnation = state.incarnations.get(server).copied().unwrap_or(0);
        for (op, _, got) in &reply.ops {
            let found = match got {
                Got::Attrs(attrs) => state.attrs.reply(attrs, sent, now),
                Got::Stateid(stateid) => {
                    let issue = stateids::Issue {
                        client: host(passage.to),
                        incarnation,
                        key,
                        is_layout: *op == OpNum::LayoutGet,
                    };
                    state.stateids.reply(*stateid, &issue)
                }
                Got::Sequence(_) | Got::Plain => None,
            };
            if let Some(text) = found {
                self.findings.add(format!("{op:?} at event {now}: {text}"));
            }
        }
    }
}

/// The answer to a call of the control program, whichever side made it.
fn control_reply(state: &mut State, passage: &Passage<'_>, call: &[u8], answer: &[u8], now: u64) {
    let server = host(passage.from);
    state.io.control_reply(server, call, answer, now);
    // The MDS answers data servers, too.
    let ds = match server == MDS_NAME {
        true => host(passage.to),
        false => server,
    };
    state.promises.control_reply(ds, call, answer, now);
}

struct Asked<'a>(&'a Request);

impl std::fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (op, ask) in &self.0.ops {
            match ask {
                Ask::Sequence((_, slot, seqid)) => write!(f, "[{slot}.{seqid}] ")?,
                Ask::Name(name) => write!(f, "{op:?}({name}) ")?,
                Ask::Io { offset, len, .. } => write!(f, "{op:?}({offset}+{len}) ")?,
                Ask::Size(size) => write!(f, "{op:?}(size {size}) ")?,
                Ask::Fh(_) => {}
                Ask::Plain => write!(f, "{op:?} ")?,
            }
        }
        Ok(())
    }
}

/// Procedures of NFSv3 that must not be done twice: SETATTR, and CREATE to LINK.
const KEPT: [u32; 9] = [2, 8, 9, 10, 11, 12, 13, 14, 15];

/// A procedure of NFSv3.
struct OlderAsked(u32);

impl std::fmt::Display for OlderAsked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.0.to_be_bytes();
        match nfs3::Proc::decode(&mut Decoder::new(&number)) {
            Ok(procedure) => write!(f, "v3 {procedure:?}"),
            Err(_) => write!(f, "v3 {}", self.0),
        }
    }
}

/// A call of the control program: procedure and arguments.
struct Controlled<'a>(u32, &'a [u8]);

impl std::fmt::Display for Controlled<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Proc::from_u32(self.0) {
            Some(procedure) => write!(f, "control {procedure:?}")?,
            None => write!(f, "control {}", self.0)?,
        }
        if let Ok(ToDs::Fence(args)) = ToDs::decode(self.0, self.1) {
            write!(f, " {:?}", args.floors.0)?;
        }
        Ok(())
    }
}

/// A call of the parts program: procedure and arguments.
struct Passed<'a>(u32, &'a [u8]);

impl std::fmt::Display for Passed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 != PartsProc::Pass as u32 {
            return write!(f, "parts {}", self.0);
        }
        let Ok(args) = xdr::decode_all::<PassArgs<'_>>(self.1) else {
            return f.write_str("parts PASS ?");
        };
        let (file, place) = (args.file.file_id, args.place);
        write!(f, "PASS {}.{} ", args.lane, args.number)?;
        match args.item {
            StreamItem::Write {
                offset,
                data,
                is_stable,
            } => {
                let how = if is_stable { " stable" } else { "" };
                write!(f, "Write({offset}+{}{how})", data.len())?;
            }
            item => write!(f, "{item:?}")?,
        }
        write!(f, " of {file} at {}/{place}", args.group)
    }
}

/// An answer of the parts program.
struct Taken<'a>(&'a [u8]);

impl std::fmt::Display for Taken<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Answer::<()>::decode(&mut Decoder::new(self.0)) {
            Ok(Answer::Refused(refusal)) => write!(f, "parts {:?}", refusal.status),
            _ => f.write_str("parts Ok"),
        }
    }
}

struct Answered<'a>(&'a Reply);

impl std::fmt::Display for Answered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (op, status, got) in &self.0.ops {
            match got {
                Got::Attrs(a) => {
                    let or = |v: Option<u64>| v.unwrap_or_default();
                    write!(f, "#{} change {} ", or(a.fileid), or(a.change))?;
                }
                _ if matches!(op, OpNum::Sequence | OpNum::PutFh) && status.is_ok() => {}
                _ => write!(f, "{op:?} {status:?} ")?,
            }
        }
        Ok(())
    }
}

struct Fated(Fate);

impl std::fmt::Display for Fated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Fate::Deliver => Ok(()),
            Fate::Delay(ms) if ms.as_millis() < 10 => Ok(()),
            Fate::Delay(ms) => write!(f, "| late {} ms", ms.as_millis()),
            Fate::Lose => f.write_str("| lost"),
            Fate::Double => f.write_str("| doubled"),
            Fate::Cut => f.write_char('|').and_then(|()| f.write_str(" cut")),
        }
    }
}
