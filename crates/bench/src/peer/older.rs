//! nfs-ganesha as a server of NFSv3, on a file system of this machine, gone with its run.
//!
//! ganesha ends where no rpcbind takes its registration. So it gets one of its own, in a network of its own: the port of rpcbind may be
//! taken on this machine, and nobody here is told of a server that is soon gone. The two meet at a socket in `/run`, where they see a folder of
//! their own. ganesha itself listens in this machine's network, on loopback.
//!
//! # Ownership
//! An [`OlderGanesha`] owns both processes and their folder (see [`Isolated`]).

use super::isolated::Isolated;
use super::{Fsal, GaneshaOptions, module};
use crate::BenchError;
use crate::process::{cpu_of, find};
use std::ffi::OsString;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;
use transport::tcp::Reservation;

/// What to say when rpcbind is not there.
pub(crate) const HOW_TO_INSTALL: &str = "nfs-ganesha serves NFSv3 only where rpcbind is installed (Debian: apt-get install --no-install-recommends rpcbind)";
const RPCBIND: &str = "rpcbind";

/// Whether what it needs is installed.
#[must_use]
pub(crate) fn can_be_started() -> bool {
    find(RPCBIND).is_some()
}

/// A running server. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub(crate) struct OlderGanesha {
    servers: Isolated,
    address: SocketAddr,
    mount_address: SocketAddr,
    // Its ports, while it starts.
    _reservations: [Reservation; 2],
}

impl OlderGanesha {
    /// Starts a server and waits until it listens.
    ///
    /// # Errors
    /// [`BenchError::Peer`] with its last words, or [`BenchError::Io`].
    pub(crate) fn start(options: &GaneshaOptions) -> Result<Self, BenchError> {
        let reserve = || {
            let reservation = Reservation::new((options.listen, 0).into())?;
            Ok((reservation.address()?, reservation))
        };
        let doing = BenchError::io("find a free port");
        let (address, kept) = reserve().map_err(&doing)?;
        let (mount_address, mount_kept) = reserve().map_err(&doing)?;
        let script = script(
            &options.program,
            address,
            mount_address.port(),
            options.fsal,
        );
        let mut servers = Isolated::start(&options.launcher, &options.dir, &script, false)?;
        servers.wait_until_ready(|| {
            let listens = |at: &SocketAddr| TcpStream::connect(at).is_ok();
            Ok([address, mount_address].iter().all(listens))
        })?;
        Ok(Self {
            servers,
            address,
            mount_address,
            _reservations: [kept, mount_kept],
        })
    }

    /// Where NFS is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the MOUNT protocol is.
    pub(crate) fn mount_address(&self) -> SocketAddr {
        self.mount_address
    }

    /// The path that it exports.
    pub(crate) fn export(&self) -> Vec<u8> {
        let path: OsString = self.servers.dir().join("export").into();
        path.into_vec()
    }

    /// User and system CPU time of ganesha so far.
    ///
    /// # Errors
    /// [`BenchError::Io`] when the process is gone.
    pub(crate) fn cpu(&self) -> Result<Duration, BenchError> {
        // The shell has become ganesha.
        cpu_of(&self.servers.init().to_string())
    }
}

/// Starts rpcbind, and then becomes ganesha, with all files in the folder that is its argument. Its last lines are its output.
fn script(program: &Path, listen: SocketAddr, mount_port: u16, fsal: Fsal) -> String {
    format!(
        r#"D=$1
mkdir -p "$D/run/rpcbind" "$D/records" "$D/export"
mount --bind "$D/run" /run
unshare --net {RPCBIND} -f &
until [ -S /run/rpcbind.sock ]; do kill -0 $!; sleep 0.05; done
cat > "$D/ganesha.conf" <<END
NFS_CORE_PARAM {{
    Protocols = 3;
    Bind_addr = {address};
    NFS_Port = {port};
    MNT_Port = {mount_port};
    Enable_UDP = false;
    Enable_NLM = false;
    Enable_RQUOTA = false;
}}
NFSV4 {{
    Graceless = true;
    RecoveryBackend = fs;
    RecoveryRoot = "$D/records";
}}
EXPORT {{
    Export_Id = 1;
    Path = "$D/export";
    Pseudo = "/";
    Protocols = 3;
    Transports = TCP;
    Access_Type = RW;
    Squash = None;
    SecType = sys;
    FSAL {{ Name = {fsal}; }}
}}
{module}LOG {{ Default_Log_Level = EVENT; }}
END
exec '{program}' -F -f "$D/ganesha.conf" -L STDERR -p "$D/ganesha.pid"
"#,
        address = listen.ip(),
        port = listen.port(),
        fsal = fsal.name(),
        module = module(fsal),
        program = program.display(),
    )
}

#[cfg(test)]
mod tests {
    //! What the script says.
    use super::*;

    #[test]
    fn it_serves_version_3_alone_on_loopback_and_its_rpcbind_has_another_network() {
        let at = SocketAddr::from(([127, 0, 0, 1], 4711));
        let program = Path::new("/there/ganesha.nfsd");
        let text = script(program, at, 4712, Fsal::Vfs { is_durable: false });
        for line in [
            "    Protocols = 3;",
            "    Bind_addr = 127.0.0.1;",
            "    NFS_Port = 4711;",
            "    MNT_Port = 4712;",
            "    FSAL { Name = VFS; }",
            "unshare --net rpcbind -f &",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains("Protocols = 4"), "{text}");
        assert!(text.contains("exec '/there/ganesha.nfsd' -F"), "{text}");
    }

    #[test]
    fn all_its_files_are_in_the_folder_and_run_is_another_one() {
        let at = SocketAddr::from(([127, 0, 0, 1], 1));
        let text = script(Path::new("g"), at, 2, Fsal::Vfs { is_durable: false });
        let quoted: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
        let in_folder = |path: &&str| path.starts_with("$D") || *path == "/";
        assert!(quoted.iter().all(in_folder), "{quoted:?}");
        assert!(text.contains("mount --bind \"$D/run\" /run\n"), "{text}");
    }
}
