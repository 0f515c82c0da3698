//! Goal: every wrong configuration gives one sentence that says what to do.
use super::*;
use bytesize::ByteSize;
use std::net::SocketAddr;
use std::time::Duration;

fn mds(text: &str) -> Result<MdsConfig, String> {
    let config: MdsConfig = toml::from_str(text).map_err(|e| e.to_string())?;
    config.check().map_err(|e| e.to_string())?;
    Ok(config)
}

fn ds(text: &str) -> Result<DsConfig, String> {
    let config: DsConfig = toml::from_str(text).map_err(|e| e.to_string())?;
    config.check().map_err(|e| e.to_string())?;
    Ok(config)
}

#[test]
fn a_data_server_lets_in_whom_its_file_names() {
    let everybody = ds("state_dir = '/s'").unwrap();
    assert!(everybody.networks().unwrap().is_empty());
    let config = ds("state_dir = '/s'\nclients = ['10.1.0.0/16', 'fd00::1']").unwrap();
    let networks = config.networks().unwrap();
    for (peer, inside) in [("10.1.2.3", true), ("fd00::1", true), ("10.2.0.1", false)] {
        let peer = peer.parse().unwrap();
        assert_eq!(networks.iter().any(|n| n.contains(peer)), inside, "{peer}");
    }
    let refused = ds("state_dir = '/s'\nclients = ['host']").unwrap_err();
    assert!(
        refused.contains("`clients`: `host` is not a network"),
        "{refused}"
    );
}

#[test]
fn the_shortest_configurations_have_safe_defaults() {
    let config = mds("state_dir = '/s'").unwrap();
    assert_eq!(config.listen, [SocketAddr::from(([127, 0, 0, 1], 2049))]);
    assert_eq!(config.stripe_unit.as_u64(), 1 << 20);
    let exports = config.export_list().unwrap();
    let root = exports
        .admit("127.0.0.1".parse().unwrap(), Some((0, 0, &[])))
        .unwrap();
    assert_eq!(root.uid, ::server::exports::ANONYMOUS_ID);
    assert!(exports.admit("192.0.2.1".parse().unwrap(), None).is_none());
    assert_eq!(ds("state_dir = '/s'").unwrap().store, StoreKind::Disk);
}

