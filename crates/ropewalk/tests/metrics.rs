//! Goal: a configured server can be watched over HTTP, and `ropewalk up` leaves that configuration alone. Method: the real
//! program and a plain TCP client.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{Up, run, wait_for};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

fn watch(config: &Path, address: SocketAddr) {
    let text = std::fs::read_to_string(config).unwrap();
    std::fs::write(config, format!("metrics_listen = ['{address}']\n{text}")).unwrap();
}

fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    Some(text)
}

/// The value of a metric, with its labels if it has any.
fn value(page: &str, metric: &str) -> Option<u64> {
    let mut lines = page.lines().filter_map(|line| line.rsplit_once(' '));
    lines.find(|(name, _)| *name == metric)?.1.parse().ok()
}

/// The names of all samples that a page may have.
fn declared(page: &str) -> BTreeSet<String> {
    let types = page.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let types = types.filter_map(|line| line.split_once(' '));
    let samples = types.flat_map(|(name, kind)| {
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            "info" => &["_info"],
            _ => &[""],
        };
        suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
    });
    samples.collect()
}

/// The metrics that a file of `packaging/monitoring` names.
fn named_in(file: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|word| word.starts_with("ropewalk_"));
    names.map(str::to_owned).collect()
}

/// What the packaged rules and the dashboard ask for is there.
fn has_what_is_packaged(pages: [&str; 2]) {
    let declared: BTreeSet<_> = pages.into_iter().flat_map(declared).collect();
    for (file, least) in [("rules.yml", 15), ("dashboard.json", 20)] {
        let named = named_in(file);
        assert!(named.len() >= least, "{file}: {named:?}");
        let missing: Vec<_> = named.difference(&declared).collect();
        assert!(missing.is_empty(), "{file}: {missing:?} on no page");
    }
}

#[test]
fn servers_of_up_are_watched_where_their_configuration_says() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--ds", "1", "--port", "0"];
    assert!(Up::start(dir.path(), &options).stop().success());
    let (mds, ds) = (rig::address(), rig::address());
    watch(&dir.path().join("mds/mds.toml"), mds);
    watch(&dir.path().join("ds-1/ds.toml"), ds);

    let up = Up::start(dir.path(), &options);
    for address in [mds, ds] {
        wait_for("health", || {
            let answer = get(address, "/health")?;
            answer.starts_with("HTTP/1.1 200 ").then_some(())
        });
    }
    let port = up.ready.split("port=").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let target = format!("nfs://127.0.0.1:{port}/watched");
    let source = dir.path().join("source");
    std::fs::write(&source, [7; 50_000]).unwrap();
    let copied = run(&["cp", source.to_str().unwrap(), &target]);
    assert!(copied.status.success(), "{copied:?}");

    let page = get(mds, "/metrics").unwrap();
    assert!(value(&page, "ropewalk_operations_total{operation=\"Open\"}").unwrap() > 0);
    assert_eq!(value(&page, "ropewalk_data_server_up{ds=\"1\"}"), Some(1));
    let of_mds = page;
    let page = get(ds, "/metrics").unwrap();
    has_what_is_packaged([&of_mds, &page]);
    let writes = "ropewalk_operation_seconds_count{operation=\"Write\",transport=\"tcp\"}";
    assert!(value(&page, writes).unwrap() > 0, "{page}");
    assert_eq!(value(&page, "ropewalk_serving"), Some(1));
    assert_eq!(
        value(&page, "ropewalk_client_written_bytes_total"),
        Some(50_000)
    );
    assert_eq!(
        value(&page, "ropewalk_handles_refused_total{reason=\"forged\"}"),
        Some(0)
    );
    assert!(get(ds, "/").unwrap().starts_with("HTTP/1.1 404 "));
    assert!(up.stop().success());
}
