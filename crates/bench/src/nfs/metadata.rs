//! Operations on names, attributes, opens and locks, of our metadata server and of nfs-ganesha, by the same client.
//!
//! There are two forms of client. Blocking sockets, as those of the bare servers are: a thread, a client and a session for each. And `session-client`, whose tasks
//! are spread over at most [`CLIENTS_COUNT`] clients with one session on one connection each. What a request consists of says [`Operation`]. Files
//! that an operation needs are made before the measured time.

use crate::bare::ping_pong::Sizes;
use crate::load::{self, Load, Requester, TaskRequester};
use crate::nfs::Form;
use crate::nfs::client::{
    OpenFile, Owner, Peer, guarded, push_close, push_open, take_open, unchecked,
};
use crate::nfs::host::Host;
use crate::nfs::server::Server;
use crate::nfs::wire::WireSession;
use crate::peer::Fsal;
use crate::{BenchError, Sample, Subject};
use clap::ValueEnum;
use futures_util::FutureExt;
use nfs4::attr::{Attrs, Fattr};
use nfs4::attr::{
    CHANGE, FILEID, FSID, MODE, MOUNTED_ON_FILEID, NUMLINKS, OWNER, OWNER_GROUP, RAWDEV,
    RDATTR_ERROR, SIZE, SPACE_USED, TIME_ACCESS, TIME_METADATA, TIME_MODIFY, TYPE,
};
use nfs4::ops::{
    CloseRes, ExistLockOwner, GetAttrArgs, GetAttrRes, GetFhArgs, GetFhRes, LockArgs, LockRes,
    LockUArgs, LockURes, Locker, LookupArgs, LookupRes, OpenHow, OpenToLockOwner, PutFhArgs,
    PutFhRes, ReadDirArgs, ReadDirRes, ReclaimCompleteArgs, ReclaimCompleteRes, RemoveArgs,
    RemoveRes, RenameArgs, RenameRes, SaveFhArgs, SaveFhRes, SetAttrArgs, SetAttrRes,
};
use nfs4::{
    Bitmap, ClientId, CompoundBuilder, CompoundReply, FileHandle, LockType, OpError, StateOwner,
    Stateid, Verifier,
};
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use xdr::Opaque;

/// What Linux asks for after most operations.
const WANTED: Bitmap = Bitmap::of(&[
    TYPE,
    CHANGE,
    SIZE,
    FSID,
    FILEID,
    MODE,
    NUMLINKS,
    OWNER,
    OWNER_GROUP,
    RAWDEV,
    SPACE_USED,
    TIME_ACCESS,
    TIME_METADATA,
    TIME_MODIFY,
    MOUNTED_ON_FILEID,
]);
/// Clients that the tasks are spread over. Our server gives a connection to one thread, so one client alone would show that thread.
const CLIENTS_COUNT: usize = 4;
/// Tasks that make what is needed before the measured time.
const MAKERS_COUNT: u32 = 64;
/// Names that READDIR lists, and the room for its reply: all of them come at once.
const NAMES_COUNT: u64 = 100;
const READDIR_BYTES: u32 = 32 * 1024;
/// Most files that REMOVE finds, and the least for each task. Between the two, the time that their creation may take
/// counts as time of the removals.
const STOCK_MAX: u64 = 100_000;
const STOCK_PER_TASK: usize = 4;
const STOCK_TIMES: u32 = 2;

/// What one request is. All but the first compound of each begin with SEQUENCE, PUTFH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// GETATTR of the 15 attributes that Linux asks for
    Getattr,
    /// LOOKUP, GETFH, GETATTR of the same
    Lookup,
    /// OPEN, GETFH, and then CLOSE: two COMPOUNDs
    OpenClose,
    /// OPEN of a new file (GUARDED4), GETFH, CLOSE, in one COMPOUND
    Create,
    /// REMOVE of an empty file
    Remove,
    /// SETATTR of the mode
    Setattr,
    /// RENAME within a directory, there and back in turn
    Rename,
    /// READDIR of 100 names, with what Linux asks for when it lists names
    Readdir,
    /// LOCK, and then LOCKU: two COMPOUNDs
    Lock,
}

