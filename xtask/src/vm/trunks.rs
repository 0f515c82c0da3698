//! The host's part of `trunks`: a second address for the MDS, a kill of it, and what the wire says of connections and sessions.
//!
//! A connection belongs to a session when the session's requests come over it (RFC 8881 §2.10.3.1). The proof is in the
//! recorded SEQUENCEs: which session they name, and by which connection they came. Entry point: [`trunks`].

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::capture::{CALL, Recorder, ports};
use super::cluster::Cluster;
use super::error::{Context, Result};
use super::hosted::{Finding, Stage};
use super::net::{Net, SECOND_IP, SERVER_IP};
use super::process::output;

/// Connections that the guest asks for at an address; the script reads it from here.
pub(crate) const NCONNECT: usize = 4;

/// Fewest requests that each connection must have carried while it was recorded. A run has some tens to each data server and more
/// to the MDS.
const REQUESTS_MIN: usize = 4;

/// One connection, and how many requests of which sessions went over it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Connection {
    address: String,
    port: String,
    sessions: BTreeMap<String, usize>,
}

impl Connection {
    /// Whether it carried enough of this session and nothing of others.
    fn is_of(&self, session: &str) -> bool {
        let busy = |requests: &usize| *requests >= REQUESTS_MIN;
        self.sessions.len() == 1 && self.sessions.get(session).is_some_and(busy)
    }
}

/// Gives the MDS a second address, plays, and takes it away again.
pub(crate) fn trunks(stage: &mut Stage<'_>) -> Result<Finding> {
    if !stage.guest.await_signal("booted")? {
        return Ok(None);
    }
    let cluster = stage.cluster()?;
    let port = stage.settings.port;
    let both = format!("[\"{SERVER_IP}:{port}\", \"{SECOND_IP}:{port}\"]");
    let before = cluster.configure("mds", &[("listen", &both)])?;
    let played = play(stage, &cluster);
    if matches!(played, Ok(None)) {
        // The guest must have left the second address before it goes.
        let _over = stage.guest.await_signal("over")?;
    }
    cluster.restart_with("mds", &before)?;
    played
}

fn play(stage: &mut Stage<'_>, cluster: &Cluster) -> Result<Finding> {
    let before = counts(cluster)?;
    stage.guest.signal("ready")?;
    if let Some(found) = recorded(stage, cluster, 0, &[(SERVER_IP, NCONNECT)])? {
        return Ok(found);
    }
    let now = counts(cluster)?;
    let (sessions, connections) = (now.0 - before.0, now.1 - before.1);
    if sessions != 1 || connections < NCONNECT as i64 {
        return Ok(Some(format!(
            "the MDS counts {sessions} sessions and {connections} connections more than before the mount"
        )));
    }
    stage.guest.signal("counted0")?;
    if !stage.guest.await_signal("half")? {
        return Ok(None);
    }
    let old = cluster.signal("mds", "KILL")?;
    cluster.await_restart("mds", old)?;
    stage.guest.signal("killed")?;
    let all = [(SERVER_IP, NCONNECT), (SECOND_IP, 1)];
    if let Some(found) = recorded(stage, cluster, 2, &all)? {
        return Ok(found);
    }
    stage.guest.signal("counted2")?;
    Ok(None)
}

/// Sessions and connections of the MDS.
fn counts(cluster: &Cluster) -> Result<(i64, i64)> {
    let mds = cluster.mds()?;
    let count = |name: &str| mds[name].as_i64().unwrap_or(0);
    Ok((count("sessions"), count("connections")))
}

/// Records a part of the guest's work and judges it; `None` when the play goes on.
fn recorded(
    stage: &mut Stage<'_>,
    cluster: &Cluster,
    number: u32,
    wanted: &[(&str, usize)],
) -> Result<Option<Finding>> {
    // It mounts first, and waits then.
    if !stage.guest.await_signal(&format!("mounted{number}"))? {
        return Ok(Some(None));
    }
    let name = format!("logs/trunks-{}-{number}.pcapng", std::process::id());
    let file = stage.tools.dir().join(name);
    let recorder = Recorder::start(stage.net, &file)?;
    stage.guest.signal(&format!("record{number}"))?;
    let done = stage.guest.await_signal(&format!("worked{number}"))?;
    recorder.stop()?;
    if !done {
        return Ok(Some(None));
    }
    let lines = decode(&file, &ports(Some(cluster))?)?;
    let mds_port = stage.settings.port.to_string();
    let found = judge(&lines, &mds_port, cluster.ds_names().len(), wanted);
    if found.is_none() {
        fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
        return Ok(None);
    }
    Ok(Some(
        found.map(|found| format!("{found}\n{}", file.display())),
    ))
}

/// Connection, address, port and session of each request of the guest that names a session, a line each.
fn decode(file: &Path, ports: &[String]) -> Result<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-T", "fields"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=,"]);
    let guest = Net::guest_ip(0);
    command.args(["-Y", &format!("ip.src == {guest} && nfs.session_id4")]);
    for port in ports {
        command.args(["-d", &format!("tcp.port=={port},rpc")]);
    }
    for field in [
        "tcp.stream",
        "ip.dst",
        "tcp.dstport",
        "rpc.msgtyp",
        "nfs.session_id4",
    ] {
        command.args(["-e", field]);
    }
    output(&mut command)
}

