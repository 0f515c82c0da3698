//! Goal: what `ropewalk setup` writes is taken by the servers, and `ropewalk doctor` tells a server that runs from one that does not.
//! Method: the real program, with options alone; free ports of loopback.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{Killed, address, ropewalk, run, sentence, wait_for};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Starts a server.
fn serve(role: &str, config: &Path) -> Killed {
    let child = ropewalk()
        .args([role, "--config", config.to_str().unwrap()])
        .stderr(File::create(config.with_extension("log")).unwrap())
        .spawn();
    Killed(child.unwrap())
}

fn ok(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{text}");
    text
}

fn doctor(config: &Path) -> (Option<i32>, serde_json::Value) {
    let output = run(&["doctor", "--json", "--config", config.to_str().unwrap()]);
    (
        output.status.code(),
        serde_json::from_slice(&output.stdout).unwrap(),
    )
}

/// Verdicts and sentences of a subject.
fn rows(report: &serde_json::Value, check: &str) -> Vec<(String, String)> {
    let all = report["checks"].as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    all.filter(|row| row["check"] == check)
        .map(|row| (text(&row["verdict"]), text(&row["says"])))
        .collect()
}

fn verdicts(report: &serde_json::Value, check: &str) -> Vec<String> {
    rows(report, check)
        .into_iter()
        .map(|(verdict, _)| verdict)
        .collect()
}

/// `ropewalk setup mds` into `dir`, on loopback.
fn setup_mds(dir: &Path, more: &[&str]) -> Output {
    let state = dir.join("mds");
    let file = dir.join("mds.toml");
    let (nfs, control) = (address().to_string(), address().to_string());
    let options = [
        "setup",
        "mds",
        "--yes",
        "--owner",
        "1234:567",
        "--clients",
        "127.0.0.1",
        "--dir",
        state.to_str().unwrap(),
        "--output",
        file.to_str().unwrap(),
        "--listen",
        &nfs,
        "--control-listen",
        &control,
    ];
    run(&[&options[..], more].concat())
}

/// A data server that has joined by a token, as the doctor sees it too.
fn joined(dir: &Path, mds: &Path, place: &[&str]) -> Killed {
    let token = ok(&run(&[&["token", "create"][..], place].concat()));
    let ds = dir.join("ds.toml");
    let data = dir.join("ds");
    let at = address().to_string();
    let text = ok(&run(&[
        "setup",
        "ds",
        "--token",
        token.trim(),
        "--dir",
        data.to_str().unwrap(),
        "--address",
        &at,
        "--output",
        ds.to_str().unwrap(),
    ]));
    assert!(
        !text.contains(token.trim()) && text.contains("next:"),
        "{text}"
    );
    assert!(!text.contains("does not answer"), "{text}");
    ok(&run(&["config", "check", ds.to_str().unwrap()]));
    let second = serve("ds", &ds);
    wait_for("data server", || {
        let (_, report) = doctor(mds);
        (verdicts(&report, "data servers") == ["ok"]).then_some(())
    });
    wait_for("a data server without a failed check", || {
        let (code, report) = doctor(&ds);
        let ports = verdicts(&report, "port");
        (code == Some(0) && ports == ["ok"] && verdicts(&report, "server") == ["ok"]).then_some(())
    });
    second
}

#[test]
fn a_cluster_is_set_up_by_options_and_the_doctor_sees_how_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mds = dir.path().join("mds.toml");
    let told: serde_json::Value =
        serde_json::from_str(&ok(&setup_mds(dir.path(), &["--json"]))).unwrap();
    assert_eq!(told["written"], true);
    ok(&run(&["config", "check", mds.to_str().unwrap()]));

    let (code, report) = doctor(&mds);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(verdicts(&report, "server"), ["failed"]);
    assert_eq!(verdicts(&report, "port"), ["ok", "ok"], "{report}");

    let server = serve("mds", &mds);
    let state = dir.path().join("mds");
    let place = ["--dir", state.to_str().unwrap()];
    wait_for("metadata server", || {
        run(&[&["status"][..], &place].concat())
            .status
            .success()
            .then_some(())
    });
    let (code, report) = doctor(&mds);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(verdicts(&report, "server"), ["ok"], "{report:#}");
    assert_eq!(verdicts(&report, "port"), ["ok", "ok"], "{report:#}");
    assert_eq!(verdicts(&report, "data servers"), ["warning"], "{report:#}");

    let second = joined(dir.path(), &mds, &place);

    // The user who was named, and nobody else, may write.
    let url = format!(
        "nfs://{}/",
        told["configuration"].as_str().and_then(listener).unwrap()
    );
    let stat = ok(&run(&["stat", &url]));
    assert!(stat.contains("1234") && stat.contains("567"), "{stat}");

    drop(server);
    let (code, report) = doctor(&mds);
    assert_eq!(code, Some(1));
    let [(verdict, says)] = &rows(&report, "server")[..] else {
        panic!("{report}");
    };
    assert_eq!(
        (verdict.as_str(), says.as_str()),
        ("failed", "the metadata server does not run")
    );
    drop(second);
}

