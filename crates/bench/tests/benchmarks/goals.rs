//! The subjects that are clusters, on a real one of tiny size: they run, they count, and they leave nothing behind.
//! Nothing here is a measurement.

use super::{command, ropewalk};
use ropewalk_bench::Subject;
use ropewalk_bench::load::Load;
use ropewalk_bench::nfs::Form;
use ropewalk_bench::nfs::cluster::{Carrier, Cluster, ClusterOptions};
use ropewalk_bench::nfs::create::Creates;
use ropewalk_bench::nfs::foreign::{ForeignCreates, Objects};
use ropewalk_bench::nfs::host::Host;
use ropewalk_bench::nfs::idle::Beside;
use ropewalk_bench::nfs::io::{Access, FileIo, Order};
use ropewalk_bench::nfs::library::Library;
use ropewalk_bench::nfs::metadata::{Metadata, Operation};
use ropewalk_bench::nfs::reconnect::Reconnects;
use ropewalk_bench::nfs::stripes::{FirstLives, Part};
use std::net::TcpStream;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const LOAD: Load = Load {
    connections_count: 2,
    warm_up: Duration::from_millis(20),
    measure: Duration::from_millis(300),
};

pub(crate) fn options(dir: &TempDir, ds_count: u16, in_memory: bool) -> ClusterOptions {
    ClusterOptions {
        ds_count,
        in_memory,
        ..ClusterOptions::new(ropewalk(), dir.path().to_owned())
    }
}

fn is_empty(dir: &TempDir) -> bool {
    std::fs::read_dir(dir.path()).unwrap().count() == 0
}

#[test]
fn a_cluster_starts_counts_its_processes_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(&options(&dir, 2, true)).unwrap();
    assert_eq!(
        cluster.processes_count(),
        6,
        "up, mds, two ds with their watchers"
    );
    assert!(cluster.cpu().is_ok());
    let address = cluster.server().address;
    assert!(TcpStream::connect(address).is_ok());
    drop(cluster);
    assert!(TcpStream::connect(address).is_err());
    assert!(is_empty(&dir));
}

fn io(cluster: ClusterOptions, form: Form, access: Access) -> FileIo {
    FileIo {
        host: Host::Ropewalk(cluster),
        form,
        access,
        order: Order::Walk,
        own_files: false,
        file_bytes: 1_000_000,
        io_bytes: 65_536,
        is_inline: false,
    }
}

fn getattr(cluster: ClusterOptions, form: Form) -> Metadata {
    Metadata {
        host: Host::Ropewalk(cluster),
        form,
        operation: Operation::Getattr,
    }
}

#[test]
fn reads_and_writes_of_both_clients_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    for form in [Form::Wire, Form::Session] {
        for access in [Access::Read, Access::Write] {
            let mut subject = io(options(&dir, 1, false), form, access);
            let sample = subject.run(&LOAD).unwrap();
            assert!(sample.requests_count > 0, "{form:?} {access:?}");
            assert_eq!(sample.payload_bytes, sample.requests_count * 65_536);
        }
    }
    let mut random = FileIo {
        order: Order::Random,
        own_files: true,
        io_bytes: 2048,
        ..io(options(&dir, 1, true), Form::Wire, Access::Write)
    };
    assert!(random.run(&LOAD).unwrap().requests_count > 0);
    for access in [Access::Read, Access::StableWrite] {
        let mut inline = FileIo {
            own_files: true,
            is_inline: true,
            file_bytes: 3000,
            io_bytes: 3000,
            ..io(options(&dir, 1, false), Form::Wire, access)
        };
        assert!(inline.run(&LOAD).unwrap().requests_count > 0, "{access:?}");
    }
    assert!(is_empty(&dir));
}

#[test]
fn the_client_library_reads_and_writes_whole_rows_of_stripes() {
    let dir = tempfile::tempdir().unwrap();
    for access in [Access::Read, Access::Write] {
        let mut subject = Library {
            cluster: options(&dir, 2, true),
            access,
            file_bytes: 8 << 20,
            request_bytes: None,
        };
        let sample = subject.run(&LOAD).unwrap();
        assert!(sample.requests_count > 0, "{access:?}");
        assert_eq!(sample.payload_bytes, sample.requests_count * (2 << 20));
    }
    assert!(is_empty(&dir));
}

#[test]
fn getattrs_have_the_sizes_that_they_say() {
    let dir = tempfile::tempdir().unwrap();
    for form in [Form::Wire, Form::Session] {
        let mut subject = getattr(options(&dir, 1, true), form);
        let sizes = subject.sizes().unwrap();
        assert!((100..400).contains(&sizes.request_bytes), "{sizes:?}");
        assert!((100..400).contains(&sizes.reply_bytes), "{sizes:?}");
        let sample = subject.run(&LOAD).unwrap();
        assert!(sample.requests_count > 0);
    }
    assert!(is_empty(&dir));
}

#[test]
fn removals_by_several_threads_end_with_the_last_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut subject = Metadata {
        operation: Operation::Remove,
        ..getattr(options(&dir, 1, true), Form::Wire)
    };
    let load = Load {
        connections_count: 4,
        measure: Duration::from_secs(1),
        ..LOAD
    };
    let sample = subject.run(&load).unwrap();
    assert!(sample.requests_count > 0);
    assert!(is_empty(&dir));
}

