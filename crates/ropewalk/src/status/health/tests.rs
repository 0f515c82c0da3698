//! Goal: each rule fires alone, at its threshold and not before it. Method: a table of changes to a cluster that is green.

use super::*;
use crate::status::{DataServerRow, GroupRow, NameClashRow, PlaceRow, ScrubRow};
use std::collections::BTreeMap;

const NOW_S: i64 = 2_000_000_000;
const DAY_S: i64 = 86_400;

fn ds(id: u32) -> DataServerRow {
    DataServerRow {
        id,
        state: "serving".to_owned(),
        total_bytes: 1000,
        free_bytes: 500,
        places: 4,
        scrub: ScrubRow {
            scrubbed_at: NOW_S - DAY_S,
            ..ScrubRow::default()
        },
        ..DataServerRow::default()
    }
}

fn foreign_one() -> ForeignServerRow {
    ForeignServerRow {
        id: "f1".to_owned(),
        target: "nas:/data".to_owned(),
        state: "active".to_owned(),
        up: true,
        since_seconds: Some(90),
        total_bytes: 1000,
        free_bytes: 500,
        groups: 3,
        ..ForeignServerRow::default()
    }
}

/// Two data servers, a place with both copies, and an NFSv3 server of others.
fn green() -> MdsStatus {
    let place = PlaceRow {
        copies: 2,
        primary: 1,
        served: true,
        sync: vec![2],
        ..PlaceRow::default()
    };
    MdsStatus {
        pid: 7,
        boot: 3,
        uptime_seconds: 1000,
        data_servers: vec![ds(1), ds(2)],
        foreign_servers: vec![foreign_one()],
        groups: vec![GroupRow {
            id: 1,
            ds_ids: vec![1, 2],
            places: vec![place],
        }],
        lags: vec![LagRow {
            primary: 1,
            member: 2,
            ..LagRow::default()
        }],
        bad_mirror_files_counted_max: 4096,
        ..MdsStatus::default()
    }
}

type Change = fn(&mut MdsStatus);

fn place(mds: &mut MdsStatus) -> &mut PlaceRow {
    &mut mds.groups[0].places[0]
}

/// What the change makes of a cluster that is green: its level and the first reason.
fn judged(change: Change) -> (HealthLevel, String) {
    let mut mds = green();
    change(&mut mds);
    let health = Health::of(&mds, None, NOW_S);
    let first = health.reasons.first();
    let text = first.map(|r| format!("{}. {}", r.text, r.action));
    (health.state, text.unwrap_or_default())
}

fn check(table: &[(Change, HealthLevel, &str)]) {
    for (number, (change, level, said)) in table.iter().enumerate() {
        let (state, text) = judged(*change);
        assert_eq!(state, *level, "row {number}: {text}");
        assert!(text.contains(said), "row {number}: {text}");
        assert_eq!(
            text.is_empty(),
            *level == HealthLevel::Green,
            "row {number}"
        );
    }
}

use HealthLevel::{Green, Red, Yellow};

#[test]
fn places_in_danger_are_red_and_those_that_lack_copies_are_yellow() {
    check(&[
        (|_| {}, Green, ""),
        (
            |mds| place(mds).served = false,
            Red,
            "1 place without a data server",
        ),
        (
            |mds| {
                place(mds).served = false;
                mds.data_servers[0].state = "away".to_owned();
            },
            Red,
            "data servers that are away (1).",
        ),
        (
            |mds| place(mds).sync.clear(),
            Red,
            "1 place on the last copy",
        ),
        // One copy is all that is wanted.
        (
            |mds| {
                place(mds).sync.clear();
                place(mds).copies = 1;
            },
            Green,
            "",
        ),
        (
            |mds| {
                place(mds).copies = 3;
                mds.full_redundancy_seconds = Some(90);
            },
            Yellow,
            "1 of 1 place lack copies; copies are complete in about 1 min",
        ),
        (|mds| place(mds).copies = 3, Yellow, "it is not known when"),
        (
            |mds| place(mds).shares_domain = true,
            Yellow,
            "one failure domain",
        ),
    ]);
}

#[test]
fn states_of_data_servers() {
    check(&[
        (
            |mds| mds.data_servers[1].state = "away".to_owned(),
            Yellow,
            "data server 2 is away",
        ),
        (
            |mds| mds.data_servers[1].state = "catching up".to_owned(),
            Yellow,
            "data server 2 is catching up",
        ),
        (
            |mds| mds.data_servers[1].state = "draining".to_owned(),
            Yellow,
            "data server 2 is draining: 4 places left",
        ),
        (
            |mds| {
                mds.data_servers[1].state = "draining".to_owned();
                mds.data_servers[1].places = 0;
            },
            Yellow,
            "`ropewalk ds remove 2`",
        ),
        (
            |mds| mds.data_servers[1].state = "expelled".to_owned(),
            Green,
            "",
        ),
        (
            |mds| {
                mds.data_servers
                    .iter_mut()
                    .for_each(|ds| ds.state = "away".to_owned());
            },
            Red,
            "no data server serves: files with data there wait. Start the data servers (1, 2).",
        ),
        (
            |mds| {
                mds.data_servers.clear();
                mds.foreign_servers.clear();
            },
            Yellow,
            "no data server has joined",
        ),
        (|mds| mds.data_servers.clear(), Green, ""),
        (
            |mds| mds.data_servers[0].slow = Some("why".to_owned()),
            Yellow,
            "1 is slow: why",
        ),
        (
            |mds| mds.data_servers[0].refused = Some("old".to_owned()),
            Yellow,
            "refused: old",
        ),
        (
            |mds| mds.data_servers[0].closed_groups = vec![3, 4],
            Red,
            "groups 3 4 are closed",
        ),
    ]);
}

