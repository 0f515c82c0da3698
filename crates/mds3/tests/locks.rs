//! Goal: hosts lock by NLM what RFC 1813 Appendix II says, and nobody ends the locks of another.
//! Method: hosts in memory, each with a name of its own in the network, where it serves GRANTED and NOTIFY.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod rig;

use bytes::Bytes;
use meta::MemStore;
use nfs3::procs::RemoveArgs;
use nlm::nsm::{NsmProc, NsmRes, SmStatRes, StatChge};
use nlm::*;
use rig::*;
use ropewalk_mds3::DATAGRAM_BYTES_MAX;
use rpc::{AcceptError, CallHeader, CallRefusal, ReplyHeader, ReplyVerdict};
use rpc_service::Seal;
use std::sync::Arc;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use transport::workers::Shutdown;
use transport::{ConnHandle, Context, Endpoint, Message, Service, TransportLimits};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque, decode_all};

/// NSM state of hosts that have not restarted.
const STATE: i32 = 3;

/// What a host was called with: GRANTED or NOTIFY.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    /// `l_offset`, `l_len`, `svid`, the handle.
    Granted(u64, u64, i32, Vec<u8>),
    /// State.
    Notify(i32),
}

/// The programs of a host.
struct HostPrograms {
    heard: Mutex<Vec<Heard>>,
    /// Its answer to GRANTED.
    answer: Nlm4Stats,
    /// What its monitor says of its state; without one it does not answer.
    monitor: Mutex<Option<i32>>,
}

impl Service for HostPrograms {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, header.xid);
        if header.program == PROGRAM {
            assert_eq!(header.procedure, NlmProc::Granted as u32);
            let args: Nlm4TestArgs<'_> = decode_all(d.rest()).unwrap();
            let lock = args.alock;
            let heard = Heard::Granted(lock.l_offset, lock.l_len, lock.svid, lock.fh.0.to_vec());
            self.heard.lock().push(heard);
            Nlm4Res {
                cookie: args.cookie,
                stat: self.answer,
            }
            .encode(&mut e);
        } else if header.procedure == NsmProc::Stat as u32 {
            let state = (*self.monitor.lock())?;
            let res_stat = NsmRes::Succ;
            SmStatRes { res_stat, state }.encode(&mut e);
        } else {
            let args: StatChge<'_> = decode_all(d.rest()).unwrap();
            self.heard.lock().push(Heard::Notify(args.state));
        }
        Some(e.into())
    }
}

struct Host<'r> {
    rig: &'r Rig,
    name: &'static str,
    conn: ConnHandle,
    programs: Arc<HostPrograms>,
    _shutdown: Shutdown,
}

impl<'r> Host<'r> {
    async fn new(rig: &'r Rig, name: &'static str, answer: Nlm4Stats) -> Self {
        let programs = Arc::new(HostPrograms {
            heard: Mutex::default(),
            answer,
            monitor: Mutex::new(Some(STATE)),
        });
        let shutdown = Shutdown::new();
        let context = Context::new(TransportLimits::default());
        let listener = rig.network.listen(name).unwrap();
        tokio::spawn(listener.serve(programs.clone(), context, shutdown.signal()));
        Self {
            rig,
            name,
            conn: connect_as(&rig.network, name).await,
            programs,
            _shutdown: shutdown,
        }
    }

    async fn ask(&self, id: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
        let record = self.rig.record(id, args);
        let mut e = Encoder::new();
        e.raw(&record);
        let wait = Duration::from_secs(60);
        let reply = self.conn.call(e.into(), wait).await.unwrap();
        let mut d = Decoder::new(&reply);
        ReplyHeader::decode(&mut d).unwrap();
        d.rest().to_vec()
    }

