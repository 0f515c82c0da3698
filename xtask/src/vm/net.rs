//! A network namespace with a bridge, one tap per guest, and a keeper that removes it all.
//!
//! Owns the namespace and, through the keeper, the life of every process in it. Servers listen on
//! [`SERVER_IP`]; guest `n` is 192.0.2.10+n on tap `n`. The addresses are of TEST-NET-1
//! (RFC 5737) and exist only inside the namespace. [`RAILS`] are two further networks to the first guest, which can be cut.
//!
//! # Ownership
//! The keeper is a shell that waits for the end of a pipe of which this process holds the only writing end. However
//! this process ends (return, panic, Ctrl-C, SIGKILL), the pipe closes. The keeper then kills by pid what is left in
//! the namespace and deletes it.
//!
//! # Failure
//! If the keeper itself is killed, the namespace stays: `ip netns del rw-vm-...` removes it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::error::{Context, Failure, Result};
use super::prepare::Tools;
use super::process::output;

/// The address that servers in the namespace listen on.
pub(crate) const SERVER_IP: &str = "192.0.2.1";

/// A second address of the same machine, where servers listen that are told to.
pub(crate) const SECOND_IP: &str = "192.0.2.2";

/// Further networks between the servers and the first guest, by the first three octets of their addresses (TEST-NET-2 and
/// TEST-NET-3 of RFC 5737). Each is a bridge `railN` with one tap, `cutN`.
pub(crate) const RAILS: [&str; 2] = ["198.51.100", "203.0.113"];

/// Guests that one namespace has taps for.
pub(crate) const GUESTS_MAX: u8 = 4;

/// Host part of the first guest's address.
const FIRST_GUEST_HOST: u8 = 10;

/// How often the listening sockets of the namespace are read while a server starts.
const LISTEN_POLL: Duration = Duration::from_millis(50);

/// Waits for its input to end, then empties and deletes the namespace `$1` and removes the
/// directory `$2`. Killing is repeated
/// because a process may have forked between the list and the signal.
const KEEPER: &str = r#"
trap '' INT TERM HUP QUIT
cat >/dev/null
pass=0
while [ $pass -lt 50 ]; do
    pids=$(ip netns pids "$1" 2>/dev/null) || break
    [ -n "$pids" ] || break
    kill -s KILL $pids 2>/dev/null
    pass=$((pass + 1))
    sleep 0.05
done
ip netns del "$1" 2>/dev/null
rm -rf -- "$2"
"#;

/// Numbers the namespaces of this process.
static NAMESPACES: AtomicU32 = AtomicU32::new(0);

/// One namespace. Dropping it kills what runs in it.
#[derive(Debug)]
pub(crate) struct Net {
    name: String,
    scratch: PathBuf,
    keeper: Child,
    keeper_input: Option<ChildStdin>,
}

