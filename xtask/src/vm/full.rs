//! The host's part of `full`. It has the small disk of the store, fills what the server leaves of it, and copies files
//! in with the server's own program while there is no room.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::cluster::{Cluster, await_state};
use super::error::{Context, Failure, Result};
use super::hosted::{Finding, Stage};
use super::net::SERVER_IP;
use super::process::output;

/// Size of the disk in MiB. The data servers leave 256 of it to metadata and indices (and take no new file in an eighth
/// of the rest). The metadata store refuses at 128, and everything at 64.
pub(crate) const DISK_MIB: u64 = 512;

/// Free room when the metadata store only takes removals, MiB.
const TIGHT_MIB: u64 = 96;

/// Size of the files that are copied in, MiB: more than a full store has left, and less than an empty one.
const COPY_MIB: usize = 48;

/// What `ropewalk up` says of an MDS that could not start.
const REFUSED: &str = "mds ended (exit status: 1)";

/// Largest piece in which the disk is filled.
const BALLAST_CHUNK_BYTES: u64 = 1 << 20;

/// Plays the host.
pub(crate) fn full(stage: &mut Stage<'_>) -> Result<Finding> {
    let cluster = stage.cluster()?;
    let ballast = cluster.dir().join("ballast");
    let played = play(stage, &cluster, &ballast);
    // The next scenario finds the room that it needs.
    let _gone = fs::remove_file(&ballast);
    played
}

fn play(stage: &mut Stage<'_>, cluster: &Cluster, ballast: &Path) -> Result<Finding> {
    if !stage.guest.await_signal("filled")? {
        return Ok(None);
    }
    let said = match copy(stage, cluster, "full")? {
        Ok(()) => return Ok(Some("a file was copied into a full store".to_owned())),
        Err(said) => said,
    };
    if !said.contains("no space left") {
        return Ok(Some(format!("cp into a full store said: {said}")));
    }
    stage.guest.signal("copied")?;
    if !stage.guest.await_signal("roomy")? {
        return Ok(None);
    }
    // What the guest removed last may not have left the data servers yet.
    await_state("cp into a store with room did not work", || {
        Ok(copy(stage, cluster, "roomy")?.is_ok())
    })?;
    stage.guest.signal("copied again")?;
    if !stage.guest.await_signal("tight")? {
        return Ok(None);
    }
    fill(ballast, TIGHT_MIB << 20)?;
    stage.guest.signal("tightened")?;
    // The guest asks again when the stores have given room back meanwhile.
    let mut brim = 0;
    loop {
        let words = [format!("brim{brim}"), "kill".to_owned()];
        match stage.guest.await_any(&words)? {
            Some(0) => fill(ballast, 0)?,
            Some(_) => break,
            None => return Ok(None),
        }
        stage.guest.signal(&format!("brimful{brim}"))?;
        brim += 1;
    }
    // It cannot start while the disk is full, and must not need a person when it no longer is.
    let old = cluster.signal("mds", "KILL")?;
    await_state("the MDS did not refuse a full disk", || {
        Ok(stage.victim.words().contains(REFUSED))
    })?;
    fs::remove_file(ballast).context(|| format!("cannot remove {}", ballast.display()))?;
    cluster.await_restart("mds", old)?;
    stage.guest.signal("room")?;
    Ok(None)
}

/// Copies a file in with the program that the cluster runs, and removes it again; its words when it fails.
fn copy(
    stage: &Stage<'_>,
    cluster: &Cluster,
    name: &str,
) -> Result<std::result::Result<(), String>> {
    let program = PathBuf::from(format!("/proc/{}/exe", cluster.pid("mds")?));
    let port = stage.settings.port;
    let (source, url) = (
        stage.net.scratch().join(name),
        format!("nfs://{SERVER_IP}:{port}/{name}"),
    );
    let unable = || format!("cannot write {}", source.display());
    fs::write(&source, vec![7; COPY_MIB << 20]).context(unable)?;
    let run = |arguments: &[&str]| {
        let program = program.to_string_lossy();
        output(stage.net.command(&program).args(arguments))
    };
    let copied = run(&["cp", &source.to_string_lossy(), &url]);
    fs::remove_file(&source).context(unable)?;
    // Nothing is left to remove when not even the file could be made.
    let removed = run(&["rm", &url]);
    Ok(match copied {
        Ok(_) => {
            removed?;
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    })
}

/// Writes to the file until its disk has this much room.
fn fill(ballast: &Path, free_bytes: u64) -> Result<()> {
    let unable = || format!("cannot write {}", ballast.display());
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(ballast)
        .context(unable)?;
    loop {
        let excess = free(ballast)?.saturating_sub(free_bytes);
        let chunk = excess.min(BALLAST_CHUNK_BYTES);
        if chunk == 0 {
            return Ok(());
        }
        let chunk = vec![1; usize::try_from(chunk).expect("at most a chunk")];
        match file.write_all(&chunk) {
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Ok(()),
            done => done.context(unable)?,
        }
    }
}

/// Free bytes of the file system that a path is on.
fn free(path: &Path) -> Result<u64> {
    let text = output(
        std::process::Command::new("stat")
            .args(["-f", "-c", "%a %S"])
            .arg(path),
    )?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    match numbers[..] {
        [blocks, block_bytes] => Ok(blocks * block_bytes),
        _ => Err(Failure::new(format!("stat -f says {text}"))),
    }
}