#[test]
fn a_metadata_server_on_the_same_machine_makes_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let (mds, ds) = (dir.path().join("mds.toml"), dir.path().join("ds.toml"));
    let (state, data) = (dir.path().join("mds"), dir.path().join("ds"));
    let setup_ds = || {
        let mds_dir = ["--yes", "--mds-dir", state.to_str().unwrap()];
        let rest = [
            "--dir",
            data.to_str().unwrap(),
            "--output",
            ds.to_str().unwrap(),
        ];
        run(&[&["setup", "ds"][..], &mds_dir, &rest].concat())
    };
    ok(&setup_mds(dir.path(), &[]));
    assert!(sentence(&setup_ds()).contains("no server runs in"));

    let _first = serve("mds", &mds);
    let place = ["--dir", state.to_str().unwrap()];
    wait_for("metadata server", || {
        let status = run(&[&["status"][..], &place].concat());
        status.status.success().then_some(())
    });
    let told = ok(&setup_ds());
    assert!(told.contains("join_token = \"...\""), "{told}");
    let _second = serve("ds", &ds);
    wait_for("data server", || {
        let (_, report) = doctor(&mds);
        (verdicts(&report, "data servers") == ["ok"]).then_some(())
    });
}

/// The first NFS listener of a configuration.
fn listener(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("listen = "))?;
    line.split('"').nth(1).map(str::to_owned)
}

#[test]
fn nothing_is_written_over_and_nothing_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mds.toml");
    let dry = ok(&setup_mds(dir.path(), &["--dry-run"]));
    assert!(
        dry.contains("[root]\nuid = 1234\ngid = 567\nmode = \"0755\"\n"),
        "{dry}"
    );
    assert!(!file.exists() && !dir.path().join("mds").exists());
    ok(&setup_mds(dir.path(), &[]));
    assert!(sentence(&setup_mds(dir.path(), &[])).contains("--force"));
    ok(&setup_mds(dir.path(), &["--force"]));

    let output = dir.path().join("other.toml");
    let output = ["--output", output.to_str().unwrap()];
    for (role, option) in [("mds", "--owner"), ("ds", "--token")] {
        let missing = run(&[&["setup", role][..], &output].concat());
        assert_eq!(missing.status.code(), Some(2));
        let told = sentence(&missing);
        assert!(told.contains(&format!("{option} is missing")), "{told}");
    }
}

/// Permission bits of what is at a path.
fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    for umask in ["000", "777"] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (nfs, control) = (address().to_string(), address().to_string());
        let made = Command::new("sh")
            .args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"])
            .arg(ropewalk().get_program())
            .args(["setup", "mds", "--yes", "--owner", "1:1", "--clients"])
            .args(["127.0.0.1", "--listen", &nfs, "--control-listen", &control])
            .arg("--dir")
            .arg(at("above/mds"))
            .arg("--output")
            .arg(at("etc/mds.toml"))
            .output();
        ok(&made.unwrap());
        let modes = ["above", "above/mds", "etc"].map(|name| mode(&at(name)));
        assert_eq!(modes, [0o755, 0o700, 0o755], "{umask}: {modes:?}");
        let file = mode(&at("etc/mds.toml"));
        assert!([0o600, 0o640].contains(&file), "{umask}: {file:o}");
    }
}

#[test]
fn symbolic_links_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/no/such", dir.path().join("mds")).unwrap();
    let said = sentence(&setup_mds(dir.path(), &["--force"]));
    assert!(
        said.contains("symbolic link") && said.contains("--dir"),
        "{said}"
    );
    assert!(!dir.path().join("mds.toml").exists());

    std::fs::remove_file(dir.path().join("mds")).unwrap();
    std::os::unix::fs::symlink("/no/such", dir.path().join("mds.toml")).unwrap();
    let said = sentence(&setup_mds(dir.path(), &["--force"]));
    assert!(
        said.contains("symbolic link") && said.contains("--output"),
        "{said}"
    );
    assert!(!dir.path().join("mds").exists());
}

#[test]
fn a_directory_that_the_unit_hides_is_refused() {
    // Without --output the unit of systemd is to run it.
    let (nfs, control) = (address().to_string(), address().to_string());
    let tried = |more: &[&str]| {
        let options = [
            "setup",
            "mds",
            "--yes",
            "--dry-run",
            "--owner",
            "1:1",
            "--clients",
            "127.0.0.1",
            "--dir",
            "/var/tmp/no-such-ropewalk",
            "--listen",
            &nfs,
            "--control-listen",
            &control,
        ];
        run(&[&options[..], more].concat())
    };
    let refused = tried(&[]);
    assert_eq!(refused.status.code(), Some(2));
    let said = sentence(&refused);
    assert!(
        said.contains("PrivateTmp=yes") && said.contains("--hidden-dir"),
        "{said}"
    );
    ok(&tried(&["--hidden-dir"]));
}

#[test]
fn a_port_that_is_taken_is_named_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = other.local_addr().unwrap().to_string();
    let state = dir.path().join("mds");
    let file = dir.path().join("mds.toml");
    let taken = run(&[
        "setup",
        "mds",
        "--yes",
        "--owner",
        "1:1",
        "--clients",
        "127.0.0.1",
        "--listen",
        &at,
        "--dir",
        state.to_str().unwrap(),
        "--output",
        file.to_str().unwrap(),
    ]);
    let told = sentence(&taken);
    assert!(
        told.contains("in use by another program") && told.contains("--listen"),
        "{told}"
    );
    assert!(!state.exists() && !file.exists());
}

#[test]
fn the_doctor_is_of_use_where_everything_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mds.toml");
    std::fs::write(&file, "state_dir = '/no/such'\nlisten = [\n").unwrap();
    for (what, says) in [
        (["--config", file.to_str().unwrap()], "line 2"),
        (["--config", "/no/such/file"], "cannot read"),
        (["--dir", "/no/such"], "does not run"),
    ] {
        let output = run(&[&["doctor"][..], &what].concat());
        assert_eq!(output.status.code(), Some(1));
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert!(text.contains(says) && text.contains("do: "), "{text}");
        assert!(sentence(&output).contains("failed"));
    }
}
