//! Fetches what the harness needs and says where it is.
//!
//! Everyday tools (compiler, git, ip ...) are installed when they are missing, as the guest uses
//! those of the host. What would be invasive to install (a kernel, NFS daemons that start by
//! themselves) is only downloaded and unpacked below the harness's directory. Everything is done
//! once: a stamp file names the packages that an unpacked tree holds. Entry point: [`prepare`].

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Context, Failure, Result};
use super::process::{create, is_root, output};
use crate::tools::{self, Missing};

/// Packages that are unpacked, never installed, for every use of the harness.
const CLIENT_PACKAGES: &[&str] = &["user-mode-linux", "nfs-common", "rpcbind", "kmod"];

/// Packages that only the self-test unpacks: the server that is known to work.
const SERVER_PACKAGES: &[&str] = &["nfs-ganesha", "nfs-ganesha-vfs"];

/// Programs that the harness runs on this machine, whatever it is asked for.
const HOST_TOOLS: &[&str] = &[
    "dumpcap", "gcc", "ip", "mount", "nsenter", "ss", "taskset", "tshark", "unshare",
];

/// Programs of this machine that guest scripts run.
const GUEST_TOOLS: &[&str] = &["gcc", "git", "ip", "make", "mount", "python3", "ss", "tar"];

/// Where guests look for them (`vm/guest/init.sh`): not where this process does.
const GUEST_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A file without which gcc compiles little, and its package.
const HEADER: (&str, &str) = ("/usr/include/stdio.h", "libc6-dev");

/// Where the harness keeps its things unless `--dir` says otherwise: `target/vm`.
pub(crate) fn default_dir() -> PathBuf {
    workspace().join("target/vm")
}

/// The root of the workspace that this program was built from.
fn workspace() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// What makes standard output the first console of User Mode Linux, and the only one.
pub(crate) const UML_CONSOLES: [&str; 3] = ["con=null", "con0=null,fd:1", "ssl=null"];

/// Where the library of `vm/host/xstate.c` goes, below the unpacked client packages.
const XSTATE: &str = "harness/xstate.so";

/// The scripts of the workspace for the host's side.
pub(crate) fn host_scripts() -> PathBuf {
    workspace().join("vm/host")
}

/// The guest scripts of the workspace.
pub(crate) fn guest_scripts() -> PathBuf {
    workspace().join("vm/guest")
}

/// The unpacked tools: proof that [`prepare`] was run.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    dir: PathBuf,
}

impl Tools {
    /// The harness's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The unpacked client packages; the guest sees them at `/run/tools`.
    pub(crate) fn client_root(&self) -> PathBuf {
        self.dir.join("client")
    }

    /// The kernel that runs as a process.
    pub(crate) fn uml(&self) -> PathBuf {
        self.client_root().join("usr/bin/linux.uml")
    }

    /// The modules of that kernel: a folder for its version.
    pub(crate) fn uml_modules(&self) -> PathBuf {
        self.client_root().join("usr/lib/uml/modules")
    }

    /// A start of that kernel, whose first console is standard output.
    pub(crate) fn linux(&self) -> Command {
        let mut linux = Command::new(self.uml());
        linux.args(UML_CONSOLES);
        linux.env("LD_PRELOAD", self.xstate());
        linux
    }

    /// The library that User Mode Linux needs on processors with a large register state.
    pub(crate) fn xstate(&self) -> PathBuf {
        self.client_root().join(XSTATE)
    }

    /// Unpacks the self-test's server, if it is not there yet, and returns its root.
    pub(crate) fn server_root(&self) -> Result<PathBuf> {
        let _lock = lock(&self.dir)?;
        unpack(&self.dir, "server", SERVER_PACKAGES)
    }
}