impl Operation {
    /// In tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Getattr => "GETATTR",
            Self::Lookup => "LOOKUP",
            Self::OpenClose => "OPEN+CLOSE",
            Self::Create => "CREATE",
            Self::Remove => "REMOVE",
            Self::Setattr => "SETATTR",
            Self::Rename => "RENAME",
            Self::Readdir => "READDIR",
            Self::Lock => "LOCK+LOCKU",
        }
    }

    /// Whether it changes what must outlive a power cut.
    #[must_use]
    pub const fn is_durable(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Remove | Self::Setattr | Self::Rename
        )
    }
}

/// An operation of a server as a subject. The load's connections are sockets, or tasks.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The server.
    pub host: Host,
    /// The client.
    pub form: Form,
    /// The operation.
    pub operation: Operation,
}

impl Metadata {
    /// The sizes of the messages, of the last COMPOUND of a request: those of a ping-pong to compare with.
    ///
    /// # Errors
    /// As for a run.
    pub fn sizes(&self) -> Result<Sizes, BenchError> {
        let load = Load {
            connections_count: 1,
            warm_up: Duration::ZERO,
            measure: Duration::from_millis(1),
        };
        let running = self.host.start()?;
        let setup = Setup::make(running.server(), Form::Wire, self.operation, &load)?;
        let mut asker = setup.asker(0);
        asker.ask_now()?;
        let (request, reply) = match &*setup.links[0] {
            Link::Wire(session) => locked(session).last_sizes(),
            Link::Session(_) => unreachable!("they were asked for as sockets"),
        };
        let size = |bytes: usize| u32::try_from(bytes).map_err(BenchError::nfs("read a reply"));
        Ok(Sizes {
            request_bytes: size(request)?,
            reply_bytes: size(reply)?,
        })
    }
}

impl Subject for Metadata {
    fn name(&self) -> String {
        let name = self.host.name();
        let not_durable = matches!(&self.host, Host::Ganesha(options) if options.fsal == Fsal::Vfs { is_durable: false });
        match &self.host {
            _ if not_durable && self.operation.is_durable() => format!("{name}, not durable"),
            Host::Ropewalk(options) => format!("{name}, {}", options.carrier().name()),
            Host::Ganesha(_) => name,
        }
    }

    fn settings(&self) -> Value {
        json!({
            "operation": self.operation.name(),
            "attributes": WANTED.iter().collect::<Vec<_>>(),
            "server": self.host.settings(),
            "client": match self.form {
                Form::Wire => "a socket and a session for each connection".to_owned(),
                Form::Session => format!("session-client, {CLIENTS_COUNT} sessions"),
            },
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let running = self.host.start()?;
        let setup = Setup::make(running.server(), self.form, self.operation, load)?;
        let mut load = *load;
        if self.operation == Operation::Remove {
            // The files were made right now, and none is to go before it counts.
            load.warm_up = Duration::ZERO;
        }
        match self.form {
            Form::Wire => {
                let make = |index| Ok(Box::new(setup.asker(index)) as Box<dyn Requester>);
                load::drive(&load, make, &|| running.cpu())
            }
            Form::Session => {
                let make = |index| Ok(Box::new(setup.asker(index)) as Box<dyn TaskRequester>);
                load::drive_tasks_on(&setup.runtime, &load, make, &|| running.cpu())
            }
        }
    }
}

/// A session of either client.
enum Link {
    Wire(Box<Mutex<WireSession>>),
    Session(Peer),
}

/// Each session has one user.
fn locked(session: &Mutex<WireSession>) -> MutexGuard<'_, WireSession> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    fn wire(server: &Server, owner: &Owner) -> Result<Self, BenchError> {
        let mut session = WireSession::connect(server.socket()?, owner, 0)?;
        let doing = "say that nothing is reclaimed";
        let mut reply = session.compound(|b| {
            b.push(&ReclaimCompleteArgs { one_fs: false });
        })?;
        reply
            .take::<ReclaimCompleteRes>()
            .map_err(BenchError::nfs(doing))?;
        Ok(Self::Wire(Box::new(Mutex::new(session))))
    }

