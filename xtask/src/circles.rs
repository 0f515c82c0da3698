//! Circles between the modules of a crate: groups of modules each of which reaches all others.
//!
//! A module reaches another by a path that begins with `crate`, `super` or `self`, or by the name of one of its own
//! submodules. A name that a module re-exports counts for the module which defines it. Tests are left out. Circles that
//! stay are in [`LIST`], each with its reason. A new one fails the check, and so does a line that is no circle any
//! more.

use crate::repo::{self, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The circles that stay.
const LIST: &str = "xtask/module-circles.txt";

/// Modules of one crate by their path, such as `ops::read`. The root is the empty path.
type Modules = BTreeMap<String, Source>;

/// What the check knows of a module.
#[derive(Debug, Default)]
struct Source {
    /// Absolute paths inside the crate that its code names.
    paths: Vec<Vec<String>>,
    /// Names that it imports or re-exports, and what they stand for.
    names: BTreeMap<String, Vec<String>>,
    /// Modules all of whose names it imports or re-exports.
    globs: Vec<Vec<String>>,
    /// Names that it defines.
    defines: BTreeSet<String>,
}

/// Words before a name that is defined.
const DEFINING: [&str; 8] = [
    "struct", "enum", "union", "fn", "const", "type", "trait", "static",
];

/// Finds the circles of all crates and compares them with the list. Returns what is wrong. With `edges`, prints what each
/// module of a circle uses of the others.
pub(crate) fn check(edges: bool) -> Result<Vec<String>> {
    let listed = parse_list(&repo::read(LIST)?)?;
    let mut problems = Vec::new();
    let mut found = BTreeSet::new();
    for (name, files) in by_crate(&repo::files()?) {
        let modules = read_crate(&files)?;
        for circle in circles(&modules) {
            if edges {
                print_edges(name, &modules, &circle);
            }
            found.insert(format!("{name}: {}", circle.join(" ")));
        }
    }
    for circle in found.iter().filter(|c| !listed.contains(*c)) {
        problems.push(format!("a circle of modules in {circle}"));
    }
    for circle in listed.iter().filter(|c| !found.contains(*c)) {
        problems.push(format!("{LIST} has a circle that is none: {circle}"));
    }
    println!(
        "layers: {} circles of modules; {LIST} has those that stay",
        found.len()
    );
    Ok(problems)
}

fn print_edges(name: &str, modules: &Modules, circle: &[String]) {
    println!("{name}:");
    for from in circle {
        for path in &modules[from].paths {
            let to = target(modules, path);
            if to != *from && circle.contains(&to) {
                println!("  {from} -> {to}: {}", path.join("::"));
            }
        }
    }
}

/// Lines of the list: `crate: module module | reason`.
fn parse_list(text: &str) -> Result<BTreeSet<String>> {
    let lines = text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|line| match line.split_once(" | ") {
            Some((circle, reason)) if !reason.trim().is_empty() => Ok(circle.to_owned()),
            _ => Err(format!("{LIST}: no reason in `{line}`")),
        })
        .collect()
}

/// Sources of each crate: the path below `src`, and that in the repository.
fn by_crate(files: &[String]) -> BTreeMap<&str, Vec<(&str, &str)>> {
    let mut out: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for file in files {
        let inside = file.strip_prefix("crates/").unwrap_or(file);
        if let Some((name, source)) = inside.split_once("/src/")
            && source.ends_with(".rs")
        {
            out.entry(name).or_default().push((source, file));
        }
    }
    out
}

fn read_crate(files: &[(&str, &str)]) -> Result<Modules> {
    let mut modules = Modules::new();
    for (inside, file) in files {
        let path = module_of(Path::new(inside));
        if path.split("::").any(|part| part == "tests") {
            continue;
        }
        let source = source_of(&path, &code_of(&repo::read(file)?));
        modules.insert(path, source);
    }
    Ok(modules)
}

/// The module of a file, by its path below `src`.
fn module_of(file: &Path) -> String {
    let text = file.with_extension("").to_string_lossy().replace('/', "::");
    match text.as_str() {
        "lib" | "main" => String::new(),
        text => text.strip_suffix("::mod").unwrap_or(text).to_owned(),
    }
}

/// Code without its tests, comments and literals.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or("");
        let parts = line.split('"').step_by(2);
        out.extend(parts);
        out.push('\n');
    }
    out
}

/// Cuts code into words and the signs that paths are made of.
fn tokens(code: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let len = if word(first) {
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, next) = rest.split_at(len);
        if !token.trim().is_empty() {
            out.push(token);
        }
        rest = next;
    }
    out
}

fn source_of(module: &str, code: &str) -> Source {
    let tokens = tokens(code);
    let mut source = Source::default();
    let children = tokens.windows(3).filter(|w| w[0] == "mod" && w[2] == ";");
    let children: BTreeSet<&str> = children.map(|w| w[1]).collect();
    let defined = tokens.windows(2).filter(|w| DEFINING.contains(&w[0]));
    source.defines = defined.map(|w| w[1].to_owned()).collect();
    let mut at = 0;
    while at < tokens.len() {
        let is_use = tokens[at] == "use";
        let start = at + usize::from(is_use);
        let head = tokens.get(start).copied().unwrap_or_default();
        let continues = tokens.get(start + 1) == Some(&"::");
        let is_path_start = start == 0 || tokens[start - 1] != "::";
        let is_ours = matches!(head, "crate" | "super" | "self") || children.contains(head);
        if is_ours && continues && is_path_start {
            let mut found = Vec::new();
            at = read_tree(&tokens, start, Vec::new(), &mut found);
            for (path, name) in found {
                let Some(mut path) = absolute(module, &path) else {
                    continue;
                };
                if name == "*" {
                    path.pop();
                    source.globs.push(path.clone());
                } else if is_use {
                    source.names.insert(name, path.clone());
                }
                source.paths.push(path);
            }
        } else {
            at += 1;
        }
    }
    source
}