#[test]
fn what_cannot_work_is_refused_with_a_reason() {
    for (text, says) in [
        ("lease = 3", "unknown field `lease`"),
        ("listen = []", "`listen` is empty"),
        ("listen = ['host']", "socket address"),
        ("listen = ['0.0.0.0:2049']", "no [[export]]"),
        ("listen = ['[::]:2049']", "no [[export]]"),
        ("control_listen = ['0.0.0.0:1']", "control_advertise"),
        ("lease_seconds = 0", "between 1 and 3600"),
        ("stripe_unit = '12KiB'", "power of two"),
        ("fill_rate_max = '1KiB'", "at least 64 KiB per second"),
        (
            "mds_threshold = '2MiB'",
            "`mds_threshold` must be at most 1 MiB",
        ),
        (
            "inline_max = '65KiB'",
            "`inline_max` must be at most 64 KiB",
        ),
        (
            "listen = ['0.0.0.0:2049']\n[[export]]\nclients = '*'",
            "set `advertise`",
        ),
        ("admin_cert = '/a.crt'", "need each other"),
        ("admin_key = '/a.key'", "need each other"),
        ("key_rotation = '5m'", "between 10m and 365d"),
        ("key_rotation = '1w'", "no length of time"),
        ("key_overlap = '0s'", "at least 1m"),
        ("key_rotation = '30m'", "no longer than `key_rotation`"),
        ("root.mode = '0888'", "no mode"),
        ("foreign.pool = 257", "at most 256"),
        ("foreign.pool = -1", "invalid value"),
        ("foreign.pol = 1", "unknown field"),
        ("placement.create = 'late'", "unknown variant `late`"),
        ("connections_max = 0", "`connections_max` must be"),
        ("busy_poll_us = 1001", "`busy_poll_us` must be at most 1000"),
        ("rdma_inline = '128KiB'", "between 4 KiB and 64 KiB"),
        ("rdma_inline = '5000B'", "multiple of 1 KiB"),
        ("idle_close = '1s'", "`idle_close` must be at least 10s"),
        (
            "connections_max = 3\nconnections_per_address_max = 4",
            "no more than `connections_max`",
        ),
        (
            "listen = ['127.0.0.1:1', '127.0.0.1:1']",
            "`listen` has 127.0.0.1:1 twice",
        ),
        (
            "listen = ['127.0.0.1:1']\ncontrol_listen = ['127.0.0.1:1']",
            "is in `listen` and in `control_listen`",
        ),
        ("[[export]]\nclients = 'x'", "`x` is not a network"),
        (
            "[[export]]\nclients = '*'\naccess = 'w'",
            "unknown variant `w`",
        ),
    ] {
        let error = mds(&format!("state_dir = '/s'\n{text}")).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
    assert!(mds("").unwrap_err().contains("state_dir"));
    let nowhere = mds("state_dir = '/dev/null/s'").unwrap_err();
    assert!(nowhere.contains("/dev/null is no directory"));
}

#[test]
fn each_path_has_a_transport_of_its_own() {
    use transport::Preference;
    let config = mds("state_dir = '/s'").unwrap();
    let of = |c: &MdsConfig| (c.data_transport.into(), c.proxy_transport.into());
    assert_eq!(of(&config), (Preference::Auto, Preference::Auto));
    let config = mds("state_dir = '/s'\ndata_transport = 'rdma'\nproxy_transport = 'tcp'").unwrap();
    assert_eq!(of(&config), (Preference::Rdma, Preference::Tcp));
    let again = mds(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(of(&again), of(&config));
    let wrong = mds("state_dir = '/s'\ndata_transport = 'ib'").unwrap_err();
    assert!(wrong.contains("unknown variant `ib`"), "{wrong}");
    let config = ds("state_dir = '/s'\nlisten = ['192.0.2.1:2050']\nrdma_listen = ['0.0.0.0:20049']\nrdma_advertise = ['192.0.2.1:20049']").unwrap();
    assert_eq!(config.rdma_advertised()[0].to_string(), "192.0.2.1:20049");
}

#[test]
fn sizes_of_messages_and_idle_connections_reach_the_transport() {
    let text = "state_dir = '/s'\nrdma_inline = '64KiB'\nidle_close = '10m'";
    let ten_minutes = Some(Duration::from_secs(600));
    let config = mds(text).unwrap();
    assert_eq!(config.rdma().1.inline_bytes, 65_536);
    assert_eq!(config.connections().idle_close, ten_minutes);
    let again = mds(&toml::to_string(&config).unwrap()).unwrap();
    assert_eq!(again.rdma().1.inline_bytes, 65_536);
    assert_eq!(again.connections().idle_close, ten_minutes);
    let config = ds(text).unwrap();
    assert_eq!(config.rdma().1.inline_bytes, 65_536);
    assert_eq!(config.connections().idle_close, ten_minutes);
    let usual = mds("state_dir = '/s'").unwrap();
    assert_eq!(usual.rdma().1, transport::rdma::Config::default());
    assert_eq!(usual.connections().idle_close, None);
}

#[test]
fn what_no_data_server_can_work_with_is_refused_with_a_reason() {
    for (text, says) in [
        (
            "state_dir = '/s'\nlisten = ['0.0.0.0:2050']",
            "set `advertise`",
        ),
        (
            "state_dir = '/s'\njoin_token = 'a'\njoin_token_file = 'b'",
            "not both",
        ),
        ("state_dir = '/s'\nmds = ['nohost']", "write HOST:PORT"),
        (
            "state_dir = '/s'\nrdma_listen = ['0.0.0.0:20049']",
            "set `rdma_advertise`",
        ),
        (
            "state_dir = '/s'\nrdma_advertise = ['192.0.2.1:20049']",
            "without `rdma_listen`",
        ),
        ("state_dir = '/s'\njoin_token = 'junk'", "`join_token`: "),
        ("state_dir = '/s'\nrdma_inline = '1KiB'", "between 4 KiB"),
        ("state_dir = '/s'\nidle_close = '9s'", "at least 10s"),
        (
            "state_dir = '/s'\nstore = 'memory'\nmemory_size = '1KiB'",
            "at least 1 MiB",
        ),
    ] {
        let error = ds(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
}

/// Somebody can write in a new file system: root, or else everybody.
#[test]
fn the_root_directory_is_open_where_root_is_squashed() {
    let export = |squash| format!("[[export]]\nclients = '10.0.0.0/8'\nsquash = '{squash}'\n");
    let read_only = "[[export]]\nclients = '*'\naccess = 'ro'\nsquash = 'none'\n";
    let said = "[root]\nuid = 5\n";
    let cases = [
        (String::new(), 0o1777, 0),
        (export("root"), 0o1777, 0),
        (export("all"), 0o1777, 0),
        (export("none"), 0o755, 0),
        (export("root") + export("none").as_str(), 0o755, 0),
        (export("root") + read_only, 0o1777, 0),
        (export("root") + said, 0o755, 5),
    ];
    for (tables, mode, uid) in cases {
        let config = mds(&format!("state_dir = '/s'\n{tables}")).unwrap();
        let root = config.root_of_new();
        assert_eq!((root.mode.0, root.uid), (mode, uid), "{tables}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    for size in ["4KiB", "1MiB", "1GiB"] {
        let config = mds(&format!("state_dir = '/s'\nstripe_unit = '{size}'")).unwrap();
        let again = mds(&toml::to_string(&config).unwrap()).unwrap();
        assert_eq!(again.stripe_unit, config.stripe_unit);
        assert_eq!(again.root, config.root);
    }
    let text = toml::to_string(&ds("state_dir = '/s'\nmemory_size = '5000001B'").unwrap());
    assert_eq!(ds(&text.unwrap()).unwrap().memory_size, ByteSize(5_000_001));
}

#[test]
fn a_listener_beyond_loopback_starts_with_an_export() {
    let text = "state_dir = '/s'\nlisten = ['0.0.0.0:2049', '[::]:2049']\nadvertise = ['10.0.0.1:2049']\n\
        [[export]]\nclients = '10.0.0.0/8'\naccess = 'ro'\nsquash = 'none'";
    let exports = mds(text).unwrap().export_list().unwrap();
    let root = exports
        .admit("10.1.2.3".parse().unwrap(), Some((0, 0, &[])))
        .unwrap();
    assert_eq!((root.uid, root.read_only), (0, true));
}

#[test]
fn access_times_move_unless_an_export_says_otherwise() {
    use ::server::exports::Atime;
    for (said, atime) in [
        ("", Atime::Relatime),
        ("atime = 'relatime'", Atime::Relatime),
        ("atime = 'off'", Atime::Off),
    ] {
        let text = format!("state_dir = '/s'\n[[export]]\nclients = '*'\n{said}");
        let exports = mds(&text).unwrap().export_list().unwrap();
        let admitted = exports.admit("10.1.2.3".parse().unwrap(), None);
        assert_eq!(admitted.unwrap().atime, atime, "{said}");
    }
    let error = mds("state_dir = '/s'\n[[export]]\nclients = '*'\natime = 'noatime'");
    assert!(error.unwrap_err().contains("relatime"));
}

#[test]
fn an_unknown_key_is_refused_with_the_one_that_was_meant() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    for (text, says) in [
        (
            "lease_secnods = 3",
            "line 2, `lease_secnods`: unknown key `lease_secnods`; did you mean `lease_seconds`?",
        ),
        (
            "[foreign]\npol = 1",
            "line 3, `pol`: unknown key `pol`; did you mean `pool`?",
        ),
        ("[[export]]\nclient = '*'", "did you mean `clients`?"),
        ("colour = 'red'", "configuration.md has all keys"),
    ] {
        std::fs::write(&file, format!("state_dir = '/s'\n{text}\n")).unwrap();
        let error = super::load::<MdsConfig>(&file).unwrap_err().to_string();
        assert!(
            error.contains(says) && error.lines().count() == 1,
            "{error}"
        );
    }
}
