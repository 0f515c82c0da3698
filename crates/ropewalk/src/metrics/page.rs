//! The text of `/metrics`: what `ropewalk status` knows, in the OpenMetrics text format.
//!
//! Names are an interface, as those of the status are: metrics are added, never renamed.

use crate::status::{
    DataServerRow, DsStatus, MdsStatus, STATE_EXPELLED, STATE_SERVING, ServerStatus,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Error;

/// What stands before every name.
const PREFIX: &str = "ropewalk";
/// Names in [`MdsStatus::counters`] and [`DsStatus::counters`] of operations refused at a data server, by reason.
const REFUSED_PREFIX: &str = "refused_";
/// Names in the transport's counters of connections that ended, by reason.
const CLOSED_PREFIX: &str = "closed_";
/// Names among the counters of a server and of its transport that go up and down.
const GAUGES: [&str; 22] = [
    "admin_certificate_expiry_timestamp_seconds",
    "event_streams",
    "tunnels",
    "damaged_blocks",
    "scrubbed_timestamp_seconds",
    "places_replicated",
    "places_under_replicated",
    "parts_under_replicated",
    "places_filling",
    "places_on_last_copy",
    "places_not_served",
    "places_sharing_domains",
    "full_redundancy_seconds",
    "reply_cache_bytes",
    "sizes_unknown",
    "truncations",
    "fences_pending",
    "delegations",
    "floors",
    "rdma_credits_lent",
    "rdma_credits_stock",
    "rdma_bulk_free_bytes",
];

/// The page for one snapshot.
///
/// # Errors
/// None is known: it is written into memory.
pub(crate) fn page(status: ServerStatus) -> Result<String, Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Snapshot(status)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Snapshot(ServerStatus);

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut page = Page(encoder);
        match &self.0 {
            ServerStatus::Mds(mds) => metadata_server(&mut page, mds),
            ServerStatus::Ds(ds) => data_server(&mut page, ds),
        }
    }
}

fn metadata_server(page: &mut Page<'_>, mds: &MdsStatus) -> Result<(), Error> {
    page.program("mds", &mds.version, mds.uptime_seconds)?;
    page.gauge("starts", "Starts of this metadata server", mds.boot.into())?;
    page.gauge(
        "grace",
        "1 while clients reclaim after a restart",
        mds.in_grace.into(),
    )?;
    for (name, help, n) in [
        ("clients", "Clients with a lease", mds.clients),
        ("sessions", "Sessions of clients", mds.sessions),
        ("opens", "Open files of clients", mds.opens),
        ("locks", "Lock states of clients", mds.locks),
        ("layouts", "Layouts of clients", mds.layouts),
        (
            "metadata_bytes",
            "Size of the metadata store",
            mds.metadata_bytes,
        ),
        (
            "inline_files",
            "Files whose bytes lie in the metadata store",
            mds.inline_files,
        ),
        (
            "inline_bytes",
            "Bytes that lie in the metadata store",
            mds.inline_bytes,
        ),
    ] {
        page.gauge(name, help, n)?;
    }
    page.proxied(mds.proxy_read_bytes, mds.proxy_written_bytes)?;
    page.operations(&mds.operations)?;
    super::latency::of_operations(&mut page.0, &mds.latency)?;
    page.named(&mds.counters)?;
    page.gauge(
        "connections",
        "Connections of clients",
        mds.connections.into(),
    )?;
    page.transport("transport", &mds.transport)?;
    page.transport("control_transport", &mds.control_transport)?;
    let members = mds
        .data_servers
        .iter()
        .filter(|ds| ds.state != STATE_EXPELLED);
    of_data_servers(page, &members.collect::<Vec<_>>())?;
    super::foreign::of_servers(&mut page.0, mds)?;
    super::pairs::of_pairs(&mut page.0, mds)
}

