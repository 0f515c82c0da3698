//! Goal: what cannot work is refused with one sentence and the right exit code. The sentence names the file, the key,
//! the port or the directory. Method: the real program.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{ropewalk, run, sentence};
use std::net::TcpListener;
use std::path::PathBuf;

fn file(dir: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = dir.path().join("server.toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_wrong_configuration_is_named_with_file_and_key() {
    let dir = tempfile::tempdir().unwrap();
    for (role, text, says) in [
        ("mds", "", "state_dir"),
        ("mds", "state_dir = '/s'\nlese_seconds = 3", "lese_seconds"),
        ("mds", "state_dir = '/s'\nlisten = ['nowhere']", "listen"),
        (
            "mds",
            "state_dir = '/s'\nlisten = ['0.0.0.0:2049']",
            "export",
        ),
        ("mds", "state_dir = '/s'\nstripe_unit = 17", "stripe_unit"),
        ("mds", "state_dir = '/s'\nstripe_unit = 'x'", "stripe_unit"),
        ("mds", "state_dir = ", "line 1"),
        ("ds", "", "state_dir"),
        (
            "mds",
            "state_dir = '/s'\nlisten = ['[::]:2049']\n[[export]]\nclients = '*'",
            "`advertise`",
        ),
        (
            "mds",
            "state_dir = '/s'\nkey_rotation = '1s'",
            "key_rotation",
        ),
        (
            "ds",
            "state_dir = '/s'\nlisten = ['[::]:2050']",
            "advertise",
        ),
        (
            "ds",
            "state_dir = '/s'\njoin_token = 'a'\njoin_token_file = 'b'",
            "join_token",
        ),
    ] {
        let path = file(&dir, text);
        let config = path.to_str().unwrap();
        for arguments in [
            &[role, "--config", config][..],
            &[role, "--config", config, "--check-config"],
        ] {
            let output = run(arguments);
            assert_eq!(output.status.code(), Some(2), "{text}");
            let said = sentence(&output);
            assert!(
                said.contains(config) && said.contains(says),
                "{text}: {said}"
            );
            assert_eq!(
                String::from_utf8_lossy(&output.stderr).lines().count(),
                1,
                "{said}"
            );
        }
    }
    let missing = run(&["mds", "--config", "/nonexistent/mds.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(sentence(&missing).contains("/nonexistent/mds.toml"));
}

/// Standard error on a full disk.
fn full() -> std::fs::File {
    std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
}

#[test]
fn a_log_that_cannot_be_written_stops_no_server() {
    let missing = ropewalk()
        .args(["mds", "--config", "/nonexistent/mds.toml"])
        .stderr(full())
        .status();
    assert_eq!(missing.unwrap().code(), Some(2), "a refusal, not a panic");

    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let [nfs, control] = [(); 2].map(|()| rig::address());
    let path = file(
        &dir,
        &format!(
            "state_dir = '{}'\nlisten = ['{nfs}']\ncontrol_listen = ['{control}']",
            state.display()
        ),
    );
    let mut server = ropewalk()
        .args(["mds", "--config", path.to_str().unwrap()])
        .stderr(full())
        .spawn()
        .unwrap();
    rig::wait_for("answer of the server", || {
        assert_eq!(server.try_wait().unwrap(), None, "it runs");
        let asked = run(&["status", "--dir", state.to_str().unwrap()]);
        asked.status.success().then_some(())
    });
    rig::signal(server.id(), rustix::process::Signal::TERM);
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_good_configuration_is_checked_without_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let path = file(&dir, &format!("state_dir = '{}'", state.display()));
    for role in ["mds", "ds"] {
        let output = run(&[role, "--check-config", "--config", path.to_str().unwrap()]);
        assert!(output.status.success());
    }
    assert!(!state.exists());
}

#[test]
fn a_busy_port_is_named_with_the_option_that_changes_it() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let state = dir.path().join("state");
    let text = format!(
        "state_dir = '{}'\nlisten = ['127.0.0.1:{port}']",
        state.display()
    );
    let path = file(&dir, &text);
    let of_file = path.to_str().unwrap();
    let up = dir.path().join("up");
    for (arguments, change) in [
        (&["mds", "--config", of_file][..], "listen"),
        (&["ds", "--config", of_file], "listen"),
        (
            &[
                "up",
                "--dir",
                up.to_str().unwrap(),
                "--port",
                &port.to_string(),
            ],
            "--port",
        ),
    ] {
        let output = run(arguments);
        let said = sentence(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains(&format!("port {port} is in use")) && said.contains(change),
            "{said}"
        );
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // A file in the way refuses root too.
    let blocked = dir.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let state = blocked.join("state");
    let state = state.to_str().unwrap();
    let listen = "listen = ['127.0.0.1:0']\nadvertise = ['127.0.0.1:9']";
    let path = file(&dir, &format!("state_dir = '{state}'\n{listen}"));
    let config = path.to_str().unwrap();
    for arguments in [
        &["mds", "--config", config][..],
        &["up", "--dir", state, "--port", "0"],
    ] {
        let output = run(arguments);
        let said = sentence(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(state), "{said}");
    }
}

#[test]
fn a_data_server_without_a_token_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let listen = "listen = ['127.0.0.1:0']\nadvertise = ['127.0.0.1:9']";
    let path = file(
        &dir,
        &format!("state_dir = '{}'\n{listen}", state.display()),
    );
    let output = run(&["ds", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = sentence(&output);
    assert!(
        said.contains("ropewalk token create") && said.contains("join_token"),
        "{said}"
    );
    let text = format!(
        "state_dir = '{}'\njoin_token = 'rwj1.x'\n{listen}",
        state.display()
    );
    let output = run(&["ds", "--config", file(&dir, &text).to_str().unwrap()]);
    assert!(
        sentence(&output).contains("mistyped"),
        "{}",
        sentence(&output)
    );
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    for arguments in [
        &["fly"][..],
        &["up", "--ds", "0"],
        &["up", "--dir", dir, "--listen", "192.0.2.1"],
        &["up", "--dir", dir, "--listen", "0.0.0.0"],
        &["up", "--export", "nowhere"],
        &["token", "create", "--ttl", "1y"],
        &["demo", "--size", "1KiB"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn nobody_at_home_is_said_plainly() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    for arguments in [
        &["status", "--dir", place][..],
        &["token", "create", "--state-dir", place],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            sentence(&output).contains("no server runs in"),
            "{}",
            sentence(&output)
        );
    }
}

#[test]
fn completions_and_manual_pages_come_out() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("ropewalk"),
            "{shell}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(
        run(&["man", "--dir", dir.path().to_str().unwrap()])
            .status
            .success()
    );
    assert!(dir.path().join("ropewalk-up.1").exists());
}
