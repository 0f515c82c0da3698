//! MooseFS as a peer: a master and four chunkservers, goal 2, mounted by FUSE.
//!
//! Chunkservers refuse loopback addresses, so it has a network of its own, in which the loopback interface has another
//! address. The mount is in its own namespace too (see [`Isolated`]): this process goes through it by `/proc`. All options are
//! as they come but one: a master that has just started makes copies again at once, and not after 60 s.

use super::isolated::{Isolated, wait_until_full};
use crate::BenchError;
use crate::process::{Launcher, find, version};
use std::path::{Path, PathBuf};

/// What to say when it is not there.
pub(crate) const HOW_TO_INSTALL: &str = "MooseFS is not installed (Debian: apt-get install --no-install-recommends moosefs-master moosefs-chunkserver moosefs-client moosefs-cli)";
const PROGRAMS: [&str; 5] = [
    "mfsmaster",
    "mfschunkserver",
    "mfsmount",
    "mfssetgoal",
    "mfscli",
];
/// The device by which programs make file systems.
const FUSE: &str = "/dev/fuse";
/// Where it is, in a network of its own (RFC 5737), and the port for clients.
const ADDRESS: &str = "192.0.2.1";
const PORT: &str = "9421";
const CHUNKSERVERS_COUNT: usize = 4;

/// Whether it is installed, and may mount.
pub(crate) fn is_installed() -> bool {
    Path::new(FUSE).exists() && PROGRAMS.into_iter().all(|program| find(program).is_some())
}

/// What it says of its version.
pub(crate) fn versions() -> Vec<String> {
    version("mfsmaster", "-v").into_iter().collect()
}

/// Running servers and their mount.
#[derive(Debug)]
pub(crate) struct MooseFs {
    servers: Isolated,
}

impl MooseFs {
    pub(crate) fn start(launcher: &Launcher, dir: &Path) -> Result<Self, BenchError> {
        let servers = Isolated::start(launcher, dir, SCRIPT, true)?;
        let mut moose = Self { servers };
        let mounted = moose.servers.dir().join("mounted");
        moose.servers.wait_until_ready(|| Ok(mounted.exists()))?;
        wait_until_full(|| {
            let said = moose.tell("-SCS")?;
            let serving = said.lines().filter(|line| line.contains(ADDRESS));
            Ok(serving.count() >= CHUNKSERVERS_COUNT)
        })?;
        let mount = moose.servers.dir().join("mnt");
        let mount = mount.to_string_lossy();
        moose.servers.run(&["mfssetgoal", "-r", "2", &mount])?;
        Ok(moose)
    }

    /// Where files are, for this process.
    pub(crate) fn mount(&self) -> PathBuf {
        self.servers.inside(&self.servers.dir().join("mnt"))
    }

    /// Kills one chunkserver.
    pub(crate) fn kill(&self) -> Result<(), BenchError> {
        self.servers.kill("/cs1.cfg")
    }

    /// Waits until no chunk lacks a copy.
    pub(crate) fn wait_until_full(&self) -> Result<(), BenchError> {
        wait_until_full(|| {
            let said = self.tell("-SIC")?;
            let count = |class: &str| {
                let mut lines = said.lines();
                let line = lines.find(|line| line.contains(&format!("chunkclass {class}:")))?;
                line.rsplit(char::is_whitespace).next()?.parse::<u64>().ok()
            };
            let lacking = ["missing", "endangered", "undergoal"].map(count);
            Ok(lacking == [Some(0); 3] && count("stable") > Some(0))
        })
    }

    fn tell(&self, what: &str) -> Result<String, BenchError> {
        let order = ["mfscli", "-H", ADDRESS, "-P", PORT, "-p", what];
        self.servers.run(&order)
    }
}

/// Starts everything in the folder that is its argument, and stays.
const SCRIPT: &str = r#"D=$1
ip link set lo up
ip addr add 192.0.2.1/32 dev lo
mkdir -p $D/master $D/mnt
cp /var/lib/mfs/metadata.mfs.empty $D/master/metadata.mfs
echo '* / rw,alldirs,maproot=0:0' > $D/exports
cat > $D/master.cfg <<END
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = $D/master
EXPORTS_FILENAME = $D/exports
TOPOLOGY_FILENAME = /dev/null
REPLICATIONS_DELAY_INIT = 0
END
mfsmaster -f -c $D/master.cfg start &
for N in 1 2 3 4; do
mkdir -p $D/cs$N $D/chunks$N
echo $D/chunks$N > $D/hdd$N
cat > $D/cs$N.cfg <<END
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = $D/cs$N
HDD_CONF_FILENAME = $D/hdd$N
MASTER_HOST = 192.0.2.1
CSSERV_LISTEN_HOST = 192.0.2.1
CSSERV_LISTEN_PORT = 950$N
END
mfschunkserver -f -c $D/cs$N.cfg start &
done
until mfsmount $D/mnt -H 192.0.2.1; do sleep 0.2; done
touch $D/mounted
while true; do wait || true; sleep 1; done
"#;
