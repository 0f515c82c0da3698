//! The hidden subcommand `serve`: one bare server, as a child of a load generator.
//!
//! See [`crate::process`] for how parent and child talk.

use crate::bare::rpc_echo::EchoServer;
use crate::bare::{self, ping_pong, pwrite, sendfile};
use crate::nfs::server::Transport;
use crate::peer;
use crate::process::READY;
use clap::Subcommand;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
        /// Where to listen
        #[arg(long, default_value_t = Ipv4Addr::LOCALHOST)]
        listen: Ipv4Addr,
    },
    /// Write ranges of a file
    Pwrite {
        /// The file
        path: PathBuf,
        /// Where to listen
        #[arg(long, default_value_t = Ipv4Addr::LOCALHOST)]
        listen: Ipv4Addr,
    },
    /// Answer RPC calls of a program that does nothing else
    RpcEcho {
        /// What carries them
        #[arg(long)]
        transport: Transport,
        /// The address of a device, for RDMA over it
        #[arg(long)]
        device: Option<IpAddr>,
    },
    /// Become the server of others
    Peer {
        /// The program
        program: PathBuf,
        /// Its arguments
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
}

/// Serves on a free port until standard input ends.
///
/// # Errors
/// When the server cannot start or its listener fails.
pub fn run(serve: Serve) -> io::Result<()> {
    if let Serve::Peer { program, arguments } = serve {
        return Err(peer::exec(&program, &arguments));
    }
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
    if let Serve::RpcEcho { transport, device } = serve {
        let echo = EchoServer::listen(transport, device)?;
        return Ok((echo.address()?, Box::new(|| echo.serve())));
    }
    let at = match serve {
        Serve::Sendfile { listen, .. } | Serve::Pwrite { listen, .. } => listen,
        _ => Ipv4Addr::LOCALHOST,
    };
    let listener = bare::listen(at)?;
    let address = listener.local_addr()?;
    let server: Server = match serve {
        Serve::PingPong { form, sizes } => {
            Box::new(move || ping_pong::serve(listener, form, sizes))
        }
        Serve::Sendfile { path, .. } => Box::new(move || sendfile::serve(&listener, &path)),
        Serve::Pwrite { path, .. } => Box::new(move || pwrite::serve(&listener, &path)),
        Serve::RpcEcho { .. } | Serve::Peer { .. } => unreachable!("they listen by themselves"),
    };
    Ok((address, server))
}

fn wait_for_the_end_of_input() {
    let mut buffer = [0; 64];
    let mut input = io::stdin().lock();
    while input.read(&mut buffer).is_ok_and(|count| count > 0) {}
}