/// Makes sure that everything is there, `more` programs among it. Needs root: later steps make namespaces and taps.
pub(crate) fn prepare(dir: &Path, more: &[&str]) -> Result<Tools> {
    if !is_root() {
        return Err(Failure::new(
            "the kernel-client harness needs root (network namespaces, taps, NFS mounts); \
             run it as root or with sudo",
        ));
    }
    if !Path::new("/dev/net/tun").exists() {
        return Err(Failure::new(
            "/dev/net/tun is missing; load the tun module or pass it in",
        ));
    }
    fs::create_dir_all(dir).context(|| format!("cannot create {}", dir.display()))?;
    let dir = dir
        .canonicalize()
        .context(|| format!("cannot resolve {}", dir.display()))?;
    let name = dir.display().to_string();
    if name.contains(|c: char| c.is_whitespace() || c == ',' || c == '"' || c == '\'') {
        return Err(Failure::new(format!(
            "{name} cannot be passed on a kernel command line; choose --dir without spaces, \
             commas or quotes"
        )));
    }
    let _lock = lock(&dir)?;
    install_missing(more)?;
    let client = unpack(&dir, "client", CLIENT_PACKAGES)?;
    link_modules(&client)?;
    compile_xstate(&client)?;
    prune_jobs(&dir)?;
    Ok(Tools { dir })
}

/// Serialises two harness commands that would unpack into the same directory.
pub(crate) fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let file = create(&path)?;
    file.lock()
        .context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// Installs what this machine lacks; an error names all that is still not there.
fn install_missing(more: &[&str]) -> Result<()> {
    let lacking = missing(more);
    if lacking.is_empty() {
        return Ok(());
    }
    let packages = tools::packages(&lacking);
    eprintln!("installing {}", packages.join(" "));
    let installed = apt(&["install", "-y", "--no-install-recommends"], &packages);
    judge_installed(&missing(more), installed)
}

fn judge_installed(lacking: &[Missing], installed: Result<()>) -> Result<()> {
    if lacking.is_empty() {
        return Ok(());
    }
    let why = match installed {
        Ok(()) => format!("the packages are installed: look at the PATH (of guests: {GUEST_PATH})"),
        Err(error) => format!("this was tried: {error}"),
    };
    Err(Failure::new(format!("{}\n{why}", tools::advice(lacking))))
}

/// What of the tools is not there, each once.
fn missing(more: &[&str]) -> Vec<Missing> {
    let mut missing = tools::missing(&[HOST_TOOLS, more].concat());
    missing.extend(tools::missing_in(GUEST_PATH.as_ref(), GUEST_TOOLS));
    let (path, package) = HEADER;
    if !Path::new(path).exists() {
        missing.push(Missing {
            name: path.to_owned(),
            package: Some(package),
        });
    }
    missing.sort_by(|one, other| one.name.cmp(&other.name));
    missing.dedup();
    missing
}

/// Downloads packages, and those that they need and the host has not, into a tree of their own.
pub(crate) fn unpack(dir: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let root = dir.join(name);
    let stamp = packages.join(" ");
    if fs::read_to_string(root.join(".packages")).is_ok_and(|found| found == stamp) {
        return Ok(root);
    }
    tools::need(&["apt-get", "dpkg-deb"]).map_err(Failure::new)?;
    eprintln!("fetching {stamp}");
    let (debs, fresh) = (
        dir.join(format!("{name}.debs")),
        dir.join(format!("{name}.new")),
    );
    for old in [&debs, &fresh, &root] {
        remove_tree(old)?;
    }
    for new in [&debs.join("partial"), &fresh] {
        fs::create_dir_all(new).context(|| format!("cannot create {}", new.display()))?;
    }
    let archives = format!("Dir::Cache::archives={}", debs.display());
    let download = [
        "install",
        "-y",
        "--reinstall",
        "--download-only",
        "--no-install-recommends",
        "-o",
        &archives,
    ];
    apt(&download, packages)?;
    for entry in fs::read_dir(&debs).context(|| format!("cannot list {}", debs.display()))? {
        let deb = entry
            .context(|| format!("cannot list {}", debs.display()))?
            .path();
        if deb.extension().is_some_and(|extension| extension == "deb") {
            output(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&fresh))?;
        }
    }
    let stamp_path = fresh.join(".packages");
    fs::write(&stamp_path, stamp).context(|| format!("cannot write {}", stamp_path.display()))?;
    // The stamp arrives with the tree: a run that was cut short leaves no tree, and starts again.
    fs::rename(&fresh, &root).context(|| format!("cannot rename to {}", root.display()))?;
    remove_tree(&debs)?;
    Ok(root)
}

