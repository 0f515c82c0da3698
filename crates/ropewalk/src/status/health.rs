//! How a cluster is, in one word: green, yellow or red, with the reasons and what to do about each.
//!
//! Owns the rules. Pure: may not ask a server, look at a clock or draw. Thresholds are those of the alert rules in
//! `packaging/monitoring/rules.yml`, and a test holds the two together. An alert also waits before it fires; this says what
//! is now. Entry point: [`Health::of`].

mod own;
#[cfg(test)]
mod tests;

use super::foreign::ForeignServerRow;
use super::lag::{LagRow, seconds};
use super::redundancy::{PlacesSummary, red};
use super::{MdsStatus, duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Reasons that are told; the worst come first.
const REASONS_MAX: usize = 32;
/// A disk is nearly full below this part of it.
pub(crate) const FREE_PERCENT_MIN: u64 = 10;
/// A data server is behind when the oldest item waits for longer.
const LAG_MS_MAX: u32 = 10_000;
/// Failed TLS handshakes between two readings that are nobody's mistake in typing.
const HANDSHAKES_FAILED_MAX: u64 = 5;
/// A certificate that ends sooner should have been renewed.
pub(crate) const CERT_DAYS_MIN: i64 = 14;
/// Grace that has not ended by then waits for some client.
const GRACE_SECONDS_MAX: u64 = 300;

/// How bad it is.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HealthLevel {
    /// Nothing to do.
    #[default]
    Green,
    /// Something is not as it should be; no data are in danger and all are served.
    Yellow,
    /// Data are in danger or not served.
    Red,
}

impl HealthLevel {
    /// Its word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }
}

/// Why it is not green.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct HealthReason {
    /// Yellow or red.
    pub level: HealthLevel,
    /// What is so, without a full stop.
    pub text: String,
    /// What to do about it.
    pub action: String,
}

/// How a cluster is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Health {
    /// The worst of the reasons; green without one.
    pub state: HealthLevel,
    /// The worst first.
    pub reasons: Vec<HealthReason>,
}

/// Reasons as they are found.
#[derive(Default)]
struct Found(Vec<HealthReason>);

impl Found {
    fn red(&mut self, text: impl Into<String>, action: impl Into<String>) {
        self.add(HealthLevel::Red, text, action);
    }

    fn yellow(&mut self, text: impl Into<String>, action: impl Into<String>) {
        self.add(HealthLevel::Yellow, text, action);
    }

    fn add(&mut self, level: HealthLevel, text: impl Into<String>, action: impl Into<String>) {
        let (text, action) = (text.into(), action.into());
        self.0.push(HealthReason {
            level,
            text,
            action,
        });
    }
}

impl Health {
    /// How the cluster is at `now_s`, seconds since 1970. `earlier` is a reading of the last ten minutes: counts that only
    /// grow are bad news if they have grown since. Without it they are left out.
    pub(crate) fn of(mds: &MdsStatus, earlier: Option<&MdsStatus>, now_s: i64) -> Self {
        let mut found = Found::default();
        let is_same = |then: &&MdsStatus| (then.pid, then.boot) == (mds.pid, mds.boot);
        let earlier = earlier.filter(is_same);
        places(&mut found, mds);
        own::servers(&mut found, mds, earlier, now_s);
        lags(&mut found, &mds.lags);
        foreign_servers(&mut found, mds);
        clients(&mut found, mds);
        certificate(&mut found, mds, now_s);
        if let Some(earlier) = earlier {
            connections(&mut found, mds, earlier);
        }
        Self::from_reasons(found.0)
    }

    fn from_reasons(mut reasons: Vec<HealthReason>) -> Self {
        // Stable: reasons of one level stay in the order of the rules.
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.level));
        let state = reasons.first().map_or(HealthLevel::Green, |r| r.level);
        if reasons.len() > REASONS_MAX {
            let rest = reasons.split_off(REASONS_MAX - 1);
            reasons.push(HealthReason {
                level: rest.first().map_or(HealthLevel::Yellow, |r| r.level),
                text: format!("{} further reasons", rest.len()),
                action: "See to those above first.".to_owned(),
            });
        }
        Self { state, reasons }
    }

    /// The first lines of `ropewalk status`.
    pub(super) fn show(&self, text: &mut String, is_coloured: bool) {
        let _ = writeln!(text, "health: {}", self.state.as_str());
        for reason in &self.reasons {
            let (level, what, action) = (reason.level.as_str(), &reason.text, &reason.action);
            let line = format!("  {level}: {what}. {action}");
            let is_red = reason.level == HealthLevel::Red && is_coloured;
            let _ = writeln!(text, "{}", red(&line, is_red));
        }
        text.push('\n');
    }
}

