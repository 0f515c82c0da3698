//! The hidden subcommand `serve`: one bare server, as a child of a load generator.
//!
//! See [`crate::process`] for how parent and child talk.

use crate::bare::{self, ping_pong, pwrite, rpc_echo, sendfile};
use crate::process::READY;
use clap::Subcommand;
use std::io::{self, Read, Write};
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
    RpcEcho,
}

/// Serves on a free port until standard input ends.
///
/// # Errors
/// When the server cannot start or its listener fails.
pub fn run(serve: Serve) -> io::Result<()> {
    let listener = bare::listen()?;
    let mut stdout = io::stdout();
    writeln!(stdout, "{READY} {}", listener.local_addr()?)?;
    stdout.flush()?;
    // Whichever ends first ends the process: the server by an error, or the parent by closing our input.
    let (server, end) = mpsc::sync_channel(2);
    let parent = server.clone();
    std::thread::spawn(move || {
        let result = match serve {
            Serve::PingPong { form, sizes } => ping_pong::serve(listener, form, sizes),
            Serve::Sendfile { path } => sendfile::serve(&listener, &path),
            Serve::Pwrite { path } => pwrite::serve(&listener, &path),
            Serve::RpcEcho => rpc_echo::serve(listener),
        };
        server.send(result)
    });
    std::thread::spawn(move || {
        wait_for_the_end_of_input();
        parent.send(Ok(()))
    });
    end.recv().expect("the senders send before they end")
}

fn wait_for_the_end_of_input() {
    let mut buffer = [0; 64];
    let mut input = io::stdin().lock();
    while input.read(&mut buffer).is_ok_and(|count| count > 0) {}
}