    fn range<'a>(&self, file: &'a [u8], offset: u64, len: u64) -> Nlm4Lock<'a> {
        Nlm4Lock {
            caller_name: Opaque(self.name.as_bytes()),
            fh: Opaque(file),
            oh: Opaque(b"7@host"),
            svid: 7,
            l_offset: offset,
            l_len: len,
        }
    }

    async fn nlm(&self, proc: NlmProc, args: &impl Encode) -> Nlm4Stats {
        let body = self.ask((PROGRAM, VERSION, proc as u32), args).await;
        let res: Nlm4Res<'_> = decode_all(&body).unwrap();
        assert_eq!(res.cookie.0, b"cookie");
        res.stat
    }

    async fn lock_as(&self, alock: Nlm4Lock<'_>, block: bool, reclaim: bool) -> Nlm4Stats {
        self.lock_in(STATE, alock, block, reclaim).await
    }

    /// LOCK of a host that tells this NSM state.
    async fn lock_in(
        &self,
        state: i32,
        alock: Nlm4Lock<'_>,
        block: bool,
        reclaim: bool,
    ) -> Nlm4Stats {
        let args = Nlm4LockArgs {
            cookie: Opaque(b"cookie"),
            block,
            exclusive: true,
            alock,
            reclaim,
            state,
        };
        self.nlm(NlmProc::Lock, &args).await
    }

    async fn lock(&self, file: &[u8], block: bool) -> Nlm4Stats {
        self.lock_as(self.range(file, 10, 0), block, false).await
    }

    async fn unlock(&self, file: &[u8]) -> Nlm4Stats {
        let args = Nlm4UnlockArgs {
            cookie: Opaque(b"cookie"),
            alock: self.range(file, 0, 0),
        };
        self.nlm(NlmProc::Unlock, &args).await
    }

    /// The lock on byte 20: its process, first byte and length.
    async fn holder(&self, file: &[u8]) -> Option<(i32, u64, u64)> {
        let args = Nlm4TestArgs {
            cookie: Opaque(b"cookie"),
            exclusive: true,
            alock: self.range(file, 20, 1),
        };
        let id = (PROGRAM, VERSION, NlmProc::Test as u32);
        let body = self.ask(id, &args).await;
        match decode_all::<Nlm4TestRes<'_>>(&body).unwrap().stat {
            Nlm4TestReply::Denied(by) => {
                assert_eq!((by.oh.0, by.exclusive), (&b"7@host"[..], true));
                Some((by.svid, by.l_offset, by.l_len))
            }
            Nlm4TestReply::Other(stat) => {
                assert_eq!(stat, Nlm4Stats::Granted);
                None
            }
        }
    }

    async fn notify(&self, name: &str, state: i32) {
        let args = StatChge {
            mon_name: Opaque(name.as_bytes()),
            state,
        };
        let id = (nsm::PROGRAM, nsm::VERSION, NsmProc::Notify as u32);
        assert!(self.ask(id, &args).await.is_empty());
    }

    /// As [`Host::notify`] in a datagram, which need not come from this host. Whether it is answered.
    async fn notify_by_datagram(&self, state: i32) -> bool {
        let args = StatChge {
            mon_name: Opaque(self.name.as_bytes()),
            state,
        };
        let id = (nsm::PROGRAM, nsm::VERSION, NsmProc::Notify as u32);
        datagram(self.rig, self.name, &self.rig.record(id, &args))
            .await
            .is_some()
    }

    fn monitor_says(&self, state: Option<i32>) {
        *self.programs.monitor.lock() = state;
    }

    fn heard(&self) -> Vec<Heard> {
        self.programs.heard.lock().clone()
    }
}

/// The answer to a datagram from there.
async fn datagram(rig: &Rig, from: &str, record: &[u8]) -> Option<Result<Vec<u8>, CallRefusal>> {
    let from = Endpoint::Memory(from.into());
    let answer = rig.nsm.datagram(&from, record).await?;
    let mut d = Decoder::new(&answer);
    Some(match ReplyHeader::decode(&mut d).unwrap().verdict {
        ReplyVerdict::Success { .. } => Ok(d.rest().to_vec()),
        ReplyVerdict::Error(refusal) => Err(refusal),
    })
}

