//! Packages: the programs, their manual pages and completions, and what `packaging/` has, as Debian packages and a tar.
//!
//! Owns the order of the steps. [`programs`] builds, [`tree`] says which file goes where, [`deb`] makes packages of it,
//! [`archive`] a tar. Programs in packages use this machine's libraries; those in the tar are static.
//! Building is cargo's, and pages and completions come from the built program. No step needs root but `--check`.

mod archive;
mod check;
mod deb;
mod programs;
mod release;
mod tree;

use crate::repo::{self, Result, clear, unable, write};
use crate::tools;
use programs::PROGRAMS;
use release::Release;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::Tree;

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// Debian packages, whose programs use this machine's libraries.
    Deb,
    /// A tar, whose programs are static.
    Tar,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to make
    #[arg(long, value_delimiter = ',', default_value = "deb,tar")]
    only: Vec<Form>,
    /// Take the programs that are there, instead of building them
    #[arg(long)]
    no_build: bool,
    /// Where the packages go [default: packages in the target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Then install the packages in a fresh Debian, serve, upgrade, remove and purge. Needs root and Debian's mirrors
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
    // Before the build, which takes minutes.
    if args.only.contains(&Form::Tar) && !args.no_build {
        programs::need_static()?;
    }
    if args.check {
        check::need()?;
    }
    let release = release(args)?;
    for form in [Form::Deb, Form::Tar] {
        if args.only.contains(&form) {
            make(form, args, &release)?;
        }
    }
    match args.check {
        true => check::run(&release),
        false => Ok(()),
    }
}

/// Builds the programs of a form, and packs them.
fn make(form: Form, args: &Args, release: &Release) -> Result<()> {
    let target = match form {
        Form::Deb => None,
        Form::Tar => Some(programs::static_target()),
    };
    let programs = programs::folder(target.as_deref(), args.no_build)?;
    let name = match form {
        Form::Deb => "deb",
        Form::Tar => "tar",
    };
    let made = release.out.join(format!("{name}.made"));
    clear(&made)?;
    generate(&programs, &made)?;
    let staging = release.out.join(format!("{name}.staging"));
    for package in tree::PACKAGES {
        let tree = Tree::stage(package, &made, &staging.join(package))?;
        if form == Form::Deb {
            let deb = deb::build(release, package, &tree)?;
            println!("dist: {}", deb.display());
        }
    }
    if form == Form::Tar {
        let tar = archive::build(release, &staging)?;
        println!("dist: {}", tar.display());
    }
    Ok(())
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
fn generate(programs: &Path, made: &Path) -> Result<()> {
    for program in PROGRAMS {
        let to = made.join(program);
        fs::copy(programs.join(program), &to).map_err(unable(&to))?;
        repo::output(Command::new("strip").arg("--strip-debug").arg(&to))?;
    }
    for name in PROGRAMS {
        let program = made.join(name);
        let mut man = Command::new(&program);
        repo::output(man.args(["man", "--dir"]).arg(tree::man(made, name)))?;
        for shell in ["bash", "zsh", "fish"] {
            let text = repo::output(Command::new(&program).args(["completions", shell]))?;
            write(&tree::completion(made, name, shell), text.as_bytes())?;
        }
    }
    Ok(())
}
