//! rping of librdmacm in the guest against the rping of `fabric-iwarp` on the host, each as client and as server.

use std::fs;
use std::time::{Duration, Instant};

use super::super::error::Result;
use super::super::guest::Guest;
use super::super::net::{Net, SERVER_IP};
use super::super::process::output;
use super::super::program::build;
use super::super::qemu::Qemu;
use super::super::run::new_log;
use super::super::scenario::{Outcome, judge_single, with_finding};
use super::super::server::{Server, tail};

/// rping's own port.
const RPING_PORT: u16 = 7174;

/// Pings by the kernel's client: bytes and count. Around the sizes of one TCP segment; the last is rping's largest.
const CLIENT: &[(u32, u32)] = &[(64, 100), (1447, 20), (4096, 20), (65_535, 10)];

/// Pings by our client. The kernel's server writes back as much as a string has: ours are strings.
const SERVE: &[(u32, u32)] = &[(64, 50), (1448, 20), (65_535, 10)];

/// How long the guest may take; it ends a hang and measures nothing.
const GUEST_LIMIT: Duration = Duration::from_secs(600);

/// Both roles of rping in one guest.
pub(super) fn rping(net: &Net, qemu: &Qemu, echo: bool) -> Result<Outcome> {
    let started = Instant::now();
    let package = ["--package", "ropewalk-fabric-iwarp", "--example", "rping"];
    let program = build(&package, "examples/rping")?;
    let log = new_log(qemu.tools())?;
    let address = format!("{SERVER_IP}:{RPING_PORT}");
    let mut command = net.command(&program.display().to_string());
    command.args(["serve", &address, &CLIENT.len().to_string()]);
    let server = Server::start_command(net, command, &log, RPING_PORT)?;
    let mut guest = Guest::under_qemu(net, qemu)
        .script("siw/rping.sh")
        .env("PORT", RPING_PORT)
        .env("CLIENT", list(CLIENT))
        .env("SERVE", list(SERVE))
        .timeout(GUEST_LIMIT)
        .echo(echo)
        .spawn()?;
    let mut found = None;
    let peer = format!("{}:{RPING_PORT}", Net::guest_ip(0));
    for (bytes, count) in SERVE {
        if !guest.await_signal(&format!("serving-{bytes}:{count}"))? {
            break;
        }
        let mut ping = net.command(&program.display().to_string());
        ping.args(["ping", &peer, &bytes.to_string(), &count.to_string()]);
        if let Err(error) = output(&mut ping) {
            found = Some(error.to_string());
            break;
        }
    }
    let run = if found.is_some() {
        guest.stop()?
    } else {
        guest.wait()?
    };
    let mut outcome = judge_single(&run, "", "rping", started.elapsed());
    drop(server);
    outcome.failure = with_finding(found, &run, outcome.failure)
        .or_else(|| judge_served(&fs::read_to_string(&log).unwrap_or_default()));
    if outcome.is_failure() {
        println!("{}", tail(&log, 15));
    }
    Ok(outcome)
}

fn list(pings: &[(u32, u32)]) -> String {
    let words = pings
        .iter()
        .map(|(bytes, count)| format!("{bytes}:{count}"));
    words.collect::<Vec<_>>().join(" ")
}

/// Our server has counted each ping of the kernel's client.
fn judge_served(words: &str) -> Option<String> {
    let counts = words.lines().filter_map(|line| {
        let (_, done) = line.split_once(": ")?;
        done.split_once(" pings")?.0.parse::<u32>().ok()
    });
    let served: Vec<u32> = counts.collect();
    let right = CLIENT
        .iter()
        .map(|(_, count)| *count)
        .eq(served.iter().copied());
    (!right).then(|| format!("our server has seen pings by the kernel: {served:?}"))
}

#[cfg(test)]
mod tests {
    //! What our server's words mean.

    use super::*;

    #[test]
    fn every_ping_of_every_connection_counts() {
        let line = |(_, count): &(u32, u32)| format!("192.0.2.10:99: {count} pings, 0 bytes\n");
        let all: String = CLIENT.iter().map(line).collect();
        let all = format!("listening on 192.0.2.1:7174\n{all}");
        assert_eq!(judge_served(&all), None);
        assert!(judge_served(&all.replacen(" 20 pings", " 19 pings", 1)).is_some());
        assert!(judge_served(all.trim_end().rsplit_once('\n').map_or("", |cut| cut.0)).is_some());
    }
}
