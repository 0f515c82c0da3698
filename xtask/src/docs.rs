//! The documents as a site of static pages, by mdBook.
//!
//! Owns what mdBook is given: a copy of the pages in the target directory, in the folders of the repository, so that every
//! link is the same in both. Nobody writes a `SUMMARY.md`; the tables of contents of [`pages`] are one. mdBook is a program
//! beside this one: as a library it would be built by everybody who runs a test.

use crate::pages::{self, AT_TOP, Entry, Pages};
use crate::repo::{self, Result, clear, unable, write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of mdBook that the site is made with. A new one may change [`BOOK`]'s keys.
const MDBOOK: &str = "0.5.4";

/// The book. Dashes and quotes stay as they are typed: commands have both. A `README.md` keeps its name, which links to it say:
/// mdBook's preprocessors would rename the page alone.
const BOOK: &str = r#"[book]
title = "Ropewalk"
language = "en"
src = "pages"

[build]
create-missing = false
use-default-preprocessors = false

[output.html]
smart-punctuation = false
no-section-label = true

[output.html.fold]
enable = true
level = 0

[output.html.print]
enable = false
"#;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the site goes [default: docs in the target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Makes the site.
pub(crate) fn run(args: &Args) -> Result<()> {
    let files = repo::files()?;
    let pages = pages::all(&files)?;
    repo::verdict("docs", &pages::problems(&pages, &files))?;
    let book = repo::target().join("book");
    stage(&book, &files, &pages)?;
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| repo::target().join("docs"));
    let out = std::path::absolute(&out).map_err(unable(&out))?;
    let mdbook = mdbook()?;
    let mut build = Command::new(&mdbook);
    repo::output(build.arg("build").arg(&book).arg("--dest-dir").arg(&out))?;
    repo::verdict("docs", &dead_links(&out)?)?;
    println!(
        "docs: {} pages: {}",
        pages.len(),
        out.join("index.html").display()
    );
    Ok(())
}

/// Gives mdBook its folder: the pages, what else lies in their folders, the order and the settings.
fn stage(book: &Path, files: &[String], pages: &Pages) -> Result<()> {
    clear(book)?;
    let folder = book.join("pages");
    for path in files {
        if pages::is_document(path) {
            let from = repo::root().join(path);
            let content = fs::read(&from).map_err(unable(&from))?;
            write(&folder.join(path), &content)?;
        }
    }
    write(&folder.join("SUMMARY.md"), summary(pages).as_bytes())?;
    write(&book.join("book.toml"), BOOK.as_bytes())
}

/// The order of pages in mdBook's form: the two tables at the top, then each folder, then what concerns the repository.
fn summary(pages: &Pages) -> String {
    let title = |path: &str| pages.get(path).map_or("", |page| page.title.as_str());
    let mut text = format!("# Summary\n\n[{}](README.md)\n", title("README.md"));
    let entries = pages::contents(pages);
    let (first, rest) = entries.split_at(entries.len().min(1));
    for entry in first {
        text += &format!("[{}]({})\n", title(&entry.path), entry.path);
    }
    text.push('\n');
    list(rest, 0, &title, &mut text);
    text.push('\n');
    for path in AT_TOP
        .iter()
        .skip(1)
        .filter(|path| pages.contains_key(**path))
    {
        text += &format!("[{}]({path})\n", title(path));
    }
    text
}

fn list<'p>(entries: &[Entry], depth: usize, title: &dyn Fn(&str) -> &'p str, text: &mut String) {
    for entry in entries {
        let indent = "  ".repeat(depth);
        *text += &format!("{indent}- [{}]({})\n", title(&entry.path), entry.path);
        list(&entry.below, depth + 1, title, text);
    }
}

/// The program, which is installed below the target directory when it is not there.
fn mdbook() -> Result<PathBuf> {
    let root = repo::target()
        .join("tools")
        .join(format!("mdbook-{MDBOOK}"));
    let program = root.join("bin/mdbook");
    if program.is_file() {
        return Ok(program);
    }
    println!(
        "docs: mdBook {MDBOOK} is installed below {}",
        root.display()
    );
    let mut install = repo::cargo();
    install.args(["install", "--locked", "--version", MDBOOK]);
    // Neither its web server nor its watching of files is needed.
    install.args(["--no-default-features", "--features", "search"]);
    let status = install.arg("--root").arg(&root).arg("mdbook").status();
    let status = status.map_err(|e| format!("cannot run cargo: {e}"))?;
    match status.success() {
        true => Ok(program),
        false => Err("mdBook cannot be installed".to_owned()),
    }
}

/// Links of the site that lead to no file of it.
fn dead_links(site: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut folders = vec![site.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(unable(&folder))? {
            let path = entry.map_err(unable(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "html") {
                let html = fs::read_to_string(&path).map_err(unable(&path))?;
                let dead = hrefs(&html).filter(|href| !folder.join(href).exists());
                let name = path.strip_prefix(site).unwrap_or(&path).display();
                problems.extend(dead.map(|href| format!("{name}: {href} leads nowhere")));
            }
        }
    }
    problems.sort();
    Ok(problems)
}

/// Files that a page of the site links to, without those of other sites.
fn hrefs(html: &str) -> impl Iterator<Item = &str> {
    let targets = html.split("href=\"").skip(1);
    let targets = targets.filter_map(|rest| rest.split('"').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains(':') && !file.starts_with('/'))
}

#[cfg(test)]
mod tests {
    //! Goal: mdBook is given all pages in their order, and dead links of a site are told from good ones.
    use super::*;
    use crate::pages::Page;

    #[test]
    fn the_summary_has_the_order_of_the_tables_of_contents() {
        let book = [
            ("README.md", "# Top\n"),
            ("CHANGELOG.md", "# Changes\n"),
            (
                "docs/README.md",
                "# Documents\n[a](a/README.md) [r](r.md)\n",
            ),
            ("docs/a/README.md", "# A\n[x](x.md)\n"),
            ("docs/a/x.md", "# X\n"),
            ("docs/r.md", "# R\n"),
        ];
        let pages = book.map(|(path, text)| (path.to_owned(), Page::read(text)));
        assert_eq!(
            summary(&pages.into()),
            "# Summary\n\n[Top](README.md)\n[Documents](docs/README.md)\n\n\
             - [A](docs/a/README.md)\n  - [X](docs/a/x.md)\n- [R](docs/r.md)\n\n\
             [Changes](CHANGELOG.md)\n"
        );
    }

    #[test]
    fn every_page_of_the_repository_is_in_the_summary() {
        let files = repo::files().unwrap();
        let pages = pages::all(&files).unwrap();
        let summary = summary(&pages);
        for path in pages.keys() {
            assert_eq!(summary.matches(&format!("]({path})")).count(), 1, "{path}");
        }
        assert!(pages.len() > 40, "only {} pages", pages.len());
    }

    #[test]
    fn links_of_a_site_are_read_from_its_pages() {
        let html = r##"<a href="a.html#x"> <a href="#y"> <a href="https://example.org"> <link href="b.css"> <a href="/">"##;
        assert_eq!(hrefs(html).collect::<Vec<_>>(), ["a.html", "b.css"]);
    }
}
