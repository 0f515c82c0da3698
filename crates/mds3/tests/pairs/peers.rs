//! One client of each version over one metadata server, with the same few things that each of them can do.

#![allow(unreachable_pub, reason = "a module of a test")]

use crate::rig::file::patiently;
use crate::rig::old::{CallbackProgram, Old};
use crate::rig::real::{self, Real};
use crate::rig::{Client, Rig, after_putfh, cluster::Port};
use bytes::Bytes;
use nfs3::procs::{ReadArgs as Read3, SetAttrArgs as SetAttr3, WriteArgs as Write3};
use nfs3::{Nfs3Status, ProcArgs, Sattr3};
use nfs4::attr::Attrs;
use nfs4::ops::*;
use nfs4::{
    CbOpNum, ClientId, CompoundBuilder, Fattr, FileHandle, NfsStatus, OpReader, StableHow,
    StateOwner, Stateid, Verifier,
};
use nlm::{Fsh4Access, Fsh4Mode, Nlm4Share, Nlm4ShareArgs, Nlm4ShareRes, Nlm4Stats, NlmProc};
use ropewalk_mds3::{Nfs3, Nlm};
use rpc::{AuthSys, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use rpc_service::{Program, serve};
use session_client::{CallbackHandler, Caller, Session, SessionConfig};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use transport::workers::Shutdown;
use transport::{Address, ConnHandle, Connector, NoService};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque, decode_all};

/// The file that all of it is about, in the root.
pub const NAME: &str = "f";

/// A metadata server with one data server, and an empty file.
pub struct World {
    pub rig: Rig,
    pub nfs: Nfs3,
    pub nlm: Nlm,
    /// Of clients of NFSv4.0.
    old_callbacks: Arc<CallbackProgram>,
    _shutdown: Shutdown,
    _port: Port,
    _ds: Vec<Real>,
    xid: AtomicU32,
}

impl World {
    pub async fn new() -> Self {
        let (rig, port, ds) = real::cluster(1).await;
        let (old_callbacks, shutdown) = CallbackProgram::open(&rig);
        let connector = Arc::new(rig.connector("mds"));
        Self {
            nfs: Nfs3::new(rig.nfsd.clone()),
            nlm: Nlm::new(rig.nfsd.clone(), connector),
            old_callbacks,
            _shutdown: shutdown,
            _port: port,
            _ds: ds,
            xid: AtomicU32::new(1),
            rig,
        }
    }

    /// Makes the file. Returns its handle.
    pub async fn file(&self) -> FileHandle {
        let admin = self.rig.session("admin").await;
        let file = crate::rig::file::File::create(&admin, NAME).await;
        file.close().await;
        file.fh
    }
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V3,
    V40,
    V41,
    V42,
}

pub const ALL: [Version; 4] = [Version::V3, Version::V40, Version::V41, Version::V42];

/// Every version with every version: two clients of the same one too.
pub fn pairs() -> impl Iterator<Item = (Version, Version)> {
    ALL.into_iter()
        .flat_map(|one| ALL.into_iter().map(move |other| (one, other)))
}

/// What became of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Done,
    /// JUKEBOX or DELAY.
    Later,
    /// Another status, by its name.
    Refused(&'static str),
}

impl Ended {
    fn of(status: NfsStatus) -> Self {
        match status {
            NfsStatus::Ok => Self::Done,
            NfsStatus::Delay => Self::Later,
            status => Self::Refused(status.name()),
        }
    }

    fn of_3(status: Nfs3Status) -> Self {
        match status {
            Nfs3Status::Ok => Self::Done,
            Nfs3Status::Jukebox => Self::Later,
            status => Self::Refused(status.name()),
        }
    }
}

/// What is done to the file without an open.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    Read,
    Write(&'static [u8]),
    Cut,
}

impl Work {
    /// By the anonymous stateid.
    fn push(self, b: &mut CompoundBuilder) {
        let stateid = Stateid::ANONYMOUS;
        match self {
            Self::Read => b.push(&ReadArgs {
                stateid,
                offset: 0,
                count: 1 << 16,
            }),
            Self::Write(bytes) => b.push(&WriteArgs {
                stateid,
                offset: 0,
                stable: StableHow::FileSync,
                data: Opaque(bytes),
            }),
            Self::Cut => b.push(&SetAttrArgs {
                stateid,
                attrs: Fattr::new(&Attrs {
                    size: Some(0),
                    ..Attrs::default()
                }),
            }),
        };
    }
}

