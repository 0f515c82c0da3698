//! Goal: a log of JSON has nothing else in it, to its last line. Method: the real program, and each line that it writes.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use rig::{LoneMds, run, status};
use serde_json::Value;

/// The configuration of a server in memory, which writes JSON.
fn config(log: &str) -> String {
    format!(
        "listen = ['{}']\ncontrol_listen = ['{}']\nlog_format = 'json'\n{log}",
        rig::address(),
        rig::address()
    )
}

fn lines(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    text.lines().map(parse).collect()
}

#[test]
fn each_line_is_an_object_with_the_fields_of_its_event() {
    let server = LoneMds::start(7, &config(""));
    status(server.dir.path()).unwrap();
    let text = std::fs::read_to_string(server.dir.path().join("log")).unwrap();
    let lines = lines(&text);
    let serving = lines.iter().find(|line| line["message"] == "serving");
    let serving = serving.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(serving["level"], "INFO");
    assert!(serving["boot"].is_u64());
    assert!(serving["timestamp"].is_string() && serving["target"].is_string());

    // The other one finds its ports taken, and says so in the same way.
    let config = server.dir.path().join("mds.toml");
    let other = server.dir.path().join("other.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&other, text.replace("/mds'", "/other'")).unwrap();
    let output = run(&["mds", "--config", other.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let last = self::lines(&said).pop().unwrap();
    assert_eq!(last["level"], "ERROR");
    let message = last["message"].as_str().unwrap();
    assert!(
        message.contains("is in use by another program"),
        "{message}"
    );
}

#[test]
fn a_level_of_the_configuration_counts_for_both_formats() {
    let server = LoneMds::start(7, &config("log = 'error'"));
    status(server.dir.path()).unwrap();
    let text = std::fs::read_to_string(server.dir.path().join("log")).unwrap();
    assert_eq!(text, "");
}
