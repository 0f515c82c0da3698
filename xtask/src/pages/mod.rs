//! The documents: what links to what, and in which order they are read.
//!
//! Owns the rules of pages: each link leads somewhere, each page is in a table of contents. [`page`] reads one page,
//! [`contents`] puts them in order. Writes nothing; `tidy` prints the problems, and `docs` makes a site of the pages.
//!
//! Entry points: [`all`], [`problems`], [`contents`].

mod contents;
mod page;

use crate::repo::{self, Result};
pub(crate) use contents::{Entry, contents};
use page::resolve;
pub(crate) use page::{FOLDER, Page, Pages};
use std::collections::BTreeSet;

/// Documents at the top of the repository.
pub(crate) const AT_TOP: [&str; 4] = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
];

/// Whether a file is a document, or lies among them.
pub(crate) fn is_document(path: &str) -> bool {
    AT_TOP.contains(&path) || path.starts_with(FOLDER)
}

/// Reads the pages among `files`.
pub(crate) fn all(files: &[String]) -> Result<Pages> {
    let is_page = |path: &&String| is_document(path) && path.ends_with(".md");
    let pages = files.iter().filter(is_page);
    pages
        .map(|path| Ok((path.clone(), Page::read(&repo::read(path)?))))
        .collect()
}

/// Links and anchors that lead nowhere, and pages that no table of contents has.
pub(crate) fn problems(pages: &Pages, files: &[String]) -> Vec<String> {
    let files: BTreeSet<&str> = files.iter().map(String::as_str).collect();
    let mut problems = Vec::new();
    for (path, page) in pages {
        for link in &page.links {
            if let Err(why) = follow(path, &link.target, pages, &files) {
                problems.push(format!("{path}:{}: {}: {why}", link.line, link.target));
            }
        }
    }
    let contents = contents(pages);
    let reached = contents.iter().flat_map(Entry::paths).collect();
    let here = pages.keys().filter(|path| path.starts_with(FOLDER));
    let here: BTreeSet<&str> = here.map(String::as_str).collect();
    for path in here.difference(&reached) {
        problems.push(format!(
            "{path}: no table of contents has this page: link it from the README.md of its folder"
        ));
    }
    problems
}

/// Whether a link of the page at `from` leads to a file of the repository, and to a heading of it.
fn follow(
    from: &str,
    target: &str,
    pages: &Pages,
    files: &BTreeSet<&str>,
) -> std::result::Result<(), String> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let path = match path {
        "" => from.to_owned(),
        path => resolve(from, path).ok_or("it leaves the repository")?,
    };
    if !files.contains(path.as_str()) {
        return Err(format!("there is no file {path}"));
    }
    match (anchor, pages.get(&path)) {
        (None, _) => Ok(()),
        (Some(anchor), Some(page)) if page.anchors.contains(anchor) => Ok(()),
        (Some(anchor), _) => Err(format!("{path} has no heading #{anchor}")),
    }
}

/// Pages that a file of any kind names by their path in the repository, as `docs/rules.md` is, which are not there. Tests
/// beside the code may invent some.
pub(crate) fn named(path: &str, text: &str, pages: &Pages, problems: &mut Vec<String>) {
    let text = match path.ends_with(".rs") {
        true => text.split("#[cfg(test)]").next().unwrap_or_default(),
        false => text,
    };
    let inside = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
    for (index, line) in text.lines().enumerate() {
        for word in line.split(|c| !inside(c)) {
            let word = word.trim_end_matches('.');
            let Some(at) = word.find(FOLDER) else {
                continue;
            };
            let is_start = !word[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            let name = &word[at..];
            if is_start && name.ends_with(".md") && !pages.contains_key(name) {
                problems.push(format!("{path}:{}: there is no page {name}", index + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each kind of dead link is found, and good ones are not. Method: a small book of pages.
    use super::*;

    /// A book that has nothing wrong.
    fn book() -> Vec<(&'static str, &'static str)> {
        vec![
            ("README.md", "# Top\n[docs](docs/README.md)\n"),
            (
                "docs/README.md",
                "# Documents\n[a](a/README.md) [r](rules.md#one)\n",
            ),
            (
                "docs/a/README.md",
                "# A\n[x](x.md), [self](#a), [up](../rules.md)\n",
            ),
            (
                "docs/a/x.md",
                "# X\n## Two words\n[a](#two-words) [web](https://example.org/y.md#z)\n",
            ),
            ("docs/rules.md", "# Rules\n## One\n"),
        ]
    }

    fn found(book: &[(&str, &str)]) -> Vec<String> {
        let pages = book
            .iter()
            .map(|(path, text)| ((*path).to_owned(), Page::read(text)));
        let files: Vec<String> = book.iter().map(|(path, _)| (*path).to_owned()).collect();
        problems(&pages.collect(), &files)
    }

    #[test]
    fn a_good_book_passes() {
        assert_eq!(found(&book()), Vec::<String>::new());
    }

    #[test]
    fn dead_links_are_found_with_their_place() {
        for (link, why) in [
            (
                "[x](y.md)",
                "docs/a/x.md:4: y.md: there is no file docs/a/y.md",
            ),
            (
                "[x](../rules.md#two)",
                "docs/a/x.md:4: ../rules.md#two: docs/rules.md has no heading #two",
            ),
            (
                "[x](#three)",
                "docs/a/x.md:4: #three: docs/a/x.md has no heading #three",
            ),
            (
                "[x](../../../etc)",
                "docs/a/x.md:4: ../../../etc: it leaves the repository",
            ),
            ("[x](../a)", "docs/a/x.md:4: ../a: there is no file docs/a"),
        ] {
            let mut book = book();
            let text = format!("{}{link}\n", book[3].1);
            book[3].1 = &text;
            assert_eq!(found(&book), [why]);
        }
    }

    #[test]
    fn a_page_without_a_place_in_a_table_of_contents_is_found() {
        let mut book = book();
        book.push(("docs/a/y.md", "# Y\n"));
        // A link from a page that is no table of contents does not count.
        book[3].1 = "# X\n[y](y.md)\n";
        let [problem] = &found(&book)[..] else {
            panic!("{:?}", found(&book));
        };
        assert!(
            problem.starts_with("docs/a/y.md: no table of contents"),
            "{problem}"
        );
    }

    #[test]
    fn pages_that_other_files_name_must_be_there() {
        let pages = Pages::from([("docs/rules.md".to_owned(), Page::read("# Rules\n"))]);
        let seen = |text: &str| {
            let mut problems = Vec::new();
            named("a.rs", text, &pages, &mut problems);
            problems.len()
        };
        assert_eq!(seen("// see docs/rules.md.\n"), 0);
        assert_eq!(
            seen("file:///usr/share/doc/ropewalk-doc/docs/rules.md\n"),
            0
        );
        assert_eq!(seen("docs/dir, adocs/other.md\n"), 0);
        assert_eq!(seen("(docs/gone.md)\n"), 1);
        assert_eq!(seen("../docs/gone.md#x\n"), 1);
        assert_eq!(seen("#[cfg(test)]\nmod tests { // docs/gone.md\n"), 0);
    }
}