/// `1 place`, `2 places`.
fn counted(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    }
}

/// Whether less than [`FREE_PERCENT_MIN`] is left. A size that is not known yet is no reason.
pub(crate) fn is_nearly_full(free_bytes: u64, total_bytes: u64) -> bool {
    u128::from(free_bytes) * 100 < u128::from(total_bytes) * u128::from(FREE_PERCENT_MIN)
}

/// Copies of stripes.
fn places(found: &mut Found, mds: &MdsStatus) {
    let sums = PlacesSummary::of(mds.groups.iter().flat_map(|g| &g.places));
    let away = own::away(mds);
    if sums.not_served > 0 {
        found.red(
            format!(
                "{} without a data server: files with data there wait",
                counted(sums.not_served, "place")
            ),
            format!("Bring back the data servers that are away{away}."),
        );
    }
    if sums.on_last_copy > 0 {
        found.red(
            format!(
                "{} on the last copy: the next loss is a loss of data",
                counted(sums.on_last_copy, "place")
            ),
            format!("Bring back the data servers that are away{away}."),
        );
    }
    if sums.under_replicated > sums.on_last_copy {
        let left = match mds.full_redundancy_seconds {
            Some(left) => format!("copies are complete in about {}", duration(left)),
            None => "it is not known when copies are complete".to_owned(),
        };
        found.yellow(
            format!(
                "{} of {} lack copies; {left}",
                sums.under_replicated,
                counted(sums.replicated, "place")
            ),
            "Wait while copies are made; `ropewalk repair status --watch` shows how far it is.",
        );
    }
    if sums.sharing_domains > 0 {
        let count = counted(sums.sharing_domains, "place");
        found.yellow(
            format!("{count} with two copies in one failure domain"),
            "Set `location` in ds.toml of each data server, and have as many locations as copies.",
        );
    }
}

/// Data servers that are behind.
fn lags(found: &mut Found, lags: &[LagRow]) {
    for lag in lags.iter().filter(|lag| lag.oldest_ms > LAG_MS_MAX) {
        found.yellow(
            format!(
                "data server {} is {} behind data server {}",
                lag.member,
                seconds(lag.oldest_ms),
                lag.primary
            ),
            format!(
                "Look at the disk of data server {} and at the network between them.",
                lag.member
            ),
        );
    }
}

/// NFSv3 servers of others, and the files there.
fn foreign_servers(found: &mut Found, mds: &MdsStatus) {
    for server in mds.foreign_servers.iter().filter(|s| s.is_used()) {
        foreign_server(found, server);
    }
    if mds.bad_mirror_files > 0 {
        let more = match mds.bad_mirror_files >= mds.bad_mirror_files_counted_max {
            true => " or more",
            false => "",
        };
        let action = match mds.bad_mirror_servers_needed {
            0 => "Wait: mirrors are made again.".to_owned(),
            n => format!("Have {n} such servers up with room; mirrors are made again then."),
        };
        let files = mds.bad_mirror_files;
        found.yellow(format!("files with bad mirrors: {files}{more}"), action);
    }
    if mds.foreign_fences_waiting > 0 {
        let files = mds.foreign_fences_waiting;
        found.yellow(
            format!("files whose fences wait for NFSv3 servers: {files}"),
            "Bring back the servers that do not answer.",
        );
    }
}