/// What heartbeats have told the metadata server.
fn of_data_servers(page: &mut Page<'_>, rows: &[&DataServerRow]) -> Result<(), Error> {
    type Of = fn(&DataServerRow) -> u64;
    let gauges: [(&str, &str, Of); 6] = [
        ("up", "1 when the data server serves", |ds| {
            ds.is_online().into()
        }),
        ("total_bytes", "Size of its store", |ds| ds.total_bytes),
        ("free_bytes", "What is left of its store", |ds| {
            ds.free_bytes
        }),
        ("full", "1 when new files avoid it for want of room", |ds| {
            ds.full.into()
        }),
        ("objects", "Objects in its index", |ds| ds.objects),
        (
            "slow",
            "1 when others are primary of its places since its disk is slow",
            |ds| ds.slow.is_some().into(),
        ),
    ];
    let counters: [(&str, &str, Of); 6] = [
        ("client_read_bytes", "Bytes that clients read", |ds| {
            ds.client_read_bytes
        }),
        ("client_written_bytes", "Bytes that clients wrote", |ds| {
            ds.client_written_bytes
        }),
        (
            "proxy_read_bytes",
            "Bytes read there for clients without layouts",
            |ds| ds.proxy_read_bytes,
        ),
        (
            "proxy_written_bytes",
            "Bytes written there for clients without layouts",
            |ds| ds.proxy_written_bytes,
        ),
        ("handles_refused", "Handles that it refused", |ds| {
            ds.handles_refused
        }),
        ("errors", "Lost objects and disk errors", |ds| ds.errors),
    ];
    let ids: Vec<String> = rows.iter().map(|ds| ds.id.to_string()).collect();
    let mut family = |kind, name: &str, help: &str, of: Of| {
        let values = ids
            .iter()
            .map(String::as_str)
            .zip(rows.iter().map(|ds| of(ds)));
        page.family(kind, &format!("data_server_{name}"), help, "ds", values)
    };
    for (name, help, of) in gauges {
        family(MetricType::Gauge, name, help, of)?;
    }
    for (name, help, of) in counters {
        family(MetricType::Counter, name, help, of)?;
    }
    Ok(())
}

fn data_server(page: &mut Page<'_>, ds: &DsStatus) -> Result<(), Error> {
    page.program("ds", &ds.version, ds.uptime_seconds)?;
    let serves = ds.state == STATE_SERVING;
    page.gauge("serving", "1 when clients are served", serves.into())?;
    for (name, help, n) in [
        (
            "store_total_bytes",
            "Size of the object store",
            ds.total_bytes,
        ),
        (
            "store_free_bytes",
            "What is left of the object store",
            ds.free_bytes,
        ),
        ("index_bytes", "Size of the index", ds.index_bytes),
        (
            "redo_log_used_bytes",
            "Redo records whose objects are not durable by themselves yet",
            ds.redo_used_bytes,
        ),
        (
            "redo_log_size_bytes",
            "Size of the redo log",
            ds.redo_capacity_bytes,
        ),
        ("objects", "Objects in the index", ds.objects),
    ] {
        page.gauge(name, help, n)?;
    }
    page.counter(
        "client_read_bytes",
        "Bytes that clients read",
        ds.client_read_bytes,
    )?;
    page.counter(
        "client_written_bytes",
        "Bytes that clients wrote",
        ds.client_written_bytes,
    )?;
    page.proxied(ds.proxy_read_bytes, ds.proxy_written_bytes)?;
    page.operations(&ds.operations)?;
    super::latency::of_operations(&mut page.0, &ds.latency)?;
    page.named(&ds.counters)?;
    page.gauge(
        "connections",
        "Connections of clients",
        ds.connections.into(),
    )?;
    page.transport("transport", &ds.transport)
}

