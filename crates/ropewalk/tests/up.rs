//! Goal: `ropewalk up` brings a file system up, keeps it up when its servers are killed, keeps its data over restarts, and leaves
//! nothing after. Method: the real program, our own client, SIGKILL.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use bytes::Bytes;
use client::{Client, ClientConfig, OpenOptions, UserIdentity, Verifier};
use rig::{Frozen, Up, is_alive, pid_of, quick, run, sentence, signal, status, wait_for};
use rustix::process::Signal;
use std::io::{BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use transport::tcp::TcpConnector;
use transport::{Address, Context, TransportLimits};

async fn connect(address: SocketAddr, owner: &str) -> Client {
    // As root we are squashed, and the root directory is open to everybody; else it is our own.
    let (uid, gid) = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let identity = UserIdentity {
        uid,
        gid,
        gids: Vec::new(),
        machine: "test".to_owned(),
    };
    let verifier = Verifier { bytes: [7; 8] };
    let config = ClientConfig::new(owner.as_bytes().to_vec(), verifier, identity);
    let connector = Arc::new(TcpConnector::new(Context::new(TransportLimits::default())));
    Client::connect(vec![Address::Tcp(address)], connector, config)
        .await
        .unwrap()
}

async fn read_all(client: &Client, path: &str) -> Vec<u8> {
    let file = client.open(path, OpenOptions::read()).await.unwrap();
    let data = file.read_at(0, 4 << 20).await.unwrap();
    let bytes = data.into_bytes().to_vec();
    file.close().await.unwrap();
    bytes
}

fn mount_address(dir: &Path) -> SocketAddr {
    let status = status(dir).unwrap();
    status["mds"]["listen"][0]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn it_comes_up_shows_itself_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path(), &["--ds", "2", "--port", "0"]);
    assert!(up.ready.starts_with("ropewalk is ready\n"), "{}", up.ready);
    let address = mount_address(dir.path());
    let mount = format!(
        "mount -t nfs -o vers=4.2,proto=tcp,port={} 127.0.0.1:/ /mnt",
        address.port()
    );
    assert!(up.ready.contains(&mount), "{}", up.ready);
    let status = status(dir.path()).unwrap();
    let servers = status["mds"]["data_servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2);
    assert!(servers.iter().all(|s| s["state"] == "serving"), "{status}");
    assert_eq!(
        status["mds"]["groups"][0]["ds_ids"],
        serde_json::json!([1, 2])
    );
    assert_eq!(
        (&status["ds-1"]["ds_id"], &status["ds-2"]["ds_id"]),
        (&1.into(), &2.into())
    );
    let text = run(&["status", "--dir", dir.path().to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("serving"));

    let again = run(&["up", "--dir", dir.path().to_str().unwrap()]);
    assert!(
        sentence(&again).contains("in use by another ropewalk"),
        "{}",
        sentence(&again)
    );

    let pids: Vec<u32> = ["mds", "ds-1", "ds-2"]
        .iter()
        .map(|name| pid_of(&status, name).unwrap())
        .collect();
    assert!(up.stop().success());
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert!(std::net::TcpListener::bind(address).is_ok());
    let fewer = run(&["up", "--dir", dir.path().to_str().unwrap(), "--ds", "1"]);
    assert_eq!(fewer.status.code(), Some(2));
    assert!(
        sentence(&fewer).contains("--ds 2 or more"),
        "{}",
        sentence(&fewer)
    );
}

#[test]
fn servers_do_not_outlive_a_killed_parent() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path(), &["--ds", "1", "--port", "0"]);
    let status = status(dir.path()).unwrap();
    let pids = ["mds", "ds-1"].map(|name| pid_of(&status, name).unwrap());
    signal(up.child.id(), Signal::KILL);
    for pid in pids {
        wait_for("end of a child", || (!is_alive(pid)).then_some(()));
    }
}

