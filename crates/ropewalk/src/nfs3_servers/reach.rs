//! How an export of an NFSv3 server is reached: name, ports, MOUNT.

use crate::daemon;
use crate::failure::{Outcome, cannot, failed};
use foreign::{ExportIdentity, ProbeReport, Sighting};
use nfs3::Nfs3Status;
use nfs3_client::{
    CallerAuth, Fh, MountClient, Nfs3Client, Nfs3Error, PORTMAP_PORT, RpcPeer, RpcPeerConfig,
    get_port,
};
use rpc::AuthSys;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use transport::tcp::TcpConnector;
use transport::{Address, Context, TransportLimits};

/// Where NFS is when no port mapper tells.
const NFS_PORT: u16 = 2049;
/// How long a port mapper may take.
const PORTMAP_WAIT: Duration = Duration::from_secs(3);
/// How long one try of a call may take, and the call in all.
const TRY_WAIT: Duration = Duration::from_secs(5);
const CALL_WAIT: Duration = Duration::from_secs(12);
const CALLS_MAX: u32 = 8;

/// What is to be reached. A port that is not given is asked of the server's rpcbind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'t> {
    /// HOST:/PATH
    pub(super) text: &'t str,
    pub(super) port: Option<u16>,
    pub(super) mount_port: Option<u16>,
}

/// An export that was mounted.
pub(super) struct Reached {
    /// Where NFS is served.
    pub(super) address: SocketAddr,
    pub(super) nfs: Nfs3Client,
    /// The exported directory.
    pub(super) root: Fh,
    mount: MountClient,
    path: String,
}

impl Target<'_> {
    /// Whether it names a server and a directory.
    pub(super) fn check(&self) -> Outcome {
        split(self.text).map(drop)
    }

    /// Finds the server and mounts the directory.
    pub(super) async fn reach(&self) -> Outcome<Reached> {
        let (host, path) = split(self.text)?;
        let mut found = tokio::net::lookup_host((host, 0))
            .await
            .map_err(cannot("find the server"))?;
        let ip = found
            .next()
            .ok_or_else(|| failed("the server has no address"))?;
        let ip = ip.ip();
        let nfs_port = match self.port {
            Some(port) => port,
            None => told(ip, (nfs3::PROGRAM, nfs3::VERSION))
                .await
                .unwrap_or(NFS_PORT),
        };
        let of_mount = (nfs3::mount::PROGRAM, nfs3::mount::VERSION);
        let mount_port = match (self.mount_port, self.port) {
            (Some(port), _) => port,
            // Whoever names a port of NFS means a server that its rpcbind may know nothing of.
            (None, Some(port)) => port,
            (None, None) => told(ip, of_mount).await.unwrap_or(nfs_port),
        };
        let mount = MountClient::new(peer(ip, mount_port));
        let mounted = mount.mnt(&root(), path.as_bytes()).await.map_err(|e| {
            let hint = match e {
                Nfs3Error::Rpc(_) => "",
                _ => "; the export must let this machine in, from ports above 1023 too (`insecure` with knfsd)",
            };
            failed(format!("cannot mount {path}: {e}{hint}"))
        })?;
        Ok(Reached {
            address: SocketAddr::new(ip, nfs_port),
            nfs: Nfs3Client::new(peer(ip, nfs_port)),
            root: mounted.fh,
            mount,
            path: path.to_owned(),
        })
    }
}

impl Reached {
    /// Tries the server.
    pub(super) async fn probe(&self) -> Outcome<ProbeReport> {
        let [.., a, b, c, d] = daemon::random_u64().to_be_bytes();
        let random = u32::from_be_bytes([a, b, c, d]);
        let report = foreign::probe(&self.nfs, &self.root, random).await;
        report.map_err(|e| failed(format!("{e}{}", hint(&e.why))))
    }

    /// Looks for the file of a cluster.
    pub(super) async fn look(&self, identity: &ExportIdentity) -> Outcome<Sighting> {
        let seen = identity.look(&self.nfs, &self.root).await;
        seen.map_err(cannot("look at the export"))
    }

    /// Takes this machine from the server's list of mounts, which is for people only.
    pub(super) async fn leave(&self) {
        let _ = self.mount.umnt(&root(), self.path.as_bytes()).await;
    }
}

/// The host, in brackets or not, and the path.
fn split(target: &str) -> Outcome<(&str, &str)> {
    let at = target.find(":/").filter(|at| *at > 0);
    let (host, path) = at
        .map(|at| (&target[..at], &target[at + 1..]))
        .ok_or_else(|| {
            failed(format!(
                "`{target}` is no server with a directory: say HOST:/PATH"
            ))
        })?;
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    Ok((bare.unwrap_or(host), path))
}

/// What to do about a server that lets nothing be tried.
fn hint(why: &Nfs3Error) -> &'static str {
    match why {
        Nfs3Error::Status(Nfs3Status::Access | Nfs3Status::Perm) => {
            "; root must be root there: export it with no_root_squash (knfsd), or Squash = No_Root_Squash (nfs-ganesha)"
        }
        Nfs3Error::Status(Nfs3Status::RoFs) => "; export it for writing too",
        _ => "",
    }
}

/// The port of a program, as the port mapper of the host tells.
async fn told(ip: IpAddr, (program, version): (u32, u32)) -> Option<u16> {
    let mapper = peer(ip, PORTMAP_PORT);
    let asked = get_port(&mapper, program, version);
    let asked = tokio::time::timeout(PORTMAP_WAIT, asked).await;
    asked.ok()?.ok()?
}

fn peer(ip: IpAddr, port: u16) -> Arc<RpcPeer> {
    let [a, b, c, d, ..] = daemon::random_u64().to_be_bytes();
    let config = RpcPeerConfig {
        addresses: vec![Address::Tcp(SocketAddr::new(ip, port))],
        connections: 1,
        calls_max: CALLS_MAX,
        try_timeout: TRY_WAIT,
        give_up: CALL_WAIT,
        first_xid: u32::from_be_bytes([a, b, c, d]),
    };
    let context = Context::new(TransportLimits::default());
    RpcPeer::new(Arc::new(TcpConnector::new(context)), config)
}

fn root() -> CallerAuth {
    CallerAuth::auth_sys(&AuthSys {
        stamp: 0,
        machine: b"ropewalk".to_vec(),
        uid: 0,
        gid: 0,
        gids: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_path() {
        for (target, host, path) in [
            ("nas:/export", "nas", "/export"),
            ("192.0.2.7:/", "192.0.2.7", "/"),
            ("[2001:db8::7]:/a:/b", "2001:db8::7", "/a:/b"),
        ] {
            assert_eq!(split(target).unwrap(), (host, path));
        }
        for target in ["nas", ":/export", "nas:export", ""] {
            assert!(split(target).is_err(), "{target}");
        }
    }
}
