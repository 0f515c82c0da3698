//! `ropewalk ds probe-nfs3`: whether an NFSv3 server of others could hold data for this file system, and what it lacks.

use crate::daemon;
use crate::failure::{Outcome, cannot, failed};
use crate::out;
use crate::table::{bytes, table};
use clap::Args;
use foreign::{Check, Finding, ProbeReport, probe};
use nfs3::Nfs3Status;
use nfs3_client::{
    CallerAuth, MountClient, Mounted, Nfs3Client, Nfs3Error, PORTMAP_PORT, RpcPeer, RpcPeerConfig,
    get_port,
};
use rpc::AuthSys;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use transport::tcp::TcpConnector;
use transport::{Address, Context, TransportLimits};

/// Where NFS is when no port mapper tells.
const NFS_PORT: u16 = 2049;
/// How long a port mapper may take.
const PORTMAP_WAIT: Duration = Duration::from_secs(3);
/// How long one try of a call may take, and the call in all.
const TRY_WAIT: Duration = Duration::from_secs(10);
const CALL_WAIT: Duration = Duration::from_secs(30);
const CALLS_MAX: u32 = 8;

/// `ropewalk ds probe-nfs3`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// The server and the directory that it exports, as HOST:/PATH
    #[arg(value_name = "HOST:/PATH")]
    pub target: String,
    /// Port of NFS [default: what its rpcbind says, or 2049]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Port of MOUNT [default: what its rpcbind says, or that of NFS]
    #[arg(long, value_name = "PORT")]
    pub mount_port: Option<u16>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Tries the server. It fails when the server is not fit.
pub(crate) fn run(args: &ProbeArgs) -> Outcome {
    let (host, path) = split(&args.target)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot("start"))?;
    let report = runtime.block_on(tried(host, path, args))?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&json(&report));
            out::line(&text.map_err(cannot("write JSON"))?)?;
        }
        false => out::print(&text(&report))?,
    }
    match report.is_fit() {
        true => Ok(()),
        false => Err(failed(format!("{} cannot hold data", args.target))),
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

async fn tried(host: &str, path: &str, args: &ProbeArgs) -> Outcome<ProbeReport> {
    let mut found = (host, 0)
        .to_socket_addrs()
        .map_err(cannot("find the server"))?;
    let ip = found
        .next()
        .ok_or_else(|| failed("the server has no address"))?;
    let ip = ip.ip();
    let nfs_port = match args.port {
        Some(port) => port,
        None => told(ip, (nfs3::PROGRAM, nfs3::VERSION))
            .await
            .unwrap_or(NFS_PORT),
    };
    let of_mount = (nfs3::mount::PROGRAM, nfs3::mount::VERSION);
    let mount_port = match (args.mount_port, args.port) {
        (Some(port), _) => port,
        // Whoever names a port of NFS means a server that its rpcbind may know nothing of.
        (None, Some(port)) => port,
        (None, None) => told(ip, of_mount).await.unwrap_or(nfs_port),
    };
    let mount = MountClient::new(peer(ip, mount_port));
    let mounted: Mounted = mount.mnt(&root(), path.as_bytes()).await.map_err(|e| {
        let hint = match e {
            Nfs3Error::Rpc(_) => "",
            _ => "; the export must let this machine in, from ports above 1023 too (`insecure` with knfsd)",
        };
        failed(format!("cannot mount {path}: {e}{hint}"))
    })?;
    let nfs = Nfs3Client::new(peer(ip, nfs_port));
    let [.., a, b, c, d] = daemon::random_u64().to_be_bytes();
    let report = probe(&nfs, &mounted.fh, u32::from_be_bytes([a, b, c, d])).await;
    // Its list of mounts is for people only.
    let _ = mount.umnt(&root(), path.as_bytes()).await;
    report.map_err(|e| failed(format!("{e}{}", hint(&e.why))))
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

fn text(report: &ProbeReport) -> String {
    let verdict = |found: &Finding| match (&found.lacks, found.check.is_needed()) {
        (None, _) => "yes",
        (Some(_), true) => "NO",
        (Some(_), false) => "no",
    };
    let of = |check: &Check| report.findings.iter().find(|f| f.check == *check);
    let row = |check: &Check| {
        let found = of(check);
        let said = found.map_or("not tried", verdict);
        vec![check.name().to_owned(), said.to_owned()]
    };
    let rows: Vec<_> = Check::ALL.iter().map(row).collect();
    let mut text = table(&["WHAT A DATA SERVER MUST DO", "IT DOES"], &rows);
    let (read, write) = report.io_bytes_max;
    text += &format!(
        "\n{} of {} are free; READ takes {}, WRITE {}; a file has at most {}\n",
        bytes(report.bytes_free),
        bytes(report.bytes_total),
        bytes(read.into()),
        bytes(write.into()),
        bytes(report.file_bytes_max)
    );
    for found in &report.findings {
        if let Some(why) = &found.lacks {
            let (check, advice) = (found.check, found.check.advice());
            text += &format!("\n{check}: {why}\n  {advice}\n");
        }
    }
    text
}

fn json(report: &ProbeReport) -> serde_json::Value {
    let finding = |found: &Finding| {
        serde_json::json!({
            "check": found.check.name(),
            "needed": found.check.is_needed(),
            "ok": found.lacks.is_none(),
            "why": found.lacks,
            "advice": found.lacks.as_ref().map(|_| found.check.advice()),
        })
    };
    let findings: Vec<_> = report.findings.iter().map(finding).collect();
    serde_json::json!({
        "fit": report.is_fit(),
        "findings": findings,
        "bytes_total": report.bytes_total,
        "bytes_free": report.bytes_free,
        "read_bytes_max": report.io_bytes_max.0,
        "write_bytes_max": report.io_bytes_max.1,
        "file_bytes_max": report.file_bytes_max,
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

    #[test]
    fn what_is_missing_is_said_with_advice() {
        let report = ProbeReport {
            findings: vec![Finding {
                check: Check::RootIsRoot,
                lacks: Some("what root makes belongs to user 65534".to_owned()),
            }],
            bytes_total: 1 << 30,
            bytes_free: 1 << 20,
            io_bytes_max: (1 << 20, 1 << 16),
            file_bytes_max: 1 << 40,
        };
        let shown = text(&report);
        assert!(shown.contains("65534") && shown.contains("no_root_squash"));
        assert!(shown.contains("not tried"));
        assert_eq!(json(&report)["fit"], false);
    }
}
