//! GRANTED (RFC 1813 §6.3.6), from here to a host: a request that waited has its lock.
//!
//! # Failure
//! A host that answers DENIED to the first call does not want the lock, and loses it. After a call in doubt its answer may be
//! to the repetition of what it has taken: it keeps the lock, as does a host that does not answer. It asks again by itself.

use super::cx::extent;
use super::host::{HostName, svid_and_oh};
use super::host_calls::{HostCallError, HostCalls, Procedure};
use fs::Fs;
use namespace::{Cred, FileId, Op};
use nlm::{Nlm4Lock, Nlm4Res, Nlm4Stats, Nlm4TestArgs, NlmProc};
use state::{HostGrant, LockKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use xdr::{Opaque, decode_all, encode_to_vec};

/// Most hosts that are told at once.
const TOLD_AT_ONCE_MAX: usize = 256;
/// Calls for one grant.
const TRIES_MAX: u32 = 5;
/// Pause after the first call that failed; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells hosts of their grants, until it is dropped.
pub(super) async fn tell_all(fs: Arc<Fs>, calls: Arc<HostCalls>) {
    let places = Arc::new(Semaphore::new(TOLD_AT_ONCE_MAX));
    loop {
        let grant = fs.host_grants().next().await;
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (fs, calls) = (Arc::clone(&fs), Arc::clone(&calls));
        tokio::spawn(async move {
            let takes = tell(&fs, &calls, &grant).await;
            fs::grant_answered(&fs, &grant, takes);
            drop(place);
        });
    }
}

/// Whether the host takes the lock; `None` when nobody knows.
async fn tell(fs: &Fs, calls: &HostCalls, grant: &HostGrant) -> Option<bool> {
    let name = fs.clients().lock().owner(grant.client).map(<[u8]>::to_vec);
    let host = HostName::parse(&name?)?;
    let Some(args) = arguments(fs, &host, grant) else {
        // The file is gone: nobody can lock it.
        return Some(false);
    };
    let procedure = Procedure {
        program: nlm::PROGRAM,
        version: nlm::VERSION,
        procedure: NlmProc::Granted as u32,
    };
    let mut in_doubt = false;
    let mut pause = PAUSE;
    for _ in 0..TRIES_MAX {
        match calls.call(&host, procedure, &args).await {
            Ok(body) => match decode_all::<Nlm4Res<'_>>(&body).map(|res| res.stat) {
                Ok(Nlm4Stats::Granted) => return Some(true),
                // It has restarted and asks its own applications first.
                Ok(Nlm4Stats::DeniedGracePeriod) => {}
                Ok(_) if !in_doubt => return Some(false),
                Ok(_) | Err(_) => return None,
            },
            Err(HostCallError::NotSent | HostCallError::NoProgram) => {}
            Err(HostCallError::Unanswered) => in_doubt = true,
            Err(HostCallError::Refused) => return None,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    tracing::debug!(%host, "a host was not told of its lock");
    None
}

fn arguments(fs: &Fs, host: &HostName, grant: &HostGrant) -> Option<Vec<u8>> {
    let cred = Cred::root();
    let mut op = Op::new(&cred, fs.now());
    let inode = fs.namespace().getattr(&mut op, FileId(grant.file)).ok()?;
    let handle = fs.handle_of(&inode);
    let (svid, oh) = svid_and_oh(&grant.owner);
    let (l_offset, l_len) = extent(grant.range);
    Some(encode_to_vec(&Nlm4TestArgs {
        cookie: Opaque(&grant.id.to_be_bytes()),
        exclusive: grant.kind == LockKind::Write,
        alock: Nlm4Lock {
            caller_name: Opaque(host.name()),
            fh: Opaque(&handle.0),
            oh,
            svid,
            l_offset,
            l_len,
        },
    }))
}
