//! The metadata server's answer about the busiest.
//!
//! # Ordering
//! Counts are copied first; names are looked at afterwards. So a client may have gone: then only its id is told.

use super::rows::{TopClient, TopDirectory, TopPage};
use crate::clients::row_of;
use fs::{
    BUSY_COUNTERS_MAX, BusyClient, BusyClientRates, Fs, SAMPLED_ONE_IN, busiest, likely_paths,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Rows of each kind where the question does not say.
const ROWS_DEFAULT: usize = 20;
/// Walks for paths at once. One looks at many names where directories are large.
const WALKS_MAX: usize = 1;
/// Those walks.
static WALKS: Semaphore = Semaphore::const_new(WALKS_MAX);

/// The busiest directories and clients: `limit` of each, and at most [`BUSY_COUNTERS_MAX`].
///
/// # Errors
/// One sentence: the metadata store fails.
pub(crate) async fn top(fs: &Arc<Fs>, limit: Option<u32>) -> Result<TopPage, String> {
    let limit = limit.map_or(ROWS_DEFAULT, |n| {
        usize::try_from(n)
            .unwrap_or(usize::MAX)
            .clamp(1, BUSY_COUNTERS_MAX)
    });
    let told = busiest(fs, limit);
    let inodes: BTreeSet<u64> = told.directories.iter().map(|d| d.file).collect();
    let turn = WALKS.acquire().await.map_err(|e| e.to_string())?;
    let walked = Arc::clone(fs);
    let look = move || {
        let _turn = turn;
        likely_paths(&walked, &inodes)
    };
    let looked = tokio::task::spawn_blocking(look).await;
    let paths = looked
        .map_err(|e| e.to_string())?
        .map_err(|e| e.to_string())?;
    let directories = told.directories.iter().map(|d| TopDirectory {
        path: paths.get(&d.file).cloned(),
        inode: d.file,
        operations_per_s: d.operations_per_s,
    });
    Ok(TopPage {
        seconds: told.seconds,
        sampled_one_in: SAMPLED_ONE_IN,
        limit: limit as u64,
        directories: directories.collect(),
        clients: told.clients.iter().map(|c| client(fs, c)).collect(),
    })
}

fn client(fs: &Fs, rates: &BusyClientRates) -> TopClient {
    let who = match rates.client {
        BusyClient::Known(id) => match row_of(fs, id) {
            Some(known) => TopClient {
                id: Some(known.id),
                protocol: known.protocol,
                owner: known.owner,
                addresses: known.addresses,
                ..TopClient::default()
            },
            None => TopClient {
                id: Some(format!("{:x}", id.value)),
                protocol: "NFSv4".to_owned(),
                ..TopClient::default()
            },
        },
        BusyClient::Address(address) => TopClient {
            protocol: "NFS".to_owned(),
            owner: address.to_string(),
            addresses: vec![address.to_string()],
            ..TopClient::default()
        },
    };
    TopClient {
        operations_per_s: rates.operations_per_s,
        read_bytes_per_s: rates.read_bytes_per_s,
        written_bytes_per_s: rates.written_bytes_per_s,
        ..who
    }
}