    async fn call<T>(
        &self,
        doing: &'static str,
        build: impl Fn(&mut CompoundBuilder) + Send + Sync,
        take: impl FnOnce(&mut CompoundReply<'_>) -> Result<T, OpError>,
    ) -> Result<T, BenchError> {
        match self {
            // It blocks, and nobody else waits.
            Self::Wire(session) => {
                let mut session = locked(session);
                take(&mut session.compound(build)?)
            }
            Self::Session(peer) => {
                let done = peer.run(build).await?;
                done.results().and_then(|mut reply| take(&mut reply))
            }
        }
        .map_err(BenchError::nfs(doing))
    }
}

/// How many files a run begins with.
#[derive(Clone, Copy)]
struct Files {
    count: u64,
    /// Fewer than `count`, but not than these, when they take longer than `time`.
    count_min: u64,
    time: Duration,
}

impl Files {
    fn exactly(count: u64) -> Self {
        Self {
            count,
            count_min: count,
            time: Duration::ZERO,
        }
    }
}

/// Connections and files of a run.
struct Setup {
    operation: Operation,
    // Connections live on the runtime, so they go first.
    links: Vec<Arc<Link>>,
    _maker: Arc<Link>,
    runtime: Runtime,
    root: Arc<FileHandle>,
    /// A file for each task, where the operation wants one.
    files: Vec<FileHandle>,
    /// Numbers of files: the next to be removed or created, and the first that does not exist yet.
    next: Arc<AtomicU64>,
    stock_end: u64,
}

impl Setup {
    fn make(
        server: &Server,
        form: Form,
        operation: Operation,
        load: &Load,
    ) -> Result<Self, BenchError> {
        let runtime = load::runtime()?;
        let tasks_count = load.connections_count;
        let (maker, root) = runtime.block_on(async {
            let peer = Peer::mds(server, &Owner::new(), MAKERS_COUNT).await?;
            let root = peer.root().await?;
            Ok::<_, BenchError>((Arc::new(Link::Session(peer)), Arc::new(root)))
        })?;
        let links = links(server, form, &runtime, tasks_count)?;
        let mut setup = Self {
            operation,
            links,
            _maker: Arc::clone(&maker),
            runtime,
            root,
            files: Vec::new(),
            next: Arc::new(AtomicU64::new(0)),
            stock_end: 0,
        };
        let files = match operation {
            Operation::Create => Files::exactly(0),
            Operation::Readdir => Files::exactly(NAMES_COUNT),
            Operation::Remove => Files {
                count: STOCK_MAX,
                count_min: (tasks_count * STOCK_PER_TASK) as u64,
                time: (load.warm_up + load.measure) * STOCK_TIMES,
            },
            _ => Files::exactly(tasks_count as u64),
        };
        setup.files = setup.make_files(&maker, files)?;
        setup.stock_end = setup.files.len() as u64;
        Ok(setup)
    }

    /// Creates files of the numbers from 0.
    fn make_files(&self, link: &Arc<Link>, files: Files) -> Result<Vec<FileHandle>, BenchError> {
        let start = Instant::now();
        let is_wanted = move |number: u64| {
            number < files.count_min || number < files.count && start.elapsed() < files.time
        };
        let next = Arc::new(AtomicU64::new(0));
        let local = tokio::task::LocalSet::new();
        let makers: Vec<_> = (0..MAKERS_COUNT)
            .map(|_| {
                let (link, root) = (Arc::clone(link), Arc::clone(&self.root));
                let next = Arc::clone(&next);
                local.spawn_local(async move {
                    let mut made = Vec::new();
                    while is_wanted(next.load(Ordering::Relaxed)) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        made.push((number, create(&link, &root, number, unchecked()).await?));
                    }
                    Ok::<_, BenchError>(made)
                })
            })
            .collect();
        let mut made = Vec::new();
        local.block_on(&self.runtime, async {
            for maker in makers {
                made.extend(maker.await.expect("a maker does not panic")?);
            }
            Ok::<_, BenchError>(())
        })?;
        made.sort_by_key(|(number, _)| *number);
        Ok(made.into_iter().map(|(_, handle)| handle).collect())
    }

