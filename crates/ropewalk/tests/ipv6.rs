//! Goal: a cluster on IPv6 addresses comes up, says how to mount, and takes files in and gives them out. Method: the real
//! program on ::1. A machine without IPv6 cannot run this: a harness of our own counts it as ignored then, and says why.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests unwrap, and a harness prints what libtest would"
)]

mod rig;

use rig::{Up, run, status};
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::process::ExitCode;

const NAME: &str = "files_go_in_and_out_over_ipv6";

fn main() -> ExitCode {
    // `cargo test` runs every test program with the same arguments.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--list") {
        println!("{NAME}: test");
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    if !filters.is_empty() && !filters.iter().any(|f| NAME.contains(f.as_str())) {
        return sum(0, 0, 1);
    }
    if let Err(why) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        println!("test {NAME} ... ignored, no IPv6 here: {why}");
        return sum(0, 1, 0);
    }
    files_go_in_and_out_over_ipv6();
    println!("test {NAME} ... ok");
    sum(1, 0, 0)
}

/// The closing line of libtest, which is counted. A failure has panicked before.
fn sum(passed: u32, ignored: u32, filtered: u32) -> ExitCode {
    println!(
        "\ntest result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; {filtered} filtered out\n"
    );
    ExitCode::SUCCESS
}

fn files_go_in_and_out_over_ipv6() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(
        dir.path(),
        &[
            "--ds",
            "2",
            "--port",
            "0",
            "--listen",
            "::1",
            "--stripe-unit",
            "64KiB",
        ],
    );
    let state = status(dir.path()).unwrap();
    let address: SocketAddr = state["mds"]["advertise"][0]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(address.ip(), Ipv6Addr::LOCALHOST);
    let mount = format!("proto=tcp6,port={} [::1]:/ /mnt", address.port());
    assert!(up.ready.contains(&mount), "{}", up.ready);
    for row in state["mds"]["data_servers"].as_array().unwrap() {
        assert!(row["addresses"][0].as_str().unwrap().starts_with("[::1]:"));
    }

    let data: Vec<u8> = (0..700_000_u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    let (local, back) = (dir.path().join("local"), dir.path().join("back"));
    std::fs::write(&local, &data).unwrap();
    let remote = format!("nfs://[::1]:{}/file", address.port());
    for arguments in [
        ["cp", local.to_str().unwrap(), &remote],
        ["cp", &remote, back.to_str().unwrap()],
    ] {
        let output = run(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
    assert!(std::fs::read(&back).unwrap() == data);
    // Written by layout, to the data servers themselves.
    let state = status(dir.path()).unwrap();
    for ds in ["ds-1", "ds-2"] {
        let written = state[ds]["client_written_bytes"].as_u64().unwrap();
        assert!(written >= 300_000, "{ds}: {written}");
    }
    assert!(up.stop().success());
}
