//! `ropewalk cat`.

use super::CliError;
use super::copy::{CHUNK_BYTES, DEPTH};
use super::remote::{Place, Servers};
use bytes::Bytes;
use client::OpenOptions;
use futures_util::{StreamExt, stream};
use std::ffi::OsString;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// nfs://HOST[:PORT]/PATH (?vers=3 for NFSv3), or a path below ROPEWALK_URL
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    for path in &args.paths {
        print(&servers.place(path).await?).await?;
    }
    Ok(())
}

async fn print(place: &Place) -> Result<(), CliError> {
    let cannot = |e| CliError::cannot("read", &place.url)(e);
    let opened = place.client.open(place.path(), OpenOptions::read()).await;
    let file = opened.map_err(cannot)?;
    let offsets = (0..u64::MAX / u64::from(CHUNK_BYTES)).map(|n| n * u64::from(CHUNK_BYTES));
    let mut reads = stream::iter(offsets)
        .map(|at| file.read_at(at, CHUNK_BYTES))
        .buffered(DEPTH);
    while let Some(read) = reads.next().await {
        let data = read.map_err(cannot)?;
        let eof = data.eof || data.is_empty();
        write(data.chunks).await?;
        if eof {
            break;
        }
    }
    drop(reads);
    file.close().await.map_err(cannot)
}

/// Writes in a thread, so that a slow reader does not keep the session from being renewed.
async fn write(chunks: Vec<Bytes>) -> Result<(), CliError> {
    let writing = tokio::task::spawn_blocking(move || {
        let mut out = std::io::stdout().lock();
        chunks.iter().try_for_each(|c| out.write_all(c))?;
        out.flush()
    });
    let written = writing.await.unwrap_or_else(|e| Err(e.into()));
    written.map_err(|e| CliError::output(&e))
}
