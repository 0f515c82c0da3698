//! Durable client records (rule R18, RFC 8881 §8.4.3): who may reclaim after a restart, and who of them held anything and is
//! waited for. Also: that a delegation of a client was revoked, so that it reclaims none (§10.2.1).
//!
//! # Ordering
//! - RECLAIM_COMPLETE writes a record that says "holds nothing".
//! - [`ensure`] makes it "holds": in the transaction that makes a file at the latest, and durably before the reply that grants an
//!   open, lock, delegation or layout.
//! - A client that has held nothing for [`IDLE_MS`] is written back, without a sync of its own.
//! - A record is deleted before others profit from the loss of its client's state.
//! - At the end of the grace period one transaction deletes every record that must not count after another restart. Then new
//!   state is granted.
//!
//! # Failure
//! A record whose transaction failed is taken as stored: it is then deleted with the client. One that a full store refused is
//! not there, and is asked for again.

use crate::actor::Actor;
use crate::fs::Fs;
use meta::{MetaError, MetaStore, Read, Seq, Tx};
use nfs4::{ClientId, NfsStatus, Verifier};
use state::{ClientRecord, Principal};
use xdr::OpaqueBuf;

const TAG: u8 = b'c';
/// Records read in one step.
const PAGE: usize = 1024;
/// How long a client has taken nothing before its record may say that it holds nothing. With a shorter time, a client
/// that opens a file now and then waits for a sync each time. With a longer one, more restarts wait for clients that
/// have nothing to reclaim.
const IDLE_MS: u64 = 2_000;
/// Most clients that one tick writes back.
const IDLE_MAX: usize = 1024;
/// A delegation of the client was revoked, and it has not acknowledged that.
const REVOKED: u32 = 1;
/// The client holds nothing.
const HOLDS_NOTHING: u32 = 2;

/// Bounds of the stored fields; those of the state tables.
const OWNER_BYTES_MAX: u32 = 1024;
const PRINCIPAL_BYTES_MAX: u32 = 512;
const _: () = assert!(
    OWNER_BYTES_MAX as usize == state::OWNER_BYTES_MAX
        && PRINCIPAL_BYTES_MAX as usize == state::PRINCIPAL_BYTES_MAX
);

/// What a scan does with a key and its value.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), MetaError> + 'a;

xdr::xdr_struct! {
    /// Value of key `c` client id.
    struct Stored {
        owner: OpaqueBuf<OWNER_BYTES_MAX>,
        verifier: Verifier,
        principal: OpaqueBuf<PRINCIPAL_BYTES_MAX>,
    }
}

xdr::xdr_struct! {
    /// The same of a client of which there is more to say.
    struct StoredMore {
        record: Stored,
        flags: u32,
    }
}

fn parse(value: &[u8]) -> Result<StoredMore, MetaError> {
    let plain = |record| StoredMore { record, flags: 0 };
    xdr::decode_all(value)
        .or_else(|_| xdr::decode_all(value).map(plain))
        .map_err(|e| corrupt(&e.to_string()))
}

/// The value of a record.
fn encode(more: &StoredMore) -> Vec<u8> {
    match more.flags {
        0 => xdr::encode_to_vec(&more.record),
        _ => xdr::encode_to_vec(more),
    }
}

fn key(client: ClientId) -> [u8; 9] {
    let mut key = [TAG; 9];
    key[1..].copy_from_slice(&client.value.to_be_bytes());
    key
}

fn client_of(key: &[u8]) -> Result<ClientId, MetaError> {
    let id = key.get(1..9).and_then(|b| <[u8; 8]>::try_from(b).ok());
    let value = id.map(u64::from_be_bytes).ok_or_else(|| corrupt("key"))?;
    Ok(ClientId { value })
}

fn corrupt(what: &str) -> MetaError {
    MetaError::Corrupt(format!("client record: {what}"))
}

/// Calls `visit` for the key of every record.
fn scan(store: &(impl Read + ?Sized), visit: &mut Visit<'_>) -> Result<(), MetaError> {
    let mut start = vec![TAG];
    let end = [TAG + 1];
    loop {
        let page = store.scan(&start, &end, PAGE)?;
        for (key, value) in &page {
            visit(key, value)?;
        }
        match page.last() {
            Some((key, _)) if page.len() == PAGE => {
                start = key.to_vec();
                start.push(0);
            }
            _ => return Ok(()),
        }
    }
}

/// The records that the previous run left.
pub fn load_client_records(store: &dyn MetaStore) -> Result<Vec<ClientRecord>, MetaError> {
    let mut records = Vec::new();
    scan(store, &mut |key, value| {
        let StoredMore { record, flags } = parse(value)?;
        records.push(ClientRecord {
            client: client_of(key)?,
            owner: record.owner.0,
            verifier: record.verifier,
            principal: Principal(record.principal.0),
            lost_delegations: flags & REVOKED != 0,
            holds_nothing: flags & HOLDS_NOTHING != 0,
        });
        Ok(())
    })?;
    Ok(records)
}

/// Makes the record of the COMPOUND's client say "holds": before the reply leaves, and before anything becomes durable that the
/// COMPOUND does from here on.
pub fn ensure(fs: &Fs, actor: &mut Actor) -> Result<(), NfsStatus> {
    let client = actor.client()?;
    let now_ms = fs.clients.now_ms();
    let noted = fs.clients.lock().takes_state(client, now_ms);
    let seq = match noted {
        // Another request may have written it and still wait for it.
        Some(seq) => Some(Seq(seq)),
        None => record(fs, client, true)?,
    };
    if let Some(seq) = seq {
        actor.observe(seq);
    }
    Ok(())
}

