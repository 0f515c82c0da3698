//! The rules of docs/rules.md: each that code cites stands there, and each row names code and a test that exist.

use std::collections::{BTreeMap, BTreeSet};

/// The page of the rules.
pub(super) const PAGE: &str = "docs/rules.md";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Rule<'a> {
    code: &'a str,
    test: &'a str,
}

/// What the sources say of rules.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// The first file that cites each rule.
    cited: BTreeMap<String, String>,
    /// Names of functions in tests.
    functions: BTreeSet<String>,
    files: BTreeSet<String>,
}

impl Rules {
    /// Takes in a source file.
    pub(super) fn read(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned());
        for rule in cited(text) {
            self.cited.entry(rule).or_insert_with(|| path.to_owned());
        }
        let words = |line: &str| {
            let (_, rest) = line.split_once("fn ")?;
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            end.map(|end| rest[..end].to_owned())
        };
        self.functions.extend(text.lines().filter_map(words));
    }

    /// What is wrong with the page.
    pub(super) fn judge(&self, page: &str) -> Vec<String> {
        let rules = rows(page);
        let mut problems = Vec::new();
        for (rule, path) in &self.cited {
            if !rules.contains_key(rule.as_str()) {
                problems.push(format!("{path} cites rule {rule}, which {PAGE} lacks"));
            }
        }
        for (name, rule) in &rules {
            if !self.files.contains(&format!("crates/{}", rule.code)) {
                problems.push(format!("{PAGE}: {name}: there is no {}", rule.code));
            }
            if !self.functions.contains(rule.test) {
                problems.push(format!("{PAGE}: {name}: there is no test {}", rule.test));
            }
        }
        problems
    }
}

/// Rules that comments name: `rule R7`, `rules R5, R6`, `(R9)`.
fn cited(text: &str) -> BTreeSet<String> {
    let comments = text.lines().filter_map(|line| line.split_once("//"));
    let mut found = BTreeSet::new();
    for (_, comment) in comments {
        let words = comment.split(|c: char| !c.is_ascii_alphanumeric());
        let numbered = words.filter(|word| {
            let digits = word.strip_prefix('R').unwrap_or_default();
            (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
        });
        found.extend(numbered.map(str::to_owned));
    }
    found
}

fn rows(page: &str) -> BTreeMap<&str, Rule<'_>> {
    let lines = page.lines().filter(|line| line.starts_with("| R"));
    let row = |line| {
        let cells: Vec<&str> = str::split(line, '|').map(str::trim).collect();
        let &[_, name, _, _, code, test, _] = &cells[..] else {
            return None;
        };
        let is_rule = name != "Rule";
        is_rule.then_some((name, Rule { code, test }))
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_TEXT: &str = "| Rule | What holds | Why | Code | Test |\n|---|\n| R1 | a | b | x/src/a.rs | it_holds |\n";

    fn of(path: &str, text: &str) -> Vec<String> {
        let mut rules = Rules::default();
        rules.read("crates/x/src/a.rs", "fn it_holds() {}");
        rules.read(path, text);
        rules.judge(PAGE_TEXT)
    }

    #[test]
    fn a_rule_that_is_cited_must_stand_on_the_page() {
        assert!(of("crates/x/src/b.rs", "// As rule R1 says (see RFC 8881).").is_empty());
        let lacks = ["crates/x/src/b.rs cites rule R2, which docs/rules.md lacks"];
        assert_eq!(of("crates/x/src/b.rs", "//! Rules R1, R2."), lacks);
        assert!(of("crates/x/src/b.rs", "let R2 = 1;").is_empty());
    }

    #[test]
    fn a_row_must_name_code_and_a_test_that_exist() {
        let problems = Rules::default().judge(PAGE_TEXT);
        assert_eq!(
            problems,
            [
                "docs/rules.md: R1: there is no x/src/a.rs",
                "docs/rules.md: R1: there is no test it_holds"
            ]
        );
    }
}
