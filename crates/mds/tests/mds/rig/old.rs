//! A client of NFSv4.0: calls that are made by hand, and a callback program.

use super::Rig;
use bytes::Bytes;
use nfs4::attr::{self, Attrs};
use nfs4::cb::{CbGetAttrArgs, CbGetAttrRes, CbRecallArgs, CbRecallRes};
use nfs4::ops::*;
use nfs4::{
    Bitmap, CbCompoundHeader, CbOpNum, ClientId, ClientOwner, CompoundBuilder, CompoundReply,
    Fattr, FileHandle, LockType, NfsStatus, OpReader, ReplyWriter, StateOwner, Stateid, Verifier,
};
use rpc::{AuthSys, CallHeader, CallStart, OpaqueAuth, ReplyHeader};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use tracing_mutex::parkinglot::Mutex;
use transport::workers::Shutdown;
use transport::{
    Address, BoxFuture, ConnHandle, ConnectError, Connector, Context, DynService, Message,
    NoService, Service, TransportLimits,
};
use xdr::{Decode, Decoder, Encode, Encoder, Opaque};

/// Where callbacks of these clients go in the network of the rig.
pub const CALLBACKS: &str = "127.0.0.1:1000";
const UADDR: &[u8] = b"127.0.0.1.3.232";
/// `callback_ident` of a client.
pub const IDENT: u32 = 77;

/// Connects by TCP addresses to listeners that are named so.
pub struct Dialer(pub transport::memory::MemoryConnector);

impl Connector for Dialer {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
        reverse: Arc<dyn DynService>,
    ) -> BoxFuture<'a, Result<ConnHandle, ConnectError>> {
        Box::pin(async move {
            let address = match address {
                Address::Tcp(a) => &Address::Memory(a.to_string()),
                address => address,
            };
            self.0.connect(address, reverse).await
        })
    }
}

/// A callback program that notes what is recalled.
#[derive(Default)]
pub struct CallbackProgram {
    pub recalled: Mutex<Vec<Stateid>>,
    pub idents: Mutex<Vec<u32>>,
    /// Change and size of the file that it holds.
    pub known: Mutex<(u64, u64)>,
}

impl CallbackProgram {
    /// Listens until the end of what it answers.
    pub fn open(rig: &Rig) -> (Arc<Self>, Shutdown) {
        let program = Arc::new(Self::default());
        let listener = rig.network.listen(CALLBACKS).unwrap();
        let shutdown = Shutdown::new();
        let context = Context::new(TransportLimits::default());
        tokio::spawn(listener.serve(program.clone(), context, shutdown.signal()));
        (program, shutdown)
    }
}

impl Service for CallbackProgram {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
        if header.procedure == 0 {
            return Some(e.into());
        }
        let compound = CbCompoundHeader::decode(&mut d).unwrap();
        assert_eq!(compound.minorversion, 0);
        self.idents.lock().push(compound.callback_ident);
        let mut reply = ReplyWriter::<CbOpNum>::new(e, compound.tag.0);
        let mut ops = OpReader::new(d, compound.ops_count);
        let op = ops.next_op().unwrap().unwrap();
        if op == CbOpNum::GetAttr as u32 {
            let args: CbGetAttrArgs<'_> = ops.args().unwrap();
            assert_eq!(args.attr_request, Bitmap::of(&[attr::CHANGE, attr::SIZE]));
            let (change, size) = *self.known.lock();
            let known = Attrs {
                change: Some(change),
                size: Some(size),
                ..Attrs::default()
            };
            let attributes = Fattr::new(&known);
            let _ = reply.result(&CbGetAttrRes { attributes });
        } else {
            assert_eq!(op, CbOpNum::Recall as u32);
            let args: CbRecallArgs<'_> = ops.args().unwrap();
            self.recalled.lock().push(args.stateid);
            let _ = reply.result(&CbRecallRes {});
        }
        Some(reply.finish(NfsStatus::Ok).into())
    }
}

