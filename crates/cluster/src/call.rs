//! Calls of the control program to a data server, over the connection that it opened; and waiting for several.

use control::{Refusal, ReplyError, Request, Status};
use nfs4::NfsStatus;
use std::time::Duration;
use tokio::task::JoinSet;
use transport::{CloseReason, ConnHandle};

/// How long a data server may take to answer. FENCE and COMMIT wait for disks.
pub const CALL_MS_MAX: u64 = 15_000;

/// How often a call is made to a data server that has not digested its HELLO yet.
const READY_TRIES_MAX: u32 = 50;
/// Pause between two such tries.
const READY_PAUSE_MS: u64 = 20;

/// Why a data server did not do what it was told. Every call may be repeated.
#[derive(Debug)]
pub enum DsError {
    /// It is not connected, or has not all its floors yet.
    Down,
    /// The connection broke, or there was no answer in time. The connection is closed.
    Lost,
    /// Its bytes make no sense. The connection is closed.
    Malformed,
    /// It refused.
    Refused(Refusal),
}

impl std::fmt::Display for DsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Down => f.write_str("the data server is not connected"),
            Self::Lost => f.write_str("the data server does not answer"),
            Self::Malformed => f.write_str("the data server's answer is malformed"),
            Self::Refused(refusal) => write!(f, "the data server refused: {refusal}"),
        }
    }
}

/// Calls a data server. A connection that does not answer is closed: the data server then says HELLO again
/// and gets what it missed.
pub async fn call<R>(conn: &ConnHandle, args: &R) -> Result<R::Ok, DsError>
where
    R: Request + Sync,
    R::Ok: Send,
{
    let wait = Duration::from_millis(CALL_MS_MAX);
    let reply = conn.call(control::encode_call(args).into(), wait).await;
    let record = reply.map_err(|_| {
        conn.close(CloseReason::Asked);
        DsError::Lost
    })?;
    control::read_reply::<R>(&record).map_err(|error| match error {
        ReplyError::Refused(refusal) => DsError::Refused(refusal),
        ReplyError::Verdict(_) | ReplyError::Malformed(_) => {
            conn.close(CloseReason::MalformedMessage);
            DsError::Malformed
        }
    })
}

/// The first call may overtake the answer to HELLO: such a data server says that it is not ready.
pub(crate) async fn call_when_ready<R>(conn: &ConnHandle, args: &R) -> Result<R::Ok, DsError>
where
    R: Request + Sync,
    R::Ok: Send,
{
    let mut tries = 0;
    loop {
        tries += 1;
        match call(conn, args).await {
            Err(DsError::Refused(refusal))
                if refusal.status == Status::NotReady && tries < READY_TRIES_MAX =>
            {
                tokio::time::sleep(Duration::from_millis(READY_PAUSE_MS)).await;
            }
            result => return result,
        }
    }
}

/// The results of work on several data servers. The first failure is that of all.
///
/// A failure is returned when no part runs any more: a late part must not overtake what the caller does next.
pub async fn all<T: 'static>(
    mut tasks: JoinSet<Result<T, NfsStatus>>,
) -> Result<Vec<T>, NfsStatus> {
    let mut out = Ok(Vec::with_capacity(tasks.len()));
    while let Some(done) = tasks.join_next().await {
        let result = done.unwrap_or(Err(NfsStatus::ServerFault));
        match (result, &mut out) {
            (Ok(one), Ok(all)) => all.push(one),
            (Err(status), Ok(_)) => out = Err(status),
            (_, Err(_)) => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_told_when_nothing_is_under_way_any_more() {
        let ended = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        tasks.spawn(async { Err(NfsStatus::Io) });
        let slow = Arc::clone(&ended);
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            slow.store(true, Relaxed);
            Ok(())
        });
        assert_eq!(all(tasks).await, Err(NfsStatus::Io));
        assert!(ended.load(Relaxed));
        let mut tasks = JoinSet::new();
        tasks.spawn(async { Ok(7) });
        assert_eq!(all(tasks).await, Ok(vec![7]));
    }
}
