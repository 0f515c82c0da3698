//! The client commands: `ls`, `cp`, `cat`, `stat`, `mkdir`, `chown`, `chmod`, `rm`, `mv`, `ln`, `du` on `nfs://HOST[:PORT]/PATH`, and on
//! `admin:/PATH` with root's rights.
//!
//! They use the client library, so data go straight to the data servers. With `?vers=3` they go to any NFSv3 server. Each command has its file; [`remote`] makes
//! connections and turns arguments into places, [`output`] prints. Entry points: [`ClientCommand`], [`run`].

mod admin_place;
mod cat;
mod chmod;
mod chown;
mod copy;
mod cp;
mod du;
mod each;
mod error;
mod existing;
mod layout;
mod ln;
mod ls;
mod mkdir;
mod mv;
mod output;
mod remote;
mod rm;
mod show;
mod stat;
mod wanted;

pub(crate) use error::CliError;

use crate::daemon::Signals;
use clap::Subcommand;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// How long a command that was interrupted may take to close its files.
const INTERRUPTED_CLOSE_MAX: Duration = Duration::from_secs(2);
/// A command that has waited so long for a server says so.
const WAITS_PATIENCE: Duration = Duration::from_secs(2);
/// How often it looks.
const WAITS_LOOK: Duration = Duration::from_millis(500);

/// Commands on remote files. A PATH that is no URL is below the URL in ROPEWALK_URL.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// List directories
    Ls(ls::Args),
    /// Copy files, from, to or between servers
    Cp(cp::Args),
    /// Print files
    Cat(cat::Args),
    /// Show all attributes of a file
    Stat(stat::Args),
    /// Make directories
    Mkdir(mkdir::Args),
    /// Give files and directories another owner or group
    Chown(chown::Args),
    /// Give files and directories other permission bits
    Chmod(chmod::Args),
    /// Remove files and directories
    Rm(rm::Args),
    /// Rename files and directories
    Mv(mv::Args),
    /// Make hard or symbolic links
    Ln(ln::Args),
    /// Add up the space that directories take
    Du(du::Args),
    /// Set or show how files are striped over data servers
    #[command(subcommand)]
    Layout(layout::LayoutCommand),
}

/// Runs a command on a runtime of its own, whose connections share the processors: one alone cannot take what several data servers send.
pub(crate) fn run(command: &ClientCommand) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::new(format!("cannot start: {e}")))?;
    let done = runtime.block_on(run_async(command));
    // A reader of standard input or output that still blocks must not keep the process.
    runtime.shutdown_background();
    done
}

/// Runs a command on the current runtime. SIGINT and SIGTERM end it: open files are closed first, so that nobody has to
/// wait for a lease. A command that can end at a better moment by itself is asked to; the second signal ends it too.
async fn run_async(command: &ClientCommand) -> Result<(), CliError> {
    let servers = remote::Servers::default();
    let mut signals = Signals::take().map_err(|e| CliError::new(e.to_string()))?;
    let done = {
        // Dropped with this block, and its open files with it: they are closed below.
        let mut running = std::pin::pin!(run_command(command, &servers));
        loop {
            tokio::select! {
                done = &mut running => break done,
                () = tell_waits(&servers) => unreachable!("it goes on for ever"),
                signal = signals.stop() => if !servers.stop.ask() {
                    break Err(CliError::interrupted(signal));
                },
            }
        }
    };
    let done = if done.as_ref().is_err_and(CliError::is_interruption) {
        servers.unfinished.tell();
        let _ = tokio::time::timeout(INTERRUPTED_CLOSE_MAX, servers.close()).await;
        done
    } else {
        tokio::select! {
            () = servers.close() => done,
            () = tell_waits(&servers) => unreachable!("it goes on for ever"),
            signal = signals.stop() => done.and(Err(CliError::interrupted(signal))),
        }
    };
    match done {
        Err(e) if e.is_closed_output() => Ok(()),
        other => other,
    }
}

/// Says on standard error what the command waits for, once for each time it begins to wait for something.
async fn tell_waits(servers: &remote::Servers) {
    let mut told: Vec<remote::Waited> = Vec::new();
    loop {
        tokio::time::sleep(WAITS_LOOK).await;
        let waits = servers.waits(WAITS_PATIENCE);
        let is_new = |w: &&remote::Waited| told.iter().all(|t| t.what != w.what);
        for wait in waits.iter().filter(is_new) {
            // A progress bar that may be there is wiped first.
            let wipe = if std::io::stderr().is_terminal() {
                "\r\x1b[K"
            } else {
                ""
            };
            let _ = write!(std::io::stderr(), "{wipe}");
            let (what, seconds) = (&wait.what, wait.so_far.as_secs());
            crate::out::say(format_args!("waiting for {what}, for {seconds} s so far"));
        }
        told = waits;
    }
}

async fn run_command(command: &ClientCommand, servers: &remote::Servers) -> Result<(), CliError> {
    match command {
        ClientCommand::Ls(args) => ls::run(args, servers).await,
        ClientCommand::Cp(args) => cp::run(args, servers).await,
        ClientCommand::Cat(args) => cat::run(args, servers).await,
        ClientCommand::Stat(args) => stat::run(args, servers).await,
        ClientCommand::Mkdir(args) => mkdir::run(args, servers).await,
        ClientCommand::Chown(args) => chown::run(args, servers).await,
        ClientCommand::Chmod(args) => chmod::run(args, servers).await,
        ClientCommand::Rm(args) => rm::run(args, servers).await,
        ClientCommand::Mv(args) => mv::run(args, servers).await,
        ClientCommand::Ln(args) => ln::run(args, servers).await,
        ClientCommand::Du(args) => du::run(args, servers).await,
        ClientCommand::Layout(command) => layout::run(command, servers).await,
    }
}