/// Writes the record of a client that is about to take state (`takes`), or that may do so from now on. It writes
/// nothing if the record is there or must not be. Returns the transaction to wait for where it says that the client
/// holds something.
pub(crate) fn record(fs: &Fs, client: ClientId, takes: bool) -> Result<Option<Seq>, NfsStatus> {
    if fs.clients.lock().record_needed(client, takes).is_none() {
        return Ok(None);
    }
    // What the record says in the end, if there is one.
    let mut flags = None;
    let seq = fs.store().transact(&mut |tx| {
        flags = None;
        // Asked again inside: another request of this client may have been faster.
        let Some(record) = fs.clients.lock().record_needed(client, takes) else {
            return Ok(meta::TxOutcome::Abort);
        };
        let there = tx.get(&key(client))?;
        flags = there
            .map(|value| parse(&value))
            .transpose()?
            .map(|r| r.flags);
        if flags.is_some() && !takes {
            return Ok(meta::TxOutcome::Abort);
        }
        // What it could reclaim before it lost its record it still holds.
        let holds_nothing = !takes && !fs.state().has_state(client);
        let said = flags.unwrap_or(0) & REVOKED;
        let now = said | if holds_nothing { HOLDS_NOTHING } else { 0 };
        flags = Some(now);
        let more = StoredMore {
            record: Stored {
                owner: OpaqueBuf(record.owner),
                verifier: record.verifier,
                principal: OpaqueBuf(record.principal.0),
            },
            flags: now,
        };
        // Without a client nothing can be removed.
        tx.purpose(meta::Purpose::Removal);
        tx.put(&key(client), &encode(&more));
        Ok(meta::TxOutcome::Commit)
    });
    let holds_nothing = flags.map(|flags| flags & HOLDS_NOTHING != 0);
    if let Some(holds_nothing) = holds_nothing
        && !matches!(seq, Err(MetaError::NoSpace))
    {
        let seq = seq.as_ref().map_or(0, |seq| seq.0);
        fs.clients.lock().record_stored(client, holds_nothing, seq);
    }
    stored(seq).map(|seq| (holds_nothing == Some(false)).then_some(seq))
}

/// Makes the records of clients that hold nothing say so, without a sync. A record that is lost in a crash only makes
/// the next start wait longer than it must.
pub(crate) fn note_idle(fs: &Fs) {
    let mut idle = fs.clients.lock().may_be_idle(fs.clients.now_ms(), IDLE_MS);
    {
        let state = fs.state();
        idle.retain(|client| !state.has_state(*client));
    }
    idle.truncate(IDLE_MAX);
    if idle.is_empty() {
        return;
    }
    let noted = fs.store().transact(&mut |tx| {
        for client in &idle {
            let Some(value) = tx.get(&key(*client))? else {
                continue;
            };
            let mut more = parse(&value)?;
            if fs
                .clients
                .lock()
                .turns_idle(*client, |c| fs.state().has_state(c))
            {
                more.flags |= HOLDS_NOTHING;
                tx.put(&key(*client), &encode(&more));
            }
        }
        Ok(meta::TxOutcome::Commit)
    });
    if let Err(error) = noted {
        tracing::debug!(%error, "idle clients are not noted");
    }
}

/// Makes durable that a client does not hold any more what it may think it does, before others are granted it.
pub(crate) async fn note_revoked(fs: &Fs, client: ClientId) -> Result<(), NfsStatus> {
    let seq = set_revoked(fs, client, true)?;
    fs.durable(seq).await
}

/// The client has acknowledged the loss of each delegation that it lost.
pub fn forget_revoked(fs: &Fs, actor: &mut Actor) -> Result<(), NfsStatus> {
    let client = actor.client()?;
    let seq = set_revoked(fs, client, false)?;
    actor.observe(seq);
    Ok(())
}

fn set_revoked(fs: &Fs, client: ClientId, revoked: bool) -> Result<Seq, NfsStatus> {
    stored(fs.store().transact(&mut |tx| {
        tx.purpose(meta::Purpose::Removal);
        // A client without a record cannot reclaim anything.
        let Some(value) = tx.get(&key(client))? else {
            return Ok(meta::TxOutcome::Abort);
        };
        let mut more = parse(&value)?;
        more.flags = more.flags & !REVOKED | if revoked { REVOKED } else { 0 };
        tx.put(&key(client), &encode(&more));
        Ok(meta::TxOutcome::Commit)
    }))
}

pub(crate) fn stored(seq: Result<Seq, MetaError>) -> Result<Seq, NfsStatus> {
    seq.map_err(|error| {
        tracing::error!(%error, "client record");
        if matches!(error, MetaError::NoSpace) {
            NfsStatus::NoSpc
        } else {
            NfsStatus::ServerFault
        }
    })
}

/// Deletes the record of a client.
pub(crate) fn delete(tx: &mut dyn Tx, client: ClientId) {
    tx.delete(&key(client));
}

/// Deletes every record that must not count after another restart.
pub(crate) fn delete_dropped(
    tx: &mut dyn Tx,
    drops: impl Fn(ClientId) -> bool,
) -> Result<(), MetaError> {
    let mut dropped = Vec::new();
    scan(&*tx, &mut |key, _| {
        let client = client_of(key)?;
        if drops(client) {
            dropped.push(client);
        }
        Ok(())
    })?;
    for client in &dropped {
        tx.delete(&key(*client));
    }
    Ok(())
}
