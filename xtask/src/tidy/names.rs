//! One meaning a name: a public type shares its name with another one only if both mean the same.
//!
//! `xtask/shared-names.txt` has the names that are shared, each with its one meaning. A name that is
//! shared no longer must leave the list.

use crate::repo::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The list of shared names: `NAME | MEANING`.
pub(super) const PATH: &str = "xtask/shared-names.txt";

/// Crates whose types nobody else names: programs and tools of tests.
const PROGRAMS: [&str; 4] = ["bench", "powercut", "ropewalk", "sim"];
/// Parts of a path under which types are for tests.
const FOR_TESTS: [&str; 4] = ["tests", "contract", "fuzz", "bin"];

/// Public types by name, with the files that have one.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, BTreeSet<String>>);

impl Names {
    /// Takes in a source file of a library.
    pub(super) fn read(&mut self, path: &str, text: &str) {
        if !is_of_library(path) {
            return;
        }
        let declared = text.lines().filter_map(declared);
        for name in declared.filter(|name| !name.is_empty()) {
            let files = self.0.entry(name.to_owned()).or_default();
            files.insert(path.to_owned());
        }
    }

    /// Compares the names with the list.
    ///
    /// # Errors
    /// A line of the list that is not `NAME | MEANING`.
    pub(super) fn judge(&self, list: &str) -> Result<Vec<String>> {
        let mut listed = BTreeSet::new();
        for line in list.lines().filter(|l| !l.starts_with('#')) {
            let (name, meaning) = line.split_once(" | ").unwrap_or_default();
            if name.is_empty() || meaning.is_empty() {
                return Err(format!("{PATH}: `{line}` is not `NAME | MEANING`"));
            }
            listed.insert(name);
        }
        let shared = self.0.iter().filter(|(_, files)| files.len() > 1);
        let shared: BTreeMap<&str, &BTreeSet<String>> =
            shared.map(|(name, files)| (name.as_str(), files)).collect();
        let new = shared.iter().filter(|(name, _)| !listed.contains(*name));
        let mut problems: Vec<String> = new
            .map(|(name, files)| {
                let files: Vec<&str> = files.iter().map(String::as_str).collect();
                format!(
                    "{name} is the name of {} types ({}): rename, or write their one meaning into {PATH}",
                    files.len(),
                    files.join(", ")
                )
            })
            .collect();
        let gone = listed.iter().filter(|name| !shared.contains_key(*name));
        problems.extend(gone.map(|name| format!("{PATH}: {name} is not shared any more")));
        Ok(problems)
    }
}

fn is_of_library(path: &str) -> bool {
    let Some((name, file)) = path
        .strip_prefix("crates/")
        .and_then(|rest| rest.split_once("/src/"))
    else {
        return false;
    };
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    !PROGRAMS.contains(&name) && !stem.split('/').any(|part| FOR_TESTS.contains(&part))
}

/// The type that a line declares for everybody.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        names.read("crates/a/src/x.rs", "pub struct Hold<'a> {\n    pub enum");
        names.read(
            "crates/b/src/y.rs",
            "    pub enum Hold {\npub(crate) struct Held;",
        );
        names.read("crates/b/src/tests/z.rs", "pub struct Held;");
        names.read("crates/sim/src/z.rs", "pub struct Held;");
        names.read("crates/c/src/z.rs", "pub trait Held: Send {}");
        names
    }

    #[test]
    fn a_name_of_two_types_needs_its_one_meaning() {
        let problems = names().judge("# Names\n").expect("a list");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0]
                .starts_with("Hold is the name of 2 types (crates/a/src/x.rs, crates/b/src/y.rs)")
        );
        assert!(
            names()
                .judge("Hold | keeps a thing")
                .expect("a list")
                .is_empty()
        );
    }

    #[test]
    fn the_list_has_what_is_shared_and_nothing_else() {
        let problems = names().judge("Hold | keeps a thing\nHeld | is kept");
        let gone = "xtask/shared-names.txt: Held is not shared any more";
        assert_eq!(problems.expect("a list"), [gone]);
        assert!(names().judge("Hold").is_err());
    }
}
