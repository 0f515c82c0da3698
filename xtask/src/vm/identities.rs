//! The host's part of `identities`: a name service of the MDS's own, `manage_gids`, and a domain for owners' names.
//!
//! The users are bound over /etc/passwd and /etc/group in the mount namespace of the server, which no other process is
//! in. `ip netns exec` gives each command one. Entry point: [`identities`].

use std::fs;
use std::path::Path;
use std::process::Command;

use super::capture::{Recorder, ports};
use super::cluster::Cluster;
use super::error::{Context, Failure, Result};
use super::hosted::{Finding, Stage};
use super::process::output;

/// `ann` and her groups; the guest's part knows the numbers too.
const ANN: u32 = 5000;
const GROUPS: std::ops::RangeInclusive<u32> = 5001..=5040;

/// What clients are told with the domain of the guest.
const NAMES: [&str; 2] = ["ann@example.org", "g5040@example.org"];

/// Gives the MDS users and settings, plays, and takes them away again.
pub(crate) fn identities(stage: &mut Stage<'_>) -> Result<Finding> {
    let cluster = stage.cluster()?;
    if !stage.guest.await_signal("made")? {
        return Ok(None);
    }
    let users = Users::bind(&cluster, stage.net.scratch())?;
    let before = cluster.configure("mds", &[("manage_gids", "true")])?;
    let played = play(stage, &cluster);
    users.unbind()?;
    cluster.restart_with("mds", &before)?;
    played
}

fn play(stage: &mut Stage<'_>, cluster: &Cluster) -> Result<Finding> {
    stage.guest.signal("managed")?;
    if !stage.guest.await_signal("seen")? {
        return Ok(None);
    }
    cluster.configure("mds", &[("domain", "\"example.org\"")])?;
    let name = format!("logs/identities-{}.pcapng", std::process::id());
    let file = stage.tools.dir().join(name);
    let recorder = Recorder::start(stage.net, &file)?;
    stage.guest.signal("named")?;
    let over = stage.guest.await_signal("over")?;
    recorder.stop()?;
    if !over {
        return Ok(None);
    }
    let owners = owners(&file, &ports(Some(cluster))?)?;
    let missing = NAMES.iter().find(|name| !owners.contains(**name));
    if missing.is_none() {
        fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(missing.map(|name| format!("{name} is not on the wire, in {}", file.display())))
}

/// The owners and groups that the recorded replies and requests name.
fn owners(file: &Path, ports: &[String]) -> Result<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-T", "fields"]);
    command.args(["-Y", "nfs.fattr4_owner"]);
    command.args(["-e", "nfs.fattr4_owner", "-e", "nfs.fattr4_owner_group"]);
    for port in ports {
        command.args(["-d", &format!("tcp.port=={port},rpc")]);
    }
    output(&mut command)
}

/// Files of the MDS's view of /etc.
struct Users {
    pid: String,
    files: [&'static str; 2],
}

impl Users {
    /// Adds `ann` and her groups to the users of this machine, for the servers of the cluster alone.
    fn bind(cluster: &Cluster, scratch: &Path) -> Result<Self> {
        let pid = cluster.pid("mds")?;
        let namespace = |pid: &str| {
            let path = format!("/proc/{pid}/ns/mnt");
            fs::read_link(&path).context(|| format!("cannot read {path}"))
        };
        if namespace(&pid.to_string())? == namespace("self")? {
            return Err(Failure::new(
                "the server shares its mounts with this machine",
            ));
        }
        // The MDS is killed, and whoever starts it again is in the same namespace.
        let parent = parent(pid)?;
        let users = Self {
            pid: parent.to_string(),
            files: ["/etc/passwd", "/etc/group"],
        };
        let ann = format!("ann:x:{ANN}:{ANN}::/:/bin/sh\n");
        let own = [format!("ann:x:{ANN}:\n")];
        let groups = own
            .into_iter()
            .chain(GROUPS.map(|gid| format!("g{gid}:x:{gid}:ann\n")));
        for (file, more) in users.files.into_iter().zip([ann, groups.collect()]) {
            let unable = || format!("cannot make another {file}");
            let text = fs::read_to_string(file).context(unable)?;
            let name = Path::new(file).file_name().expect("a file has a name");
            let copy = scratch.join(name);
            fs::write(&copy, text + &more).context(unable)?;
            users.run(&["mount", "--bind", &copy.to_string_lossy(), file])?;
        }
        Ok(users)
    }

    fn unbind(&self) -> Result<()> {
        self.files
            .iter()
            .try_for_each(|file| self.run(&["umount", file]))
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("nsenter");
        output(
            command
                .args(["--mount", "--target", &self.pid])
                .args(arguments),
        )
        .map(drop)
    }
}

/// The process that started another.
fn parent(pid: u32) -> Result<u32> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.and_then(|pid| pid.trim().parse().ok())
        .ok_or_else(|| Failure::new(format!("{path} names no parent")))
}