    fn asker(&self, index: usize) -> Asker {
        Asker {
            operation: self.operation,
            link: Arc::clone(&self.links[index % self.links.len()]),
            root: Arc::clone(&self.root),
            file: self.files.get(index).cloned(),
            name: file_name(index as u64),
            owner: format!("task {index}").into_bytes(),
            lock: None,
            next: Arc::clone(&self.next),
            reserved: None,
            is_changed: false,
            stock_end: self.stock_end,
        }
    }
}

fn links(
    server: &Server,
    form: Form,
    runtime: &Runtime,
    tasks_count: usize,
) -> Result<Vec<Arc<Link>>, BenchError> {
    if form == Form::Wire {
        let wire = |number| Ok(Arc::new(Link::wire(server, &Owner::numbered(number))?));
        return (0..tasks_count).map(wire).collect();
    }
    let clients_count = tasks_count.clamp(1, CLIENTS_COUNT);
    let slots = tasks_count.div_ceil(clients_count);
    let slots = u32::try_from(slots).unwrap_or(u32::MAX);
    runtime.block_on(async {
        let mut links = Vec::new();
        for number in 0..clients_count {
            let peer = Peer::mds(server, &Owner::numbered(number), slots).await?;
            links.push(Arc::new(Link::Session(peer)));
        }
        Ok(links)
    })
}

/// Twelve bytes, as the bare store's bucket has them.
fn file_name(number: u64) -> String {
    format!("file{number:08}")
}

/// OPEN, GETFH, CLOSE with the current stateid (RFC 8881 §16.2.3.1.2), in one COMPOUND.
async fn create(
    link: &Link,
    root: &FileHandle,
    number: u64,
    how: OpenHow<'static>,
) -> Result<FileHandle, BenchError> {
    let name = file_name(number);
    let build = |b: &mut CompoundBuilder| {
        push_open(b, root, &name, b"maker", how.clone());
        push_close(b, Stateid::CURRENT);
    };
    let take = |reply: &mut CompoundReply<'_>| {
        let file = take_open(reply)?;
        reply.take::<CloseRes>()?;
        Ok(file.handle)
    };
    link.call("create a file", build, take).await
}

/// One task: what it asks, of whom, about what.
struct Asker {
    operation: Operation,
    link: Arc<Link>,
    root: Arc<FileHandle>,
    file: Option<FileHandle>,
    name: String,
    owner: Vec<u8>,
    lock: Option<LockState>,
    next: Arc<AtomicU64>,
    /// The number of the file that it removes next.
    reserved: Option<u64>,
    /// Its file has the other mode, or the other name.
    is_changed: bool,
    stock_end: u64,
}

/// A file that is open for locking, and the locks on it once there was one.
struct LockState {
    file: OpenFile,
    stateid: Option<Stateid>,
}

impl Asker {
    /// A request over a socket, which blocks until its reply is there.
    fn ask_now(&mut self) -> Result<(), BenchError> {
        let asked = self.ask().now_or_never();
        asked.unwrap_or(Err(BenchError::Setting {
            name: "the client",
            must_be: "a socket that blocks",
        }))
    }