/// Writes metrics one after another.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn program(&mut self, role: &str, version: &str, uptime_seconds: u64) -> Result<(), Error> {
        let build = Info::new([("role", role), ("version", version)]);
        let metric = self.0.encode_descriptor(
            "build",
            "The program and its role",
            None,
            MetricType::Info,
        )?;
        build.encode(metric)?;
        self.gauge("uptime_seconds", "Seconds since the start", uptime_seconds)
    }

    fn gauge(&mut self, name: &str, help: &str, n: u64) -> Result<(), Error> {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(n).encode(metric)
    }

    fn counter(&mut self, name: &str, help: &str, n: u64) -> Result<(), Error> {
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(n).encode(metric)
    }

    fn family<'v>(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for (value, n) in values {
            let labels = [(label, value)];
            let one = metric.encode_family(&labels)?;
            match kind {
                MetricType::Counter => ConstCounter::new(n).encode(one)?,
                _ => ConstGauge::new(n).encode(one)?,
            }
        }
        Ok(())
    }

    fn proxied(&mut self, read_bytes: u64, written_bytes: u64) -> Result<(), Error> {
        self.counter(
            "proxy_read_bytes",
            "Bytes read for clients without layouts",
            read_bytes,
        )?;
        self.counter(
            "proxy_written_bytes",
            "Bytes written for clients without layouts",
            written_bytes,
        )
    }

    fn operations(&mut self, by_name: &BTreeMap<String, u64>) -> Result<(), Error> {
        let values = by_name.iter().map(|(name, n)| (name.as_str(), *n));
        let help = "Operations of COMPOUNDs";
        self.family(MetricType::Counter, "operations", help, "operation", values)
    }

    /// The counters that a server names itself; those of refusals become one family.
    fn named(&mut self, counters: &BTreeMap<String, u64>) -> Result<(), Error> {
        for (name, n) in counters {
            if name.starts_with(REFUSED_PREFIX) {
                continue;
            }
            if GAUGES.contains(&name.as_str()) {
                self.gauge(name, help_of(name), *n)?;
            } else {
                self.counter(name, help_of(name), *n)?;
            }
        }
        let refused = with_prefix(counters, REFUSED_PREFIX).collect::<Vec<_>>();
        if refused.is_empty() {
            return Ok(());
        }
        let help = "Operations whose handle or stateid was refused";
        self.family(
            MetricType::Counter,
            "handles_refused",
            help,
            "reason",
            refused,
        )
    }

    fn transport(&mut self, prefix: &str, counters: &BTreeMap<String, u64>) -> Result<(), Error> {
        for (name, n) in counters {
            if name.starts_with(CLOSED_PREFIX) {
                continue;
            }
            let full = format!("{prefix}_{}", with_unit_last(name));
            if GAUGES.contains(&name.as_str()) {
                self.gauge(&full, help_of(name), *n)?;
            } else {
                self.counter(&full, help_of(name), *n)?;
            }
        }
        let help = "Connections that ended, by reason";
        let closed = with_prefix(counters, CLOSED_PREFIX);
        self.family(
            MetricType::Counter,
            &format!("{prefix}_connections_closed"),
            help,
            "reason",
            closed,
        )
    }
}

/// The name of a counter of bytes with its unit at the end, as metrics have it.
fn with_unit_last(name: &str) -> Cow<'_, str> {
    for (end, last) in [("bytes_in", "received_bytes"), ("bytes_out", "sent_bytes")] {
        if let Some(begin) = name.strip_suffix(end) {
            return format!("{begin}{last}").into();
        }
    }
    name.into()
}

fn with_prefix<'m>(
    counters: &'m BTreeMap<String, u64>,
    prefix: &'static str,
) -> impl Iterator<Item = (&'m str, u64)> {
    let reason = move |(name, n): (&'m String, &'m u64)| Some((name.strip_prefix(prefix)?, *n));
    counters.iter().filter_map(reason)
}

fn is_of_places(name: &str) -> bool {
    let others = [
        "parts_under_replicated",
        "full_redundancy_seconds",
        "parts_compared",
        "damaged_blocks",
        "scrubbed_timestamp_seconds",
    ];
    name.starts_with("places_") || others.contains(&name)
}

/// The same of places of placement groups, and of what lies on disks.
fn help_of_places(name: &str) -> &'static str {
    match name {
        "places_replicated" => "Places of placement groups that are to have copies",
        "places_under_replicated" => "Places with fewer copies than they are to have",
        "parts_under_replicated" => "Parts of files with fewer copies than they are to have",
        "places_filling" => "Places with a data server that is being given what it lacks",
        "full_redundancy_seconds" => "Seconds until each place has its copies, at the present pace",
        "places_on_last_copy" => "Places that are to have copies and have one left",
        "parts_compared" => "Parts compared with those of a member that is filled",
        "damaged_blocks" => "Blocks of 64 KiB on disks that do not fit their sums",
        "scrubbed_timestamp_seconds" => "When the data server that was scrubbed longest ago was",
        "places_sharing_domains" => "Places with two copies in one failure domain",
        _ => "Places whose data servers are all away",
    }
}

