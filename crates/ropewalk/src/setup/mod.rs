//! `ropewalk setup`: writes the configuration of a server, from three answers at most.
//!
//! Owns the order of things: answers, text, checks, and only then the state directory and the file. May call the configurations, the
//! ports and the name service. Changes no other file, and starts a server only when told to.

mod ds;
mod file;
mod mds;
mod networks;
mod plan;
mod questions;
mod sandbox;
mod state_dir;
mod user;
mod walk;

use crate::config::{self, DsConfig, MdsConfig};
use crate::config_cmd::ServerRole;
use crate::failure::{Outcome, failed, usage};
use crate::out;
use crate::up::ports::need_free;
use clap::Subcommand;
pub(crate) use plan::{CONFIG_DIR, packaged_file};
use plan::{Plan, WriteArgs};
use questions::Questions;
use rustix::fs::Mode;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use user::ServerUser;

/// In its folder of this the unit of a server may write.
const UNIT_STATE: &str = "/var/lib/ropewalk";

/// `ropewalk setup`.
#[derive(Debug, Subcommand)]
pub(crate) enum SetupCommand {
    /// Write the configuration of a metadata server
    Mds(mds::MdsSetup),
    /// Write the configuration of a data server
    Ds(ds::DsSetup),
}

/// `ropewalk setup`.
pub(crate) fn run(command: &SetupCommand) -> Outcome {
    // Whatever the caller's is: what is made is closed until it gets its mode.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    match command {
        SetupCommand::Mds(args) => {
            let mut questions = begin(&args.write, ServerRole::Mds)?;
            finish(mds::plan(args, &mut questions)?, &args.write)
        }
        SetupCommand::Ds(args) => {
            let mut questions = begin(&args.write, ServerRole::Ds)?;
            finish(ds::plan(args, &mut questions)?, &args.write)
        }
    }
}

/// Refuses what cannot end well before anybody is asked.
fn begin(args: &WriteArgs, role: ServerRole) -> Outcome<Questions> {
    if !args.dry_run {
        file::need_writable(&output(args, role), args.force)?;
    }
    Ok(Questions::new(args.yes))
}

fn output(args: &WriteArgs, role: ServerRole) -> PathBuf {
    let default = || packaged_file(role);
    args.output.clone().unwrap_or_else(default)
}

fn finish(plan: Plan, args: &WriteArgs) -> Outcome {
    let output = output(args, plan.role);
    if !args.hidden_dir {
        need_seen(&plan, &output)?;
    }
    let server = ServerUser::find()?;
    state_dir::check(&plan.state_dir, &server)?;
    match plan.role {
        ServerRole::Mds => drop(config::parse::<MdsConfig>(&plan.text)?),
        ServerRole::Ds => drop(config::parse::<DsConfig>(&plan.text)?),
    }
    for (address, option) in &plan.listen {
        let change = format!("stop that program, or choose another with {option} ADDR:PORT");
        need_free(*address, &change)?;
    }
    if !args.dry_run {
        state_dir::make(&plan.state_dir, &server)?;
        file::write(&output, &plan.text, args.force)?;
    }
    if args.start {
        start(plan.role)?;
    }
    match (args.json, args.dry_run) {
        (true, _) => out::json(&to_json(&plan, &output, args)),
        (false, true) => out::print(&plan.text),
        (false, false) => out::print(&to_text(&plan, &output, args.start)),
    }
}

/// Has systemd start the server, and waits until it serves.
fn start(role: ServerRole) -> Outcome {
    let unit = format!("ropewalk-{}", role.word());
    let by_hand = "the configuration is written; start the server by hand";
    let status = Command::new("systemctl")
        .args(["enable", "--now", &unit])
        .status();
    let status = status.map_err(|e| failed(format!("cannot run systemctl: {e}; {by_hand}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(format!(
            "systemctl could not start {unit}: look at `journalctl -u {unit}`; {by_hand}"
        ))),
    }
}

/// Refuses paths that the unit of systemd hides from the server, if that is what will run it.
fn need_seen(plan: &Plan, output: &Path) -> Outcome {
    if output != packaged_file(plan.role) {
        return Ok(());
    }
    let reads = plan.reads.as_ref();
    let reads = reads.map(|(path, option)| (path.as_path(), *option));
    let paths = [(plan.state_dir.as_path(), "--dir")];
    for (path, option) in paths.into_iter().chain(reads) {
        if let Some((place, setting)) = sandbox::hidden_by(path) {
            let word = plan.role.word();
            return Err(usage(format!(
                "the server would not see {path}: its unit hides {place} ({setting}=yes); choose another with {option}, \
                 or take it with --hidden-dir and set {setting}=no by `systemctl edit ropewalk-{word}`",
                path = path.display(),
            )));
        }
    }
    Ok(())
}

