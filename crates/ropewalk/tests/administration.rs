//! Goal: keys are changed and data servers expelled by order, and what follows is what was said. Method: the real program; `ropewalk
//! up`, client commands, the admin commands, `status --json`.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rig::{Up, quick, ropewalk, run, sentence, status, url, wait_for};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

fn ok(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A command that is answered `answer` when it asks.
fn run_with(arguments: &[&str], answer: &str) -> Output {
    let mut command = ropewalk();
    command.args(arguments).stdin(Stdio::piped());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(answer.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..251_u8).cycle().take(len).collect()
}

fn keys(dir: &Path) -> Option<Vec<(u64, String)>> {
    let status = status(dir)?;
    let keys = status["mds"]["keys"].as_array()?;
    let key = |k: &serde_json::Value| Some((k["id"].as_u64()?, k["state"].as_str()?.to_owned()));
    keys.iter().map(key).collect()
}

/// Handles that the data servers took for forged: a key that signed before they had it would show here.
fn forged(dir: &Path) -> u64 {
    let status = status(dir).unwrap();
    let of = |ds| status[ds]["counters"]["refused_forged"].as_u64().unwrap();
    of("ds-1") + of("ds-2")
}

#[test]
fn a_key_is_changed_by_order_while_files_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().to_str().unwrap();
    let up = Up::start(
        dir.path(),
        &["--ds", "2", "--port", "0", "--stripe-unit", "64KiB"],
    );
    let local = dir.path().join("local");
    std::fs::write(&local, bytes(500_000)).unwrap();
    let remote = format!("{}file", url(dir.path()));
    ok(&run(&["cp", local.to_str().unwrap(), &remote]));
    assert_eq!(keys(dir.path()).unwrap(), [(1, "active".to_owned())]);
    let said = ok(&run(&["key", "rotate", "--state-dir", state]));
    assert!(said.starts_with("key 2 signs from now on"), "{said}");
    // The copy has ended and returned its layouts, so nothing needs the old key.
    wait_for("retired key", || {
        (keys(dir.path())? == [(2, "active".to_owned())]).then_some(())
    });
    assert!(run(&["cat", &remote]).stdout == bytes(500_000));

    // In the middle of a copy, as often as keys may be live.
    std::fs::write(&local, bytes(60_000_000)).unwrap();
    let mut copy = ropewalk()
        .args(["cp", local.to_str().unwrap(), &remote])
        .spawn()
        .unwrap();
    let mut changes = 0;
    while changes < 10 && copy.try_wait().unwrap().is_none() {
        ok(&run(&["key", "rotate", "--state-dir", state]));
        changes += 1;
    }
    assert!(copy.wait().unwrap().success() && changes > 0);
    assert!(run(&["cat", &remote]).stdout == bytes(60_000_000));
    let newest = 2 + changes;
    wait_for("one key", || {
        (keys(dir.path())? == [(newest, "active".to_owned())]).then_some(())
    });
    assert_eq!(forged(dir.path()), 0);
    let text = ok(&run(&["status", "--dir", state]));
    let signs = format!("signing keys: {newest} active");
    assert!(text.contains(&signs), "{text}");
    assert!(text.contains("removal queue: 0\n"), "{text}");
    assert!(up.stop().success());

    let up = Up::start(dir.path(), &[]);
    assert_eq!(keys(dir.path()).unwrap(), [(newest, "active".to_owned())]);
    assert!(up.stop().success());
}

/// Data server 2 has the last copy of stripes of the file `lost`.
fn loss_is_refused_and_told(state: &str) {
    for order in [
        &["expel", "2", "--state-dir", state][..],
        &["expel", "2", "--yes", "--state-dir", state],
        &["ds", "remove", "2", "--dir", state],
    ] {
        let refused = run_with(order, "yes\n");
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains("/lost\n"), "{said}");
        assert!(said.contains("stripes of 1 files"), "{said}");
        assert!(said.contains("I/O errors (EIO)"), "{said}");
    }
    let told = run(&["expel", "2", "--json", "--state-dir", state]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(told["paths"], serde_json::json!(["/lost"]));
    assert_eq!(told["done"], false);
}