fn foreign_server(found: &mut Found, server: &ForeignServerRow) {
    let (id, target) = (&server.id, &server.target);
    if server.is_down() {
        let since = duration(server.since_seconds.unwrap_or(0));
        let why = server.last_error.as_deref().unwrap_or("no answer");
        let text = format!("NFSv3 server {id} ({target}) is down for {since}: {why}");
        let action =
            format!("Bring it back, or take its files away: `ropewalk ds drain-nfs3 {id}`.");
        match server.groups {
            // No file is there.
            0 => found.yellow(text, action),
            _ => found.red(text, action),
        }
    } else if server.is_failing() {
        let why = server.last_error.as_deref().unwrap_or("no reason is known");
        found.yellow(
            format!("NFSv3 server {id} ({target}) answers, and calls for files fail: {why}"),
            format!(
                "Look at its disk and its export, or take its files away: `ropewalk ds drain-nfs3 {id}`."
            ),
        );
    } else if is_nearly_full(server.free_bytes, server.total_bytes) {
        found.yellow(
            format!("NFSv3 server {id} ({target}) has less than {FREE_PERCENT_MIN} % left"),
            "Make room there, or add another server.",
        );
    }
}

/// What clients meet.
fn clients(found: &mut Found, mds: &MdsStatus) {
    if mds.in_grace {
        let action = match mds.uptime_seconds > GRACE_SECONDS_MAX {
            true => "Look for clients that do not finish: `ropewalk client list`.",
            false => "Wait: it ends by itself.",
        };
        found.yellow(
            "clients reclaim after a restart (grace): new opens and locks wait",
            action,
        );
    }
    for clash in &mds.name_clashes {
        let at = clash.addresses.join(" and ");
        found.yellow(
            format!(
                "two clients have one name, \"{}\", at {at}: they end each other's sessions",
                clash.owner
            ),
            "Give each machine a host name of its own, or set nfs4_unique_id.",
        );
    }
    if mds.fences_pending > 0 {
        let count = counted(mds.fences_pending, "fence");
        found.yellow(
            format!("{count} not acknowledged by some data server"),
            "Wait for it, or bring back the data servers that are away.",
        );
    }
}

/// Whether a certificate should have been renewed that is valid for so long, in seconds.
pub(crate) const fn is_cert_late(left_s: i64) -> bool {
    left_s < CERT_DAYS_MIN * 24 * 3600
}

/// When a certificate ends that is valid for so long, in seconds.
pub(crate) fn cert_ends(left_s: i64) -> String {
    match u64::try_from(left_s) {
        Ok(left) => format!("expires in {}", duration(left)),
        Err(_) => "has expired".to_owned(),
    }
}

/// The certificate that browsers see.
fn certificate(found: &mut Found, mds: &MdsStatus, now_s: i64) {
    let Some(left_s) = mds
        .admin_cert_not_after
        .map(|end| end.saturating_sub(now_s))
    else {
        return;
    };
    if !is_cert_late(left_s) {
        return;
    }
    let more = match left_s < 0 {
        true => ": browsers refuse the API",
        false => "",
    };
    let text = format!(
        "the certificate of `admin_cert` {}{more}",
        cert_ends(left_s)
    );
    let action = "Put a new one in its place, then run `ropewalk reload`.";
    found.yellow(text, action);
}

/// Counts that have grown since `earlier`.
fn connections(found: &mut Found, mds: &MdsStatus, earlier: &MdsStatus) {
    let grown = |name: &str| {
        let of = |mds: &MdsStatus| mds.transport.get(name).copied().unwrap_or(0);
        of(mds).saturating_sub(of(earlier))
    };
    for (name, limit) in [
        ("connections_refused", "connections_max"),
        (
            "connections_refused_by_address",
            "connections_per_address_max",
        ),
    ] {
        let count = grown(name);
        if count > 0 {
            let count = counted(count, "connection");
            found.yellow(
                format!("{count} of clients refused at the limit {limit}"),
                format!("Raise {limit} in mds.toml, or find out who opens so many."),
            );
        }
    }
    let failed = |mds: &MdsStatus| {
        let name = "closed_tls_handshake";
        mds.control_transport.get(name).copied().unwrap_or(0)
    };
    let count = failed(mds).saturating_sub(failed(earlier));
    if count > HANDSHAKES_FAILED_MAX {
        found.yellow(
            format!("{count} TLS handshakes with data servers have failed"),
            "Look for a certificate that is expired or of another cluster, or a wrong clock.",
        );
    }
}