#[test]
fn all_subjects_run_over_rdma_too() {
    let dir = tempfile::tempdir().unwrap();
    for carrier in [Carrier::Iwarp, Carrier::IwarpWithoutCrc] {
        let cluster = |ds, in_memory| options(&dir, ds, in_memory).over(carrier);
        let mut subjects: [Box<dyn Subject>; 4] = [
            Box::new(getattr(cluster(1, true), Form::Session)),
            Box::new(io(cluster(1, false), Form::Session, Access::Read)),
            Box::new(Creates {
                cluster: cluster(1, true),
            }),
            Box::new(FirstLives {
                cluster: cluster(2, true),
                part: Part::Whole,
                write_bytes: 65_536,
            }),
        ];
        for subject in &mut subjects {
            assert!(subject.name().contains("iwarp"), "{}", subject.name());
            let sample = subject.run(&LOAD).unwrap();
            assert!(sample.requests_count > 0, "{}", subject.name());
        }
    }
    assert!(is_empty(&dir));
}

#[test]
fn idle_sessions_live_beside_those_who_ask() {
    let dir = tempfile::tempdir().unwrap();
    for (idle_count, has_memory) in [(70, true), (10, false)] {
        let mut subject = Beside {
            cluster: options(&dir, 1, true).over(Carrier::Iwarp),
            idle_count,
            uncounted: 10,
        };
        // Two clients, the second with a request less.
        let load = Load {
            connections_count: 7,
            ..LOAD
        };
        let sample = subject.run(&load).unwrap();
        assert!(sample.requests_count > 0);
        assert_eq!(sample.rss_bytes_per_session.is_some(), has_memory);
    }
    assert!(is_empty(&dir));
}

#[test]
fn connections_are_made_and_used_over_and_over() {
    let dir = tempfile::tempdir().unwrap();
    for carrier in [Carrier::Tcp, Carrier::Iwarp, Carrier::IwarpWithoutCrc] {
        let mut subject = Reconnects {
            cluster: options(&dir, 1, true).over(carrier),
        };
        let sample = subject.run(&LOAD).unwrap();
        assert!(sample.requests_count > 1, "{}", subject.name());
    }
    assert!(is_empty(&dir));
}

#[test]
fn creates_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut subject = Creates {
        cluster: options(&dir, 1, false),
    };
    let load = Load {
        connections_count: 64,
        ..LOAD
    };
    assert!(subject.run(&load).unwrap().requests_count > 0);
    assert!(is_empty(&dir));
}

#[test]
fn first_lives_touch_every_data_server() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [
        (Part::Create, 0),
        (Part::Whole, 3 * 4096),
        (Part::Proxied, 4096),
        (Part::Removal, 0),
    ];
    for (part, bytes_each) in parts {
        let mut subject = FirstLives {
            cluster: options(&dir, 3, false),
            part,
            write_bytes: 4096,
        };
        let sample = subject.run(&LOAD).unwrap();
        assert!(sample.requests_count > 0, "{part:?}");
        assert_eq!(sample.payload_bytes, sample.requests_count * bytes_each);
    }
    assert!(is_empty(&dir));
}

#[test]
fn creates_with_a_layout_name_every_server_and_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    for objects in [Objects::Eager, Objects::Ahead, Objects::Own] {
        let mut subject = ForeignCreates {
            cluster: options(&dir, 1, true),
            servers_count: 2,
            objects,
        };
        assert!(
            subject.run(&LOAD).unwrap().requests_count > 0,
            "{objects:?}"
        );
    }
    let mut subject = ForeignCreates {
        cluster: options(&dir, 1, true).over(Carrier::Iwarp),
        servers_count: 1,
        objects: Objects::Eager,
    };
    let refused = subject.run(&LOAD).unwrap_err().to_string();
    assert!(refused.contains("the transport"), "{refused}");
    assert!(is_empty(&dir));
}

#[test]
fn the_command_prints_goals_and_writes_json() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("goals.json");
    let output = command()
        .args([
            "goals",
            "getattr",
            "create",
            "--quick",
            "--warm-up-seconds=0",
        ])
        .arg("--dir")
        .arg(dir.path())
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    for goal in ["<= 1.30", ">= 0.50", ">= 0.60"] {
        assert!(text.contains(goal), "{text}");
    }
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let goals = json["goals"].as_array().unwrap();
    // GETATTR on 1 and on 16 connections beside two ping-pongs each, and the creates.
    assert_eq!(goals.len(), 5);
    assert!(goals.iter().all(|goal| goal["ratio"]["median"].is_f64()));
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 3);
    assert!(text.contains("0 not measured"), "{text}");
}

#[test]
fn the_goals_are_listed_without_a_measurement() {
    let output = command()
        .args(["goals", "--list", "--ropewalk=/no/such/program"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        text.contains("READ 128 KiB, 16 at once, to sendfile"),
        "{text}"
    );
    assert!(text.contains("goals: 0 met, 0 missed"), "{text}");
}

#[test]
fn a_missing_program_is_one_clear_sentence() {
    let output = command()
        .args(["goals", "getattr", "--ropewalk=/no/such/program"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(text.contains("cannot start ropewalk"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
