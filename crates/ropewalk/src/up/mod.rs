//! `ropewalk up`: a file system on this machine, from one command.
//!
//! `plan` decides what the servers are and writes their configuration files, `ports` finds ports, `child` keeps one
//! process running, `cluster` all of them. The command itself is here: it starts, says how to mount, reports what
//! happens, and stops.

pub(crate) mod child;
pub(crate) mod cluster;
pub(crate) mod dirs;
pub(crate) mod plan;
pub(crate) mod ports;

use crate::cli::UpArgs;
use crate::config::StoreKind;
use crate::daemon::Signals;
use crate::failure::{Outcome, cannot};
use crate::out;
use crate::rdma;
use crate::up::cluster::Cluster;
use crate::up::plan::Plan;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Runs until a signal, or until the cluster cannot go on.
pub(crate) fn run(args: &UpArgs) -> Outcome {
    let memory_dir = match (&args.dir, args.memory) {
        (None, true) => {
            let dir = tempfile::Builder::new().prefix("ropewalk-").tempdir();
            Some(dir.map_err(cannot("make a temporary directory"))?)
        }
        _ => None,
    };
    let dir: PathBuf = match (&memory_dir, &args.dir) {
        (Some(temporary), _) => temporary.path().to_owned(),
        (None, Some(dir)) => dir.clone(),
        (None, None) => dirs::default_dir()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot("start the runtime"))?;
    runtime.block_on(async {
        let mut signals = Signals::take()?;
        let plan = Plan::make(&dir, args)?;
        out::say(format_args!(
            "starting {} data servers in {}",
            plan.ds.len(),
            plan.dir.display()
        ));
        let start = Cluster::start(plan, |text| out::say(text));
        let mut cluster = tokio::select! {
            started = start => started?,
            // Dropping the start kills what it had started; nothing was promised to anyone yet.
            name = signals.stop() => {
                out::say(format_args!("{name} before the cluster was ready"));
                return Ok(());
            }
        };
        // The servers go on where nobody can be told, for example with the output on a full disk.
        let dashboard = cluster.dashboard(args.dashboard).await?;
        if let Err(e) = out::print(&ready_text(cluster.plan(), dashboard.as_deref())) {
            out::say(e);
        }
        let end = loop {
            tokio::select! {
                name = signals.stop() => {
                    out::say(format_args!("{name}, stopping"));
                    break Ok(());
                }
                event = cluster.event() => match event {
                    Ok(text) => out::say(text),
                    Err(e) => break Err(e),
                },
            }
        };
        tokio::select! {
            () = cluster.stop() => {}
            // Impatience: the servers are killed, and recover at the next start.
            name = signals.stop() => out::say(format_args!("{name} again, ending at once")),
        }
        end
    })
}

/// The lines about RDMA, when the metadata server listens for it: with software iWARP a kernel needs something that speaks it.
fn rdma_line(plan: &Plan, sudo: &str) -> String {
    let Some(address) = plan.mds.config.rdma_listen.first() else {
        return String::new();
    };
    let (proto, host) = match address {
        SocketAddr::V4(a) => ("rdma", a.ip().to_string()),
        SocketAddr::V6(a) => ("rdma6", format!("[{}]", a.ip())),
    };
    let port = address.port();
    let (what, needs) = if rdma::uses_devices(plan.mds.config.rdma_provider, &[*address]) {
        ("RDMA devices: `ropewalk rdma`", String::new())
    } else {
        let needs = "\x20         (needs an iWARP NIC, or the kernel's own: modprobe siw; rdma link add siw0 type siw netdev DEVICE)\n";
        ("software iWARP, not RDMA hardware", needs.to_owned())
    };
    format!(
        "\x20 rdma:   ropewalk ls 'nfs://{host}:{port}/?transport=rdma' ({what})\n\
         \x20         {sudo}mount -t nfs -o vers=4.2,proto={proto},port={port} {host}:/ /mnt\n\
         {needs}"
    )
}

/// The mount command for a server at `address`.
pub(crate) fn mount_command(address: SocketAddr) -> String {
    // The protocol names the family too (nfs(5)): `tcp` alone would not reach an IPv6 address.
    let (proto, host) = match address {
        SocketAddr::V4(a) => ("tcp", a.ip().to_string()),
        SocketAddr::V6(a) => ("tcp6", format!("[{}]", a.ip())),
    };
    format!(
        "mount -t nfs -o vers=4.2,proto={proto},port={} {host}:/ /mnt",
        address.port()
    )
}

fn ready_text(plan: &Plan, dashboard: Option<&str>) -> String {
    let dashboard = dashboard.map_or_else(String::new, |url| format!("\x20 page:   {url}\n"));
    let sudo = if rustix::process::geteuid().is_root() {
        ""
    } else {
        "sudo "
    };
    let state = if plan.mds.config.store == StoreKind::Memory {
        "in memory (gone when this ends)".to_owned()
    } else {
        plan.dir.display().to_string()
    };
    format!(
        "ropewalk is ready\n\
         \x20 mount:  {sudo}{}\n\
         {rdma}\
         \x20 state:  {state}\n\
         \x20 logs:   {dir}/*/log\n\
         {dashboard}\
         \x20 status: ropewalk status --dir {dir}\n\
         \x20 stop:   Ctrl-C, or kill {}\n",
        mount_command(plan.mount_address()),
        std::process::id(),
        dir = plan.dir.display(),
        rdma = rdma_line(plan, sudo),
    )
}
