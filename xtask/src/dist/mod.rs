//! Packages: the programs, their manual pages and completions, and what `packaging/` has, as Debian packages and a tar.
//!
//! Owns the order of the steps. [`tree`] says which file goes where, [`deb`] makes packages of it, [`archive`] a tar.
//! Building is cargo's, and pages and completions come from the built program. No step needs root but `--check`.

mod archive;
mod check;
mod deb;
mod release;
mod tree;

use crate::repo::{self, Result, clear, unable, write};
use crate::tools;
use release::Release;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::Tree;

/// The programs that are packaged.
const PROGRAMS: [&str; 2] = ["ropewalk", "ropewalk-bench"];
/// The profile of `Cargo.toml` for packages.
const PROFILE: &str = "dist";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take the programs that are there, instead of building them
    #[arg(long)]
    no_build: bool,
    /// Where they are [default: where the profile `dist` puts them]
    #[arg(long, value_name = "DIR", requires = "no_build")]
    programs: Option<PathBuf>,
    /// Where the packages go [default: packages in the target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Then install them in a fresh Debian, serve, upgrade, remove and purge. Needs root and Debian's mirrors
    #[arg(long)]
    check: bool,
}

/// Makes all packages and the tar.
pub(crate) fn run(args: &Args) -> Result<()> {
    tools::need(&[
        "dpkg",
        "dpkg-deb",
        "dpkg-shlibdeps",
        "git",
        "gzip",
        "strip",
        "tar",
        "xz",
    ])?;
    let programs = programs(args)?;
    let release = release(args)?;
    let made = release.out.join("made");
    clear(&made)?;
    let made = generate(&programs, &made)?;
    for package in tree::PACKAGES {
        let tree = Tree::stage(package, &made, &release.out.join("staging").join(package))?;
        let deb = deb::build(&release, package, &tree)?;
        println!("dist: {}", deb.display());
    }
    let tar = archive::build(&release, &release.out.join("staging"))?;
    println!("dist: {}", tar.display());
    println!(
        "dist: the programs are not static: they need this machine's C library or a later one"
    );
    match args.check {
        true => check::run(&release),
        false => Ok(()),
    }
}

/// The folder of the programs, which are built unless that is forbidden.
fn programs(args: &Args) -> Result<PathBuf> {
    if !args.no_build {
        let mut cargo = repo::cargo();
        cargo.args(["build", "--locked", "--profile", PROFILE]);
        for program in PROGRAMS {
            cargo.args(["--package", program]);
        }
        let status = cargo.status();
        let status = status.map_err(|e| format!("cannot run cargo: {e}"))?;
        if !status.success() {
            return Err("the programs cannot be built".to_owned());
        }
    }
    let folder = args.programs.clone();
    let folder = folder.unwrap_or_else(|| repo::target().join(PROFILE));
    let folder = std::path::absolute(&folder).map_err(unable(&folder))?;
    match PROGRAMS.iter().find(|p| !folder.join(p).is_file()) {
        Some(program) => Err(format!("there is no {program} in {}", folder.display())),
        None => Ok(folder),
    }
}

fn release(args: &Args) -> Result<Release> {
    // Not `dist`: cargo has the programs of that profile there.
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| repo::target().join("packages"));
    let out = std::path::absolute(&out).map_err(unable(&out))?;
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        repo::output(git.args(arguments).current_dir(repo::root()))
            .map(|text| text.trim().to_owned())
    };
    let arch = repo::output(Command::new("dpkg").arg("--print-architecture"))?;
    Ok(Release {
        out,
        arch: arch.trim().to_owned(),
        maintainer: git(&["log", "-1", "--format=%an <%ae>"])?,
        time_s: git(&["log", "-1", "--format=%ct"])?,
    })
}

/// Has the programs copied and stripped, and manual pages and completions made, into `made`.
fn generate(programs: &Path, made: &Path) -> Result<PathBuf> {
    for program in PROGRAMS {
        let to = made.join(program);
        fs::copy(programs.join(program), &to).map_err(unable(&to))?;
        repo::output(Command::new("strip").arg("--strip-debug").arg(&to))?;
    }
    let program = made.join("ropewalk");
    repo::output(
        Command::new(&program)
            .args(["man", "--dir"])
            .arg(made.join("man")),
    )?;
    for shell in ["bash", "zsh", "fish"] {
        let text = repo::output(Command::new(&program).args(["completions", shell]))?;
        write(&made.join(shell), text.as_bytes())?;
    }
    Ok(made.to_owned())
}