/// What a counter says, where its name does not say it.
fn help_of(name: &str) -> &'static str {
    match name {
        "compounds" => "COMPOUNDs whose header could be read",
        "replays" => "Requests answered from the reply cache",
        "reply_cache_bytes" => "Replies kept in slots, or reserved",
        "malformed" => "Calls that could not be decoded",
        "refused" => "Calls refused for their RPC version, credential or address",
        "client_name_clashes" => "EXCHANGE_IDs of a client whose name another machine has, too",
        "sizes_unknown" => "Files whose size the data servers are to be asked for",
        "truncations" => "Truncations under way",
        "fences_pending" => "Fences that a data server has not acknowledged",
        places if is_of_places(places) => help_of_places(places),
        "layouts_too_wide" => "Layouts refused since the client takes no reply of their size",
        "delegations" => "Delegations in the hands of clients",
        "delegations_granted" => "Delegations granted",
        "delegations_recalled" => "Delegations recalled",
        "delegations_revoked" => "Delegations that did not come back in a lease",
        "floors" => "Floors and tombstones",
        "cold_reads" => "READs that waited for a disk",
        "sizes_asked" => "Sizes asked of the metadata server",
        "wrote_reports" => "FILE_SYNC writes reported to the metadata server",
        "objects_lost" => "Indexed objects found missing or short",
        "io_errors" => "Errors of the disk",
        "no_space" => "Writes that found the store full",
        "reads" | "writes" | "commits" => "Operations that were let in",
        "connections_accepted" => "Connections accepted",
        "connections_made" => "Connections made",
        "rdma_fallbacks" => "Connections made over TCP since RDMA did not come up",
        "connections_refused" => "Connections refused at connections_max",
        "connections_refused_by_address" => "Connections refused at connections_per_address_max",
        "connections_not_admitted" => "Connections closed at once since no such peer may connect",
        "accept_errors" => "Failures of accept",
        "records_in" => "RPC records received",
        "records_out" => "RPC records sent",
        "bytes_in" => "Bytes received",
        "bytes_out" => "Bytes sent",
        "payload_sendfile_bytes" => "Payload sent from files by sendfile",
        "payload_copy_bytes" => "Payload sent from files by copy",
        "payload_memory_bytes" => "Payload sent from memory",
        "stream_copied_bytes" => "Bulk copied once more in memory on stream connections",
        "busy_polls" => "Waits for a request without sleeping that ended with one",
        "busy_polls_vain" => "Waits for a request without sleeping that ended without",
        "store_copied_bytes" => "Payload copied by the store, in memory or to and from files",
        "rdma_connections" => "RDMA connections that were set up",
        "rdma_inline_bytes_in" => "Bytes received inside RDMA Sends",
        "rdma_inline_bytes_out" => "Bytes sent inside RDMA Sends",
        "rdma_read_chunk_bytes_in" => "Bytes of peers' calls fetched by RDMA Read",
        "rdma_read_chunk_bytes_out" => "Bytes of our calls offered to RDMA Read",
        "rdma_write_chunk_bytes_in" => "Bytes of results that peers placed by RDMA Write",
        "rdma_write_chunk_bytes_out" => "Bytes of results placed by RDMA Write",
        "rdma_reply_chunk_bytes_in" => "Bytes of whole replies that peers placed by RDMA Write",
        "rdma_reply_chunk_bytes_out" => "Bytes of whole replies placed by RDMA Write",
        "rdma_file_bytes" => "Payload read from files into registered memory",
        "rdma_sent_file_bytes" => "Payload sent straight out of files on RDMA connections",
        "rdma_copied_bytes" => "Payload copied once more in memory on RDMA connections",
        "rdma_registrations" => "Slabs of memory registered with RDMA devices",
        "rdma_exposures" => "Pieces of memory that RDMA peers were let into",
        "rdma_credit_stalls" => "Calls of ours that waited for a credit of the peer",
        "rdma_credits_short" => "Replies that granted a peer fewer credits than it makes use of",
        "rdma_credits_lent" => "Credits that RDMA peers have beside the one of each",
        "rdma_credits_stock" => "Credits that could be lent to RDMA peers",
        "rdma_bulk_free_bytes" => "Registered buffers for bulk over RDMA that nobody has",
        "rdma_read_stalls" => "Calls of peers that waited for their turn of RDMA Reads",
        "rdma_calls_refused" => "Calls that RPC-over-RDMA answered with an error",
        "rdma_discarded" => "RDMA messages that belong to nothing",
        "replies_unmatched" => "Replies that no call waited for",
        "calls_timed_out" => "Calls without a reply in time",
        _ => help_of_api(name),
    }
}

/// The same of the administration API.
fn help_of_api(name: &str) -> &'static str {
    match name {
        "admin_certificate_expiry_timestamp_seconds" => {
            "When the certificate of admin_cert ends; 0 without one"
        }
        "admin_connections_refused" => {
            "Connections to the API that were closed since their address had 16"
        }
        "event_streams" => "Streams of the API that somebody follows",
        "tunnels" => "Tunnels of administrators that are open",
        "tunnels_opened" => "Tunnels that were opened",
        "tunnels_refused" => "Tunnels for which there was no place",
        _ => "See docs/operate",
    }
}

