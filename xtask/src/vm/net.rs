//! A network namespace with a bridge, one tap per guest, and a keeper that removes it all.
//!
//! Owns the namespace and, through the keeper, the life of every process in it. Servers listen on
//! [`SERVER_IP`]; guest `n` is 192.0.2.10+n on tap `n`. The addresses are of TEST-NET-1
//! (RFC 5737) and exist only inside the namespace.
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

use super::error::{Context, Failure, Result};
use super::prepare::Tools;
use super::process::output;

/// The address that servers in the namespace listen on.
pub(crate) const SERVER_IP: &str = "192.0.2.1";

/// A second address of the same machine, where servers listen that are told to.
pub(crate) const SECOND_IP: &str = "192.0.2.2";

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
        ip("link set br0 up")
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
