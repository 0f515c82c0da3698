//! `bench mount`: servers are started beside each other, and a kernel mounts them.

use super::{command, ropewalk};
use std::path::Path;

/// Whether a program is in the search path.
fn finds(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Whether this machine can run such a kernel; what is missing is said.
fn has_kernel() -> bool {
    let missing = ["linux.uml", "ip", "unshare", "taskset", "modprobe"]
        .into_iter()
        .find(|program| !finds(program));
    let why = match missing {
        _ if !rustix::process::geteuid().is_root() => "this is not root".to_owned(),
        Some(program) => format!("there is no {program}"),
        None if !Path::new("/dev/net/tun").exists() => "there is no /dev/net/tun".to_owned(),
        None => return true,
    };
    eprintln!("{why}: nothing is tested");
    false
}

#[test]
fn a_kernel_measures_both_servers_and_leaves_nothing() {
    if !has_kernel() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let reports = dir.path().join("reports");
    let json = dir.path().join("runs.json");
    let output = command()
        .args(["mount", "--quick", "--work=save,mkdir", "--ds=1"])
        .arg("--ropewalk")
        .arg(ropewalk())
        .arg("--dir")
        .arg(dir.path())
        .arg("--out")
        .arg(&reports)
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let places = json["places"].as_array().unwrap();
    let has_peer = ropewalk_bench::peer::find().is_some();
    assert_eq!(places.len(), if has_peer { 2 } else { 1 }, "{text}");
    for place in places {
        for work in ["save", "mkdir"] {
            let work = &place["work"][work];
            assert!(work["seconds"][0].as_f64().unwrap() > 0.0, "{place}");
            // Counted by the kernel: it was on a mount of NFS.
            assert!(
                work["requests"]["median"].as_f64().unwrap() > 0.0,
                "{place}"
            );
        }
    }
    assert!(reports.join("mount-seconds.svg").is_file());
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 2, "something is left beside the reports and the JSON");
}

#[test]
fn what_is_started_does_not_go_with_directories() {
    for more in [["--ds", "1"], ["--dir", "/"], ["--server", "a=nfs://b/"]] {
        let output = command()
            .args(["mount", "--mounted", "/tmp"])
            .args(more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}");
    }
}