/// One client, on one connection.
pub struct Old<'a> {
    rig: &'a Rig,
    conn: ConnHandle,
    xid: AtomicU32,
    pub id: ClientId,
}

/// An open of an owner.
#[derive(Debug, Clone)]
pub struct Opened {
    pub fh: FileHandle,
    pub stateid: Stateid,
    pub rflags: u32,
    pub delegation: Delegation,
}

/// A reply as it came.
pub struct Answer(Vec<u8>);

impl Answer {
    pub fn reply(&self) -> CompoundReply<'_> {
        let mut d = Decoder::new(&self.0);
        ReplyHeader::decode(&mut d).unwrap();
        CompoundReply::new(d).unwrap()
    }

    pub fn status(&self) -> NfsStatus {
        self.reply().status
    }

    /// What follows the transaction id.
    pub fn body(&self) -> &[u8] {
        &self.0[4..]
    }
}

impl<'a> Old<'a> {
    /// A client with an id.
    pub async fn new(rig: &'a Rig, name: &str) -> Self {
        let mut old = Self::stranger(rig, name).await;
        old.id = old.set_client_id(name, *b"boot0001").await;
        old
    }

    /// One that has not said anything.
    pub async fn stranger(rig: &'a Rig, name: &str) -> Self {
        let to = Address::Memory("mds".into());
        let connector = rig.connector(name);
        let conn = connector.connect(&to, NoService::shared()).await.unwrap();
        Self {
            rig,
            conn,
            xid: AtomicU32::new(1),
            id: ClientId { value: 0 },
        }
    }

    /// Sends a COMPOUND under the next transaction id.
    pub async fn run(&self, build: impl Fn(&mut CompoundBuilder)) -> Answer {
        let xid = self.xid.fetch_add(1, Relaxed);
        self.run_as(xid, build).await.unwrap()
    }

    /// Sends a COMPOUND.
    pub async fn run_as(&self, xid: u32, build: impl Fn(&mut CompoundBuilder)) -> Option<Answer> {
        let body = AuthSys {
            stamp: 0,
            machine: b"host".to_vec(),
            uid: 0,
            gid: 0,
            gids: vec![],
        }
        .to_body();
        let mut e = Encoder::new();
        let start = CallStart {
            xid,
            program: nfs4::PROGRAM,
            version: nfs4::VERSION,
            procedure: 1,
            credential: OpaqueAuth {
                flavor: rpc::flavor::AUTH_SYS,
                body: &body,
            },
            verifier: OpaqueAuth::NONE,
        };
        start.encode(&mut e);
        let mut b = CompoundBuilder::new(e, b"", 0);
        build(&mut b);
        let record = Bytes::from(b.finish().into_bytes());
        let reply = Service::call(&*self.rig.nfsd, &self.conn, record).await?;
        Some(Answer(reply.flatten().unwrap()))
    }

    pub async fn set_client_id(&self, name: &str, verifier: [u8; 8]) -> ClientId {
        let args = SetClientIdArgs {
            client: ClientOwner {
                verifier: Verifier { bytes: verifier },
                ownerid: Opaque(name.as_bytes()),
            },
            callback: CbClient {
                program: 0x4000_0000,
                location: ClientAddr {
                    netid: Opaque(b"tcp"),
                    uaddr: Opaque(UADDR),
                },
            },
            callback_ident: IDENT,
        };
        let done = self
            .run(|b| {
                b.push(&args);
            })
            .await;
        let SetClientIdRes::Ok(set) = done.reply().take().unwrap() else {
            panic!("the name is in use");
        };
        let confirm = SetClientIdConfirmArgs {
            clientid: set.clientid,
            confirm: set.confirm,
        };
        let done = self
            .run(|b| {
                b.push(&confirm);
            })
            .await;
        assert_eq!(done.status(), NfsStatus::Ok);
        set.clientid
    }

