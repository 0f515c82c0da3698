//! Fuzzing by cargo-fuzz: the targets live in `fuzz/`, a package outside of the workspace.
//!
//! Fuzzing needs a nightly compiler and cargo-fuzz, which the tests do not: `cargo test` replays the
//! stored corpus with any compiler. So a missing tool is an error here, with how to get it.

use crate::repo::{self, Result};
use std::process::Command;

/// Longest input that a target sees, in bytes: the record limit of the transports is far above what
/// finds new paths in a decoder.
const INPUT_BYTES_MAX: u32 = 65_536;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The target; all of them in turn without it
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Runs the targets.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known = targets(&repo::read("fuzz/Cargo.toml")?);
    let chosen = choose(&known, args.target.as_deref())?;
    if repo::output(Command::new("cargo").args(["fuzz", "--version"])).is_err() {
        return Err("cargo-fuzz is not installed: cargo install cargo-fuzz".to_owned());
    }
    if repo::output(Command::new("cargo").args(["+nightly", "--version"])).is_err() {
        let advice = "rustup toolchain install nightly";
        return Err(format!("fuzzing needs a nightly compiler: {advice}"));
    }
    for target in chosen {
        println!("\n== fuzz {target} for {} s", args.seconds);
        let status = Command::new("cargo")
            .args(["+nightly", "fuzz", "run", target, "--"])
            .arg(format!("-max_total_time={}", args.seconds))
            .arg(format!("-max_len={INPUT_BYTES_MAX}"))
            // This program was started by another cargo, whose choice of compiler must not leak.
            .env_remove("RUSTUP_TOOLCHAIN")
            .current_dir(repo::root())
            .status()
            .map_err(|e| format!("cannot run cargo fuzz: {e}"))?;
        if !status.success() {
            return Err(format!(
                "{target} failed; its input is in fuzz/artifacts/{target}"
            ));
        }
    }
    Ok(())
}

/// Names of the `[[bin]]` sections of a manifest.
fn targets(manifest: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut in_bin = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_bin = line == "[[bin]]";
        } else if let (true, Some(("name", name))) = (in_bin, line.split_once(" = ")) {
            targets.push(name.trim_matches('"').to_owned());
        }
    }
    targets
}

fn choose<'a>(known: &'a [String], wanted: Option<&str>) -> Result<Vec<&'a str>> {
    let chosen: Vec<&str> = known
        .iter()
        .map(String::as_str)
        .filter(|name| wanted.is_none_or(|wanted| wanted == *name))
        .collect();
    if chosen.is_empty() {
        let wanted = wanted.unwrap_or("any");
        return Err(format!(
            "no fuzz target {wanted:?}; there are: {}",
            known.join(", ")
        ));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    //! Reading the manifest and choosing targets.
    use super::*;

    #[test]
    fn targets_are_the_programs_of_the_manifest() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"rpc\"\npath = \"rpc.rs\"\n\n[[bin]]\nname = \"xdr\"\n[dependencies]\nname = \"no\"\n";
        assert_eq!(targets(manifest), ["rpc", "xdr"]);
    }

    #[test]
    fn an_unknown_target_names_the_known_ones() {
        let known = ["rpc".to_owned(), "xdr".to_owned()];
        assert_eq!(choose(&known, None).unwrap(), ["rpc", "xdr"]);
        assert_eq!(choose(&known, Some("xdr")).unwrap(), ["xdr"]);
        let error = choose(&known, Some("nfs")).unwrap_err();
        assert!(error.contains("rpc, xdr"), "{error}");
        assert!(choose(&[], None).is_err());
    }
}
