//! Creates with a layout, by the servers that have the objects of the file: NFSv3 servers of others, or data servers of the cluster.
//!
//! A request is OPEN of a new file and LAYOUTGET for writing. The reply to LAYOUTGET names an object at each server, so all of
//! them are there by then at NFSv3 servers. LAYOUTRETURN and CLOSE follow, and a pause; they are no part of the latency. The
//! pause lets the metadata server make objects ahead: a client that never waits takes them faster than they are made.
//!
//! The NFSv3 servers are clusters of the same program with one data server each, in memory, that speak NFSv3.
//!
//! May call: [`super::client`], [`super::cluster`]. It does no I/O at the servers that a layout names.

use crate::load::{self, Load, TaskRequester};
use crate::nfs::client::{OpenFile, Owner, Peer};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::nfs::server::Transport;
use crate::{BenchError, Sample, Subject, interrupt};
use layout::LayoutKind;
use nfs4::attr::{FILES_FREE, FILES_TOTAL};
use nfs4::flex_files::FlexLayout;
use nfs4::layout::LENGTH_TO_EOF;
use nfs4::ops::{
    GetAttrArgs, GetAttrRes, GetFhArgs, GetFhRes, LayoutGetArgs, LayoutGetRes, LookupArgs,
    LookupRes, PutFhArgs, PutFhRes,
};
use nfs4::{Bitmap, FileHandle, IoMode, OpError, Stateid};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use xdr::Opaque;

/// The directory that the files are made in.
const DIR: &str = "made";
/// What an NFSv3 server exports.
const EXPORT: &str = "/";
/// Requests of a session at one time.
const SLOTS: u32 = 64;
/// Most bytes of a layout.
const LAYOUT_BYTES_MAX: u32 = 64 * 1024;
/// How long a client waits before the next create.
const PAUSE: Duration = Duration::from_millis(20);
/// A server has what is made ahead when it gets no more files for this long; how often it is asked, and until when. The metadata
/// server looks about every second for pools that are low.
const QUIET: Duration = Duration::from_millis(2500);
const QUIET_POLL: Duration = Duration::from_millis(50);
const QUIET_MAX: Duration = Duration::from_secs(120);

/// Which servers have the objects of a file, and when they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// NFSv3 servers of others, before OPEN is answered: as the published system does it.
    Eager,
    /// NFSv3 servers of others, ahead of the files.
    Ahead,
    /// Data servers of the cluster, by the first write.
    Own,
}

impl Objects {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "nfs3 servers, eager",
            Self::Ahead => "nfs3 servers, made ahead",
            Self::Own => "own data servers",
        }
    }

    const fn kind(self) -> LayoutKind {
        match self {
            Self::Eager | Self::Ahead => LayoutKind::FlexFiles,
            Self::Own => LayoutKind::Files,
        }
    }
}

/// Creates with a layout as a subject.
#[derive(Debug, Clone)]
pub struct ForeignCreates {
    /// The cluster; how many servers have the data is said apart.
    pub cluster: ClusterOptions,
    /// Servers that each file lies on.
    pub servers_count: u16,
    /// Who they are.
    pub objects: Objects,
}

impl ForeignCreates {
    /// The metadata server and its own data servers.
    fn mds(&self) -> ClusterOptions {
        ClusterOptions {
            is_eager: self.objects == Objects::Eager,
            ds_count: match self.objects {
                Objects::Own => self.servers_count,
                Objects::Eager | Objects::Ahead => 1,
            },
            ..self.cluster.clone()
        }
    }

    /// One NFSv3 server.
    fn other(&self) -> ClusterOptions {
        let all = ClusterOptions::new(self.cluster.program.clone(), self.cluster.dir.clone());
        ClusterOptions {
            speaks_nfs3: true,
            ..all
        }
    }

    fn others_count(&self) -> u16 {
        match self.objects {
            Objects::Own => 0,
            Objects::Eager | Objects::Ahead => self.servers_count,
        }
    }

    /// What `ropewalk layout set` is told for the directory.
    fn layout(&self) -> Vec<String> {
        let mut words = vec![format!("--stripes={}", self.servers_count)];
        match self.objects {
            // As at the others, no file lies in the metadata store.
            Objects::Own => words.push("--inline-max=0".to_owned()),
            Objects::Eager | Objects::Ahead => {
                words.extend(["--servers=nfs3", "--mirrors=1"].map(str::to_owned));
            }
        }
        words
    }

