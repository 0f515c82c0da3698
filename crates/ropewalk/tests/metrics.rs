//! Goal: a configured server can be watched over HTTP, and `ropewalk up` leaves that configuration alone. Method: the real
//! program and a plain TCP client.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{Killed, Up, run, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn watch(config: &Path, address: SocketAddr) {
    let text = std::fs::read_to_string(config).unwrap();
    std::fs::write(config, format!("metrics_listen = ['{address}']\n{text}")).unwrap();
}

fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
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
    let text = std::fs::read_to_string(packaged().join(file)).unwrap();
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

fn packaged() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring")
}

/// Whether Prometheus is on this machine. It must be in CI.
fn has_prometheus() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    if is_there("prometheus") && is_there("promtool") {
        return true;
    }
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!is_ci, "there is no Prometheus; .ci/apt-packages has it");
    eprintln!("skipped: `apt-get install prometheus` brings what this needs");
    false
}

#[test]
fn the_unit_tests_of_the_alert_rules_hold() {
    if has_prometheus() {
        let mut promtool = Command::new("promtool");
        promtool.args(["test", "rules", "rules_test.yml", "rules_days_test.yml"]);
        let output = promtool.current_dir(packaged()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// Prometheus scrapes both servers, and evaluates the packaged rules without an error.
fn is_scraped(dir: &Path, servers: [SocketAddr; 2]) {
    if !has_prometheus() {
        return;
    }
    let [mds, ds] = servers;
    let own = rig::address();
    let rules = packaged().join("rules.yml");
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs: [{{job_name: \
         ropewalk, static_configs: [{{targets: ['{mds}', '{ds}']}}]}}]\n",
        rules.display(),
    );
    let file = dir.join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            dir.join("tsdb").display()
        ))
        .arg(format!("--web.listen-address={own}"))
        .stderr(Stdio::null())
        .spawn();
    let _prometheus = Killed(prometheus.unwrap());
    wait_for("a scrape of both servers", || {
        let query = "/api/v1/query?query=sum(up%7Bjob=%22ropewalk%22%7D)";
        get(own, query)?.contains("\"2\"]").then_some(())
    });
    wait_for("an evaluation of the rules", || {
        let answer = get(own, "/api/v1/rules")?;
        assert!(!answer.contains("\"health\":\"err\""), "{answer}");
        let is_done = answer.contains("\"health\":\"ok\"") && !answer.contains("\"unknown\"");
        is_done.then_some(())
    });
}

/// promtool finds nothing wrong with names, help and types of a page.
fn is_by_convention(page: &str) {
    if !has_prometheus() {
        return;
    }
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(plain_text(page).as_bytes()).unwrap();
    drop(input);
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}"
    );
}

/// The body of a page of OpenMetrics in the older text format, which alone promtool reads: there a family has the name of its samples.
fn plain_text(answer: &str) -> String {
    let (_, page) = answer.split_once("\r\n\r\n").unwrap();
    let types = page.lines().filter_map(|l| l.strip_prefix("# TYPE "));
    let kinds: BTreeMap<&str, &str> = types.filter_map(|line| line.split_once(' ')).collect();
    let mut text = String::new();
    for line in page.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let parts = (words.next(), words.next(), words.next(), words.next());
        let line = match parts {
            (Some("#"), Some(what), Some(name), Some(rest)) => {
                let (end, kind) = match kinds[name] {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    kind => ("", kind),
                };
                let rest = if what == "TYPE" { kind } else { rest };
                format!("# {what} {name}{end} {rest}")
            }
            _ => line.to_owned(),
        };
        text += &(line + "\n");
    }
    text
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
    is_scraped(dir.path(), [mds, ds]);
    is_by_convention(&of_mds);
    is_by_convention(&page);
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
