//! One page of Markdown, as far as links care: its title, the anchors of its headings, and where its links lead.
//!
//! Owns no file. It understands what our pages use: headings that begin with `#`, code in backticks and in fences, and
//! links in place.

use std::collections::{BTreeMap, BTreeSet};

/// The folder of all documents but those that every repository has at its top.
pub(crate) const FOLDER: &str = "docs/";

/// Pages by their path.
pub(crate) type Pages = BTreeMap<String, Page>;

/// A page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The text of its first heading.
    pub(crate) title: String,
    /// What may stand after `#` in a link to it.
    pub(crate) anchors: BTreeSet<String>,
    /// Links to other places of the repository, in their order.
    pub(crate) links: Vec<Link>,
}

/// A link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The line that it ends in, from 1.
    pub(crate) line: usize,
    /// As it stands there.
    pub(crate) target: String,
}

impl Page {
    /// Reads a page.
    pub(crate) fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut used = BTreeMap::new();
        let (mut in_fence, mut in_code) = (false, false);
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_fence = !in_fence;
                continue;
            }
            if in_fence {
                continue;
            }
            if let Some(heading) = heading(line) {
                page.add(&heading, &mut used);
                in_code = false;
            }
            // Code may go over the end of a line, but not over that of a paragraph.
            in_code &= !line.trim().is_empty();
            let prose = without_code(line, &mut in_code);
            let targets = prose.split("](").skip(1);
            let targets = targets.filter_map(|rest| rest.split_once(')'));
            let targets = targets.filter(|(target, _)| !is_elsewhere(target));
            page.links.extend(targets.map(|(target, _)| Link {
                line: index + 1,
                target: target.to_owned(),
            }));
        }
        page
    }

    fn add(&mut self, heading: &str, used: &mut BTreeMap<String, usize>) {
        if self.title.is_empty() {
            heading.clone_into(&mut self.title);
        }
        let slug = slug(heading);
        let count = used.entry(slug.clone()).or_default();
        self.anchors.insert(match *count {
            0 => slug,
            n => format!("{slug}-{n}"),
        });
        *count += 1;
    }
}

fn is_elsewhere(target: &str) -> bool {
    ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
}

/// The text of a heading, without its marks, code and links.
fn heading(line: &str) -> Option<String> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let text = text
        .strip_prefix(' ')
        .filter(|_| (1..=6).contains(&level))?;
    let mut plain = String::new();
    for (number, part) in text.split("](").enumerate() {
        // What stands before the bracket that ends a target belongs to that.
        let part = match number {
            0 => part,
            _ => part.split_once(')').map_or("", |(_, rest)| rest),
        };
        plain.push_str(part);
    }
    Some(plain.replace(['`', '[', '*'], "").trim().to_owned())
}

/// How a link names a heading: lower case, hyphens for blanks, and neither signs nor brackets.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// A line with blanks for code in backticks. `in_code` says whether the line begins in code, then whether it ends there.
fn without_code(line: &str, in_code: &mut bool) -> String {
    let blank = |c: char| match c {
        '`' => {
            *in_code = !*in_code;
            ' '
        }
        _ if *in_code => ' ',
        c => c,
    };
    line.chars().map(blank).collect()
}

/// The path, from the root of the repository, of what the page at `from` calls `target`; none if it lies outside.
pub(super) fn resolve(from: &str, target: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    //! Goal: what is a heading and a link is told from what only looks so.
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        let links = Page::read(text).links;
        links.into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn headings_become_anchors_as_browsers_know_them() {
        let page = Page::read(
            "# `mds.toml`: All, *of* it\n#none\n## See [limits](limits.md#x)\n##  Two\n## Two\n```\n# code\n```\n",
        );
        assert_eq!(page.title, "mds.toml: All, of it");
        let anchors: Vec<&str> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["mdstoml-all-of-it", "see-limits", "two", "two-1"]);
    }

    #[test]
    fn links_are_found_and_code_is_left_out() {
        assert_eq!(targets("a [b](c.md), [`d`](e.md#f)\n"), ["c.md", "e.md#f"]);
        assert_eq!(targets("`[b](c.md)` [x](y)\n"), ["y"]);
        assert_eq!(targets("`code over\ntwo [b](c.md) lines` [x](y)\n"), ["y"]);
        assert_eq!(targets("an odd ` here\n\n[x](y)\n"), ["y"]);
        assert_eq!(targets("```\n[b](c.md)\n```\n"), Vec::<String>::new());
        assert_eq!(targets("[b](https://example.org)\n"), Vec::<String>::new());
        assert_eq!(Page::read("\n[b](c)\n").links[0].line, 2);
    }

    #[test]
    fn targets_are_relative_to_the_page() {
        let resolved = |target| resolve("docs/a/x.md", target);
        assert_eq!(resolved("y.md").as_deref(), Some("docs/a/y.md"));
        assert_eq!(resolved("../../README.md").as_deref(), Some("README.md"));
        assert_eq!(resolved("./../b/z.md").as_deref(), Some("docs/b/z.md"));
        assert_eq!(resolved("../../../x"), None);
        assert_eq!(
            resolve("README.md", "docs/r.md").as_deref(),
            Some("docs/r.md")
        );
    }
}
