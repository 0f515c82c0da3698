//! Goal: an administrator sees which directory and which client is busy, by the API and by `ropewalk top`.
//! Method: the real program; files copied into one directory by its commands.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{LoneMds, address, connect, ropewalk, run};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// Files that are copied; each needs some operations.
const FILES_COUNT: usize = 200;
/// Bytes of each.
const FILE_BYTES: usize = 2000;

struct Busy {
    server: LoneMds,
    nfs: SocketAddr,
    api: SocketAddr,
}

impl Busy {
    fn start() -> Self {
        let (nfs, control, api) = (address(), address(), address());
        let config = format!(
            "listen = ['{nfs}']\ncontrol_listen = ['{control}']\nadmin_listen = ['{api}']\n[root]\nmode = '1777'\n"
        );
        Self {
            server: LoneMds::start(64, &config),
            nfs,
            api,
        }
    }

    fn dir(&self) -> &str {
        self.server.dir.path().to_str().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let url = format!("nfs://{}/", self.nfs);
        let output = ropewalk()
            .args(arguments)
            .env("ROPEWALK_URL", url)
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asks by HTTP as a viewer.
    fn ask(&self, target: &str) -> (u16, Value) {
        let token = self.ok(&[
            "access",
            "create",
            "eye",
            "--role",
            "viewer",
            "--dir",
            self.dir(),
        ]);
        let mut stream = TcpStream::connect(self.api).unwrap();
        write!(
            stream,
            "GET /api/v1{target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\r\n",
            self.api,
            token.trim()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap())
    }
}

fn files(dir: &Path) {
    for number in 0..FILES_COUNT {
        std::fs::write(dir.join(format!("{number}")), [7; FILE_BYTES]).unwrap();
    }
}

#[tokio::test]
async fn the_directory_and_the_client_of_a_copy_are_told_by_the_api_and_by_top() {
    let busy = Busy::start();
    let (status, idle) = busy.ask("/top");
    assert_eq!(status, 200, "{idle}");
    let local = tempfile::tempdir().unwrap();
    files(local.path());
    busy.ok(&["mkdir", "projects"]);
    busy.ok(&["mkdir", "projects/quiet"]);
    busy.ok(&[
        "cp",
        "-r",
        local.path().to_str().unwrap(),
        ":/projects/scene",
    ]);
    let worker = connect(busy.nfs, "worker").await;
    for number in 0..FILES_COUNT {
        let dir = format!("/projects/quiet/{number}");
        worker.mkdir(&dir, 0o755).await.unwrap();
    }
    let (status, top) = busy.ask("/top?limit=3");
    assert_eq!(status, 200, "{top}");
    assert_eq!(
        (&top["limit"], &top["sampled_one_in"]),
        (&3.into(), &16.into())
    );
    let first = &top["directories"][0];
    assert_eq!(first["path"], "/projects/scene", "{top}");
    // At least one operation for each file, over the time that rates are of.
    let counted =
        |row: &Value, field: &str| row[field].as_f64().unwrap() * top["seconds"].as_f64().unwrap();
    let operations = counted(first, "operations_per_s");
    let (least, most) = (FILES_COUNT as f64 / 2.0, FILES_COUNT as f64 * 20.0);
    assert!((least..most).contains(&operations), "{top}");
    assert!(top["directories"].as_array().unwrap().len() <= 3, "{top}");
    let clients = top["clients"].as_array().unwrap();
    let of = |owner: &str| clients.iter().find(|row| row["owner"] == owner).unwrap();
    assert_eq!(of("worker")["protocol"], "NFSv4.2", "{top}");
    // That of the copy has gone.
    let client = of("");
    assert_eq!(
        (&client["protocol"], client["id"].is_string()),
        (&"NFSv4".into(), true)
    );
    let written = counted(client, "written_bytes_per_s");
    // Some dozen samples.
    let most = 4.0 * (FILES_COUNT * FILE_BYTES) as f64;
    assert!(written > 0.0 && written < most, "{top}");
    let line = run(&["top", "--json", "--count", "1", "--dir", busy.dir()]);
    let line: Value = serde_json::from_slice(&line.stdout).unwrap();
    assert_eq!(line["directories"][0]["path"], "/projects/scene", "{line}");
    let mut owners = line["busiest_clients"].as_array().unwrap().iter();
    assert!(owners.any(|row| row["owner"] == "worker"), "{line}");
    // Its path is looked up when it is asked for.
    busy.ok(&["mv", "projects/scene", "projects/moved"]);
    assert_eq!(
        busy.ask("/top").1["directories"][0]["path"],
        "/projects/moved"
    );
}
