//! nfs-ganesha as a subject: the program of the distribution, on a file system of this machine, gone with its run.
//!
//! [`Ganesha`] starts `ganesha.nfsd` with a configuration of ours: NFSv4.1 and 4.2 over TCP on a free port of the loopback interface, one
//! export with `FSAL_VFS`, everything else as its authors chose it. It needs root (handles of the file system) and no rpcbind.
//!
//! [`older`] is the same program as a server of NFSv3, with an rpcbind of its own. [`gluster`] and [`moosefs`] are file systems that keep copies, each of several programs.
//!
//! # Ownership
//! A [`Ganesha`] owns the process and a folder with its configuration, its log, its records of clients and what it exports.
//!
//! # Failure
//! A program that does not get ready is an error with the last line of its log. It never outlives this process: the kernel kills it when
//! this process ends in any way (see [`exec`]).

pub(crate) mod gluster;
mod isolated;
pub(crate) mod moosefs;
pub(crate) mod older;

use crate::BenchError;
use crate::nfs::cluster;
use crate::process::{Launcher, cpu_of, last_line};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use transport::tcp::Reservation;

/// The program's name, and where packages put it beside the search path.
const PROGRAM: &str = "ganesha.nfsd";
const PROGRAM_DIRS: [&str; 3] = ["/usr/bin", "/usr/sbin", "/usr/local/bin"];
/// What to say when it is not there.
pub const HOW_TO_INSTALL: &str = "nfs-ganesha is not installed (Debian: apt-get install --no-install-recommends nfs-ganesha nfs-ganesha-vfs)";
/// A server that does not listen after this is an error, and how often it is tried.
const READY_MAX: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(20);

/// The package of its file system in memory, and where packages put the modules of file systems.
pub const HOW_TO_INSTALL_MEM: &str = "FSAL_MEM of nfs-ganesha is not installed (Debian: apt-get install --no-install-recommends nfs-ganesha-mem)";
const MODULE_DIRS: [&str; 2] = ["/usr/lib", "/usr/lib64"];
const MEM_MODULE: &str = "ganesha/libfsalmem.so";
/// The most that FSAL_MEM keeps of a file; it makes up what is read beyond.
pub const MEM_FILE_BYTES_MAX: u32 = 2 << 20;

/// Which of its file systems it exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsal {
    /// A folder, through handles of the kernel.
    Vfs {
        /// Whether a name is on the disk when its reply leaves. FSAL_VFS itself never waits for the disk when it creates or removes. With this the exported
        /// folder has the attribute that makes ext4 wait (`chattr +D`). What a SETATTR changes is still not waited for.
        is_durable: bool,
    },
    /// The memory of its process.
    Mem {
        /// What it keeps of each file.
        file_bytes: u32,
    },
}

impl Fsal {
    const fn name(self) -> &'static str {
        match self {
            Self::Vfs { .. } => "VFS",
            Self::Mem { .. } => "MEM",
        }
    }

    const fn is_durable(self) -> bool {
        matches!(self, Self::Vfs { is_durable: true })
    }
}

/// What to start.
#[derive(Debug, Clone)]
pub struct GaneshaOptions {
    /// How to start a child of this program.
    pub launcher: Launcher,
    /// The program.
    pub program: PathBuf,
    /// Where its folder is made: on the file system that it serves.
    pub dir: PathBuf,
    /// The file system.
    pub fsal: Fsal,
    /// Where it listens.
    pub listen: Ipv4Addr,
}

impl GaneshaOptions {
    /// What a reader must know to repeat a run.
    #[must_use]
    pub fn settings(&self) -> serde_json::Value {
        serde_json::json!({
            "program": self.program,
            "dir": self.dir,
            "file_system": crate::nfs::cluster::file_system(&self.dir),
            "fsal": self.fsal.name(),
            "dirsync": self.fsal.is_durable(),
        })
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        format!("nfs-ganesha {}", self.fsal.name())
    }
}

/// Where the program is; none when it is not installed.
#[must_use]
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(PROGRAM_DIRS.iter().map(PathBuf::from))
        .map(|dir| dir.join(PROGRAM))
        .find(|program| program.is_file())
}

