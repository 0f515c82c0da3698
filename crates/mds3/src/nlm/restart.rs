//! What a host hears after a restart of the server: NOTIFY of NSM, so that it reclaims its locks in the grace period.
//!
//! # Failure
//! A host that cannot be told is asked again until the grace period is over. What it has not reclaimed then is lost.

use super::host::HostName;
use super::host_calls::{HostCallError, HostCalls, Procedure};
use super::nsm::state_of;
use fs::Fs;
use nlm::nsm::{NsmProc, PROGRAM, StatChge, VERSION};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use xdr::{Opaque, encode_to_vec};

/// Most hosts that are told at once.
const TOLD_AT_ONCE_MAX: usize = 64;
/// Pause before a host is told again.
const PAUSE: Duration = Duration::from_secs(3);

/// Tells every host that held locks when the server ended. `name` is what hosts may know this server by.
pub(super) async fn notify_all(fs: Arc<Fs>, calls: Arc<HostCalls>, name: Arc<[u8]>) {
    let hosts: Vec<HostName> = {
        let clients = fs.clients().lock();
        let names = clients.hosts_to_notify();
        names.filter_map(HostName::parse).collect()
    };
    let places = Arc::new(Semaphore::new(TOLD_AT_ONCE_MAX));
    for host in hosts {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (fs, calls, name) = (Arc::clone(&fs), Arc::clone(&calls), Arc::clone(&name));
        tokio::spawn(async move {
            notify(&fs, &calls, &host, &name).await;
            drop(place);
        });
    }
}

async fn notify(fs: &Fs, calls: &HostCalls, host: &HostName, name: &[u8]) {
    let procedure = Procedure {
        program: PROGRAM,
        version: VERSION,
        procedure: NsmProc::Notify as u32,
    };
    let args = encode_to_vec(&StatChge {
        mon_name: Opaque(name),
        state: state_of(fs.namespace().boot()),
    });
    while fs.clients().lock().in_grace() {
        match calls.call(host, procedure, &args).await {
            Ok(_) => {
                tracing::info!(%host, "a host was told of the restart");
                return;
            }
            Err(HostCallError::Refused) => return,
            Err(HostCallError::NotSent | HostCallError::NoProgram | HostCallError::Unanswered) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
    tracing::warn!(%host, "a host could not be told of the restart: its locks are lost");
}