/// Notes what is recalled, and says yes.
#[derive(Default)]
pub struct Recalls(Mutex<Vec<CbOpNum>>);

impl CallbackHandler for Recalls {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        _args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        let status = match op {
            CbOpNum::Recall | CbOpNum::LayoutRecall => {
                self.0.lock().push(op);
                NfsStatus::Ok
            }
            _ => NfsStatus::NotSupp,
        };
        Box::pin(std::future::ready(status))
    }
}

/// A client of NFSv3, and a host of NLM.
pub struct Three<'w> {
    world: &'w World,
    conn: ConnHandle,
    name: &'static str,
}

impl Three<'_> {
    /// The result of a call; `None` for one that was not answered.
    async fn ask<P: Program>(
        &self,
        to: &P,
        (program, version, procedure): (u32, u32, u32),
        args: &impl Encode,
    ) -> Option<Vec<u8>> {
        let user = AuthSys {
            stamp: 0,
            machine: b"m".to_vec(),
            uid: 0,
            gid: 0,
            gids: vec![],
        };
        let mut e = Encoder::new();
        CallStart {
            xid: self.world.xid.fetch_add(1, Relaxed),
            program,
            version,
            procedure,
            credential: OpaqueAuth {
                flavor: rpc::flavor::AUTH_SYS,
                body: &user.to_body(),
            },
            verifier: OpaqueAuth::NONE,
        }
        .encode(&mut e);
        args.encode(&mut e);
        let record: Bytes = e.into_bytes().into();
        let reply = serve(to, &[], &self.conn, &record).await?;
        let reply = reply.flatten().unwrap();
        let mut d = Decoder::new(&reply);
        let verdict = ReplyHeader::decode(&mut d).unwrap().verdict;
        assert!(
            matches!(verdict, ReplyVerdict::Success { .. }),
            "{verdict:?}"
        );
        Some(d.rest().to_vec())
    }

    pub async fn call<A: ProcArgs>(&self, args: &A) -> Vec<u8> {
        let id = (nfs3::PROGRAM, nfs3::VERSION, A::PROC as u32);
        let answer = self.ask(&self.world.nfs, id, args).await;
        answer.expect("NFS is always answered")
    }

    /// How a call of any procedure ended.
    pub async fn ended<A: ProcArgs>(&self, args: &A) -> Ended {
        let body = self.call(args).await;
        let number = u32::from_be_bytes(body[..4].try_into().unwrap());
        Ended::of_3(Nfs3Status::from_u32(number).unwrap())
    }

    /// The result of a procedure of NLM; `None` for one that was not answered.
    pub async fn nlm(&self, proc: NlmProc, args: &impl Encode) -> Option<Vec<u8>> {
        let id = (nlm::PROGRAM, nlm::VERSION, proc as u32);
        self.ask(&self.world.nlm, id, args).await
    }

    async fn share(&self, proc: NlmProc, fh: &FileHandle, (access, deny): (u32, u32)) -> Nlm4Stats {
        let args = Nlm4ShareArgs {
            cookie: Opaque(b"c"),
            share: Nlm4Share {
                caller_name: Opaque(self.name.as_bytes()),
                fh: Opaque(&fh.0),
                oh: Opaque(b"7@host"),
                mode: match deny {
                    0 => Fsh4Mode::DenyNone,
                    1 => Fsh4Mode::DenyRead,
                    2 => Fsh4Mode::DenyWrite,
                    _ => Fsh4Mode::DenyBoth,
                },
                access: match access {
                    1 => Fsh4Access::Read,
                    2 => Fsh4Access::Write,
                    _ => Fsh4Access::Both,
                },
            },
            reclaim: false,
        };
        let body = self.nlm(proc, &args).await.expect("an answer");
        decode_all::<Nlm4ShareRes<'_>>(&body).unwrap().stat
    }

    async fn work(&self, fh: &FileHandle, work: Work) -> Ended {
        let file = Opaque(&fh.0[..]);
        match work {
            Work::Read => {
                self.ended(&Read3 {
                    file,
                    offset: 0,
                    count: 1 << 16,
                })
                .await
            }
            Work::Write(bytes) => {
                let write = Write3 {
                    file,
                    offset: 0,
                    count: u32::try_from(bytes.len()).unwrap(),
                    stable: nfs3::StableHow::FileSync,
                    data: Opaque(bytes),
                };
                self.ended(&write).await
            }
            Work::Cut => {
                let set = SetAttr3 {
                    object: file,
                    new_attributes: Sattr3 {
                        size: Some(0),
                        ..Sattr3::default()
                    },
                    guard: None,
                };
                self.ended(&set).await
            }
        }
    }
}