/// Hosts that take what they are granted.
async fn two(rig: &Rig) -> (Host<'_>, Host<'_>) {
    let nlm = rig.nlm.clone();
    tokio::spawn(async move { nlm.tell_hosts("server").await });
    let a = Host::new(rig, "a", Nlm4Stats::Granted).await;
    let b = Host::new(rig, "b", Nlm4Stats::Granted).await;
    (a, b)
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_in_the_way_of_another_host_until_it_is_unlocked() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, b) = two(&rig).await;
    assert_eq!(b.holder(&file).await, None);
    assert_eq!(a.lock(&file, false).await, Nlm4Stats::Granted);
    assert_eq!(a.lock(&file, false).await, Nlm4Stats::Granted);
    assert_eq!(b.lock(&file, false).await, Nlm4Stats::Denied);
    assert_eq!(b.holder(&file).await, Some((7, 10, 0)));
    // Another process of the same host is another owner.
    let other = Nlm4Lock {
        svid: 8,
        ..a.range(&file, 10, 1)
    };
    assert_eq!(a.lock_as(other, false, false).await, Nlm4Stats::Denied);
    let disjoint = b.range(&file, 0, 10);
    assert_eq!(b.lock_as(disjoint, false, false).await, Nlm4Stats::Granted);
    assert_eq!(a.unlock(&file).await, Nlm4Stats::Granted);
    assert_eq!(b.lock(&file, false).await, Nlm4Stats::Granted);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_waits_gets_the_lock_and_is_told() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, b) = two(&rig).await;
    assert_eq!(a.lock(&file, true).await, Nlm4Stats::Granted);
    assert_eq!(b.lock(&file, true).await, Nlm4Stats::Blocked);
    assert_eq!(a.unlock(&file).await, Nlm4Stats::Granted);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(b.heard(), [Heard::Granted(10, 0, 7, file.clone())]);
    assert_eq!(a.holder(&file).await, Some((7, 10, 0)));
    assert_eq!(a.heard(), []);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_want_its_lock_any_more_loses_it() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, _b) = two(&rig).await;
    let c = Host::new(&rig, "c", Nlm4Stats::Denied).await;
    a.lock(&file, false).await;
    assert_eq!(c.lock(&file, true).await, Nlm4Stats::Blocked);
    a.unlock(&file).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(c.heard().len(), 1);
    assert_eq!(a.holder(&file).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_be_told_keeps_its_lock_and_hears_of_it_when_it_asks() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, mut b) = two(&rig).await;
    a.lock(&file, false).await;
    b.lock(&file, true).await;
    b._shutdown = Shutdown::new();
    tokio::time::sleep(Duration::from_secs(15)).await;
    a.unlock(&file).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(a.holder(&file).await, Some((7, 10, 0)));
    assert_eq!(b.lock(&file, true).await, Nlm4Stats::Granted);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_not_granted() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, b) = two(&rig).await;
    a.lock(&file, false).await;
    b.lock(&file, true).await;
    let args = Nlm4CancArgs {
        cookie: Opaque(b"cookie"),
        block: true,
        exclusive: true,
        alock: b.range(&file, 10, 0),
    };
    assert_eq!(b.nlm(NlmProc::Cancel, &args).await, Nlm4Stats::Granted);
    a.unlock(&file).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((b.heard(), a.holder(&file).await), (vec![], None));
}

