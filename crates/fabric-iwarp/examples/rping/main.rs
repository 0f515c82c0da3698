//! Both sides of rping, the ping of librdmacm, on our software iWARP: for interoperation with other implementations.
//!
//! `rping serve ADDRESS CONNECTIONS` answers that many peers one after the other and prints a line for each. `rping
//! ping ADDRESS BYTES COUNT` pings a server and compares what comes back.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's program talks on the terminal"
)]

mod peer;
mod protocol;

use fabric::Fabric;
use peer::Result;
use ropewalk_fabric_iwarp::Iwarp;
use std::process::ExitCode;

const USAGE: &str = "rping serve ADDRESS CONNECTIONS | rping ping ADDRESS BYTES COUNT";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["serve", address, connections] => serve(address, connections).await,
        ["ping", address, bytes, count] => ping(address, bytes, count).await,
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("rping: {e}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(address: &str, connections: &str) -> Result<()> {
    let connections: u32 = connections.parse()?;
    let mut listener = Iwarp::default().listen(address.parse()?).await?;
    println!("listening on {}", listener.local());
    for _ in 0..connections {
        let incoming = listener.accept().await?;
        let (from, asked) = (incoming.peer(), incoming.private_data().len());
        let done = protocol::serve(incoming).await?;
        println!(
            "{from}: {} pings, {} bytes of private data",
            done.pings, asked
        );
    }
    Ok(())
}

async fn ping(address: &str, bytes: &str, count: &str) -> Result<()> {
    let (bytes, count) = (bytes.parse()?, count.parse()?);
    protocol::ping(&Iwarp::default(), address.parse()?, bytes, count).await?;
    println!("{count} pings of {bytes} bytes came back as they were");
    Ok(())
}