    async fn ask(&mut self) -> Result<(), BenchError> {
        match self.operation {
            Operation::Getattr => self.getattr().await,
            Operation::Lookup => self.lookup().await,
            Operation::OpenClose => {
                let file = self.open().await?;
                self.close(&file).await
            }
            Operation::Create => {
                let number = self.number();
                create(&self.link, &self.root, number, guarded())
                    .await
                    .map(drop)
            }
            Operation::Remove => self.remove().await,
            Operation::Setattr => self.setattr().await,
            Operation::Rename => self.rename().await,
            Operation::Readdir => self.readdir().await,
            Operation::Lock => self.lock_and_unlock().await,
        }
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    async fn getattr(&self) -> Result<(), BenchError> {
        let file = self.file.as_ref().expect("each task has a file");
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&file.0),
            });
            push_getattr(b);
        };
        let take = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            take_attributes(reply)
        };
        let mask = self.link.call("read attributes", build, take).await?;
        all_asked_for(mask)
    }

    async fn lookup(&self) -> Result<(), BenchError> {
        let root = &*self.root;
        let name = self.name.as_str();
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&root.0),
            });
            b.push(&LookupArgs {
                name: Opaque(name.as_bytes()),
            });
            b.push(&GetFhArgs {});
            push_getattr(b);
        };
        let take = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            reply.take::<LookupRes>()?;
            let found = reply.take::<GetFhRes<'_>>()?;
            let is_it = self
                .file
                .as_ref()
                .is_some_and(|file| file.0 == found.object.0);
            Ok((is_it, take_attributes(reply)?))
        };
        let (is_it, mask) = self.link.call("look a name up", build, take).await?;
        if !is_it {
            return Err(BenchError::nfs("look a name up")("another file was found"));
        }
        all_asked_for(mask)
    }

    async fn open(&self) -> Result<OpenFile, BenchError> {
        let root = &*self.root;
        let name = self.name.as_str();
        let owner = self.owner.as_slice();
        let build = |b: &mut CompoundBuilder| {
            push_open(b, root, name, owner, OpenHow::NoCreate);
        };
        self.link.call("open a file", build, take_open).await
    }

    async fn close(&self, file: &OpenFile) -> Result<(), BenchError> {
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&file.handle.0),
            });
            push_close(b, file.stateid);
        };
        let take = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            reply.take::<CloseRes>().map(drop)
        };
        self.link.call("close a file", build, take).await
    }

    async fn remove(&mut self) -> Result<(), BenchError> {
        let number = self.reserved.take().unwrap_or_else(|| self.number());
        let name = file_name(number);
        let root = &*self.root;
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&root.0),
            });
            b.push(&RemoveArgs {
                target: Opaque(name.as_bytes()),
            });
        };
        let take = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            reply.take::<RemoveRes>().map(drop)
        };
        self.link.call("remove a file", build, take).await
    }

    async fn setattr(&mut self) -> Result<(), BenchError> {
        let file = self.file.as_ref().expect("each task has a file");
        self.is_changed = !self.is_changed;
        let attrs = Fattr::new(&Attrs {
            mode: Some(if self.is_changed { 0o640 } else { 0o644 }),
            ..Attrs::default()
        });
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&file.0),
            });
            b.push(&SetAttrArgs {
                stateid: Stateid::ANONYMOUS,
                attrs: attrs.clone(),
            });
        };
        let take = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            reply.take::<SetAttrRes>().map(drop)
        };
        self.link.call("set a mode", build, take).await
    }

    async fn rename(&mut self) -> Result<(), BenchError> {
        let root = &*self.root;
        let names = [self.name.clone(), format!("{}-moved", self.name)];
        let (from, to) = match self.is_changed {
            false => (&names[0], &names[1]),
            true => (&names[1], &names[0]),
        };
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&root.0),
            });
            b.push(&SaveFhArgs {});
            b.push(&RenameArgs {
                old_name: Opaque(from.as_bytes()),
                new_name: Opaque(to.as_bytes()),
            });
        };
        let take = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            reply.take::<SaveFhRes>()?;
            reply.take::<RenameRes>().map(drop)
        };
        self.link.call("rename a file", build, take).await?;
        self.is_changed = !self.is_changed;
        Ok(())
    }

    async fn readdir(&self) -> Result<(), BenchError> {
        let root = &*self.root;
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&root.0),
            });
            b.push(&ReadDirArgs {
                cookie: 0,
                cookie_verifier: Verifier::default(),
                dircount: READDIR_BYTES,
                maxcount: READDIR_BYTES,
                attr_request: Bitmap::of(&[RDATTR_ERROR, MOUNTED_ON_FILEID]),
            });
        };
        let take = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            let names = reply.take::<ReadDirRes<'_>>()?;
            Ok((names.entries.len() as u64, names.eof))
        };
        let listed = self.link.call("list a directory", build, take).await?;
        if listed != (NAMES_COUNT, true) {
            return Err(BenchError::nfs("list a directory")("not all names came"));
        }
        Ok(())
    }

    async fn lock_and_unlock(&mut self) -> Result<(), BenchError> {
        let LockState { file, stateid } = match self.lock.take() {
            Some(state) => state,
            None => LockState {
                file: self.open().await?,
                stateid: None,
            },
        };
        let locker = match stateid {
            Some(lock_stateid) => Locker::Exist(ExistLockOwner {
                lock_stateid,
                lock_seqid: 0,
            }),
            None => Locker::New(OpenToLockOwner {
                open_seqid: 0,
                open_stateid: file.stateid,
                lock_seqid: 0,
                lock_owner: StateOwner {
                    clientid: ClientId::default(),
                    owner: Opaque(&self.owner),
                },
            }),
        };
        let locked = lock(&self.link, &file, locker).await?;
        let unlocked = unlock(&self.link, &file, locked).await?;
        self.lock = Some(LockState {
            file,
            stateid: Some(unlocked),
        });
        Ok(())
    }
}