    /// A directory whose files lie on all of the servers.
    fn prepare(&self, cluster: &Cluster, others: &[Cluster]) -> Result<(), BenchError> {
        for other in others {
            let address = other.server().address;
            let target = format!("{}:{EXPORT}", address.ip());
            let port = address.port();
            let ports = [format!("--port={port}"), format!("--mount-port={port}")];
            let order = ["ds", "add-nfs3", &target, &ports[0], &ports[1]];
            cluster.tell(&self.cluster.program, &order)?;
            interrupt::check()?;
        }
        let url = format!("nfs://{}/{DIR}", cluster.server().address);
        self.order(&["mkdir", &url])?;
        let layout = self.layout();
        let mut order = vec!["layout", "set", &url];
        order.extend(layout.iter().map(String::as_str));
        self.order(&order)
    }

    /// Runs a command of the client.
    fn order(&self, order: &[&str]) -> Result<(), BenchError> {
        let output = Command::new(&self.cluster.program)
            .args(order)
            .stdin(Stdio::null())
            .output()
            .map_err(BenchError::io("give the cluster an order"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                let order = order.join(" ");
                Err(BenchError::Cluster(format!("{order}: {}", said.trim())))
            }
        }
    }
}

impl Subject for ForeignCreates {
    fn name(&self) -> String {
        format!("{} {}", self.servers_count, self.objects.name())
    }

    fn settings(&self) -> Value {
        json!({
            "objects": self.objects.name(),
            "servers": self.servers_count,
            "pause_ms": PAUSE.as_millis(),
            "cluster": self.mds().settings(),
            "nfs3_server": (self.others_count() > 0).then(|| self.other().settings()),
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        if self.cluster.transport != Transport::Tcp {
            return Err(BenchError::Setting {
                name: "the transport",
                must_be: "TCP, which NFSv3 servers speak",
            });
        }
        let cluster = Cluster::start(&self.mds())?;
        let mut others = Vec::new();
        for _ in 0..self.others_count() {
            others.push(Cluster::start(&self.other())?);
        }
        self.prepare(&cluster, &others)?;
        let runtime = load::runtime()?;
        let shared = runtime.block_on(Shared::connect(&cluster, &others, self))?;
        let shared = Rc::new(shared);
        let make = |index| {
            let maker = Maker {
                shared: Rc::clone(&shared),
                index,
                next: 0,
                made: None,
                failure: None,
            };
            Ok(Box::new(maker) as Box<dyn TaskRequester>)
        };
        load::drive_tasks_on(&runtime, load, make, &|| {
            let all = [&cluster].into_iter().chain(&others);
            all.map(Cluster::cpu).sum()
        })
    }
}

/// The session, and where files are made.
struct Shared {
    mds: Peer,
    dir: FileHandle,
    kind: LayoutKind,
}

impl Shared {
    /// Connects, and makes a file at each group of servers: its layout must name all of them.
    async fn connect(
        cluster: &Cluster,
        others: &[Cluster],
        creates: &ForeignCreates,
    ) -> Result<Self, BenchError> {
        let mds = Peer::mds(cluster.server(), &Owner::new(), SLOTS).await?;
        let root = mds.root().await?;
        let dir = look_up(&mds, &root, DIR).await?;
        let kind = creates.objects.kind();
        let shared = Self { mds, dir, kind };
        // There are as many groups as servers: each is the first of one.
        for number in 0..creates.servers_count {
            let name = format!("first-{number}");
            let made = shared.make(&name).await?;
            let on = match kind {
                LayoutKind::FlexFiles => servers_of(&made.layout)?,
                LayoutKind::Files => shared.mds.map(&made.file, None).await?.servers.len(),
            };
            if on != usize::from(creates.servers_count) {
                let all = creates.servers_count;
                let why = format!("a file lies on {on} of {all} servers");
                return Err(BenchError::Cluster(why));
            }
            shared.close(made).await?;
        }
        if let (Objects::Ahead, Some(other)) = (creates.objects, others.last()) {
            wait_until_quiet(other).await?;
        }
        Ok(shared)
    }

    async fn make(&self, name: &str) -> Result<Made, BenchError> {
        let (mds, dir) = (&self.mds, &self.dir);
        let file = mds.create(dir, name, name.as_bytes()).await?;
        let (stateid, layout) = layout_get(mds, &file, self.kind).await?;
        Ok(Made {
            file,
            stateid,
            layout,
        })
    }

    /// LAYOUTRETURN and CLOSE.
    async fn close(&self, made: Made) -> Result<(), BenchError> {
        self.mds
            .return_and_close(&made.file, self.kind.number(), made.stateid)
            .await
    }
}

/// A file that is open, and its layout.
struct Made {
    file: OpenFile,
    stateid: Stateid,
    layout: Vec<u8>,
}

async fn look_up(mds: &Peer, dir: &FileHandle, name: &str) -> Result<FileHandle, BenchError> {
    let sent = mds.run(|b| {
        b.push(&PutFhArgs {
            object: Opaque(&dir.0),
        });
        b.push(&LookupArgs {
            name: Opaque(name.as_bytes()),
        });
        b.push(&GetFhArgs {});
    });
    let done = sent.await?;
    let found = || {
        let mut reply = done.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<LookupRes>()?;
        Ok(FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0))
    };
    found().map_err(BenchError::nfs::<OpError>("find a directory"))
}

/// LAYOUTGET of the whole file for writing: its stateid and its body.
async fn layout_get(
    mds: &Peer,
    file: &OpenFile,
    kind: LayoutKind,
) -> Result<(Stateid, Vec<u8>), BenchError> {
    let sent = mds.run(|b| {
        b.push(&PutFhArgs {
            object: Opaque(&file.handle.0),
        });
        b.push(&LayoutGetArgs {
            signal_layout_avail: false,
            layout_type: kind.number(),
            iomode: IoMode::Rw,
            offset: 0,
            length: LENGTH_TO_EOF,
            minlength: 0,
            stateid: file.stateid,
            maxcount: LAYOUT_BYTES_MAX,
        });
    });
    let done = sent.await?;
    let doing = "get a layout";
    let fail = BenchError::nfs::<OpError>(doing);
    let mut reply = done.results().map_err(&fail)?;
    reply.take::<PutFhRes>().map_err(&fail)?;
    let granted = match reply.take::<LayoutGetRes<'_>>().map_err(&fail)? {
        LayoutGetRes::Ok(granted) => granted,
        LayoutGetRes::TryLater { .. } => {
            return Err(BenchError::nfs(doing)("the server says: later"));
        }
    };
    let segment = granted.layouts.0.first();
    let segment = segment.ok_or_else(|| BenchError::nfs(doing)("no segment"))?;
    Ok((granted.stateid, segment.body.0.to_vec()))
}

