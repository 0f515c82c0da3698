//! The hidden subcommand `serve`: one bare server, as a child of a load generator.
//!
//! See [`crate::process`] for how parent and child talk.

use crate::bare::rpc_echo::EchoServer;
use crate::bare::{self, ping_pong, pwrite, sendfile};
use crate::nfs::server::Transport;
use crate::process::READY;
use clap::Subcommand;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;

/// Which server.
#[derive(Debug, Clone, Subcommand)]
pub enum Serve {
    /// Answer fixed messages
    PingPong {
        /// How the server waits
        #[arg(long)]
        form: ping_pong::Form,
        /// Its messages
        #[command(flatten)]
        sizes: ping_pong::Sizes,
    },
    /// Send ranges of a file
    Sendfile {
        /// The file
        path: PathBuf,
    },
    /// Write ranges of a file
    Pwrite {
        /// The file
        path: PathBuf,
    },
    /// Answer RPC calls of a program that does nothing else
    RpcEcho {
        /// What carries them
        #[arg(long)]
        transport: Transport,
    },
}

/// Serves on a free port until standard input ends.
///
/// # Errors
/// When the server cannot start or its listener fails.
pub fn run(serve: Serve) -> io::Result<()> {
    let (address, server) = listening(serve)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{READY} {address}")?;
    stdout.flush()?;
    // Whichever ends first ends the process: the server by an error, or the parent by closing our input.
    let (done, end) = mpsc::sync_channel(2);
    let parent = done.clone();
    std::thread::spawn(move || done.send(server()));
    std::thread::spawn(move || {
        wait_for_the_end_of_input();
        parent.send(Ok(()))
    });
    end.recv().expect("the senders send before they end")
}

/// A server that listens and has yet to serve.
type Server = Box<dyn FnOnce() -> io::Result<()> + Send>;

fn listening(serve: Serve) -> io::Result<(SocketAddr, Server)> {
    if let Serve::RpcEcho { transport } = serve {
        let echo = EchoServer::listen(transport)?;
        return Ok((echo.address()?, Box::new(|| echo.serve())));
    }
    let listener = bare::listen()?;
    let address = listener.local_addr()?;
    let server: Server = match serve {
        Serve::PingPong { form, sizes } => {
            Box::new(move || ping_pong::serve(listener, form, sizes))
        }
        Serve::Sendfile { path } => Box::new(move || sendfile::serve(&listener, &path)),
        Serve::Pwrite { path } => Box::new(move || pwrite::serve(&listener, &path)),
        Serve::RpcEcho { .. } => unreachable!("it listens by itself"),
    };
    Ok((address, server))
}

fn wait_for_the_end_of_input() {
    let mut buffer = [0; 64];
    let mut input = io::stdin().lock();
    while input.read(&mut buffer).is_ok_and(|count| count > 0) {}
}
