//! The programs of others that developer commands run, and the Debian package that brings each.
//!
//! A command calls [`need`] before it does anything. Nobody finds out in the middle of its work, or by a guest that
//! does not boot. Programs are looked up by reading `PATH`; nothing is started. The few that every Debian has (`sh`,
//! `env`, `stat`, `id`) and the Rust toolchain are not asked for, and no package brings `apt-get`.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The error is a sentence for people.
type Result<T> = std::result::Result<T, String>;

/// What commands run, and the package of each.
const PROGRAMS: &[(&str, &str)] = &[
    ("cp", "coreutils"),
    ("cpio", "cpio"),
    ("dpkg", "dpkg"),
    ("dpkg-deb", "dpkg"),
    ("dpkg-query", "dpkg"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("dumpcap", "tshark"),
    ("gcc", "gcc"),
    ("git", "git"),
    ("gzip", "gzip"),
    ("ip", "iproute2"),
    ("make", "make"),
    ("mke2fs", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mmdebstrap", "mmdebstrap"),
    ("mount", "mount"),
    ("musl-gcc", "musl-tools"),
    ("nsenter", "util-linux"),
    ("python3", "python3"),
    ("ss", "iproute2"),
    ("strip", "binutils"),
    ("tar", "tar"),
    ("taskset", "util-linux"),
    ("tshark", "tshark"),
    ("unshare", "util-linux"),
    ("valgrind", "valgrind"),
    ("xz", "xz-utils"),
];

/// Something that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The program, or the path of a file.
    pub(crate) name: String,
    /// What brings it, where that is known.
    pub(crate) package: Option<&'static str>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.package {
            Some(package) => write!(f, "{} (package {package})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An error that names all of these programs that are not on `PATH`, and how to get them.
pub(crate) fn need(programs: &[&str]) -> Result<()> {
    let missing = missing(programs);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(advice(&missing))
    }
}

/// Which of these programs are not on `PATH`. One with a slash in it is a path itself.
pub(crate) fn missing(programs: &[&str]) -> Vec<Missing> {
    missing_in(&std::env::var_os("PATH").unwrap_or_default(), programs)
}

/// As [`missing`], with another `PATH`.
pub(crate) fn missing_in(path: &OsStr, programs: &[&str]) -> Vec<Missing> {
    let is_there = |program: &str| {
        if program.contains('/') {
            return is_program(Path::new(program));
        }
        std::env::split_paths(path).any(|folder| is_program(&folder.join(program)))
    };
    let missing = programs.iter().filter(|program| !is_there(program));
    missing
        .map(|program| Missing {
            name: (*program).to_owned(),
            package: package(program),
        })
        .collect()
}

/// The packages of what is missing, each once.
pub(crate) fn packages(missing: &[Missing]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = missing.iter().filter_map(|one| one.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// What to tell of missing programs: all of them, then one line that installs them.
pub(crate) fn advice(missing: &[Missing]) -> String {
    let names: Vec<String> = missing.iter().map(Missing::to_string).collect();
    let packages = packages(missing);
    let how = if packages.is_empty() {
        "put it on the PATH".to_owned()
    } else {
        format!("apt-get install {}", packages.join(" "))
    };
    format!("not found: {}\n{how}", names.join(", "))
}

/// What a failed start of `program` should say besides the system's reason: its package, if that is known.
pub(crate) fn hint(program: &OsStr, error: &std::io::Error) -> String {
    let known = program.to_str().and_then(package);
    match known.filter(|_| error.kind() == std::io::ErrorKind::NotFound) {
        Some(package) => format!(" (apt-get install {package})"),
        None => String::new(),
    }
}

fn package(program: &str) -> Option<&'static str> {
    let found = PROGRAMS.iter().find(|(name, _)| *name == program);
    found.map(|(_, package)| *package)
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    //! What is looked up, what is told, and that the table has all that this program runs.
    use super::*;
    use crate::repo;
    use std::fs::{self, Permissions};

    /// What every Debian with cargo has, and systemd, whose lack is no error.
    const ALWAYS: [&str; 8] = [
        "apt-get",
        "cargo",
        "env",
        "id",
        "rustc",
        "sh",
        "stat",
        "systemctl",
    ];

    #[test]
    fn all_missing_programs_are_named_with_their_packages() {
        let folder = std::env::temp_dir().join(format!("xtask-tools-{}", std::process::id()));
        fs::create_dir_all(folder.join("tar")).unwrap();
        let program = |name: &str, mode| {
            fs::write(folder.join(name), "").unwrap();
            fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
        };
        program("gzip", 0o755);
        program("make", 0o644);
        let wanted = ["cpio", "gzip", "make", "tar", "ip", "ss", "no-such"];
        let missing = missing_in(folder.as_os_str(), &wanted);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            advice(&missing),
            "not found: cpio (package cpio), make (package make), tar (package tar), \
             ip (package iproute2), ss (package iproute2), no-such\n\
             apt-get install cpio iproute2 make tar"
        );
    }

    #[test]
    fn what_is_there_is_not_missing() {
        assert_eq!(need(&["sh", "/bin/sh"]), Ok(()));
        let told = need(&["sh", "no-such-program-of-ours"]).unwrap_err();
        assert!(told.starts_with("not found: no-such-program-of-ours\n"));
        assert!(need(&["/no/such/python3"]).is_err());
    }

    #[test]
    fn a_program_that_cannot_start_for_want_of_it_is_named_with_its_package() {
        let none = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(hint(OsStr::new("ip"), &none), " (apt-get install iproute2)");
        assert_eq!(hint(OsStr::new("no-such"), &none), "");
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert_eq!(hint(OsStr::new("ip"), &denied), "");
    }

    #[test]
    fn the_table_has_every_program_that_is_run() {
        let mut count = 0;
        for path in repo::files().unwrap() {
            if !(path.starts_with("xtask/src/") && path.ends_with(".rs")) {
                continue;
            }
            let text = repo::read(&path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let calls = ["Command::new(\"", ".command(\""].map(|call| text.split(call).skip(1));
            for rest in calls.into_iter().flatten() {
                let name = rest.split('"').next().unwrap_or_default();
                let is_known = package(name).is_some() || ALWAYS.contains(&name);
                assert!(is_known, "{path}: {name} is not in the table");
                count += 1;
            }
        }
        assert!(count > 20, "only {count} were found");
    }
}