/// The connections in the lines of [`decode`], or the line that is not understood.
fn connections(lines: &str) -> std::result::Result<Vec<Connection>, &str> {
    let mut connections: BTreeMap<&str, Connection> = BTreeMap::new();
    for line in lines.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [stream, address, port, types, sessions] = fields[..] else {
            return Err(line);
        };
        // A reply from here is one to a callback.
        if types.split(',').any(|text| text != CALL) {
            continue;
        }
        let connection = connections.entry(stream).or_default();
        connection.address = address.to_owned();
        connection.port = port.to_owned();
        for session in sessions.split(',') {
            *connection.sessions.entry(session.to_owned()).or_default() += 1;
        }
    }
    Ok(connections.into_values().collect())
}

/// Whether each server's connections carry one session, all of them requests, and are as many as wanted.
fn judge(lines: &str, mds_port: &str, ds_count: usize, wanted: &[(&str, usize)]) -> Finding {
    let connections = match connections(lines) {
        Ok(connections) => connections,
        Err(line) => return Some(format!("tshark's line is not understood: {line}")),
    };
    let mut data = 0;
    let mut ports: Vec<&str> = connections.iter().map(|c| &*c.port).collect();
    ports.sort_unstable();
    ports.dedup();
    for port in ports {
        let all: Vec<&Connection> = connections.iter().filter(|c| c.port == port).collect();
        let session = busiest(&all);
        let at = |address: &str| {
            let here = all.iter().filter(|c| c.address == address);
            here.filter(|c| c.is_of(session)).count()
        };
        let is_good = if port == mds_port {
            let sum: usize = wanted.iter().map(|(_, count)| count).sum();
            sum == all.len() && wanted.iter().all(|(address, count)| at(address) == *count)
        } else {
            data += 1;
            // What is left of an earlier client to a data server may end meanwhile.
            at(SERVER_IP) == NCONNECT
        };
        if !is_good {
            return Some(format!(
                "port {port}: not {wanted:?} of one session: {all:?}"
            ));
        }
    }
    let has_mds = connections.iter().any(|c| c.port == mds_port);
    (!has_mds || data != ds_count)
        .then(|| format!("{data} data servers were recorded, the MDS: {has_mds}"))
}

/// The session that most requests were of.
fn busiest<'a>(connections: &[&'a Connection]) -> &'a str {
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    for (session, requests) in connections.iter().flat_map(|c| &c.sessions) {
        *sums.entry(session).or_default() += requests;
    }
    let most = sums.into_iter().max_by_key(|(_, requests)| *requests);
    most.map_or("", |(session, _)| session)
}

#[cfg(test)]
mod tests {
    //! The reading of tshark's lines, which decides between pass and fail.

    use super::*;

    /// One request by one connection.
    fn request(stream: usize, address: &str, port: usize, session: usize) -> String {
        format!("{stream}\t{address}\t{port}\t0\t{session:032x}\n").repeat(REQUESTS_MIN)
    }

    /// A client with all its connections to the MDS and two data servers.
    fn good() -> String {
        let servers = [(2049, 1), (3001, 2), (3002, 3)];
        let of = |(port, session)| {
            let stream = move |n| request(port * 10 + n, SERVER_IP, port, session);
            (0..NCONNECT).map(stream).collect::<String>()
        };
        servers.into_iter().map(of).collect()
    }

    #[test]
    fn every_connection_of_a_server_must_carry_its_one_session() {
        let first = [(SERVER_IP, NCONNECT)];
        let judge = |lines: &str| judge(lines, "2049", 2, &first);
        let good = good();
        assert_eq!(judge(&good), None);
        // Replies to callbacks name sessions too; so does what an earlier client to a data server ends with.
        for more in [
            "20490\t192.0.2.1\t2049\t1\tff\n",
            "99\t192.0.2.1\t3001\t0\tff\n",
        ] {
            assert_eq!(judge(&format!("{good}{more}")), None, "{more}");
        }
        let without = |text: &str| {
            let lines = good.lines().filter(|line| !line.contains(text));
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        let other = good.replacen("\t2049\t0\t0", "\t2049\t0\tf", REQUESTS_MIN);
        let idle = good.split_once('\n').map_or("", |(_, rest)| rest);
        for bad in [
            "",
            "no fields\n",
            &without("20493\t"),
            &without("\t3002\t"),
            &other,
            idle,
        ] {
            assert!(judge(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_second_address_is_of_the_same_session() {
        let wanted = [(SERVER_IP, NCONNECT), (SECOND_IP, 1)];
        let with = |session| format!("{}{}", good(), request(9, SECOND_IP, 2049, session));
        let judge = |lines: &str| judge(lines, "2049", 2, &wanted);
        assert_eq!(judge(&with(1)), None);
        assert!(judge(&with(7)).is_some());
        assert!(judge(&good()).is_some());
    }
}
