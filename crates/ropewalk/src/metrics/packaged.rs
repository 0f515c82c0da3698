//! Goal: each packaged alert rule says how bad it is and which page of the documents helps. That its metrics exist is seen
//! on the pages of running servers (`tests/metrics.rs`).

use std::collections::BTreeSet;
use std::path::Path;

/// The text of a file of the repository.
fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The value of a key in a block of the rules.
fn value<'b>(block: &'b str, key: &str) -> Option<&'b str> {
    let lines = block.lines();
    lines.map(str::trim).find_map(|line| line.strip_prefix(key))
}

#[test]
fn each_alert_has_a_severity_and_a_page_that_is_there() {
    let rules = file("packaging/monitoring/rules.yml");
    let mut names = BTreeSet::new();
    for block in rules.split("- alert: ").skip(1) {
        let name = block.lines().next().unwrap();
        assert!(names.insert(name), "{name} twice");
        let severity = value(block, "severity: ");
        assert!(matches!(severity, Some("critical" | "warning")), "{name}");
        let page = value(block, "page: ").unwrap_or_else(|| panic!("{name} names no page"));
        assert!(page.starts_with("docs/operate/"), "{name}: {page}");
        file(page);
        for key in ["expr: ", "for: ", "summary: ", "description: "] {
            assert!(value(block, key).is_some(), "{name}: {key}");
        }
    }
    assert!(names.len() >= 15, "{names:?}");
}
