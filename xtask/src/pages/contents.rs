//! The order of pages: each README.md is the table of contents of its folder.
//!
//! Nobody keeps a second list. A folder's pages come in the order in which its README.md links them first; the README.md of a
//! folder below brings that folder's pages with it.

use super::page::{FOLDER, Pages, resolve};
use std::collections::BTreeSet;

/// A page in its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path.
    pub(crate) path: String,
    /// The pages of its folder, when it is the README.md of one.
    pub(crate) below: Vec<Entry>,
}

impl Entry {
    /// Its path and those of all below.
    pub(crate) fn paths(&self) -> Vec<&str> {
        let below = self.below.iter().flat_map(Self::paths);
        std::iter::once(self.path.as_str()).chain(below).collect()
    }
}

/// All pages that the tables of contents name, from `docs/README.md` on; that one comes first.
pub(crate) fn contents(pages: &Pages) -> Vec<Entry> {
    let mut seen = BTreeSet::new();
    let top = format!("{FOLDER}README.md");
    if !pages.contains_key(&top) {
        return Vec::new();
    }
    seen.insert(top.clone());
    let mut entries = vec![Entry {
        path: top,
        below: Vec::new(),
    }];
    entries.extend(folder(FOLDER, pages, &mut seen));
    entries
}

/// The pages of a folder, which ends in a slash. Each page counts where it comes first, so folders end.
fn folder(folder_path: &str, pages: &Pages, seen: &mut BTreeSet<String>) -> Vec<Entry> {
    let table = format!("{folder_path}README.md");
    let mut entries = Vec::new();
    for link in pages.get(&table).map_or(&[][..], |page| &page.links) {
        let target = link.target.split('#').next().unwrap_or_default();
        let Some(path) = resolve(&table, target) else {
            continue;
        };
        let Some(name) = path.strip_prefix(folder_path) else {
            continue;
        };
        let below = match name.split_once('/') {
            None => None,
            Some((_, "README.md")) => path.strip_suffix("README.md"),
            // A page of another folder, which has a table of its own.
            Some(_) => continue,
        };
        if !pages.contains_key(&path) || !seen.insert(path.clone()) {
            continue;
        }
        let below = below.map(|below| folder(below, pages, seen));
        let below = below.unwrap_or_default();
        entries.push(Entry { path, below });
    }
    entries
}

#[cfg(test)]
mod tests {
    //! Goal: the order is that of the tables of contents, and nothing comes twice.
    use super::super::page::Page;
    use super::*;

    #[test]
    fn pages_come_in_the_order_of_their_tables() {
        let book = [
            (
                "docs/README.md",
                "[b](b.md) [a](a/README.md) [b](b.md#x) [y](a/y.md) [up](../README.md)",
            ),
            (
                "docs/a/README.md",
                "[z](z.md) [y](y.md) [top](../README.md) [b](../b.md) [me](README.md)",
            ),
            ("docs/a/y.md", "[n](n.md)"),
            ("docs/a/z.md", ""),
            ("docs/a/n.md", ""),
            ("docs/b.md", ""),
            ("README.md", ""),
        ];
        let pages = book.map(|(path, text)| (path.to_owned(), Page::read(text)));
        let entries = contents(&pages.into());
        let paths: Vec<&str> = entries.iter().flat_map(Entry::paths).collect();
        assert_eq!(
            paths,
            [
                "docs/README.md",
                "docs/b.md",
                "docs/a/README.md",
                "docs/a/z.md",
                "docs/a/y.md"
            ]
        );
        assert_eq!(entries[2].below.len(), 2);
    }
}