/// Whether FSAL_MEM is installed.
#[must_use]
pub fn has_mem() -> bool {
    MODULE_DIRS.iter().map(Path::new).any(|dir| {
        let below = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let dirs = below.map(|entry| entry.path()).chain([dir.to_owned()]);
        { dirs }.any(|dir| dir.join(MEM_MODULE).is_file())
    })
}

/// A running server. Dropping it kills it and removes its folder: a measurement has nothing to save.
#[derive(Debug)]
pub struct Ganesha {
    child: Child,
    address: SocketAddr,
    // Its port, while it starts.
    _reservation: Reservation,
    // Removed last: the server writes into it until it is gone.
    dir: TempDir,
}

impl Ganesha {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// [`BenchError::Peer`] with the last line of its log, or [`BenchError::Io`].
    pub fn start(options: &GaneshaOptions) -> Result<Self, BenchError> {
        let dir =
            crate::own::folder(&options.dir).map_err(BenchError::io("make the peer's folder"))?;
        let files = Files::of(dir.path());
        files
            .make(options.fsal.is_durable())
            .map_err(BenchError::io("make the peer's folder"))?;
        let reserve = || {
            let reservation = Reservation::new((options.listen, 0).into())?;
            Ok((reservation.address()?, reservation))
        };
        let (address, reservation) = reserve().map_err(BenchError::io("find a free port"))?;
        std::fs::write(&files.config, config(&files, address, options.fsal))
            .map_err(BenchError::io("write the peer's configuration"))?;
        let output = File::create(&files.output).map_err(BenchError::io("make the peer's log"))?;
        let child = options
            .launcher
            .bound(&options.program)
            .args(files.arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .map_err(BenchError::io("start nfs-ganesha"))?;
        let mut peer = Self {
            child,
            address,
            _reservation: reservation,
            dir,
        };
        peer.wait_until_ready()?;
        Ok(peer)
    }

    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let end = Instant::now() + READY_MAX;
        loop {
            let ended = self
                .child
                .try_wait()
                .map_err(BenchError::io("wait for nfs-ganesha"))?;
            if ended.is_some() || Instant::now() >= end {
                let files = Files::of(self.dir.path());
                let logs = [&files.log, &files.output];
                let said = logs.into_iter().find_map(|log| last_line(log));
                let why = said.unwrap_or_else(|| "it ended without a word".to_owned());
                return Err(BenchError::Peer(why));
            }
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(READY_POLL);
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes the page cache forget what it exports: what it reads next comes from the disk, as far as its file system is on one.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub fn forget_cached(&self) -> Result<(), BenchError> {
        cluster::forget_cached(&Files::of(self.dir.path()).export)
            .map_err(BenchError::io("empty the page cache"))
    }

    /// User and system CPU time so far.
    ///
    /// # Errors
    /// [`BenchError::Io`] when the process is gone.
    pub fn cpu(&self) -> Result<Duration, BenchError> {
        cpu_of(&self.child.id().to_string())
    }
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        // Both fail only when it has gone by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Becomes `program`, which ends with the process that started this one. Returns only when that fails.
pub(crate) fn exec(program: &Path, arguments: &[OsString]) -> io::Error {
    match set_parent_process_death_signal(Some(Signal::KILL)) {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(e) => e.into(),
    }
}

/// Its files, all in one folder.
struct Files {
    config: PathBuf,
    log: PathBuf,
    pid: PathBuf,
    output: PathBuf,
    records: PathBuf,
    export: PathBuf,
}

impl Files {
    fn of(dir: &Path) -> Self {
        Self {
            config: dir.join("ganesha.conf"),
            log: dir.join("ganesha.log"),
            pid: dir.join("ganesha.pid"),
            output: dir.join("ganesha.out"),
            records: dir.join("records"),
            export: dir.join("export"),
        }
    }

    fn make(&self, is_durable: bool) -> io::Result<()> {
        std::fs::create_dir(&self.records)?;
        std::fs::create_dir(&self.export)?;
        if is_durable {
            let export = File::open(&self.export)?;
            ioctl_setflags(&export, ioctl_getflags(&export)? | IFlags::DIRSYNC)?;
        }
        Ok(())
    }

    /// In the foreground, with these files and no others.
    fn arguments(&self) -> [OsString; 7] {
        let Self {
            config, log, pid, ..
        } = self;
        [
            "-F".into(),
            "-f".into(),
            config.into(),
            "-L".into(),
            log.into(),
            "-p".into(),
            pid.into(),
        ]
    }
}

/// The whole configuration. The export is the root of the name space, so that requests are the same as to our own server. Without grace it
/// serves at once.
fn config(files: &Files, listen: SocketAddr, fsal: Fsal) -> String {
    format!(
        "NFS_CORE_PARAM {{
    Protocols = 4;
    Bind_addr = {address};
    NFS_Port = {port};
    Enable_UDP = false;
    Enable_NLM = false;
    Enable_RQUOTA = false;
}}
NFSV4 {{
    Minor_Versions = 1, 2;
    Graceless = true;
    RecoveryBackend = fs;
    RecoveryRoot = \"{records}\";
}}
EXPORT {{
    Export_Id = 1;
    Path = \"{export}\";
    Pseudo = \"/\";
    Protocols = 4;
    Transports = TCP;
    Access_Type = RW;
    Squash = None;
    SecType = sys;
    FSAL {{ Name = {fsal}; }}
}}
{module}LOG {{ Default_Log_Level = EVENT; }}
",
        address = listen.ip(),
        port = listen.port(),
        records = files.records.display(),
        export = files.export.display(),
        fsal = fsal.name(),
        module = module(fsal),
    )
}

/// What a file system has in the configuration beside its export.
fn module(fsal: Fsal) -> String {
    match fsal {
        Fsal::Vfs { .. } => String::new(),
        Fsal::Mem { file_bytes } => format!("MEM {{ Inode_Size = {file_bytes}; }}\n"),
    }
}

#[cfg(test)]
mod tests {
    //! What is asked of the program, and programs that are no servers.
    use super::*;