#[tokio::test]
async fn killed_servers_come_back_and_the_data_stay() {
    let dir = tempfile::tempdir().unwrap();
    quick(dir.path());
    let up = Up::start(
        dir.path(),
        &["--ds", "2", "--port", "0", "--stripe-unit", "64KiB"],
    );
    let address = mount_address(dir.path());
    let wanted: Vec<u8> = (0..300_000_u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    let client = connect(address, "killed").await;
    let file = client
        .open("/kept", OpenOptions::create(0o644))
        .await
        .unwrap();
    file.write_at(0, Bytes::from(wanted.clone())).await.unwrap();
    file.close().await.unwrap();

    for server in ["ds-1", "mds", "ds-2"] {
        let before = pid_of(&status(dir.path()).unwrap(), server).unwrap();
        signal(before, Signal::KILL);
        wait_for("new process that serves", || {
            let status = status(dir.path())?;
            let new = pid_of(&status, server)?;
            let servers = status["mds"]["data_servers"].as_array()?;
            let serving = servers.iter().filter(|s| s["state"] == "serving").count();
            (new != before && serving == 2).then_some(())
        });
        assert_eq!(read_all(&client, "/kept").await, wanted, "after {server}");
    }
    assert!(up.stop().success());

    let up = Up::start(dir.path(), &["--ds", "3"]);
    assert_eq!(mount_address(dir.path()), address);
    let client = connect(address, "later").await;
    assert_eq!(read_all(&client, "/kept").await, wanted);
    assert!(up.stop().success());
}

#[test]
fn a_data_server_whose_directory_is_gone_is_told_of_and_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path(), &["--ds", "2", "--port", "0"]);
    assert!(up.stop().success());
    std::fs::rename(dir.path().join("ds-2"), dir.path().join("elsewhere")).unwrap();
    let path = dir.path().to_str().unwrap();
    let refused = run(&["up", "--dir", path, "--ds", "2"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = sentence(&refused);
    assert!(
        said.contains("in the place of data server 2") && said.contains("expel 2"),
        "{said}"
    );
    assert!(!dir.path().join("ds-2/identity.pem").exists());
    // What the refused start had written.
    let _ = std::fs::remove_dir_all(dir.path().join("ds-2"));

    let mut up = Up::start(dir.path(), &[]);
    let status = status(dir.path()).unwrap();
    assert_eq!(status["mds"]["data_servers"][1]["state"], "away");
    signal(up.child.id(), Signal::TERM);
    let mut told = String::new();
    let stderr = up.child.stderr.take().unwrap();
    BufReader::new(stderr).read_to_string(&mut told).unwrap();
    assert!(told.contains("data server 2 (127.0.0.1:"), "{told}");
}

#[test]
fn status_tells_of_a_server_that_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let _up = Up::start(dir.path(), &["--ds", "1", "--port", "0"]);
    let pid = pid_of(&status(dir.path()).unwrap(), "ds-1").unwrap();
    let frozen = Frozen::new(pid);
    let asked = run(&["status", "--json", "--dir", dir.path().to_str().unwrap()]);
    drop(frozen);
    assert_eq!(asked.status.code(), Some(1));
    let said: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
    let error = said["ds-1"]["error"].as_str().unwrap();
    assert!(error.contains("does not answer within"), "{error}");
    assert_eq!(said["mds"]["role"], "mds");
}

#[tokio::test]
async fn a_cluster_in_memory_serves_and_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path(), &["--ds", "2", "--port", "0", "--memory"]);
    let client = connect(mount_address(dir.path()), "memory").await;
    let file = client.open("/short", OpenOptions::create(0o644)).await;
    let file = file.unwrap();
    file.write_at(0, Bytes::from_static(b"here")).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(read_all(&client, "/short").await, b"here");
    assert!(up.stop().success());
    let up = Up::start(dir.path(), &["--memory"]);
    let client = connect(mount_address(dir.path()), "memory").await;
    assert!(client.metadata("/short").await.unwrap_err().is_not_found());
    assert!(up.stop().success());
}

#[test]
fn the_demo_passes() {
    let output = run(&["demo", "--size", "64MiB"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("demo passed"), "{text}");
}