#[cfg(test)]
mod tests {
    //! Goal: nothing that the status counts is missing on the page, and the page is well formed.
    use super::*;

    fn counters(names: &[&str]) -> BTreeMap<String, u64> {
        names.iter().map(|name| ((*name).to_owned(), 7)).collect()
    }

    #[test]
    fn a_metadata_server_shows_all_that_its_status_has() {
        let row = |id, state: &str| DataServerRow {
            id,
            state: state.to_owned(),
            handles_refused: 3,
            ..DataServerRow::default()
        };
        let mds = MdsStatus {
            version: "1.2\"3".to_owned(),
            sessions: 4,
            proxy_read_bytes: 5,
            operations: BTreeMap::from([("GetAttr".to_owned(), 6)]),
            counters: counters(&["malformed", "fences_pending"]),
            transport: counters(&[
                "bytes_in",
                "rdma_inline_bytes_out",
                "closed_malformed_record",
                "rdma_credits_lent",
            ]),
            control_transport: counters(&["closed_tls_handshake"]),
            connections: 8,
            data_servers: vec![
                row(1, STATE_SERVING),
                row(2, "away"),
                row(3, STATE_EXPELLED),
            ],
            lags: vec![crate::status::lag::LagRow {
                primary: 1,
                member: 2,
                queued_bytes: 4096,
                oldest_ms: 1500,
                sync_us: 250_000,
                ..Default::default()
            }],
            ..MdsStatus::default()
        };
        let text = page(ServerStatus::Mds(Box::new(mds))).unwrap();
        for line in [
            "ropewalk_build_info{role=\"mds\",version=\"1.2\\\"3\"} 1",
            "# TYPE ropewalk_sessions gauge",
            "ropewalk_sessions 4",
            "ropewalk_proxy_read_bytes_total 5",
            "ropewalk_operations_total{operation=\"GetAttr\"} 6",
            "# TYPE ropewalk_malformed counter",
            "ropewalk_malformed_total 7",
            "ropewalk_fences_pending 7",
            "ropewalk_connections 8",
            "ropewalk_transport_received_bytes_total 7",
            "ropewalk_transport_rdma_inline_sent_bytes_total 7",
            "# TYPE ropewalk_transport_rdma_credits_lent gauge",
            "ropewalk_transport_rdma_credits_lent 7",
            "ropewalk_control_transport_connections_closed_total{reason=\"tls_handshake\"} 7",
            "ropewalk_transport_connections_closed_total{reason=\"malformed_record\"} 7",
            "ropewalk_data_server_up{ds=\"1\"} 1",
            "ropewalk_data_server_up{ds=\"2\"} 0",
            "ropewalk_data_server_handles_refused_total{ds=\"2\"} 3",
            "ropewalk_data_server_sync_seconds{ds=\"1\"} 0.0",
            "# TYPE ropewalk_lag_bytes gauge",
            "ropewalk_lag_bytes{primary=\"1\",member=\"2\"} 4096",
            "ropewalk_lag_seconds{primary=\"1\",member=\"2\"} 1.5",
            "ropewalk_lag_sync_seconds{primary=\"1\",member=\"2\"} 0.25",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        let expelled = text.lines().find(|line| line.contains("ds=\"3\""));
        assert_eq!(expelled, None);
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_data_server_shows_all_that_its_status_has() {
        let ds = DsStatus {
            state: STATE_SERVING.to_owned(),
            client_read_bytes: 5,
            counters: counters(&["reads", "refused", "refused_forged", "refused_fenced"]),
            ..DsStatus::default()
        };
        let text = page(ServerStatus::Ds(Box::new(ds))).unwrap();
        for line in [
            "ropewalk_serving 1",
            "ropewalk_client_read_bytes_total 5",
            "ropewalk_reads_total 7",
            "ropewalk_refused_total 7",
            "ropewalk_handles_refused_total{reason=\"fenced\"} 7",
            "ropewalk_handles_refused_total{reason=\"forged\"} 7",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
    }

    #[test]
    fn every_counter_of_the_transport_is_explained() {
        for (name, _) in transport::CountersSnapshot::default().named() {
            assert_ne!(help_of(name), help_of("unknown"), "{name}");
        }
    }
}