/// The text without what is secret.
fn shown(plan: &Plan) -> String {
    let cut = |secret: &String| plan.text.replace(secret, "...");
    plan.secret.as_ref().map_or_else(|| plan.text.clone(), cut)
}

fn to_text(plan: &Plan, output: &Path, is_started: bool) -> String {
    let indented = shown(plan);
    let indented = indented.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("    {line}\n"),
    });
    let indented: String = indented.collect();
    let notes: String = plan.notes.iter().map(|n| format!("note: {n}\n")).collect();
    let next: String = next(plan, output, is_started)
        .iter()
        .map(|line| format!("    {line}\n"))
        .collect();
    format!(
        "wrote {}:\n\n{indented}\n{notes}next:\n{next}",
        output.display()
    )
}

fn to_json(plan: &Plan, output: &Path, args: &WriteArgs) -> serde_json::Value {
    json!({
        "role": plan.role.word(),
        "file": output,
        "written": !args.dry_run,
        "started": args.start,
        "state_dir": plan.state_dir,
        "configuration": shown(plan),
        "notes": plan.notes,
        "next": next(plan, output, args.start),
    })
}

/// Commands that come next.
fn next(plan: &Plan, output: &Path, is_started: bool) -> Vec<String> {
    if is_started {
        return plan.then.clone();
    }
    let word = plan.role.word();
    let is_packaged = output == packaged_file(plan.role);
    let mut lines = Vec::new();
    if is_packaged && !plan.state_dir.starts_with(Path::new(UNIT_STATE).join(word)) {
        let hidden = sandbox::hidden_by(&plan.state_dir);
        let seen = hidden.map_or_else(String::new, |(_, setting)| format!(" {setting}=no"));
        lines.push(format!(
            "systemctl edit ropewalk-{word}  # with [Unit] RequiresMountsFor={0} and [Service] ReadWritePaths={0}{seen}",
            plan.state_dir.display()
        ));
    }
    lines.push(match is_packaged {
        true => format!("systemctl enable --now ropewalk-{word}"),
        false => format!("ropewalk {word} --config {}", output.display()),
    });
    lines.extend(plan.then.iter().cloned());
    lines
}

#[cfg(test)]
mod tests {
    //! Goal: secrets are not shown; a unit that may not write is named.
    use super::*;

    fn plan(state_dir: &str) -> Plan {
        Plan {
            role: ServerRole::Ds,
            text: "join_token = \"rwj1.secret\"\n".to_owned(),
            secret: Some("rwj1.secret".to_owned()),
            state_dir: state_dir.into(),
            reads: None,
            listen: Vec::new(),
            notes: vec!["the sky is blue".to_owned()],
            then: vec!["ropewalk status".to_owned()],
        }
    }

    #[test]
    fn what_is_shown_has_no_secret_and_says_what_comes_next() {
        let plan = plan("/var/lib/ropewalk/ds");
        let file = packaged_file(ServerRole::Ds);
        assert_eq!(
            to_text(&plan, &file, false),
            "wrote /etc/ropewalk/ds.toml:\n\n    join_token = \"...\"\n\nnote: the sky is blue\nnext:\n    \
             systemctl enable --now ropewalk-ds\n    ropewalk status\n"
        );
        let json = to_json(&plan, Path::new("/f"), &WriteArgs::default());
        assert_eq!(json["next"][0], "ropewalk ds --config /f");
        assert!(!json.to_string().contains("secret"));
        assert_eq!(next(&plan, &file, true), ["ropewalk status"]);
    }

    #[test]
    fn a_unit_is_told_of_a_directory_elsewhere() {
        let lines = next(&plan("/srv/x"), &packaged_file(ServerRole::Ds), false);
        assert!(lines[0].ends_with("ReadWritePaths=/srv/x"), "{lines:?}");
        assert_eq!(next(&plan("/srv/x"), Path::new("/f"), false).len(), 2);
        let lines = next(&plan("/home/x"), &packaged_file(ServerRole::Ds), false);
        assert!(
            lines[0].ends_with("ReadWritePaths=/home/x ProtectHome=no"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_path_that_the_unit_hides_is_refused_for_the_unit_alone() {
        let unit = packaged_file(ServerRole::Ds);
        let told = |plan: &Plan| need_seen(plan, &unit).map_err(|e| (e.exit_code(), e.to_string()));
        let (code, said) = told(&plan("/home/me/ds")).unwrap_err();
        assert_eq!(code, 2);
        for part in ["/home/me/ds", "ProtectHome=yes", "--dir", "--hidden-dir"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(told(&plan("/srv/x")), Ok(()));
        let hidden_token = Plan {
            reads: Some(("/root/token".into(), "--token-file")),
            ..plan("/srv/x")
        };
        let (_, said) = told(&hidden_token).unwrap_err();
        assert!(
            said.contains("/root/token") && said.contains("--token-file"),
            "{said}"
        );
        assert_eq!(need_seen(&plan("/home/me/ds"), Path::new("/f")), Ok(()));
    }
}
