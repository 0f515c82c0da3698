//! Requests about the locks of one open, and LOCKU (RFC 8881 §18.12).

use crate::Error;
use crate::held_locks::{NO_END, length_of};
use crate::retry::{REOPENS_MAX, is_stateid_gone};
use crate::state::{Node, Open};
use nfs4::ops::{LockUArgs, LockURes, PutFhArgs, PutFhRes};
use nfs4::{LockType, Stateid};
use session_client::{Build, Outcome};
use std::ops::Range;
use std::sync::Arc;
use xdr::Opaque;

/// Gives up everything that an open has locked, before it is closed.
pub(crate) async fn unlock_all(node: &Arc<Node>, open: &Arc<Open>) -> Result<(), Error> {
    let holds_any = !open.locks.held.lock().ranges.is_empty();
    if holds_any && !open.is_lost() {
        unlock(node, open, &(0..NO_END)).await?;
    }
    Ok(())
}

pub(crate) async fn unlock(
    node: &Arc<Node>,
    open: &Arc<Open>,
    range: &Range<u64>,
) -> Result<(), Error> {
    let length = length_of(range)?;
    let _one = open.locks.asking.lock().await;
    for _ in 0..REOPENS_MAX {
        open.locks.check()?;
        let opened = open.stateid();
        let Some(lock_stateid) = open.locks.stateid() else {
            return Ok(());
        };
        let args = LockUArgs {
            lock_type: LockType::Write,
            seqid: 0,
            lock_stateid,
            offset: range.start,
            length,
        };
        let outcome = ask(node, &|b| {
            b.push(&args);
        })
        .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        match reply.take::<LockURes>() {
            Ok(left) => {
                if (open.locks).note(|| open.stateid() == opened, left.lock_stateid, range, None) {
                    return Ok(());
                }
            }
            Err(e) if is_stateid_gone(&e) => regain(node, open, opened).await?,
            Err(e) => return Err(e.into()),
        }
    }
    Err(Error::OpenLost)
}

/// Sends one operation about locks. Once more it does what it did.
pub(crate) async fn ask(
    node: &Arc<Node>,
    push: &(dyn Fn(&mut nfs4::CompoundBuilder) + Send + Sync),
) -> Result<Outcome, Error> {
    let build: &Build<'_> = &|b| {
        b.push(&PutFhArgs {
            object: Opaque(&node.fh.0),
        });
        push(b);
        Vec::new()
    };
    node.client.call_once(build).await
}

/// A stateid was refused: a recovery has brought another, or the open is made anew.
pub(crate) async fn regain(
    node: &Arc<Node>,
    open: &Arc<Open>,
    opened: Stateid,
) -> Result<(), Error> {
    if open.is_lost() {
        return Err(Error::OpenLost);
    }
    if open.stateid() == opened {
        node.client.reopen(node, open).await?;
    }
    Ok(())
}
