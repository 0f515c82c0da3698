//! The client commands: `ls`, `cp`, `cat`, `stat`, `mkdir`, `rm`, `mv`, `ln`, `du` on `nfs://HOST[:PORT]/PATH`.
//!
//! They use the client library, so data go straight to the data servers. Each command has its file; [`remote`] makes
//! connections and turns arguments into places, [`output`] prints. Entry points: [`ClientCommand`], [`run`].

mod cat;
mod copy;
mod cp;
mod du;
mod error;
mod ln;
mod ls;
mod mkdir;
mod mv;
mod output;
mod remote;
mod rm;
mod show;
mod stat;

pub(crate) use error::CliError;

use clap::Subcommand;

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
    /// Remove files and directories
    Rm(rm::Args),
    /// Rename files and directories
    Mv(mv::Args),
    /// Make hard or symbolic links
    Ln(ln::Args),
    /// Add up the space that directories take
    Du(du::Args),
}

/// Runs a command on a runtime of its own.
pub(crate) fn run(command: &ClientCommand) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::new(format!("cannot start: {e}")))?;
    let done = runtime.block_on(run_async(command));
    // A reader of standard input or output that still blocks must not keep the process.
    runtime.shutdown_background();
    done
}

/// Runs a command on the current runtime.
pub(crate) async fn run_async(command: &ClientCommand) -> Result<(), CliError> {
    let servers = remote::Servers::default();
    let done = match command {
        ClientCommand::Ls(args) => ls::run(args, &servers).await,
        ClientCommand::Cp(args) => cp::run(args, &servers).await,
        ClientCommand::Cat(args) => cat::run(args, &servers).await,
        ClientCommand::Stat(args) => stat::run(args, &servers).await,
        ClientCommand::Mkdir(args) => mkdir::run(args, &servers).await,
        ClientCommand::Rm(args) => rm::run(args, &servers).await,
        ClientCommand::Mv(args) => mv::run(args, &servers).await,
        ClientCommand::Ln(args) => ln::run(args, &servers).await,
        ClientCommand::Du(args) => du::run(args, &servers).await,
    };
    servers.close().await;
    match done {
        Err(e) if e.is_closed_output() => Ok(()),
        other => other,
    }
}