/// Of a write lock on the first byte.
async fn lock(link: &Link, file: &OpenFile, locker: Locker<'_>) -> Result<Stateid, BenchError> {
    let build = |b: &mut CompoundBuilder| {
        b.push(&PutFhArgs {
            object: Opaque(&file.handle.0),
        });
        b.push(&LockArgs {
            lock_type: LockType::Write,
            reclaim: false,
            offset: 0,
            length: 1,
            locker,
        });
    };
    let take = |reply: &mut CompoundReply<'_>| {
        reply.take::<PutFhRes>()?;
        Ok(match reply.take::<LockRes<'_>>()? {
            LockRes::Ok(granted) => Some(granted.lock_stateid),
            LockRes::Denied(_) => None,
        })
    };
    let granted = link.call("lock a byte", build, take).await?;
    granted.ok_or_else(|| BenchError::nfs("lock a byte")("another holds it"))
}

async fn unlock(link: &Link, file: &OpenFile, stateid: Stateid) -> Result<Stateid, BenchError> {
    let build = |b: &mut CompoundBuilder| {
        b.push(&PutFhArgs {
            object: Opaque(&file.handle.0),
        });
        b.push(&LockUArgs {
            lock_type: LockType::Write,
            seqid: 0,
            lock_stateid: stateid,
            offset: 0,
            length: 1,
        });
    };
    let take = |reply: &mut CompoundReply<'_>| {
        reply.take::<PutFhRes>()?;
        Ok(reply.take::<LockURes>()?.lock_stateid)
    };
    link.call("unlock a byte", build, take).await
}

pub(crate) fn push_getattr(b: &mut CompoundBuilder) {
    b.push(&GetAttrArgs {
        attr_request: WANTED,
    });
}

pub(crate) fn take_attributes(reply: &mut CompoundReply<'_>) -> Result<Bitmap, OpError> {
    Ok(reply.take::<GetAttrRes<'_>>()?.attributes.mask)
}

pub(crate) fn all_asked_for(mask: Bitmap) -> Result<(), BenchError> {
    if mask != WANTED {
        return Err(BenchError::nfs("read attributes")("others than asked for"));
    }
    Ok(())
}

impl Asker {
    /// Whether there is no file left to remove. If there is one, it is this task's.
    fn has_nothing_left(&mut self) -> bool {
        if self.operation != Operation::Remove {
            return false;
        }
        let number = self.reserved.unwrap_or_else(|| self.number());
        self.reserved = Some(number);
        number >= self.stock_end
    }
}

impl Requester for Asker {
    fn request(&mut self) -> Result<u64, BenchError> {
        self.ask_now()?;
        Ok(0)
    }

    fn is_done(&mut self) -> bool {
        self.has_nothing_left()
    }
}

impl TaskRequester for Asker {
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
        Box::pin(async {
            self.ask().await?;
            Ok(0)
        })
    }

    fn is_done(&mut self) -> bool {
        self.has_nothing_left()
    }
}
