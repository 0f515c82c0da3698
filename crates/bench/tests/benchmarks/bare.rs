//! The bare servers as real child processes: the bytes that they serve, what they refuse, and that
//! they end with their parent. Sizes are small; nothing here is a measurement.

use super::{command, launcher};
use ropewalk_bench::bare::ping_pong::{Form, PingPong, Sizes};
use ropewalk_bench::bare::{pwrite, sendfile};
use ropewalk_bench::load::Load;
use ropewalk_bench::process::ServerProcess;
use ropewalk_bench::{BenchError, Subject, pattern};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;
use tempfile::NamedTempFile;

const FILE_BYTES: u64 = 300_000;

const LOAD: Load = Load {
    connections_count: 3,
    warm_up: Duration::from_millis(20),
    measure: Duration::from_millis(150),
};

fn server(kind: &str, file: &NamedTempFile) -> ServerProcess {
    let arguments = [OsString::from(kind), file.path().into()];
    ServerProcess::start(&launcher(), &arguments).unwrap()
}

fn pattern_file() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    pattern::write(file.as_file(), FILE_BYTES).unwrap();
    file
}

fn zero_file() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(FILE_BYTES).unwrap();
    file
}

#[test]
fn sendfile_serves_the_bytes_of_the_range() {
    let file = pattern_file();
    let server = server("sendfile", &file);
    for (offset, len) in [
        (0, 1),
        (1, 4096),
        (131_072, 131_072),
        (299_999, 1),
        (0, 300_000),
    ] {
        sendfile::read_checked(&server, offset, len).unwrap();
    }
    let wrong = zero_file();
    let server = self::server("sendfile", &wrong);
    let result = sendfile::read_checked(&server, 16, 64);
    assert!(matches!(result, Err(BenchError::WrongBytes { .. })));
}

#[test]
fn ranges_outside_of_the_file_are_refused_and_others_go_on() {
    let file = pattern_file();
    let reads = server("sendfile", &file);
    let writes = server("pwrite", &file);
    for (offset, len) in [(299_999, 2), (u64::MAX, 1), (0, 300_001)] {
        let read = sendfile::read_checked(&reads, offset, len);
        assert!(matches!(read, Err(BenchError::Refused)), "{offset} {len}");
        let write = pwrite::write_pattern(&writes, offset, len);
        // The server closes with data unread, so the refusal itself may be lost to a reset.
        assert!(write.is_err(), "{offset} {len}");
    }
    sendfile::read_checked(&reads, 0, 4096).unwrap();
    pwrite::write_pattern(&writes, 0, 4096).unwrap();
}

#[test]
fn pwrite_leaves_the_bytes_in_the_range_and_nowhere_else() {
    let file = zero_file();
    let server = server("pwrite", &file);
    pwrite::write_pattern(&server, 4096, 100_000).unwrap();
    pwrite::write_pattern(&server, 299_000, 1000).unwrap();
    let data = std::fs::read(file.path()).unwrap();
    assert_eq!(data.len() as u64, FILE_BYTES);
    pattern::check(4096, &data[4096..104_096]).unwrap();
    pattern::check(299_000, &data[299_000..]).unwrap();
    assert!(data[..4096].iter().all(|byte| *byte == 0));
    assert!(data[104_096..299_000].iter().all(|byte| *byte == 0));
}

#[test]
fn every_server_answers_a_load() {
    let file = pattern_file();
    let sizes = Sizes {
        request_bytes: 100,
        reply_bytes: 60,
    };
    let ping_pong = |form| PingPong {
        launcher: launcher(),
        form,
        sizes,
    };
    let (path, size_bytes) = (file.path().to_owned(), FILE_BYTES);
    let mut read = sendfile::SendFile {
        launcher: launcher(),
        path: path.clone(),
        size_bytes,
        read_bytes: 16_384,
    };
    let mut write = pwrite::PWrite {
        launcher: launcher(),
        path,
        size_bytes,
        write_bytes: 16_384,
    };
    let mut thread = ping_pong(Form::Thread);
    let mut tokio = ping_pong(Form::Tokio);
    let subjects: [(&mut dyn Subject, u64); 4] = [
        (&mut thread, 160),
        (&mut tokio, 160),
        (&mut read, 16_384),
        (&mut write, 16_384),
    ];
    for (subject, payload_bytes) in subjects {
        let sample = subject.run(&LOAD).unwrap();
        assert!(sample.requests_count > 0, "{}", subject.name());
        assert_eq!(sample.payload_bytes, sample.requests_count * payload_bytes);
        assert_eq!(sample.latency_ns.len(), sample.requests_count);
    }
}

#[test]
fn a_server_ends_when_its_input_does() {
    let mut child = command()
        .args(["serve", "ping-pong", "--form=tokio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let address = line.strip_prefix("ready ").unwrap().trim();
    let mut stream = TcpStream::connect(address).unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
}

#[test]
fn the_program_prints_a_table_and_writes_json() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("runs.json");
    let output = command()
        .args([
            "ping-pong",
            "--rounds=2",
            "--seconds=0.1",
            "--warm-up-seconds=0",
        ])
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("TCP ping-pong\n1 connections"), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let subjects = json["subjects"].as_array().unwrap();
    let names: Vec<_> = subjects.iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["ping-pong thread", "ping-pong tokio"]);
    assert!(
        subjects
            .iter()
            .all(|s| s["runs"].as_array().unwrap().len() == 2)
    );
}

#[test]
fn bad_settings_are_one_clear_sentence() {
    for (arguments, sentence) in [
        (["store", "--connections=0"], "connections must be"),
        (["store", "--seconds=-1"], "seconds must be"),
        (["store", "--rounds=0"], "rounds must be"),
        (["read", "--payload-bytes=0"], "the payload must be"),
        (
            ["write", "--dir=/no/such/folder"],
            "cannot make the test file",
        ),
    ] {
        let output = command().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text.contains(sentence), "{arguments:?}: {text}");
    }
}
