//! A cluster on the host that the guest's kernel mounts with `proto=rdma`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::capture::Recorder;
use super::super::cluster;
use super::super::error::{Context, Result};
use super::super::guest::Guest;
use super::super::hosted::await_cluster;
use super::super::net::{Net, SERVER_IP};
use super::super::prepare::remove_tree;
use super::super::program::ropewalk;
use super::super::qemu::Qemu;
use super::super::run::new_log;
use super::super::scenario::{Outcome, judge_single};
use super::super::server::{Server, tail};
use super::decode;

/// The port of NFS over RDMA (RFC 8267 §9).
const RDMA_PORT: u16 = 20049;

/// Data servers; a file is striped over them.
const DS_COUNT: u16 = 2;

/// How long the guest may take; it ends a hang and measures nothing.
const GUEST_LIMIT: Duration = Duration::from_secs(600);

/// How the guest's data travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// To the data servers.
    ByLayout,
    /// To the MDS: a client without a layout driver, and bulk data over the connection of the mount.
    ByMds,
}

/// `ropewalk up` with software iWARP, on the address that guests reach.
pub(super) struct Cluster<'a> {
    net: &'a Net,
    qemu: &'a Qemu,
    server: Server,
    dir: PathBuf,
    log: PathBuf,
}

impl<'a> Cluster<'a> {
    /// Starts `program`, or one that is built now.
    pub(super) fn start(net: &'a Net, qemu: &'a Qemu, program: Option<&Path>) -> Result<Self> {
        let program = ropewalk(program)?;
        let dir = qemu
            .tools()
            .dir()
            .join(format!("siw-{}", std::process::id()));
        let log = new_log(qemu.tools())?;
        let command = format!(
            "exec {} up --ds {DS_COUNT} --dir {} --transport rdma --listen {SERVER_IP} --export 192.0.2.0/24:rw:none",
            program.display(),
            dir.display()
        );
        let server = Server::start(net, &command, &log, RDMA_PORT)?;
        await_cluster(&cluster::Cluster::new(server.pid(), &dir))?;
        Ok(Self {
            net,
            qemu,
            server,
            dir,
            log,
        })
    }

    /// Mounts it in a guest with this version; what is said is recorded and decoded.
    pub(super) fn mount(&self, vers: &str, data: Data, echo: bool) -> Result<Outcome> {
        let started = Instant::now();
        let (what, layouts, transport) = match data {
            Data::ByLayout => ("nfs", "yes", "rdma"),
            Data::ByMds => ("nfs-by-mds", "no", "none"),
        };
        let name = format!("logs/siw-{}-{what}-{vers}.pcapng", std::process::id());
        let file = self.qemu.tools().dir().join(name);
        let recorder = Recorder::start(self.net, &file)?;
        let run = Guest::under_qemu(self.net, self.qemu)
            .script("siw/nfs.sh")
            .env("PORT", RDMA_PORT)
            .env("PROTO", "rdma")
            .env("DATA", transport)
            .env("LAYOUTS", layouts)
            .env("VERS", vers)
            .env("EXPORT", "/")
            .env("MNT", "/mnt/a")
            .timeout(GUEST_LIMIT)
            .echo(echo)
            .run()?;
        recorder.stop()?;
        let mut outcome = judge_single(&run, vers, "nfs", started.elapsed());
        outcome.name = format!("{what} {vers}");
        if outcome.failure.is_none() {
            outcome.failure = decode::judge_file(&file)?;
        }
        if outcome.failure.is_none() {
            fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
        } else {
            println!("the capture: {}\n{}", file.display(), tail(&self.log, 15));
        }
        Ok(outcome)
    }

    /// Ends it; a failure leaves its files.
    pub(super) fn stop(self, failed: bool) -> Result<()> {
        self.server.stop()?;
        if failed {
            println!("the cluster's logs: {}/*/log", self.dir.display());
            return Ok(());
        }
        remove_tree(&self.dir)
    }
}