/// A client of NFSv4.1 or 4.2.
pub struct New {
    pub client: Client,
    recalls: Arc<Recalls>,
}

impl New {
    async fn new(rig: &Rig, name: &str, minor_version: u32) -> Self {
        let caller = Caller::auth_sys(&AuthSys {
            stamp: 0,
            machine: name.as_bytes().to_vec(),
            uid: 0,
            gid: 0,
            gids: vec![],
        });
        let recalls = Arc::new(Recalls::default());
        let config = SessionConfig {
            owner: name.as_bytes().to_vec(),
            verifier: Verifier {
                bytes: *b"boot0001",
            },
            addresses: vec![Address::Memory("mds".into())],
            role_flag: 0,
            minor_version,
            caller: caller.clone(),
            slots: 16,
            connections: 1,
            callbacks: Some(recalls.clone()),
            try_timeout: Duration::from_secs(5),
            give_up: Duration::from_secs(20),
        };
        let session = Session::new(Arc::new(rig.connector(name)), config);
        let client = Client { session, caller };
        client.session.establish().await.unwrap();
        client.reclaim_complete().await;
        Self { client, recalls }
    }

    /// OPEN of the file, which is there.
    async fn open(&self, (access, deny): (u32, u32)) -> Result<OpenRes, NfsStatus> {
        let root = self.client.lookup(&[]).await.unwrap();
        let done = self
            .client
            .on(&root, |b| {
                b.push(&OpenArgs {
                    seqid: 0,
                    share_access: access,
                    share_deny: deny,
                    owner: StateOwner {
                        clientid: ClientId::default(),
                        owner: Opaque(b"owner"),
                    },
                    how: OpenHow::NoCreate,
                    claim: OpenClaim::Null(Opaque(NAME.as_bytes())),
                });
            })
            .await;
        let opened = after_putfh(&done).take::<OpenRes>();
        opened.map_err(|e| e.status().unwrap())
    }
}

/// A client of any version.
pub enum Peer<'w> {
    Three(Three<'w>),
    Old(Old<'w>, &'w World),
    New(New),
}

/// An open with a share, by the stateid or by what NLM needs to end it.
pub enum Held {
    Share(u32, u32),
    Open(Stateid),
}

impl<'w> Peer<'w> {
    pub async fn new(world: &'w World, version: Version, name: &'static str) -> Self {
        match version {
            Version::V3 => {
                let to = Address::Memory("mds".into());
                let connector = world.rig.connector(name);
                let conn = connector.connect(&to, NoService::shared()).await.unwrap();
                Self::Three(Three { world, conn, name })
            }
            Version::V40 => Self::Old(Old::new(&world.rig, name).await, world),
            Version::V41 => Self::New(New::new(&world.rig, name, 1).await),
            Version::V42 => Self::New(New::new(&world.rig, name, 2).await),
        }
    }

    /// Opens the file with a share; `None` when that is denied.
    pub async fn open(&self, fh: &FileHandle, share: (u32, u32)) -> Option<Held> {
        match self {
            Self::Three(three) => match three.share(NlmProc::Share, fh, share).await {
                Nlm4Stats::Granted => Some(Held::Share(share.0, share.1)),
                Nlm4Stats::Denied => None,
                other => panic!("{other:?}"),
            },
            Self::Old(old, world) => {
                // An owner of its own for each open: its sequence ids begin anew.
                let owner = format!("owner {}", world.xid.fetch_add(1, Relaxed));
                let answer = old.open_answer((&owner, 1), NAME, share, false).await;
                match Old::opened(&answer) {
                    Ok(open) => Some(Held::Open(old.confirm(&open, 2).await.unwrap())),
                    Err(NfsStatus::ShareDenied) => None,
                    Err(other) => panic!("{other}"),
                }
            }
            Self::New(new) => match new.open((share.0 | SHARE_WANT_NO_DELEG, share.1)).await {
                Ok(open) => Some(Held::Open(open.stateid)),
                Err(NfsStatus::ShareDenied) => None,
                Err(other) => panic!("{other}"),
            },
        }
    }

