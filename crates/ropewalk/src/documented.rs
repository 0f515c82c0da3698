//! Goal: what the documents tell people to type and to write into files is what this program takes.
//! Method: every command line and every configuration of the documents is read as the program would read it.

use crate::cli::Cli;
use crate::config::{Checked, DsConfig, MdsConfig};
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::path::{Path, PathBuf};

/// README, CONTRIBUTING and each page under docs, by path.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs")];
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of documents") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "md") {
                pages.push(path);
            }
        }
    }
    let read = |page: PathBuf| {
        let text = std::fs::read_to_string(&page).expect("a page in UTF-8");
        (page, text)
    };
    pages.into_iter().map(read).collect()
}

/// The command line of `ropewalk-bench`.
#[derive(clap::Parser)]
struct BenchCli {
    #[command(subcommand)]
    _command: bench::cli::Command,
}

/// What stands for something that the reader fills in.
const PLACES: [(&str, &str); 2] = [("ID", "1"), ("ROW", "metadata")];

/// What a shell does with the output of a command, or with the command itself.
const SHELL: [&str; 4] = [" |", " >", " &", " ;"];

/// The command line behind a prompt such as `mds# ` or `client$ `.
fn prompted(line: &str) -> Option<&str> {
    let (host, command) = line.split_once("# ").or_else(|| line.split_once("$ "))?;
    let is_prompt = host.chars().all(|c| c.is_ascii_alphanumeric());
    let end = SHELL.iter().filter_map(|sign| command.find(sign)).min();
    is_prompt.then(|| &command[..end.unwrap_or(command.len())])
}

/// Command lines within the text, in its blocks without remarks, and behind prompts.
fn commands(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let blocks = text.lines().filter(|line| line.starts_with("    "));
    let blocks = blocks.map(|line| line.split("  #").next().unwrap_or(line).trim());
    let all = quoted.chain(blocks.filter(|line| !line.contains('`')));
    let all = all.chain(text.lines().filter_map(prompted));
    // What `up` prints is no command.
    all.filter(|c| c.starts_with("ropewalk ") && *c != "ropewalk is ready")
        .collect()
}

/// A command line as somebody types it: with what is optional, and each of what is to be chosen from.
fn typed(command: &str) -> Vec<Vec<String>> {
    let mut lines = vec![Vec::new()];
    for word in command.split_whitespace() {
        let word = word.trim_matches(['[', ']', '\'']);
        let word = PLACES
            .iter()
            .find(|(place, _)| *place == word)
            .map_or(word, |(_, given)| given);
        let choices: Vec<&str> = word.split('|').collect();
        lines = choices
            .iter()
            .flat_map(|choice| {
                lines
                    .iter()
                    .map(|line| [&line[..], &[(*choice).to_owned()]].concat())
            })
            .collect();
    }
    lines
}

#[test]
fn the_program_takes_every_command_line_of_the_documents() {
    let mut seen = 0;
    for (page, text) in documents() {
        for line in commands(&text).into_iter().flat_map(typed) {
            seen += 1;
            let parsed = match line.get(1).map(String::as_str) {
                // A program of its own.
                Some("bench") => BenchCli::command().try_get_matches_from(&line[1..]),
                _ => Cli::command().try_get_matches_from(&line),
            };
            let Err(error) = parsed else {
                continue;
            };
            // A command may be named without what it needs, an option without its value.
            let nothing = ContextValue::String(String::new());
            let is_short = match error.kind() {
                ErrorKind::MissingSubcommand
                | ErrorKind::MissingRequiredArgument
                | ErrorKind::TooFewValues
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
                ErrorKind::InvalidValue => error.get(ContextKind::InvalidValue) == Some(&nothing),
                _ => false,
            };
            assert!(is_short, "{}: {line:?}: {error}", page.display());
        }
    }
    assert!(seen > 50, "{seen}");
}

/// Fails if a page about reloads leaves out a setting that changes while a server runs.
pub(crate) fn need_named_as_live(keys: &[&str]) {
    for page in ["tune.md", "configuration.md"] {
        let page = Path::new("docs/operate").join(page);
        let all = documents();
        let (_, text) = all
            .iter()
            .find(|(at, _)| at.ends_with(&page))
            .expect("a page");
        // A sentence, or a table with a row for the rest.
        let says = |part: &&str| part.contains("with a reload") || part.contains("| all others |");
        let told: Vec<&str> = text.split("\n\n").filter(says).collect();
        for key in keys {
            let names = [
                format!("`{key}`"),
                format!("`[[{key}]]`"),
                format!("{key}s,"),
            ];
            let is_named = told
                .iter()
                .any(|part| names.iter().any(|name| part.contains(name)));
            assert!(is_named, "{}: {key}", page.display());
        }
    }
}

/// Blocks of lines that begin with the setting that every configuration has.
fn configurations(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_start).peekable();
    while let Some(first) = lines.next() {
        if !first.starts_with("state_dir = ") {
            continue;
        }
        let is_setting = |l: &&str| l.is_empty() || l.contains(" = ") || l.starts_with('[');
        let rest = std::iter::from_fn(|| lines.next_if(is_setting));
        blocks.push(
            [first]
                .into_iter()
                .chain(rest)
                .collect::<Vec<_>>()
                .join("\n"),
        );
    }
    blocks
}

fn read<T: for<'de> serde::Deserialize<'de> + Checked>(text: &str) -> Result<(), String> {
    let config: T = toml::from_str(text).map_err(|e| e.to_string())?;
    config.check().map_err(|e| e.to_string())
}

#[test]
fn the_servers_take_every_configuration_of_the_documents() {
    let mut seen = 0;
    for (page, text) in documents() {
        for block in configurations(&text) {
            seen += 1;
            // The token is cut short there.
            let block = block.replace("join_token = ", "join_token_file = ");
            let taken = if block.contains("join_token") {
                read::<DsConfig>(&block)
            } else {
                read::<MdsConfig>(&block)
            };
            assert_eq!(taken, Ok(()), "{}:\n{block}", page.display());
        }
    }
    assert!(seen >= 4, "{seen}");
}