/// Runs apt-get; fetches the package lists and tries once more when it fails.
fn apt(arguments: &[&str], packages: &[&str]) -> Result<()> {
    let run = || {
        output(
            Command::new("apt-get")
                .env("DEBIAN_FRONTEND", "noninteractive")
                .args(["-q", "-o", "APT::Sandbox::User=root"])
                .args(arguments)
                .args(packages),
        )
    };
    if run().is_ok() {
        return Ok(());
    }
    output(Command::new("apt-get").args(["-q", "update"]))?;
    run().map(drop)
}

/// Gives modprobe the layout that it expects (`lib/modules`), and a name that does not depend on where the tree is. The
/// package's own link to kmod is absolute.
fn link_modules(client: &Path) -> Result<()> {
    let links = [
        ("harness/lib/modules", "../../usr/lib/uml/modules"),
        ("harness/bin/modprobe", "../../bin/kmod"),
        ("harness/bin/insmod", "../../bin/kmod"),
    ];
    for (link, target) in links {
        let link = client.join(link);
        if link.symlink_metadata().is_ok() {
            continue;
        }
        let parent = link.parent().expect("every link has a parent directory");
        fs::create_dir_all(parent).context(|| format!("cannot create {}", parent.display()))?;
        symlink(target, &link).context(|| format!("cannot create {}", link.display()))?;
    }
    Ok(())
}

/// Compiles `vm/host/xstate.c`; each time, since it takes a moment and may have changed.
fn compile_xstate(client: &Path) -> Result<()> {
    let library = client.join(XSTATE);
    let fresh = library.with_extension("new");
    output(
        Command::new("gcc")
            .args([
                "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
            ])
            .arg(&fresh)
            .arg(workspace().join("vm/host/xstate.c")),
    )?;
    // A guest of another command may be about to load it.
    fs::rename(&fresh, &library).context(|| format!("cannot rename to {}", library.display()))
}

/// Removes what failed runs left for a look: job directories whose process is gone.
fn prune_jobs(dir: &Path) -> Result<()> {
    let jobs = dir.join("jobs");
    fs::create_dir_all(&jobs).context(|| format!("cannot create {}", jobs.display()))?;
    for entry in fs::read_dir(&jobs).context(|| format!("cannot list {}", jobs.display()))? {
        let entry = entry.context(|| format!("cannot list {}", jobs.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a tree that may not exist.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    //! What is told of tools that are not there.

    use super::*;

    #[test]
    fn what_cannot_be_installed_is_named_with_its_package() {
        let lacking = tools::missing_in("/no/such/folder".as_ref(), &["cpio", "tshark"]);
        let error = judge_installed(&lacking, Err(Failure::new("no network"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not found: cpio (package cpio), tshark (package tshark)\n\
             apt-get install cpio tshark\nthis was tried: no network"
        );
        let error = judge_installed(&lacking, Ok(())).unwrap_err();
        assert!(error.to_string().contains("look at the PATH"), "{error}");
        assert!(judge_installed(&[], Err(Failure::new("no network"))).is_ok());
    }

    #[test]
    fn every_tool_has_a_package() {
        let all = [HOST_TOOLS, GUEST_TOOLS, super::super::qemu::TOOLS].concat();
        let missing = tools::missing_in("/no/such/folder".as_ref(), &all);
        assert_eq!(missing.len(), all.len());
        assert!(
            missing.iter().all(|one| one.package.is_some()),
            "{missing:?}"
        );
        let packing = super::super::initrd::PROGRAMS;
        assert!(packing.iter().all(|name| all.contains(name)));
    }

    #[test]
    fn guests_look_where_their_first_program_says() {
        let init = fs::read_to_string(guest_scripts().join("init.sh")).unwrap();
        assert!(
            init.contains(&format!("PATH={GUEST_PATH} ")),
            "{GUEST_PATH}"
        );
    }
}