    pub async fn close(&self, fh: &FileHandle, held: Held) {
        let close = |seqid, open_stateid| CloseArgs {
            seqid,
            open_stateid,
        };
        match (self, held) {
            (Self::Three(three), Held::Share(access, deny)) => {
                let done = three.share(NlmProc::Unshare, fh, (access, deny)).await;
                assert_eq!(done, Nlm4Stats::Granted);
            }
            (Self::Old(old, _), Held::Open(stateid)) => {
                let done = old
                    .on(fh, |b| {
                        b.push(&close(3, stateid));
                    })
                    .await;
                assert_eq!(done.status(), NfsStatus::Ok);
            }
            (Self::New(new), Held::Open(stateid)) => {
                let done = new
                    .client
                    .on(fh, |b| {
                        b.push(&close(0, stateid));
                    })
                    .await;
                assert_eq!(done.results().unwrap().status, NfsStatus::Ok);
            }
            _ => panic!("an open of another"),
        }
    }

    /// Does something to the file without an open.
    pub async fn work(&self, fh: &FileHandle, work: Work) -> Ended {
        match self {
            Self::Three(three) => three.work(fh, work).await,
            Self::Old(old, _) => Ended::of(old.on(fh, |b| work.push(b)).await.status()),
            Self::New(new) => {
                let done = new.client.on(fh, |b| work.push(b)).await;
                Ended::of(done.results().unwrap().status)
            }
        }
    }

    /// The bytes of the file, up to 64 KiB.
    pub async fn bytes(&self, fh: &FileHandle) -> Vec<u8> {
        let read = || async {
            match self {
                Self::Three(three) => {
                    let args = Read3 {
                        file: Opaque(&fh.0),
                        offset: 0,
                        count: 1 << 16,
                    };
                    let body = three.call(&args).await;
                    let read = Read3::decode_res(&body).unwrap().into_result();
                    read.map(|read| read.data.0.to_vec())
                        .map_err(|(status, _)| match status {
                            Nfs3Status::Jukebox => NfsStatus::Delay,
                            other => panic!("{other}"),
                        })
                }
                Self::Old(old, _) => {
                    let done = old.on(fh, |b| Work::Read.push(b)).await;
                    let mut reply = done.reply();
                    reply.take::<PutFhRes>().unwrap();
                    let read = reply.take::<ReadRes<'_>>();
                    read.map(|read| read.data.0.to_vec())
                        .map_err(|e| e.status().unwrap())
                }
                Self::New(new) => {
                    let done = new.client.on(fh, |b| Work::Read.push(b)).await;
                    let mut reply = after_putfh(&done);
                    let read = reply.take::<ReadRes<'_>>();
                    read.map(|read| read.data.0.to_vec())
                        .map_err(|e| e.status().unwrap())
                }
            }
        };
        patiently(read).await.unwrap()
    }

    /// Opens the file and is delegated it.
    pub async fn delegated(&self, access: u32) -> Stateid {
        let delegation = match self {
            Self::Three(_) => panic!("NFSv3 has no delegations"),
            Self::Old(old, _) => {
                let answer = old
                    .open_answer(("holder", 1), NAME, (access, 0), false)
                    .await;
                let open = Old::opened(&answer).unwrap();
                old.confirm(&open, 2).await.unwrap();
                // The way back to the client is looked at meanwhile.
                tokio::time::sleep(Duration::from_millis(50)).await;
                let answer = old
                    .open_answer(("holder", 3), NAME, (access, 0), false)
                    .await;
                Old::opened(&answer).unwrap().delegation
            }
            Self::New(new) => new.open((access, 0)).await.unwrap().delegation,
        };
        match delegation {
            Delegation::Read(read) => read.stateid,
            Delegation::Write(write) => write.stateid,
            other => panic!("{other:?}"),
        }
    }

    pub async fn give_back(&self, fh: &FileHandle, stateid: Stateid) {
        let args = DelegReturnArgs { stateid };
        let status = match self {
            Self::Three(_) => panic!("NFSv3 has no delegations"),
            Self::Old(old, _) => old
                .on(fh, |b| {
                    b.push(&args);
                })
                .await
                .status(),
            Self::New(new) => {
                let done = new
                    .client
                    .on(fh, |b| {
                        b.push(&args);
                    })
                    .await;
                done.results().unwrap().status
            }
        };
        assert_eq!(status, NfsStatus::Ok);
    }

    /// How often it was told to give something back.
    pub fn recalls(&self) -> usize {
        match self {
            Self::Three(_) => 0,
            Self::Old(_, world) => world.old_callbacks.recalled.lock().len(),
            Self::New(new) => new.recalls.0.lock().len(),
        }
    }
}
