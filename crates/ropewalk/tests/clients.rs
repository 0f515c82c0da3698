//! Goal: an administrator sees who holds what, ends a client, and changes a configuration that runs. Method: the real program, and our
//! own client.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use client::{LockKind, OpenOptions};
use rig::{LoneMds, address, connect, run, sentence};
use serde_json::Value;

fn json(server: &LoneMds, arguments: &[&str]) -> Value {
    let dir = server.dir.path().to_str().unwrap();
    let output = run(&[arguments, &["--json", "--dir", dir]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {output:?}"))
}

fn start() -> (LoneMds, std::net::SocketAddr) {
    let (nfs, control) = (address(), address());
    let listeners = format!("listen = ['{nfs}']\ncontrol_listen = ['{control}']\n");
    let open = "[root]\nmode = '1777'\n";
    (LoneMds::start(64, &format!("{listeners}{open}")), nfs)
}

#[tokio::test]
async fn a_client_is_listed_with_what_it_holds_and_ended_by_order() {
    let (server, nfs) = start();
    let client = connect(nfs, "holder").await;
    let create = OpenOptions::create(0o644);
    let file = client.open("/f", create).await.unwrap();
    file.lock(LockKind::Exclusive, 5..15).await.unwrap();
    let listed = json(&server, &["client", "list"]);
    let row = &listed["clients"][0];
    assert_eq!(
        (&row["protocol"], &row["owner"]),
        (&"NFSv4.2".into(), &"holder".into())
    );
    assert_eq!((&row["opens"], &row["locks"]), (&1.into(), &1.into()));
    assert!(
        row["addresses"][0]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:")
    );
    let id = row["id"].as_str().unwrap();
    let whats = |held: &Value| -> Vec<(String, Option<String>)> {
        let rows = held["holds"].as_array().unwrap().iter();
        let mut whats: Vec<_> = rows
            .map(|row| {
                (
                    row["what"].as_str().unwrap().to_owned(),
                    row["path"].as_str().map(str::to_owned),
                )
            })
            .filter(|(what, _)| what == "open" || what == "lock")
            .collect();
        whats.sort();
        whats
    };
    let path = Some("/f".to_owned());
    let shown = json(&server, &["client", "show", id]);
    assert_eq!(
        whats(&shown),
        [("lock".into(), path.clone()), ("open".into(), path)]
    );
    let locks = json(&server, &["lock", "list", "/f"]);
    assert_eq!(
        whats(&locks),
        [("lock".into(), None), ("open".into(), None)]
    );
    let lock = locks["holds"].as_array().unwrap().iter();
    let lock = lock.clone().find(|row| row["what"] == "lock").unwrap();
    assert_eq!((&lock["offset"], &lock["length"]), (&5.into(), &10.into()));
    assert_eq!(json(&server, &["client", "evict", id])["id"], id, "asked");
    let evicted = json(&server, &["client", "evict", id, "--yes"]);
    assert_eq!(
        (&evicted["opens"], &evicted["locks"]),
        (&1.into(), &1.into())
    );
    let gone = json(&server, &["lock", "list", "/f"]);
    assert!(gone["holds"].as_array().unwrap().is_empty(), "{gone}");
    let log = std::fs::read_to_string(server.dir.path().join("log")).unwrap();
    assert!(log.contains("audit:"), "{log}");
    // It begins anew by itself.
    let other = OpenOptions::create(0o644);
    client.open("/g", other).await.unwrap();
}

#[tokio::test]
async fn exports_change_at_once_and_a_wrong_file_changes_nothing() {
    let (server, nfs) = start();
    let client = connect(nfs, "writer").await;
    client.mkdir("/a", 0o755).await.unwrap();
    let config = server.dir.path().join("mds.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    let change = |text: &str| std::fs::write(&config, text).unwrap();
    let read_only = "[[export]]\nclients = '127.0.0.1'\naccess = 'ro'\n";
    change(&format!("copies = 2\n{before}{read_only}"));
    let told = json(&server, &["reload"]);
    assert_eq!(told["changed"], serde_json::json!(["export"]));
    assert_eq!(told["needs_restart"], serde_json::json!(["copies"]));
    client.mkdir("/b", 0o755).await.unwrap_err();
    change(&format!("copeis = 2\n{before}"));
    let dir = server.dir.path().to_str().unwrap();
    let refused = run(&["reload", "--dir", dir]);
    assert!(sentence(&refused).contains("did you mean `copies`?"));
    client.mkdir("/b", 0o755).await.unwrap_err();
    change(&before);
    assert_eq!(
        json(&server, &["reload"])["changed"],
        serde_json::json!(["export"])
    );
    client.mkdir("/b", 0o755).await.unwrap();
}