    pub async fn renew(&self) -> NfsStatus {
        let clientid = self.id;
        let done = self
            .run(|b| {
                b.push(&RenewArgs { clientid });
            })
            .await;
        done.status()
    }

    pub fn owner<'o>(&self, owner: &'o str) -> StateOwner<'o> {
        StateOwner {
            clientid: self.id,
            owner: Opaque(owner.as_bytes()),
        }
    }

    /// OPEN by name in the root, which makes the file if `creates`.
    pub async fn open_answer(
        &self,
        (owner, seqid): (&str, u32),
        name: &str,
        (access, deny): (u32, u32),
        creates: bool,
    ) -> Answer {
        self.run(|b| {
            b.push(&PutRootFhArgs {});
            b.push(&OpenArgs {
                seqid,
                share_access: access,
                share_deny: deny,
                owner: self.owner(owner),
                how: match creates {
                    true => OpenHow::Create(CreateHow::Unchecked(Fattr::default())),
                    false => OpenHow::NoCreate,
                },
                claim: OpenClaim::Null(Opaque(name.as_bytes())),
            });
            b.push(&GetFhArgs {});
        })
        .await
    }

    pub fn opened(answer: &Answer) -> Result<Opened, NfsStatus> {
        let mut reply = answer.reply();
        reply.take::<PutRootFhRes>().unwrap();
        let res: OpenRes = reply.take().map_err(|e| e.status().unwrap())?;
        let fh: GetFhRes<'_> = reply.take().unwrap();
        Ok(Opened {
            fh: FileHandle::from(fh.object.0),
            stateid: res.stateid,
            rflags: res.rflags,
            delegation: res.delegation,
        })
    }

    /// Runs an operation on a file.
    pub async fn on(&self, fh: &FileHandle, build: impl Fn(&mut CompoundBuilder)) -> Answer {
        self.run(|b| {
            b.push(&PutFhArgs {
                object: Opaque(&fh.0),
            });
            build(b);
        })
        .await
    }

    pub async fn confirm(&self, open: &Opened, seqid: u32) -> Result<Stateid, NfsStatus> {
        let args = OpenConfirmArgs {
            open_stateid: open.stateid,
            seqid,
        };
        let done = self
            .on(&open.fh, |b| {
                b.push(&args);
            })
            .await;
        let mut reply = done.reply();
        reply.take::<PutFhRes>().unwrap();
        let res = reply.take::<OpenConfirmRes>();
        res.map(|r| r.open_stateid).map_err(|e| e.status().unwrap())
    }

    /// Opens a new file and confirms its owner, which has used two sequence ids then: 1 and 2.
    pub async fn confirmed(&self, owner: &str, name: &str, share: (u32, u32)) -> Opened {
        let answer = self.open_answer((owner, 1), name, share, true).await;
        let mut open = Self::opened(&answer).unwrap();
        open.stateid = self.confirm(&open, 2).await.unwrap();
        open
    }

    /// LOCK of the whole file by a lock-owner that has no lock there.
    pub async fn lock(
        &self,
        open: &Opened,
        (open_seqid, lock_seqid): (u32, u32),
        owner: &str,
    ) -> Result<Stateid, NfsStatus> {
        let args = LockArgs {
            lock_type: LockType::Write,
            reclaim: false,
            offset: 0,
            length: u64::MAX,
            locker: Locker::New(OpenToLockOwner {
                open_seqid,
                open_stateid: open.stateid,
                lock_seqid,
                lock_owner: self.owner(owner),
            }),
        };
        let done = self
            .on(&open.fh, |b| {
                b.push(&args);
            })
            .await;
        let mut reply = done.reply();
        reply.take::<PutFhRes>().unwrap();
        match reply.take::<LockRes<'_>>() {
            Ok(LockRes::Ok(granted)) => Ok(granted.lock_stateid),
            Ok(LockRes::Denied(_)) => Err(NfsStatus::Denied),
            Err(e) => Err(e.status().unwrap()),
        }
    }
}
