//! NFSv3 servers for the cluster under test: clusters of ours, on addresses of their own. What the suite makes lies on both.
//!
//! May start clusters ([`super::server`]) and call the program; knows nothing of the suite.

use super::server::{Server, Setup};
use crate::repo::{self, Result};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// Addresses of the servers. A server is known by host and path, so they differ.
const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];

/// Starts the servers in directories below `dir`, adds them to the cluster `tested`, and puts its directory `export` on them.
pub(super) fn start(
    program: &Path,
    dir: &Path,
    tested: &Server,
    export: &str,
) -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    for host in HOSTS {
        let setup = Setup {
            lease_s: 12,
            copies: 1,
            host,
            nfs3: true,
        };
        let server = Server::start(program, &dir.join(format!("nfs3-{host}")), setup)?;
        let port = server.address().port().to_string();
        let mut add = Command::new(program);
        add.args(["ds", "add-nfs3", &format!("{host}:/")]);
        add.args(["--port", &port, "--mount-port", &port, "--dir"]);
        repo::output(add.arg(tested.dir()))?;
        servers.push(server);
    }
    let url = format!("nfs://{}/{export}", tested.address());
    repo::output(Command::new(program).args(["mkdir", &url]))?;
    let mirrors = HOSTS.len().to_string();
    let mut place = Command::new(program);
    place.args(["layout", "set", &url, "--servers", "nfs3"]);
    repo::output(place.args(["--mirrors", &mirrors]))?;
    Ok(servers)
}
