//! Which file goes where: the tree of each package, below the root of the machine that it is installed on.
//!
//! Sources are files of the repository, and what the built program made. May write into the staging folder only.

use crate::pages;
use crate::repo::{self, Result, clear, unable, write};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names of the packages.
pub(super) const PACKAGES: [&str; 3] = ["ropewalk", "ropewalk-bench", "ropewalk-doc"];

/// Files of the repository that the package `ropewalk` has, and where.
const FILES: &[(&str, &str)] = &[
    (
        "packaging/systemd/ropewalk-mds.service",
        "usr/lib/systemd/system",
    ),
    (
        "packaging/systemd/ropewalk-ds.service",
        "usr/lib/systemd/system",
    ),
    (
        "packaging/systemd/sysusers.conf",
        "usr/lib/sysusers.d/ropewalk.conf",
    ),
    (
        "packaging/systemd/tmpfiles.conf",
        "usr/lib/tmpfiles.d/ropewalk.conf",
    ),
    (
        "packaging/systemd/rdma.conf",
        "usr/share/doc/ropewalk/examples",
    ),
    (
        "packaging/systemd/state-elsewhere.conf",
        "usr/share/doc/ropewalk/examples",
    ),
    (
        "packaging/monitoring/dashboard.json",
        "usr/share/ropewalk/monitoring",
    ),
    (
        "packaging/monitoring/rules.yml",
        "usr/share/ropewalk/monitoring",
    ),
    (
        "packaging/monitoring/rules_test.yml",
        "usr/share/ropewalk/monitoring",
    ),
    (
        "packaging/monitoring/rules_days_test.yml",
        "usr/share/ropewalk/monitoring",
    ),
    ("packaging/etc/mds.toml.example", "etc/ropewalk"),
    ("packaging/etc/ds.toml.example", "etc/ropewalk"),
];

/// Where the completions of a program go, by shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/@NAME@"),
    ("zsh", "usr/share/zsh/vendor-completions/_@NAME@"),
    ("fish", "usr/share/fish/vendor_completions.d/@NAME@.fish"),
];

/// What `ropewalk` writes for `ropewalk bench`; the package of that program has its own page.
const BENCH_PAGE: &str = "ropewalk-bench.1";

/// The folder below `made` of the manual pages that a program made.
pub(super) fn man(made: &Path, program: &str) -> PathBuf {
    made.join("man").join(program)
}

/// The file below `made` of a program's completions for a shell.
pub(super) fn completion(made: &Path, program: &str, shell: &str) -> PathBuf {
    made.join(shell).join(program)
}

/// A package's files in the staging folder.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: PathBuf,
}

impl Tree {
    /// Puts the files of `package` below `root`, from the repository and from `made`.
    pub(super) fn stage(package: &str, made: &Path, root: &Path) -> Result<Self> {
        clear(root)?;
        let tree = Self {
            root: root.to_owned(),
        };
        match package {
            "ropewalk" => tree.servers(made)?,
            "ropewalk-bench" => tree.bench(made)?,
            _ => tree.docs()?,
        }
        tree.texts(package)?;
        Ok(tree)
    }

    fn servers(&self, made: &Path) -> Result<()> {
        self.program(made, "ropewalk")?;
        self.made_by_program(made, "ropewalk")?;
        for (from, to) in FILES {
            let text = repo::read(from)?;
            let name = Path::new(from).file_name().unwrap_or_default();
            let to = Path::new(to);
            let to = match to.extension() {
                Some(end) if end == "conf" => to.to_owned(),
                _ => to.join(name),
            };
            self.file(&to, text.as_bytes())?;
        }
        Ok(())
    }

    fn bench(&self, made: &Path) -> Result<()> {
        self.program(made, "ropewalk-bench")?;
        self.made_by_program(made, "ropewalk-bench")
    }

    /// Completions and manual pages.
    fn made_by_program(&self, made: &Path, program: &str) -> Result<()> {
        for (shell, to) in COMPLETIONS {
            let from = completion(made, program, shell);
            let text = fs::read(&from).map_err(unable(&from))?;
            self.file(Path::new(&to.replace("@NAME@", program)), &text)?;
        }
        let folder = man(made, program);
        for page in pages(&folder)? {
            if program != "ropewalk" || page != BENCH_PAGE {
                let to = Path::new("usr/share/man/man1").join(format!("{page}.gz"));
                self.packed(&folder.join(&page), &to)?;
            }
        }
        Ok(())
    }

    /// The pages as they are, and not the site that is made of them: that one needs mdBook.
    fn docs(&self) -> Result<()> {
        let folder = Path::new("usr/share/doc/ropewalk-doc");
        for path in repo::files()? {
            if pages::is_document(&path) {
                let from = repo::root().join(&path);
                let content = fs::read(&from).map_err(unable(&from))?;
                self.file(&folder.join(&path), &content)?;
            }
        }
        Ok(())
    }

    /// The licence and the changes, as Debian wants them in every package.
    fn texts(&self, package: &str) -> Result<()> {
        let folder = Path::new("usr/share/doc").join(package);
        let mit = repo::read("LICENSE-MIT")?;
        let indent = |line: &str| match line.trim() {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        };
        let mit: String = mit.trim().lines().map(indent).collect();
        let copyright = repo::read("packaging/debian/copyright")?;
        let copyright = copyright.replace("@MIT@\n", &mit);
        self.file(&folder.join("copyright"), copyright.as_bytes())?;
        let changes = repo::root().join("CHANGELOG.md");
        self.packed(&changes, &folder.join("changelog.gz"))
    }

    fn program(&self, made: &Path, name: &str) -> Result<()> {
        let to = self.root.join("usr/bin").join(name);
        let from = made.join(name);
        let content = fs::read(&from).map_err(unable(&from))?;
        write(&to, &content)?;
        fs::set_permissions(&to, Permissions::from_mode(0o755)).map_err(unable(&to))
    }

    /// Packs a file. Without its name and time, equal files give equal ones.
    fn packed(&self, from: &Path, to: &Path) -> Result<()> {
        let file = fs::File::open(from).map_err(unable(from))?;
        let gzip = Command::new("gzip")
            .args(["-9", "-n", "-c"])
            .stdin(file)
            .stdout(Stdio::piped())
            .output();
        let gzip = gzip.map_err(|e| format!("cannot run gzip: {e}"))?;
        match gzip.status.success() {
            true => self.file(to, &gzip.stdout),
            false => Err(format!("gzip cannot pack {}", from.display())),
        }
    }

    fn file(&self, to: &Path, content: &[u8]) -> Result<()> {
        let to = self.root.join(to);
        write(&to, content)?;
        fs::set_permissions(&to, Permissions::from_mode(0o644)).map_err(unable(&to))
    }

    /// Paths below the root, sorted, of what `want` wants to know of.
    pub(super) fn paths(&self) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        collect(&self.root, &mut paths)?;
        let below = |path: PathBuf| path.strip_prefix(&self.root).map(Path::to_path_buf);
        let mut paths: Vec<_> = paths
            .into_iter()
            .filter_map(|path| below(path).ok())
            .collect();
        paths.sort();
        Ok(paths)
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(unable(folder))? {
        let path = entry.map_err(unable(folder))?.path();
        match path.is_dir() {
            true => collect(&path, paths)?,
            false => paths.push(path),
        }
    }
    Ok(())
}

/// Names of the manual pages that were made.
fn pages(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(unable(folder))? {
        let entry = entry.map_err(unable(folder))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