#[test]
fn room_disks_and_scrubs() {
    check(&[
        (
            |mds| mds.data_servers[0].full = true,
            Red,
            "data server 1 is full",
        ),
        (
            |mds| mds.data_servers[0].free_bytes = 99,
            Yellow,
            "less than 10 % left",
        ),
        (|mds| mds.data_servers[0].free_bytes = 100, Green, ""),
        // A data server that has not said how large it is.
        (
            |mds| {
                mds.data_servers[0].free_bytes = 0;
                mds.data_servers[0].total_bytes = 0;
            },
            Green,
            "",
        ),
        (
            |mds| mds.data_servers[0].errors = 5,
            Yellow,
            "5 disk errors or lost objects since",
        ),
        (
            |mds| mds.data_servers[0].scrub.damaged_blocks = 1,
            Red,
            "1 damaged block that",
        ),
        (
            |mds| mds.data_servers[0].scrub.scrubbed_at = NOW_S - 21 * DAY_S - 1,
            Yellow,
            "scrubbed 21 days ago",
        ),
        (
            |mds| mds.data_servers[0].scrub.scrubbed_at = NOW_S - 21 * DAY_S,
            Green,
            "",
        ),
        (|mds| mds.data_servers[0].scrub.scrubbed_at = 0, Green, ""),
        (
            |mds| mds.admin_cert_not_after = Some(NOW_S + 14 * DAY_S),
            Green,
            "",
        ),
        (
            |mds| mds.admin_cert_not_after = Some(NOW_S + 14 * DAY_S - 1),
            Yellow,
            "`admin_cert` expires in",
        ),
        (
            |mds| mds.admin_cert_not_after = Some(NOW_S - 1),
            Yellow,
            "`admin_cert` has expired",
        ),
        (
            |mds| mds.lags[0].oldest_ms = 10_001,
            Yellow,
            "data server 2 is 10.0 s behind data server 1",
        ),
        (|mds| mds.lags[0].oldest_ms = 10_000, Green, ""),
    ]);
}

#[test]
fn servers_of_others_and_what_clients_meet() {
    check(&[
        (
            |mds| mds.foreign_servers[0].up = false,
            Red,
            "f1 (nas:/data) is down for 1 min: no answer",
        ),
        (
            |mds| {
                mds.foreign_servers[0].up = false;
                mds.foreign_servers[0].groups = 0;
            },
            Yellow,
            "drain-nfs3 f1",
        ),
        (
            |mds| {
                mds.foreign_servers[0].up = false;
                mds.foreign_servers[0].state = "removed".to_owned();
            },
            Green,
            "",
        ),
        (
            |mds| mds.foreign_servers[0].free_bytes = 99,
            Yellow,
            "f1 (nas:/data) has less than 10 %",
        ),
        (
            |mds| mds.bad_mirror_files = 4096,
            Yellow,
            "bad mirrors: 4096 or more",
        ),
        (
            |mds| mds.foreign_fences_waiting = 2,
            Yellow,
            "NFSv3 servers: 2",
        ),
        (|mds| mds.in_grace = true, Yellow, "client list"),
        (
            |mds| {
                mds.in_grace = true;
                mds.uptime_seconds = 300;
            },
            Yellow,
            "it ends by itself",
        ),
        (
            |mds| {
                mds.name_clashes = vec![NameClashRow {
                    owner: "clone".to_owned(),
                    addresses: vec!["192.0.2.1".to_owned(), "192.0.2.2".to_owned()],
                }];
            },
            Yellow,
            "\"clone\", at 192.0.2.1 and 192.0.2.2",
        ),
        (
            |mds| mds.fences_pending = 1,
            Yellow,
            "1 fence not acknowledged",
        ),
    ]);
}

