//! GlusterFS as a peer: a volume of two copies over four bricks, exported by nfs-ganesha.
//!
//! `glusterd` keeps its state below `/var/lib` and `/run`, so it has mounts of its own (see [`Isolated`]). It refuses
//! 127.0.0.1 for bricks, but not 127.0.0.2. All options of the volume are as they come.

use super::isolated::{Isolated, wait_until_full};
use crate::BenchError;
use crate::process::{Launcher, find, version};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use transport::tcp::Reservation;

/// What to say when it is not there.
pub(crate) const HOW_TO_INSTALL: &str = "GlusterFS is not installed (Debian: apt-get install --no-install-recommends glusterfs-server nfs-ganesha-gluster)";
const PROGRAMS: [&str; 4] = ["glusterd", "gluster", "glusterfsd", "ganesha.nfsd"];
/// The brick that is lost, and the one that takes its place.
const LOST: &str = "brick1";
const TWIN: &str = "brick2";
const NEW: &str = "brick5";
const BRICKS_COUNT: usize = 4;

/// Whether it is installed.
pub(crate) fn is_installed() -> bool {
    PROGRAMS.into_iter().all(|program| find(program).is_some())
}

/// What its programs say of their versions.
pub(crate) fn versions() -> Vec<String> {
    let programs = [("glusterd", "--version"), ("ganesha.nfsd", "-v")];
    let said = programs.map(|(program, option)| version(program, option));
    said.into_iter().flatten().collect()
}

/// A running volume.
#[derive(Debug)]
pub(crate) struct Gluster {
    servers: Isolated,
    address: SocketAddr,
    // Its port, while it starts.
    _reservation: Reservation,
}

impl Gluster {
    pub(crate) fn start(launcher: &Launcher, dir: &Path) -> Result<Self, BenchError> {
        let reserve = || {
            let reservation = Reservation::new((Ipv4Addr::LOCALHOST, 0).into())?;
            Ok((reservation.address()?, reservation))
        };
        let (address, reservation) = reserve().map_err(BenchError::io("find a free port"))?;
        let servers = Isolated::start(launcher, dir, &script(address.port()), false)?;
        let mut gluster = Self {
            servers,
            address,
            _reservation: reservation,
        };
        let is_ready = || Ok(TcpStream::connect(address).is_ok());
        gluster.servers.wait_until_ready(is_ready)?;
        Ok(gluster)
    }

    /// Where nfs-ganesha listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills one brick.
    pub(crate) fn kill(&self) -> Result<(), BenchError> {
        self.servers.kill(&format!("/{LOST}"))
    }

    /// Puts an empty brick in the place of the lost one.
    pub(crate) fn order_repair(&self) -> Result<(), BenchError> {
        let dir = self.servers.dir().display();
        let brick = |name| format!("127.0.0.2:{dir}/{name}");
        let (lost, new) = (brick(LOST), brick(NEW));
        let order = ["gluster", "--mode=script", "volume", "replace-brick", "v"];
        let order = [&order[..], &[&lost, &new, "commit", "force"]].concat();
        self.servers.run(&order).map(drop)
    }

    /// Waits until nothing is to be healed, and the new brick has as much as its twin.
    pub(crate) fn wait_until_full(&self) -> Result<(), BenchError> {
        let dir = self.servers.dir();
        wait_until_full(|| {
            if allocated_bytes(&dir.join(NEW)) < allocated_bytes(&dir.join(TWIN)) {
                return Ok(false);
            }
            let said = self
                .servers
                .run(&["gluster", "volume", "heal", "v", "info"])?;
            let none = said.lines().filter(|l| l.trim() == "Number of entries: 0");
            Ok(none.count() == BRICKS_COUNT)
        })
    }
}

/// What files of users take below `dir`, without the folder in which a brick keeps links to them.
fn allocated_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok());
    let files = files.filter(std::fs::Metadata::is_file);
    files.map(|file| file.blocks() * 512).sum()
}

/// Starts everything in the folder that is its argument, and stays.
fn script(port: u16) -> String {
    let script = r#"D=$1
mount -t tmpfs none /run
mount -t tmpfs none /var/log
mkdir -p /run/gluster /var/log/glusterfs $D/lib $D/records $D/brick1 $D/brick2 $D/brick3 $D/brick4 $D/brick5
mount --bind $D/lib /var/lib/glusterd
cat > $D/glusterd.vol <<END
volume management
    type mgmt/glusterd
    option working-directory /var/lib/glusterd
    option transport-type socket
    option transport.socket.bind-address 127.0.0.2
end-volume
END
cat > $D/ganesha.conf <<END
NFS_CORE_PARAM { Protocols = 4; Bind_addr = 127.0.0.1; NFS_Port = @PORT@; Enable_UDP = false; Enable_NLM = false; Enable_RQUOTA = false; }
NFSV4 { Minor_Versions = 1, 2; Graceless = true; RecoveryBackend = fs; RecoveryRoot = "$D/records"; }
EXPORT { Export_Id = 1; Path = "/"; Pseudo = "/"; Protocols = 4; Transports = TCP; Access_Type = RW; Squash = None; SecType = sys;
    FSAL { Name = GLUSTER; Hostname = "127.0.0.2"; Volume = "v"; } }
LOG { Default_Log_Level = EVENT; }
END
glusterd -N -f $D/glusterd.vol &
until gluster volume list > $D/list 2>&1; do sleep 0.1; done
B=127.0.0.2:$D
gluster --mode=script volume create v replica 2 $B/brick1 $B/brick2 $B/brick3 $B/brick4 force
gluster --mode=script volume start v
until [ $(gluster volume status v | grep -c ' Y ') -ge 5 ]; do sleep 0.2; done
ganesha.nfsd -F -f $D/ganesha.conf -L $D/ganesha.log -p $D/ganesha.pid &
while true; do wait || true; sleep 1; done
"#;
    script.replace("@PORT@", &port.to_string())
}

#[cfg(test)]
mod tests {
    //! What its configuration says.
    use super::*;

    #[test]
    fn the_script_exports_the_volume_at_the_port() {
        let text = script(4711);
        assert!(text.contains("NFS_Port = 4711;") && !text.contains('@'));
        assert!(text.contains("\nEXPORT {") && text.contains("replica 2"));
    }
}
