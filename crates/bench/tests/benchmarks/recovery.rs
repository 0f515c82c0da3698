//! `bench recovery`: a metadata server is killed, and every client says how long it waited.

use super::command;

#[test]
fn every_client_gets_on_after_the_kill() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("recovery.json");
    let output = command()
        .args(["recovery", "--rounds=1", "--clients=2", "--ds=1"])
        .arg("--dir")
        .arg(dir.path())
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(text.contains("goal: all below 5 s: "), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    for times in ["open_s", "write_s"] {
        let times = json["rounds"][0][times].as_array().unwrap();
        assert_eq!(times.len(), 2);
        assert!(times.iter().all(|time| time.as_f64().unwrap() > 0.0));
    }
}
