//! Goal: a log of JSON has nothing else in it, to its last line, and what is told of a request names it. Method: the real
//! program, and each line that it writes.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

mod rig;

use rig::{LoneMds, connect_in_life, run, status, wait_for};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

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

/// A server has this said while it serves EXCHANGE_ID: machines with one name end each other's sessions. Returns its log and
/// what it keeps of it as events.
async fn with_a_clash(format: &str) -> (String, String) {
    let (nfs, control) = (rig::address(), rig::address());
    let config = format!("listen = ['{nfs}']\ncontrol_listen = ['{control}']\n{format}");
    let server = tokio::task::block_in_place(|| LoneMds::start(7, &config));
    let mut lives = Vec::new();
    for life in [1, 2, 1] {
        lives.push(connect_in_life(nfs, "two machines", life).await);
    }
    let log = server.dir.path().join("log");
    let text = tokio::task::block_in_place(|| {
        wait_for("warning", || {
            let text = std::fs::read_to_string(&log).unwrap();
            text.contains("two clients have one name").then_some(text)
        })
    });
    (text, events(&server))
}

/// The answer of `GET /api/v1/events` at the admin socket.
fn events(server: &LoneMds) -> String {
    let mut socket = UnixStream::connect(server.dir.path().join("mds/admin.sock")).unwrap();
    let request = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// The address of the test's client and a transaction id, as `127.0.0.1:54321/0x0000002a`.
fn assert_names_a_call(id: &str) {
    let (address, xid) = id.split_once('/').unwrap_or_else(|| panic!("{id}"));
    let address: SocketAddr = address.parse().unwrap();
    assert!(address.ip().is_loopback() && address.port() != 0, "{id}");
    let digits = xid.strip_prefix("0x").unwrap_or_else(|| panic!("{id}"));
    assert!(
        digits.len() == 8 && u32::from_str_radix(digits, 16).is_ok(),
        "{id}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warning_names_the_request_that_it_was_written_for() {
    let is_it = |text: &str| text.contains("two clients have one name");
    let (text, events) = with_a_clash("").await;
    let line = text.lines().find(|line| is_it(line)).unwrap();
    let (_, id) = line.split_once(" request_id=").unwrap();
    assert_names_a_call(id);
    assert!(events.contains(&format!(" request_id={id}\"")), "{events}");
    let serving = text.lines().find(|line| line.contains("serving")).unwrap();
    assert!(!serving.contains("request_id"), "{serving}");

    let (text, _) = with_a_clash("log_format = 'json'\n").await;
    let lines = lines(&text);
    let find = |message: &str| {
        let is_it = |line: &&Value| line["message"].as_str().unwrap().starts_with(message);
        lines.iter().find(is_it).unwrap_or_else(|| panic!("{text}"))
    };
    let line = find("two clients have one name");
    assert_names_a_call(line["request_id"].as_str().unwrap());
    assert_eq!(line["owner"], "two machines");
    assert!(find("serving")["request_id"].is_null());
}

#[test]
fn a_level_of_the_configuration_counts_for_both_formats() {
    let server = LoneMds::start(7, &config("log = 'error'"));
    status(server.dir.path()).unwrap();
    let text = std::fs::read_to_string(server.dir.path().join("log")).unwrap();
    assert_eq!(text, "");
}
