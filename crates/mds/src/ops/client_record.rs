//! Durable client records (rule R18, RFC 8881 §8.4.3): written before a client's first state is granted, deleted
//! before others profit from its loss. Also: that a delegation of a client was revoked, so that it reclaims none (§10.2.1).
//!
//! # Ordering
//! A record is durable before RECLAIM_COMPLETE is answered, which comes before a client may take anything new: whoever said it
//! before a restart is waited for behind it. [`ensure`] runs before the reply of the operation that grants the first open, lock or
//! layout, for what was reclaimed before that. At the end of the grace period every
//! record that must not count after another restart is deleted in one transaction, then new state is granted.
//!
//! # Failure
//! A record whose transaction failed is taken as stored: it is then deleted with the client. One that a full store refused is
//! not there, and is asked for again.

use crate::cx::Cx;
use crate::mds::Records;
use crate::{Mds, data, delegations, persist};
use meta::{MetaError, MetaStore, Read, Seq};
use nfs4::{ClientId, NfsStatus, Verifier};
use server::Nfsd;
use state::{ClientRecord, Principal, Removed};
use xdr::OpaqueBuf;

const TAG: u8 = b'c';
/// Records read in one step.
const PAGE: usize = 1024;

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
    /// The same of a client that has lost a delegation and has not acknowledged it.
    struct StoredRevoked {
        record: Stored,
        revoked: bool,
    }
}