#[test]
fn a_data_server_with_last_copies_is_expelled_by_that_word_alone_and_its_files_give_errors() {
    let dir = tempfile::tempdir().unwrap();
    quick(dir.path());
    let state = dir.path().to_str().unwrap();
    let up = Up::start(
        dir.path(),
        &["--ds", "2", "--port", "0", "--stripe-unit", "64KiB"],
    );
    let local = dir.path().join("local");
    std::fs::write(&local, bytes(500_000)).unwrap();
    let url = url(dir.path());
    let (lost, kept) = (format!("{url}lost"), format!("{url}kept"));
    ok(&run(&["cp", local.to_str().unwrap(), &lost]));

    let nobody = run(&["expel", "9", "--yes", "--state-dir", state]);
    assert!(sentence(&nobody).contains("no data server 9"));
    loss_is_refused_and_told(state);
    let state_of = |id: usize| {
        let status = status(dir.path())?;
        Some(
            status["mds"]["data_servers"][id - 1]["state"]
                .as_str()?
                .to_owned(),
        )
    };
    assert_eq!(state_of(2).unwrap(), "serving");
    ok(&run(&[
        "expel",
        "2",
        "--yes-lose-data",
        "--state-dir",
        state,
    ]));
    assert_eq!(state_of(2).unwrap(), "expelled");
    let again = run(&["expel", "2", "--yes", "--state-dir", state]);
    assert!(sentence(&again).contains("expelled already"));
    wait_for("end of the data server", || {
        status(dir.path())?.get("ds-2").is_none().then_some(())
    });

    let gone = run(&["cat", &lost]);
    assert!(!gone.status.success(), "half of it is lost");
    ok(&run(&["cp", local.to_str().unwrap(), &kept]));
    assert!(run(&["cat", &kept]).stdout == bytes(500_000));
    ok(&run(&["rm", &lost]));
    wait_for("empty removal queue", || {
        (status(dir.path())?["mds"]["removals_waiting"] == 0).then_some(())
    });
    assert!(up.stop().success());

    let up = Up::start(dir.path(), &[]);
    assert_eq!(state_of(2).unwrap(), "expelled");
    assert!(run(&["cat", &kept]).stdout == bytes(500_000));
    ok(&run(&[
        "expel",
        "1",
        "--yes-lose-data",
        "--state-dir",
        state,
    ]));
    assert_eq!(state_of(1).unwrap(), "expelled");
    assert!(up.stop().success());
}

#[test]
fn a_data_server_whose_data_have_copies_is_expelled_after_a_question_and_no_file_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    quick(dir.path());
    let state = dir.path().to_str().unwrap();
    let up = Up::start(
        dir.path(),
        &[
            "--ds",
            "2",
            "--port",
            "0",
            "--copies",
            "2",
            "--stripe-unit",
            "64KiB",
        ],
    );
    let local = dir.path().join("local");
    std::fs::write(&local, bytes(500_000)).unwrap();
    let kept = format!("{}kept", url(dir.path()));
    ok(&run(&["cp", local.to_str().unwrap(), &kept]));
    for answer in ["", "no\n", "y\n"] {
        let asked = run_with(&["expel", "2", "--state-dir", state], answer);
        assert_eq!(asked.status.code(), Some(1));
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(said.contains("no file is lost"), "{said}");
        assert!(said.contains("not confirmed, nothing was done"), "{said}");
    }
    ok(&run_with(&["expel", "2", "--state-dir", state], "yes\n"));
    assert!(run(&["cat", &kept]).stdout == bytes(500_000));
    let last = run(&["expel", "1", "--yes", "--state-dir", state]);
    assert!(sentence(&last).contains("the last copy"), "{last:?}");
    assert!(up.stop().success());
}