impl Net {
    /// Makes a namespace with a bridge and [`GUESTS_MAX`] taps.
    pub(crate) fn create(tools: &Tools) -> Result<Self> {
        let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("rw-vm-{}-{number}", std::process::id());
        let scratch = tools.dir().join("scratch").join(&name);
        fs::create_dir_all(&scratch).context(|| format!("cannot create {}", scratch.display()))?;
        // The keeper comes first, so that a half-made namespace is removed too. Its own process
        // group keeps a Ctrl-C at the terminal away from it.
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper", &name])
            .arg(&scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context(|| "cannot start the namespace's keeper".into())?;
        let keeper_input = keeper.stdin.take();
        let net = Self {
            name,
            scratch,
            keeper,
            keeper_input,
        };
        net.set_up()?;
        Ok(net)
    }

    fn set_up(&self) -> Result<()> {
        output(Command::new("ip").args(["netns", "add", &self.name]))?;
        let ip = |arguments: &str| {
            let arguments = arguments.split_whitespace();
            output(Command::new("ip").args(["-n", &self.name]).args(arguments)).map(drop)
        };
        ip("link set lo up")?;
        ip("link add br0 type bridge stp_state 0 forward_delay 0")?;
        ip(&format!("addr add {SERVER_IP}/24 dev br0"))?;
        ip(&format!("addr add {SECOND_IP}/24 dev br0"))?;
        for slot in 0..GUESTS_MAX {
            ip(&format!("tuntap add tap{slot} mode tap"))?;
            ip(&format!("link set tap{slot} master br0"))?;
            ip(&format!("link set tap{slot} up"))?;
        }
        for (rail, network) in RAILS.iter().enumerate() {
            ip(&format!(
                "link add rail{rail} type bridge stp_state 0 forward_delay 0"
            ))?;
            ip(&format!("addr add {network}.1/24 dev rail{rail}"))?;
            ip(&format!("tuntap add cut{rail} mode tap"))?;
            ip(&format!("link set cut{rail} master rail{rail}"))?;
            ip(&format!("link set cut{rail} up"))?;
            ip(&format!("link set rail{rail} up"))?;
        }
        ip("link set br0 up")
    }

    /// Cuts one of [`RAILS`] or mends it. A cut is silent: every interface stays up, and the servers keep their addresses. (User
    /// Mode Linux never uses a tap again that was down.)
    pub(crate) fn set_rail(&self, rail: usize, is_whole: bool) -> Result<()> {
        let (tap, bridge) = (format!("cut{rail}"), format!("rail{rail}"));
        let place = if is_whole {
            &["master", &bridge][..]
        } else {
            &["nomaster"]
        };
        let mut command = Command::new("ip");
        command
            .args(["-n", &self.name, "link", "set", &tap])
            .args(place);
        output(&mut command).map(drop)
    }

    /// Bytes that went over an interface of the namespace so far, both ways together.
    pub(crate) fn carried(&self, link: &str) -> Result<u64> {
        let text =
            output(Command::new("ip").args(["-n", &self.name, "-j", "-s", "link", "show", link]))?;
        let told: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("ip does not count {link}: {error}")))?;
        let count = |way: &str| told[0]["stats64"][way]["bytes"].as_u64();
        let sum = count("rx").zip(count("tx")).map(|(rx, tx)| rx + tx);
        sum.ok_or_else(|| Failure::new(format!("ip does not count {link}: {text}")))
    }

    /// The address of a server on one of [`RAILS`].
    pub(crate) fn rail_ip(rail: usize) -> String {
        format!("{}.1", RAILS[rail])
    }

    /// A directory for servers' data, on disk, removed together with the namespace.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// A command that will run inside the namespace; the pid of its child is the program's own.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// The address of the guest in `slot`.
    pub(crate) fn guest_ip(slot: u8) -> String {
        format!("192.0.2.{}", FIRST_GUEST_HOST + slot)
    }

    /// The hardware address of the guest's side of a tap: two guests differ, and one that boots again is the same.
    pub(crate) fn mac(tap: &str) -> String {
        let (kind, number) = tap.split_at(tap.len() - 1);
        let kind = if kind == "tap" { 2 } else { 3 };
        format!("02:00:00:00:{kind:02x}:0{number}")
    }

    /// The pids that listen on a TCP port, empty when none does.
    pub(crate) fn listeners(&self, port: u16) -> Result<Vec<u32>> {
        let filter = format!("sport = :{port}");
        let text = output(self.command("ss").args(["-Hltnp", &filter]))?;
        let mut pids: Vec<u32> = text
            .split("pid=")
            .skip(1)
            .filter_map(|rest| {
                rest.split(|c: char| !c.is_ascii_digit())
                    .next()?
                    .parse()
                    .ok()
            })
            .collect();
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// Waits until somebody listens on the port. `alive` is asked meanwhile and may give up.
    pub(crate) fn wait_listening(
        &self,
        port: u16,
        limit: Duration,
        mut alive: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        while self.listeners(port)?.is_empty() {
            alive()?;
            if Instant::now() >= deadline {
                let limit_s = limit.as_secs();
                return Err(Failure::new(format!(
                    "nothing listened on port {port} in {limit_s} s"
                )));
            }
            thread::sleep(LISTEN_POLL);
        }
        Ok(())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        drop(self.keeper_input.take());
        // The keeper's exit status says nothing; that it ended means that the namespace is gone.
        let _ = self.keeper.wait();
    }
}