/// Reads a path, or a tree of paths in braces, and the name that each gets. Returns where it ends.
fn read_tree(
    tokens: &[&str],
    mut at: usize,
    mut prefix: Vec<String>,
    found: &mut Vec<(Vec<String>, String)>,
) -> usize {
    loop {
        match tokens.get(at).copied() {
            Some("{") => {
                at += 1;
                while let Some(token) = tokens.get(at) {
                    match *token {
                        "}" => return at + 1,
                        "," => at += 1,
                        _ => {
                            let next = read_tree(tokens, at, prefix.clone(), found);
                            at = next.max(at + 1);
                        }
                    }
                }
                return at;
            }
            Some(word) => prefix.push(word.to_owned()),
            None => return at,
        }
        at += 1;
        if tokens.get(at) == Some(&"::") {
            at += 1;
            continue;
        }
        let mut name = prefix.last().cloned().unwrap_or_default();
        if name == "self" && prefix.len() > 1 {
            prefix.pop();
            name = prefix.last().cloned().unwrap_or_default();
        }
        if tokens.get(at) == Some(&"as") {
            name = tokens.get(at + 1).copied().unwrap_or_default().to_owned();
            at += 2;
        }
        found.push((prefix, name));
        return at;
    }
}

/// A path from the root of the crate; `None` for one that leaves it.
fn absolute(module: &str, path: &[String]) -> Option<Vec<String>> {
    let mut base: Vec<String> = match path.first().map(String::as_str) {
        Some("crate") => Vec::new(),
        _ => module
            .split("::")
            .filter(|p| !p.is_empty())
            .map(str::to_owned)
            .collect(),
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => {
                base.pop()?;
            }
            part => base.push(part.to_owned()),
        }
    }
    Some(base)
}

/// The module that a path leads to, through re-exports.
fn target(modules: &Modules, path: &[String]) -> String {
    let mut path = path.to_vec();
    // A chain of re-exports is short; a circle of them ends here.
    for _ in 0..8 {
        let longest = (0..=path.len())
            .rev()
            .find(|n| modules.contains_key(&path[..*n].join("::")));
        let len = longest.unwrap_or(0);
        let module = path[..len].join("::");
        let name = path.get(len);
        let renamed = name.and_then(|name| stands_for(modules, &module, name));
        match renamed {
            Some(to) if to[..] != path[..=len] => {
                let mut next = to;
                next.extend(path.drain(len + 1..));
                path = next;
            }
            _ => return module,
        }
    }
    path.join("::")
}

/// What a name in a module stands for, when the module does not define it.
fn stands_for(modules: &Modules, module: &str, name: &str) -> Option<Vec<String>> {
    let source = modules.get(module)?;
    if let Some(to) = source.names.get(name) {
        return Some(to.clone());
    }
    if source.defines.contains(name) {
        return None;
    }
    let defines = |glob: &&Vec<String>| {
        let found = modules.get(&glob.join("::"));
        found.is_some_and(|m| m.defines.contains(name))
    };
    let mut to = source.globs.iter().find(defines)?.clone();
    to.push(name.to_owned());
    Some(to)
}

/// Groups of two or more modules each of which reaches all others.
fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let mut reach: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (module, source) in modules {
        let targets = source.paths.iter().map(|path| target(modules, path));
        // A re-export of a root or a parent is no use of what it names.
        let used = targets.filter(|to| to != module);
        reach.insert(module, used.collect());
    }
    reach.remove("");
    let all: BTreeMap<&str, BTreeSet<String>> = reach
        .keys()
        .map(|from| (*from, reached(&reach, from)))
        .collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, tos) in &all {
        let back = tos
            .iter()
            .filter(|to| all.get(to.as_str()).is_some_and(|t| t.contains(*from)));
        let mut circle: Vec<String> = back.cloned().collect();
        circle.push((*from).to_owned());
        circle.sort();
        circle.dedup();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reached(reach: &BTreeMap<&str, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(module) = open.pop() {
        for to in reach.get(module.as_str()).into_iter().flatten() {
            if seen.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let read = |(file, text): &(&str, &str)| {
            let module = module_of(Path::new(file));
            let source = source_of(&module, &code_of(text));
            (module, source)
        };
        files.iter().map(read).collect()
    }

    #[test]
    fn a_circle_is_found_through_re_exports_braces_and_parents() {
        let found = circles(&modules(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::Thing;\n"),
            ("a.rs", "use crate::Thing;\n"),
            ("b.rs", "use crate::{\n    c::{self, Other},\n};\n"),
            (
                "c/mod.rs",
                "mod d;\n// use crate::a::X;\nfn f() { d::go() }\n",
            ),
            (
                "c/d.rs",
                "fn go() { super::super::a::x(\"crate::b::y\") }\n",
            ),
            ("e.rs", "use crate::a::X;\n"),
        ]));
        assert_eq!(found, [["a", "b", "c", "c::d"]]);
    }

    #[test]
    fn tests_and_the_root_make_no_circle() {
        let found = circles(&modules(&[
            ("lib.rs", "mod a;\nmod b;\npub fn f() { a::g() }\n"),
            ("a.rs", "use crate::b::X;\npub fn g() {}\n"),
            (
                "b.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::a::Y;\n}\n",
            ),
        ]));
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_line_of_the_list_needs_its_reason() {
        assert!(parse_list("# none\nmds: a b | the table\n").is_ok());
        assert!(parse_list("mds: a b\n").is_err());
    }
}
