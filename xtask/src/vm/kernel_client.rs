//! `cargo xtask vm kernel-client`: Ropewalk itself under a real Linux client, as CI runs it.
//!
//! Builds the `ropewalk` binary, starts `ropewalk up` in the namespace and runs every scenario, with kill -9 of the
//! metadata server among them. Ends with the closing line that the test command counts.

use super::error::{Context, Failure, Result};
use super::run::{self, RunArgs};
use crate::repo;
use std::path::{Path, PathBuf};

/// Data servers of the cluster.
const DS_COUNT: u32 = 4;

/// `cargo xtask vm kernel-client`.
#[derive(Debug, clap::Args)]
pub(crate) struct KernelClientArgs {
    #[command(flatten)]
    scenarios: run::ScenarioArgs,
}

/// Versions to mount with, and how many files the directory of `manyfiles` gets with each.
const PASSES: [(&str, u32); 2] = [("4.2", 20_000), ("4.1", 5_000)];

/// Runs the scenarios; `true` when every one passed.
pub(crate) fn kernel_client(dir: &Path, args: &KernelClientArgs) -> Result<bool> {
    let built = repo::cargo()
        .args(["build", "--release", "--locked", "--package", "ropewalk"])
        .status()
        .context(|| "cannot run cargo".to_owned())?;
    if !built.success() {
        return Err(Failure::new("ropewalk does not build".to_owned()));
    }
    let binary = release_binary()?;
    let (mut passed, mut failed) = (0, 0);
    for (vers, files) in PASSES {
        let state = dir.join(format!("state-{}-{vers}", std::process::id()));
        let server_cmd = format!(
            "exec {} up --ds {DS_COUNT} --dir {} --listen 192.0.2.1 --export 192.0.2.0/24:rw:none",
            binary.display(),
            state.display()
        );
        let scenarios = args.scenarios.with(vers, files);
        let outcomes = run::outcomes(
            dir,
            &RunArgs::of_ropewalk(server_cmd, state.clone(), DS_COUNT, scenarios),
        )?;
        let bad = outcomes.iter().filter(|o| o.is_failure()).count();
        failed += bad;
        passed += outcomes.len() - bad;
        if bad == 0 {
            let _done = std::fs::remove_dir_all(&state);
        } else {
            println!("the cluster's logs: {}/*/log", state.display());
        }
    }
    println!("{passed} passed, {failed} failed, 0 skipped");
    Ok(failed == 0)
}

/// Where cargo has put the binary: beside this program's own folder.
fn release_binary() -> Result<PathBuf> {
    let me = std::env::current_exe().context(|| "cannot find this program".to_owned())?;
    let target = me.ancestors().nth(2).unwrap_or(Path::new("target"));
    Ok(target.join("release/ropewalk"))
}
