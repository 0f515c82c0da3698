//! A Debian package of a tree, by dpkg's own tools: `dpkg-shlibdeps` finds the libraries, `dpkg-deb` packs.
//!
//! Owns the folder `DEBIAN` of the tree. What stands in it is `packaging/debian`, with its `@WORDS@` replaced.

use super::release::{Release, VERSION};
use super::tree::Tree;
use crate::repo::{self, Result, clear, unable, write};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Scripts that a package may have.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Packs `tree` as `package`.
pub(super) fn build(release: &Release, package: &str, tree: &Tree) -> Result<PathBuf> {
    let paths = tree.paths()?;
    let folder = tree.root.join("DEBIAN");
    let template = repo::read(&format!("packaging/debian/{package}.control"))?;
    let needs_libraries = template.contains("@SHLIBS@");
    let libraries = match needs_libraries {
        true => libraries(release, package, &tree.root)?,
        false => String::new(),
    };
    let words = [
        ("@VERSION@", VERSION),
        ("@ARCH@", &release.arch),
        ("@MAINTAINER@", &release.maintainer),
        ("@SIZE@", &size_kib(&tree.root, &paths)?.to_string()),
        ("@SHLIBS@", &libraries),
    ];
    write(
        &folder.join("control"),
        filled(&template, &words)?.as_bytes(),
    )?;
    let kept = paths.iter().filter(|path| path.starts_with("etc"));
    let kept: String = kept.map(|path| format!("/{}\n", path.display())).collect();
    if !kept.is_empty() {
        write(&folder.join("conffiles"), kept.as_bytes())?;
    }
    for script in SCRIPTS {
        let from = format!("packaging/debian/{package}.{script}");
        if repo::root().join(&from).is_file() {
            let to = folder.join(script);
            write(&to, repo::read(&from)?.as_bytes())?;
            fs::set_permissions(&to, Permissions::from_mode(0o755)).map_err(unable(&to))?;
        }
    }
    pack(release, package, &template, &tree.root)
}

fn pack(release: &Release, package: &str, template: &str, root: &Path) -> Result<PathBuf> {
    let is_all = template.lines().any(|line| line == "Architecture: all");
    let arch = if is_all { "all" } else { &release.arch };
    let deb = release.out.join(format!("{package}_{VERSION}_{arch}.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--build", "--root-owner-group", "-Zxz"]);
    repo::output(
        dpkg.arg(root)
            .arg(&deb)
            .env("SOURCE_DATE_EPOCH", &release.time_s),
    )?;
    fs::remove_dir_all(root.join("DEBIAN")).map_err(unable(root))?;
    Ok(deb)
}

/// The packages of the libraries that the program of `package` is linked to, as a control file names them.
fn libraries(release: &Release, package: &str, root: &Path) -> Result<String> {
    let folder = release.out.join("shlibs");
    clear(&folder)?;
    // Without a source package's control file the tool does not work.
    write(
        &folder.join("debian/control"),
        b"Source: ropewalk\n\nPackage: ropewalk\nArchitecture: any\n",
    )?;
    let program = root.join("usr/bin").join(package);
    let mut dpkg = Command::new("dpkg-shlibdeps");
    let told = repo::output(
        dpkg.arg("-O")
            .arg(format!("-e{}", program.display()))
            .current_dir(&folder),
    )?;
    fs::remove_dir_all(&folder).map_err(unable(&folder))?;
    let found = told
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    found
        .map(str::to_owned)
        .ok_or_else(|| format!("dpkg-shlibdeps printed no libraries: {told}"))
}

/// `template` with each word replaced. One that is left over is a mistake of ours.
fn filled(template: &str, words: &[(&str, &str)]) -> Result<String> {
    let mut text = template.to_owned();
    for (word, value) in words {
        text = text.replace(word, value);
    }
    let left = text
        .split_whitespace()
        .find(|word| word.starts_with('@') && word.ends_with('@'));
    match left {
        Some(word) => Err(format!("nothing is known of {word}")),
        None => Ok(text),
    }
}

fn size_kib(root: &Path, paths: &[PathBuf]) -> Result<u64> {
    let mut sum = 0;
    for path in paths {
        let path = root.join(path);
        sum += fs::metadata(&path)
            .map_err(unable(&path))?
            .len()
            .div_ceil(1024);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    //! Goal: a package names all that its template asks for.
    use super::super::tree::PACKAGES;
    use super::*;

    #[test]
    fn every_word_of_every_control_file_is_replaced() {
        let words = [
            ("@VERSION@", "1"),
            ("@ARCH@", "amd64"),
            ("@MAINTAINER@", "A <a@b.example>"),
            ("@SIZE@", "7"),
            ("@SHLIBS@", "libc6"),
        ];
        for package in PACKAGES {
            let template = repo::read(&format!("packaging/debian/{package}.control")).unwrap();
            let text = filled(&template, &words).unwrap();
            assert!(
                text.starts_with(&format!("Package: {package}\nVersion: 1\n")),
                "{text}"
            );
            assert!(filled(&template, &words[1..]).is_err());
        }
    }
}