#[test]
fn counts_are_bad_news_if_they_have_grown_since_an_earlier_reading_of_the_same_process() {
    let counts = |refused: u64, handshakes: u64, errors: u64| {
        let mut mds = green();
        mds.transport = BTreeMap::from([("connections_refused".to_owned(), refused)]);
        mds.control_transport = BTreeMap::from([("closed_tls_handshake".to_owned(), handshakes)]);
        mds.data_servers[0].errors = errors;
        mds
    };
    let earlier = counts(5, 1, 2);
    let of = |mds: &MdsStatus| Health::of(mds, Some(&earlier), NOW_S);
    let state = |mds: MdsStatus| of(&mds).state;
    assert_eq!(of(&counts(5, 6, 0)).reasons, []);
    assert_eq!(state(counts(6, 1, 0)), Yellow);
    assert_eq!(state(counts(5, 7, 0)), Yellow);
    assert_eq!(state(counts(5, 1, 2)), Yellow);
    assert_eq!(state(counts(5, 1, 3)), Red);
    let mut restarted = counts(9, 9, 0);
    restarted.boot += 1;
    assert_eq!(state(restarted), Green);
}

#[test]
fn the_worst_comes_first_and_many_reasons_are_cut() {
    let mut mds = green();
    mds.fences_pending = 1;
    mds.data_servers = (1..=100)
        .map(|id| DataServerRow {
            full: true,
            ..ds(id)
        })
        .collect();
    let health = Health::of(&mds, None, NOW_S);
    assert_eq!((health.state, health.reasons.len()), (Red, REASONS_MAX));
    assert!(health.reasons.iter().all(|reason| reason.level == Red));
    assert_eq!(health.reasons[REASONS_MAX - 1].text, "70 further reasons");
}

#[test]
fn it_is_shown_in_a_line_and_its_reasons_below() {
    let shown = |mds: &MdsStatus, is_coloured| {
        let mut text = String::new();
        Health::of(mds, None, NOW_S).show(&mut text, is_coloured);
        text
    };
    let mut mds = green();
    assert_eq!(shown(&mds, true), "health: green\n\n");
    mds.data_servers[0].full = true;
    mds.fences_pending = 2;
    let plain = shown(&mds, false);
    let begin =
        "health: red\n  red: data server 1 is full (500 B free): new files avoid it. Free space";
    assert!(plain.starts_with(begin), "{plain}");
    assert!(plain.contains("\n  yellow: 2 fences not"), "{plain}");
    assert!(shown(&mds, true).contains("\u{1b}[31m  red: data"));
}

#[test]
fn it_is_an_interface() {
    let mut mds = green();
    mds.data_servers[0].free_bytes = 0;
    let value = serde_json::to_value(Health::of(&mds, None, NOW_S)).unwrap();
    assert_eq!(value["state"], "yellow");
    assert_eq!(value["reasons"][0]["level"], "yellow");
    assert!(value["reasons"][0]["action"].is_string());
}

#[test]
fn thresholds_are_those_of_the_alert_rules() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rules = std::fs::read_to_string(root.join("packaging/monitoring/rules.yml")).unwrap();
    let scrub = format!("> {} * 86400", own::SCRUB_DAYS_MAX);
    let cert = format!("< {CERT_DAYS_MIN} * 86400");
    let part = FREE_PERCENT_MIN as f64 / 100.0;
    let page = include_str!("../../dashboard/servers.js");
    assert!(page.contains(&format!("FREE_PART_MIN = {part};")));
    for rule in [
        format!("ropewalk_data_server_free_bytes < {part} *"),
        format!("ropewalk_foreign_server_free_bytes < {part} *"),
        format!("ropewalk_lag_seconds > {}", LAG_MS_MAX / 1000),
        format!("[15m]) > {HANDSHAKES_FAILED_MAX}"),
        scrub,
        cert,
    ] {
        assert!(rules.contains(&rule), "no alert rule has {rule:?}");
    }
}

/// All names that `canned` has, in each of its objects, are in what this version writes.
fn has_all(canned: &serde_json::Value, ours: &serde_json::Value, at: &str) {
    match (canned, ours) {
        (serde_json::Value::Object(canned), serde_json::Value::Object(ours)) => {
            for (name, value) in canned {
                let there = ours
                    .get(name)
                    .unwrap_or_else(|| panic!("{at}.{name} is unknown"));
                has_all(value, there, &format!("{at}.{name}"));
            }
        }
        (serde_json::Value::Array(canned), serde_json::Value::Array(ours)) => {
            for (index, (canned, ours)) in canned.iter().zip(ours).enumerate() {
                has_all(canned, ours, &format!("{at}[{index}]"));
            }
        }
        (canned, ours) => assert_eq!(canned, ours, "{at}"),
    }
}

#[test]
fn what_the_dashboard_is_tested_with_is_a_status_of_this_version_and_its_health() {
    let status = include_str!("../../../tests/dashboard/testdata/status.json");
    let canned: serde_json::Value = serde_json::from_str(status).unwrap();
    let mds: MdsStatus = serde_json::from_str(status).unwrap();
    has_all(&canned, &serde_json::to_value(&mds).unwrap(), "status");
    let health = include_str!("../../../tests/dashboard/testdata/health.json");
    let told: Health = serde_json::from_str(health).unwrap();
    assert_eq!(Health::of(&mds, None, 1_790_000_000), told);
}
