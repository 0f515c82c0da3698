//! The linter for what rustfmt and clippy do not look at.
//!
//! It reads the files that git tracks. It checks lengths of files and functions, the head comment of every module,
//! characters, and words that must not be committed. Crates that take clocks and randomness as arguments must not use
//! them. Links of documents must lead somewhere ([`pages`]). A length may be waived by name in `xtask/tidy-waivers.txt`; a
//! waiver is exact, so that what it allows can only shrink.
//!
//! Entry point: [`run`]. The rules are in [`text`] and [`functions`], waivers in [`waivers`].

mod functions;
mod names;
mod rules;
mod text;
mod waivers;

use crate::layers;
use crate::pages;
use crate::repo::{self, Result};
use crate::tools;
use names::Names;
use rules::Rules;
use waivers::{TooLong, Waivers};

/// Longest source or document, in lines.
const FILE_LINES_MAX: usize = 800;
/// Longest function, in lines of rustfmt's output from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Files whose text is somebody else's or a machine's.
const FOREIGN: [&str; 3] = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];
/// Folders of test inputs, where any byte may stand.
const DATA: [&str; 3] = ["/corpus/", "/testdata/", "/seeds/"];

/// Runs the linter.
pub(crate) fn run() -> Result<()> {
    tools::need(&["git"])?;
    let waivers = Waivers::parse(&repo::read(waivers::PATH)?)?;
    let mut problems = Vec::new();
    let mut lengths = Vec::new();
    let mut rules = Rules::default();
    let mut names = Names::default();
    let files = repo::files()?;
    let pages = pages::all(&files)?;
    for path in files.iter().filter(|path| is_ours(path)) {
        let bytes = std::fs::read(repo::root().join(path))
            .map_err(|e| format!("cannot read {path}: {e}"))?;
        let Ok(file) = String::from_utf8(bytes) else {
            problems.push(format!(
                "{path}: not UTF-8 text, and not in a folder of data"
            ));
            continue;
        };
        check(path, &file, &mut problems, &mut lengths);
        pages::named(path, &file, &pages, &mut problems);
        if path.starts_with("crates/") && path.ends_with(".rs") {
            rules.read(path, &file);
            names.read(path, &file);
        }
    }
    problems.extend(rules.judge(&repo::read(rules::PAGE)?));
    problems.extend(names.judge(&repo::read(names::PATH)?)?);
    problems.extend(pages::problems(&pages, &files));
    problems.extend(waivers.judge(&lengths));
    repo::verdict("tidy", &problems)?;
    println!("tidy: {} files, {} waivers", files.len(), waivers.count());
    Ok(())
}

fn is_ours(path: &str) -> bool {
    let whole = format!("/{path}");
    !FOREIGN.contains(&path) && !DATA.iter().any(|folder| whole.contains(folder))
}

fn check(path: &str, file: &str, problems: &mut Vec<String>, lengths: &mut Vec<TooLong>) {
    let lines = file.lines().count();
    if lines > FILE_LINES_MAX {
        lengths.push(TooLong {
            place: path.to_owned(),
            lines,
            limit: FILE_LINES_MAX,
        });
    }
    text::lines(path, file, problems);
    if path.ends_with(".rs") {
        text::module(path, file, problems);
        if layers::is_pure(path) {
            text::clocks(path, file, problems);
        }
        for function in functions::functions(file) {
            if function.lines > FUNCTION_LINES_MAX {
                lengths.push(TooLong {
                    place: format!("{path}::{}", function.name),
                    lines: function.lines,
                    limit: FUNCTION_LINES_MAX,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Whole files through every rule.
    use super::*;

    fn problems(path: &str, file: &str) -> (Vec<String>, Vec<TooLong>) {
        let (mut problems, mut lengths) = (Vec::new(), Vec::new());
        check(path, file, &mut problems, &mut lengths);
        (problems, lengths)
    }

    #[test]
    fn a_good_file_passes() {
        let good = "//! A module.\n\nfn f() {\n    let x = 1;\n}\n";
        assert_eq!(problems("crates/xdr/src/a.rs", good), (vec![], vec![]));
    }

    #[test]
    fn long_files_and_functions_are_found() {
        let long = format!(
            "//! A module.\n\nfn f() {{\n{}}}\n",
            "    g();\n".repeat(800)
        );
        let (_, lengths) = problems("crates/xdr/src/a.rs", &long);
        let found: Vec<_> = lengths
            .iter()
            .map(|l| (l.place.as_str(), l.lines))
            .collect();
        assert_eq!(
            found,
            [
                ("crates/xdr/src/a.rs", 804),
                ("crates/xdr/src/a.rs::f", 802)
            ]
        );
    }

    #[test]
    fn clocks_are_refused_in_pure_crates_only() {
        let file = "//! A module.\nfn f() -> Instant {\n    Instant::now()\n}\n";
        let (found, _) = problems("crates/state/src/a.rs", file);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/state/src/a.rs:3: Instant::now"));
        assert_eq!(
            problems("crates/mds/src/a.rs", file).0,
            Vec::<String>::new()
        );
    }

    #[test]
    fn data_and_foreign_files_are_left_alone() {
        assert!(!is_ours("Cargo.lock"));
        assert!(!is_ours("fuzz/corpus/compound/7"));
        assert!(is_ours("crates/xdr/src/lib.rs"));
    }
}