#[tokio::test(start_paused = true)]
async fn only_a_host_itself_says_that_it_has_restarted_and_once_for_each_state() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, b) = two(&rig).await;
    a.lock(&file, false).await;
    b.notify("a", 5).await;
    assert!(b.holder(&file).await.is_some(), "it is another host");
    a.notify("a.example", 5).await;
    assert_eq!(b.holder(&file).await, None);
    a.lock(&file, false).await;
    a.notify("a", 5).await;
    assert!(b.holder(&file).await.is_some(), "a repetition");
    a.notify("a", 7).await;
    assert_eq!(b.holder(&file).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_locks_in_a_newer_state_has_lost_what_it_held_before() {
    let rig = Rig::new().await;
    let (file, other) = (rig.create("file").await, rig.create("other").await);
    let (a, b) = two(&rig).await;
    a.lock(&file, false).await;
    assert_eq!(b.lock(&file, true).await, Nlm4Stats::Blocked);
    // Not known, and that of a LOCK that comes late.
    for state in [0, STATE + 1, STATE - 2, STATE] {
        let more = a.range(&other, 0, 1);
        a.lock_in(state, more, false, false).await;
        assert_eq!(b.heard(), [], "{state}");
    }
    let anew = a.range(&other, 5, 1);
    let granted = a.lock_in(STATE + 2, anew, false, false).await;
    assert_eq!(granted, Nlm4Stats::Granted);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(b.heard(), [Heard::Granted(10, 0, 7, file.clone())]);
    let held = ropewalk_mds3::hosts_held(rig.nfsd.role().fs());
    let held: Vec<_> = held.iter().map(|h| (&*h.name, h.ranges_count)).collect();
    assert_eq!(held, [("a", 1), ("b", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_share_may_be_of_the_newer_state_that_the_next_lock_tells_and_stays() {
    let rig = Rig::new().await;
    let (file, other) = (rig.create("file").await, rig.create("other").await);
    let (a, _b) = two(&rig).await;
    a.lock(&file, false).await;
    // The host restarts now, and nobody hears of it.
    let args = Nlm4ShareArgs {
        cookie: Opaque(b"cookie"),
        share: Nlm4Share {
            caller_name: Opaque(b"a"),
            fh: Opaque(&other),
            oh: Opaque(b"7@host"),
            mode: Fsh4Mode::DenyBoth,
            access: Fsh4Access::Both,
        },
        reclaim: false,
    };
    let id = (PROGRAM, VERSION, NlmProc::Share as u32);
    let body = a.ask(id, &args).await;
    let shared: Nlm4ShareRes<'_> = decode_all(&body).unwrap();
    assert_eq!(shared.stat, Nlm4Stats::Granted);
    let anew = a.range(&other, 5, 1);
    let granted = a.lock_in(STATE + 2, anew, false, false).await;
    assert_eq!(granted, Nlm4Stats::Granted);
    let held = ropewalk_mds3::hosts_held(rig.nfsd.role().fs());
    let shares: Vec<_> = held.iter().map(|h| (&*h.name, h.shares_count)).collect();
    assert_eq!(shares, [("a", 1)]);
    a.notify("a", STATE + 4).await;
    let held = ropewalk_mds3::hosts_held(rig.nfsd.role().fs());
    assert!(
        held.iter()
            .all(|h| (h.ranges_count, h.shares_count) == (0, 0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_notification_of_an_older_state_comes_late_and_ends_nothing() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, b) = two(&rig).await;
    a.lock(&file, false).await;
    for late in [STATE, STATE - 2, 0] {
        a.notify("a", late).await;
        assert!(b.holder(&file).await.is_some(), "{late}");
    }
    a.notify("a", i32::MAX).await;
    assert!(
        b.holder(&file).await.is_some(),
        "older, if states begin anew"
    );
    a.notify("a", STATE + 4).await;
    assert_eq!(b.holder(&file).await, None);
    a.lock(&file, false).await;
    a.notify("a", STATE + 2).await;
    assert!(
        b.holder(&file).await.is_some(),
        "the LOCK told less than NOTIFY"
    );
}

#[tokio::test(start_paused = true)]
async fn a_notification_that_is_repeated_after_a_restart_of_the_server_ends_nothing() {
    let store = Arc::new(MemStore::new());
    let file = {
        let rig = Rig::over(store.clone()).await;
        let file = rig.create("file").await;
        let (a, _b) = two(&rig).await;
        a.notify("a", STATE + 2).await;
        let of_new = a.range(&file, 10, 0);
        let granted = a.lock_in(STATE + 2, of_new, false, false).await;
        assert_eq!(granted, Nlm4Stats::Granted);
        file
    };
    let rig = Rig::over(store).await;
    let (a, b) = two(&rig).await;
    // Linux tells no state when it reclaims.
    let own = a.range(&file, 10, 0);
    assert_eq!(a.lock_in(0, own, false, true).await, Nlm4Stats::Granted);
    a.notify("a", STATE + 2).await;
    a.notify("a", STATE).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    fs::poll_grace(rig.nfsd.role().fs()).await;
    assert!(b.holder(&file).await.is_some());
    a.notify("a", STATE + 4).await;
    assert_eq!(b.holder(&file).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_forged_datagram_frees_no_locks_and_a_true_one_does() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, b) = two(&rig).await;
    a.lock(&file, false).await;
    b.monitor_says(Some(STATE + 2));
    assert!(b.notify_by_datagram(STATE + 2).await, "it has no locks");
    assert!(b.holder(&file).await.is_some());
    // The host runs as before.
    assert!(!a.notify_by_datagram(STATE + 2).await);
    a.monitor_says(None);
    assert!(!a.notify_by_datagram(STATE + 2).await);
    assert!(b.holder(&file).await.is_some());
    a.monitor_says(Some(STATE + 2));
    assert!(a.notify_by_datagram(STATE).await, "a repetition");
    assert!(b.holder(&file).await.is_some());
    assert!(a.notify_by_datagram(STATE + 2).await);
    assert_eq!(b.holder(&file).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_datagram_of_a_host_whose_monitor_does_not_run_yet_is_believed() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (mut a, b) = two(&rig).await;
    a.lock(&file, false).await;
    a._shutdown = Shutdown::new();
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(a.notify_by_datagram(STATE + 2).await);
    assert_eq!(b.holder(&file).await, None);
}

#[tokio::test(start_paused = true)]
async fn datagrams_about_one_host_ask_its_monitor_once_at_a_time() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, b) = two(&rig).await;
    a.lock(&file, false).await;
    a.monitor_says(Some(STATE + 2));
    let twice = tokio::join!(
        a.notify_by_datagram(STATE + 2),
        a.notify_by_datagram(STATE + 2)
    );
    assert_eq!(twice, (true, false));
    assert!(a.notify_by_datagram(STATE + 2).await);
    assert_eq!(b.holder(&file).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_datagram_that_is_no_call_of_nsm_is_refused_or_not_heard() {
    let rig = Rig::new().await;
    let null = |program, version| rig.record((program, version, 0), &());
    let answer = datagram(&rig, "a", &null(nsm::PROGRAM, nsm::VERSION)).await;
    assert_eq!(answer, Some(Ok(vec![])));
    let call = rig.record((nsm::PROGRAM, nsm::VERSION, 7), &());
    for (record, why) in [
        (null(nfs3::PROGRAM, 3), AcceptError::ProgUnavail),
        (
            null(nsm::PROGRAM, 2),
            AcceptError::ProgMismatch { low: 1, high: 1 },
        ),
        (call, AcceptError::ProcUnavail),
        (
            rig.record((nsm::PROGRAM, nsm::VERSION, 6), &()),
            AcceptError::GarbageArgs,
        ),
    ] {
        let answer = datagram(&rig, "a", &record).await;
        assert_eq!(answer, Some(Err(why.into())));
    }
    let mut long = null(nsm::PROGRAM, nsm::VERSION).to_vec();
    for cut in 0..long.len() {
        assert_eq!(datagram(&rig, "a", &long[..cut]).await, None, "{cut}");
    }
    long.resize(DATAGRAM_BYTES_MAX + 1, 0);
    assert_eq!(datagram(&rig, "a", &long).await, None);
    // No export has this address.
    let stranger = Endpoint::Socket("192.0.2.7:700".parse().unwrap());
    let record = null(nsm::PROGRAM, nsm::VERSION);
    assert_eq!(rig.nsm.datagram(&stranger, &record).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_gone_is_unlocked_and_not_locked() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, _b) = two(&rig).await;
    a.lock(&file, false).await;
    let remove = RemoveArgs {
        object: rig.at("file"),
    };
    rig.call(&remove).await;
    assert_eq!(a.lock(&file, false).await, Nlm4Stats::StaleFh);
    assert_eq!(a.unlock(&file).await, Nlm4Stats::Granted);
    assert_eq!(rig.nfsd.role().fs().state().counts().1, 0, "lock states");
    assert_eq!(a.lock(b"no handle", false).await, Nlm4Stats::StaleFh);
    let beyond = a.range(&file, u64::MAX, 2);
    assert_eq!(a.lock_as(beyond, false, false).await, Nlm4Stats::FBig);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_a_host_is_told_and_reclaims_what_it_had() {
    let store = Arc::new(MemStore::new());
    let (file, state) = {
        let rig = Rig::over(store.clone()).await;
        let file = rig.create("file").await;
        let (a, _b) = two(&rig).await;
        assert_eq!(a.lock(&file, false).await, Nlm4Stats::Granted);
        (file, a.heard())
    };
    assert_eq!(state, []);
    let rig = Rig::over(store).await;
    let (a, b) = two(&rig).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(matches!(a.heard()[..], [Heard::Notify(state)] if state & 1 == 1));
    assert_eq!(b.heard(), []);
    let denied = Nlm4Stats::DeniedGracePeriod;
    assert_eq!(b.lock(&file, true).await, denied);
    let others = b.range(&file, 10, 0);
    assert_eq!(b.lock_as(others, false, true).await, denied);
    let own = a.range(&file, 10, 0);
    assert_eq!(a.lock_as(own, false, true).await, Nlm4Stats::Granted);
    tokio::time::sleep(Duration::from_secs(61)).await;
    fs::poll_grace(rig.nfsd.role().fs()).await;
    assert_eq!(b.lock(&file, false).await, Nlm4Stats::Denied);
    assert_eq!(a.lock_as(own, false, true).await, denied);
    assert_eq!(a.unlock(&file).await, Nlm4Stats::Granted);
    assert_eq!(b.lock(&file, false).await, Nlm4Stats::Granted);
}

#[tokio::test(start_paused = true)]
async fn an_administrator_sees_hosts_and_ends_the_locks_of_one() {
    let rig = Rig::new().await;
    let file = rig.create("file").await;
    let (a, b) = two(&rig).await;
    a.lock(&file, false).await;
    b.lock(&file, true).await;
    let fs = rig.nfsd.role().fs();
    let held = ropewalk_mds3::hosts_held(fs);
    let shown: Vec<_> = held.iter().map(|h| (&*h.name, h.ranges_count)).collect();
    assert_eq!(shown, [("a", 1), ("b", 0)]);
    assert!(ropewalk_mds3::free_host(fs, &held[0]).await);
    assert!(!ropewalk_mds3::free_host(fs, &held[0]).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(b.heard().len(), 1, "it has waited for the lock");
}