    fn options(program: &str, dir: &Path) -> GaneshaOptions {
        // A launcher that runs what stands behind `--`, as our own program does.
        let launcher = Launcher {
            program: "sh".into(),
            arguments: [
                "-c",
                "shift 2; program=$1; shift 2; exec \"$program\" \"$@\"",
                "sh",
            ]
            .map(OsString::from)
            .into(),
        };
        GaneshaOptions {
            launcher,
            program: program.into(),
            dir: dir.to_owned(),
            fsal: Fsal::Vfs { is_durable: false },
            listen: Ipv4Addr::LOCALHOST,
        }
    }

    #[test]
    fn a_program_that_is_no_server_is_an_error_with_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let said = |program| {
            let started = Ganesha::start(&options(program, dir.path()));
            started.unwrap_err().to_string()
        };
        assert!(said("true").contains("without a word"), "{}", said("true"));
        // `ls` knows not all of the options, and says so.
        assert!(said("ls").contains("ls"), "{}", said("ls"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn all_its_files_are_in_the_folder_and_it_listens_on_loopback() {
        let files = Files::of(Path::new("/there"));
        let at = SocketAddr::from(([127, 0, 0, 1], 4711));
        let text = config(&files, at, Fsal::Vfs { is_durable: true });
        let mem = config(&files, at, Fsal::Mem { file_bytes: 7 });
        assert!(text.contains("Name = VFS;") && !text.contains("MEM"));
        assert!(mem.contains("Name = MEM;") && mem.contains("MEM { Inode_Size = 7; }"));
        let quoted: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
        assert_eq!(quoted, ["/there/records", "/there/export", "/"]);
        assert!(text.contains("NFS_Port = 4711;") && text.contains("Bind_addr = 127.0.0.1;"));
        let paths = files
            .arguments()
            .into_iter()
            .filter(|word| !word.to_string_lossy().starts_with('-'));
        assert!(
            paths
                .into_iter()
                .all(|path| Path::new(&path).starts_with("/there"))
        );
    }
}
