//! The repository that this program was built from: its root, its tracked files, its packages.
//!
//! Everything is asked of git and cargo, so that ignored and generated files never count.

use crate::tools;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The result of a command: the error is the sentence that the terminal shows.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// The top folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let parent = manifest.parent();
    parent
        .expect("xtask lies in the workspace's folder")
        .to_path_buf()
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| root().join("target"))
}

/// The cargo that started us, or the one on the path.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// What `command` printed, when it succeeded.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| {
        let hint = tools::hint(command.get_program(), &e);
        format!("cannot run {name}: {e}{hint}")
    })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed: {}", text.trim()));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name} printed what is not UTF-8"))
}

/// Paths of the tracked files, relative to the root, sorted. Files that are new but not ignored
/// count too, so that a mistake shows before its commit.
pub(crate) fn files() -> Result<Vec<String>> {
    let list = output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others"])
            .arg("--exclude-standard")
            .current_dir(root()),
    )?;
    let mut files: Vec<String> = list
        .split('\0')
        .filter(|path| !path.is_empty() && root().join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// The text of a file of the repository.
pub(crate) fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(root().join(path)).map_err(|e| format!("cannot read {path}: {e}"))
}

/// An empty folder at `path`.
pub(crate) fn clear(path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_dir_all(path).map_err(unable(path))?;
    }
    std::fs::create_dir_all(path).map_err(unable(path))
}

/// Writes a file, and makes the folders that it is in.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(unable(folder))?;
    }
    std::fs::write(path, content).map_err(unable(path))
}

/// An error with the path that it is about.
pub(crate) fn unable<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Prints the problems of a check and turns them into its verdict.
pub(crate) fn verdict(check: &str, problems: &[String]) -> Result<()> {
    for problem in problems {
        println!("{check}: {problem}");
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err(format!("{check}: 1 problem")),
        n => Err(format!("{check}: {n} problems")),
    }
}