fn parse(value: &[u8]) -> Result<StoredRevoked, MetaError> {
    let plain = |record| StoredRevoked {
        record,
        revoked: false,
    };
    xdr::decode_all(value)
        .or_else(|_| xdr::decode_all(value).map(plain))
        .map_err(|e| corrupt(&e.to_string()))
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
pub(crate) fn load(store: &dyn MetaStore) -> Result<Records, MetaError> {
    let mut records = Records::new();
    scan(store, &mut |key, value| {
        let StoredRevoked { record, revoked } = parse(value)?;
        records.push(ClientRecord {
            client: client_of(key)?,
            owner: record.owner.0,
            verifier: record.verifier,
            principal: Principal(record.principal.0),
            lost_delegations: revoked,
        });
        Ok(())
    })?;
    Ok(records)
}

/// Makes sure that the COMPOUND's client has a durable record before its reply leaves.
pub(crate) fn ensure(nfsd: &Nfsd<Mds>, cx: &mut Cx<'_>) -> Result<(), NfsStatus> {
    let client = cx.client()?;
    if let Some(seq) = record(nfsd, client)? {
        cx.observe(seq.0);
    }
    Ok(())
}

/// Writes the client's record, unless it is there or must not be. Returns the transaction to wait for.
fn record(nfsd: &Nfsd<Mds>, client: ClientId) -> Result<Option<Seq>, NfsStatus> {
    if nfsd.clients().record_needed(client).is_none() {
        return Ok(None);
    }
    let seq = nfsd.role().store().transact(&mut |tx| {
        // Asked again inside: another request of this client may have been faster.
        let Some(record) = nfsd.clients().record_needed(client) else {
            return Ok(meta::Outcome::Abort);
        };
        let stored = Stored {
            owner: OpaqueBuf(record.owner),
            verifier: record.verifier,
            principal: OpaqueBuf(record.principal.0),
        };
        // Without a client nothing can be removed.
        tx.purpose(meta::Purpose::Removal);
        tx.put(&key(client), &xdr::encode_to_vec(&stored));
        Ok(meta::Outcome::Commit)
    });
    if !matches!(seq, Err(MetaError::NoSpace)) {
        nfsd.clients().record_stored(client);
    }
    stored(seq).map(Some)
}

/// Makes durable that a client does not hold any more what it may think it does, before others are granted it.
pub(crate) async fn note_revoked(nfsd: &Nfsd<Mds>, client: ClientId) -> Result<(), NfsStatus> {
    let seq = set_revoked(nfsd, client, true)?;
    nfsd.role().durable(seq).await
}

/// The client has acknowledged the loss of each delegation that it lost.
pub(crate) fn forget_revoked(nfsd: &Nfsd<Mds>, cx: &mut Cx<'_>) -> Result<(), NfsStatus> {
    let client = cx.client()?;
    let seq = set_revoked(nfsd, client, false)?;
    cx.observe(seq.0);
    Ok(())
}

fn set_revoked(nfsd: &Nfsd<Mds>, client: ClientId, revoked: bool) -> Result<Seq, NfsStatus> {
    stored(nfsd.role().store().transact(&mut |tx| {
        tx.purpose(meta::Purpose::Removal);
        // Who has no record cannot reclaim anything.
        let Some(value) = tx.get(&key(client))? else {
            return Ok(meta::Outcome::Abort);
        };
        let record = parse(&value)?.record;
        let value = if revoked {
            xdr::encode_to_vec(&StoredRevoked { record, revoked })
        } else {
            xdr::encode_to_vec(&record)
        };
        tx.put(&key(client), &value);
        Ok(meta::Outcome::Commit)
    }))
}

fn stored(seq: Result<Seq, MetaError>) -> Result<Seq, NfsStatus> {
    seq.map_err(|error| {
        tracing::error!(%error, "client record");
        if matches!(error, MetaError::NoSpace) {
            NfsStatus::NoSpc
        } else {
            NfsStatus::ServerFault
        }
    })
}

/// Settles what a client that is no more leaves behind: state, layouts, the record.
pub(crate) async fn removed(nfsd: &Nfsd<Mds>, removed: Removed) {
    let mds = nfsd.role();
    let gone = mds.state().remove_client(removed.client);
    data::offloads_of_gone(nfsd, removed.client);
    // Fence before anybody else is granted what the client held (rule R6).
    data::client_gone(nfsd, &removed.owner, gone.layouts).await;
    if removed.recorded || !removed.sessions.is_empty() {
        let deleted = mds.store().transact(&mut |tx| {
            tx.purpose(meta::Purpose::Removal);
            if removed.recorded {
                tx.delete(&key(removed.client));
            }
            for session in &removed.sessions {
                persist::forget(tx, *session)?;
            }
            Ok(meta::Outcome::Commit)
        });
        if let Ok(seq) = stored(deleted) {
            let _ = mds.durable(seq).await;
        }
    }
    delegations::client_gone(nfsd);
    for file in gone.unlocked_files {
        super::notify_lock::notify_unblocked(nfsd, namespace::FileId(file));
    }
    for file in gone.closed_files {
        data::orphan_closed(nfsd, namespace::FileId(file)).await;
    }
}

/// The engine has noted RECLAIM_COMPLETE: the client counts from now on, and the grace period may be over. A failure to store
/// its record is told to who then asks for state.
pub(crate) async fn reclaim_complete(nfsd: &Nfsd<Mds>, client: ClientId) -> Result<(), NfsStatus> {
    if let Ok(Some(seq)) = record(nfsd, client) {
        nfsd.role().durable(seq).await?;
    }
    poll_grace(nfsd).await;
    Ok(())
}

/// Ends the grace period when it is time.
pub(crate) async fn poll_grace(nfsd: &Nfsd<Mds>) {
    let now_ms = nfsd.now_ms();
    let Some(end) = nfsd.clients().poll_grace(now_ms) else {
        return;
    };
    tracing::info!(?end, "grace period over");
    let mds = nfsd.role();
    let mut deleted = Vec::new();
    let seq = mds.store().transact(&mut |tx| {
        deleted.clear();
        scan(&*tx, &mut |key, _| {
            let client = client_of(key)?;
            if !nfsd.clients().keeps_record(client) {
                deleted.push(client);
            }
            Ok(())
        })?;
        for client in &deleted {
            tx.delete(&key(*client));
        }
        Ok(meta::Outcome::Commit)
    });
    let durable = match stored(seq) {
        Ok(seq) => mds.durable(seq).await.is_ok(),
        Err(_) => false,
    };
    if durable {
        nfsd.clients().grace_finished(&deleted);
        data::grace_over(nfsd).await;
    }
}