/// Servers that a flexible files layout names, each once.
fn servers_of(layout: &[u8]) -> Result<usize, BenchError> {
    let body: FlexLayout = xdr::decode_all(layout).map_err(BenchError::nfs("read a layout"))?;
    let servers = body.mirrors.0.iter().flat_map(|m| &m.data_servers.0);
    let devices: BTreeSet<_> = servers.map(|server| server.device_id.bytes).collect();
    Ok(devices.len())
}

/// Waits until a server has got all files that are made ahead on it.
async fn wait_until_quiet(other: &Cluster) -> Result<(), BenchError> {
    let peer = Peer::mds(other.server(), &Owner::numbered(1), 1).await?;
    let root = peer.root().await?;
    let (begun, mut changed) = (Instant::now(), Instant::now());
    let mut seen = files_of(&peer, &root).await?;
    while changed.elapsed() < QUIET {
        if begun.elapsed() > QUIET_MAX {
            let why = "objects are still being made ahead after two minutes";
            return Err(BenchError::Cluster(why.to_owned()));
        }
        tokio::time::sleep(QUIET_POLL).await;
        let now = files_of(&peer, &root).await?;
        if now != seen {
            (seen, changed) = (now, Instant::now());
        }
    }
    peer.end().await
}

/// Files that a server has.
async fn files_of(peer: &Peer, root: &FileHandle) -> Result<u64, BenchError> {
    let sent = peer.run(|b| {
        b.push(&PutFhArgs {
            object: Opaque(&root.0),
        });
        b.push(&GetAttrArgs {
            attr_request: Bitmap::of(&[FILES_FREE, FILES_TOTAL]),
        });
    });
    let done = sent.await?;
    let told = || {
        let mut reply = done.results()?;
        reply.take::<PutFhRes>()?;
        Ok(reply.take::<GetAttrRes<'_>>()?.attributes.attrs())
    };
    let doing = "count files";
    let told = told().map_err(BenchError::nfs::<OpError>(doing))?;
    let told = told.map_err(BenchError::nfs(doing))?;
    let (all, free) = (told.files_total, told.files_free);
    Ok(all.unwrap_or(0).saturating_sub(free.unwrap_or(0)))
}

struct Maker {
    shared: Rc<Shared>,
    index: usize,
    next: u64,
    made: Option<Made>,
    /// What came of the last close, where it failed.
    failure: Option<BenchError>,
}

impl TaskRequester for Maker {
    fn request(&mut self) -> Pin<Box<dyn Future<Output = Result<u64, BenchError>> + '_>> {
        Box::pin(async {
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            let name = format!("{:04}-{:08}", self.index, self.next);
            self.next += 1;
            self.made = Some(self.shared.make(&name).await?);
            Ok(0)
        })
    }

    fn afterwards(&mut self) -> Option<Pin<Box<dyn Future<Output = ()> + '_>>> {
        let made = self.made.take()?;
        Some(Box::pin(async {
            self.failure = self.shared.close(made).await.err();
            tokio::time::sleep(PAUSE).await;
        }))
    }
}
