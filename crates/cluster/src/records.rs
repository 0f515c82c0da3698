//! Durable records of the data plane: data servers (`n`), changes of their stores (`m`), placement groups (`g`),
//! signing keys (`k`), join tokens (`j`), access tokens (`y`), the greatest number of one (`saccess_newest`) and orders that last
//! (`q`). Keys are a tag byte and big-endian numbers, values XDR; docs/formats.md
//! has the table.
//!
//! Fences need no record: they live for one boot. The cluster floor of the next boot is above every epoch that this one
//! signs. No data server serves before it has that floor (rule R6, decision 13).

use bytes::Bytes;
use cluster_tls::AccessName;
use control::{ADDRESSES_MAX, NetAddr};
use layout::{Group, KeyRecord};
use meta::{MetaError, MetaStore, Purpose, Seq, TxOutcome};
use xdr::{Decode, Encode, List};

const SERVER: u8 = b'n';
const CHANGES: u8 = b'm';
const GROUP: u8 = b'g';
const KEY: u8 = b'k';
const TOKEN: u8 = b'j';
const ACCESS: u8 = b'y';
const ORDERS: u8 = b'q';
/// The greatest number that an access token ever had.
const NEWEST_ACCESS: &[u8] = b"saccess_newest";
/// Records read in one step.
const PAGE: usize = 256;
/// Most data servers that a cluster ever had, expelled ones included (the design's 1,000, rounded up).
pub(crate) const SERVERS_MAX: usize = SUBSTITUTES_MAX as usize;
/// Most data servers that have a substitute: all of them.
const SUBSTITUTES_MAX: u32 = 1024;

xdr::xdr_enum! {
    /// Whether a data server belongs to the cluster.
    pub(crate) enum Membership {
        /// It does.
        Active = 1,
        /// It was expelled, and its id is never used again.
        Expelled = 2,
        /// It does, and its places go to others.
        Draining = 3,
    }
}

xdr::xdr_struct! {
    /// Value of key `n` ds id.
    pub(crate) struct ServerRecord {
        pub(crate) membership: Membership,
        pub(crate) store_id: u64,
        /// Highest count of the store's starts that was seen (R9).
        pub(crate) counter: u64,
        /// BLAKE3 of its certificate.
        pub(crate) fingerprint: [u8; 32],
        /// Where clients reach it, preferred first.
        pub(crate) addresses: List<NetAddr, ADDRESSES_MAX>,
    }

    /// Where the places of a drained data server go.
    #[derive(Copy)]
    pub(crate) struct Substitute {
        pub(crate) drained: u32,
        pub(crate) substitute: u32,
    }

    /// Value of key `q`: what an administrator has asked for and is not done yet.
    pub(crate) struct OrdersRecord {
        /// Whether data servers are to be made level.
        pub(crate) is_rebalancing: bool,
        pub(crate) substitutes: List<Substitute, SUBSTITUTES_MAX>,
    }

    /// Value of key `k` key id.
    pub(crate) struct StoredKey {
        pub(crate) key: KeyRecord,
        /// When it was made: wall time in milliseconds since 1970.
        pub(crate) made_ms: u64,
    }

    /// Value of key `j` token hash.
    pub(crate) struct TokenRecord {
        /// Wall time in milliseconds since 1970.
        pub(crate) expires_ms: u64,
    }
}

xdr::xdr_enum! {
    /// What the holder of a token may do.
    pub enum AccessRole {
        /// See.
        Viewer = 1,
        /// Act on what is there.
        Operator = 2,
        /// Change who belongs to the cluster, who may ask, and any file.
        Admin = 3,
    }
}

xdr::xdr_struct! {
    /// Value of key `y` token number.
    pub struct AccessRecord {
        /// Whose it is.
        pub name: AccessName,
        /// What the holder may do.
        pub role: AccessRole,
        /// Hash of the secret.
        pub hash: [u8; 32],
        /// Wall time in milliseconds since 1970.
        pub made_ms: u64,
        /// Likewise; 0 for never.
        pub expires_ms: u64,
    }
}

fn numbered(tag: u8, id: u32) -> [u8; 5] {
    let mut key = [tag; 5];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn token_key(hash: &[u8; 32]) -> [u8; 33] {
    let mut key = [TOKEN; 33];
    key[1..].copy_from_slice(hash);
    key
}

fn decode<T: for<'a> Decode<'a>>(value: &[u8], what: &str) -> Result<T, MetaError> {
    xdr::decode_all(value).map_err(|e| MetaError::Corrupt(format!("{what}: {e}")))
}

/// All records of a tag that is followed by a 32-bit number.
fn load<T: for<'a> Decode<'a>>(
    store: &dyn MetaStore,
    tag: u8,
    what: &str,
) -> Result<Vec<(u32, T)>, MetaError> {
    let mut out = Vec::new();
    let (mut start, end) = (vec![tag], meta::prefix_end(&[tag]));
    loop {
        let page: Vec<(Bytes, Bytes)> = store.scan(&start, &end, PAGE)?;
        for (key, value) in &page {
            let id = key.get(1..).and_then(|b| <[u8; 4]>::try_from(b).ok());
            let id = id.ok_or_else(|| MetaError::Corrupt(format!("key of a {what}")))?;
            out.push((u32::from_be_bytes(id), decode(value, what)?));
        }
        match page.last() {
            Some((key, _)) if page.len() == PAGE => {
                start = key.to_vec();
                start.push(0);
            }
            _ => return Ok(out),
        }
    }
}

fn put(
    store: &dyn MetaStore,
    purpose: Purpose,
    key: &[u8],
    value: &impl Encode,
) -> Result<Seq, MetaError> {
    let value = xdr::encode_to_vec(value);
    store.transact(&mut |tx| {
        tx.purpose(purpose);
        tx.put(key, &value);
        Ok(TxOutcome::Commit)
    })
}

pub(crate) fn load_servers(store: &dyn MetaStore) -> Result<Vec<(u32, ServerRecord)>, MetaError> {
    load(store, SERVER, "data server")
}

/// Stores a data server, and the groups that change with it, in one transaction.
pub(crate) fn put_server(
    store: &dyn MetaStore,
    id: u32,
    record: &ServerRecord,
    groups: &[Group],
) -> Result<Seq, MetaError> {
    // Without its data servers nothing can be removed.
    store.transact(&mut |tx| {
        tx.purpose(Purpose::Removal);
        tx.put(&numbered(SERVER, id), &xdr::encode_to_vec(record));
        for group in groups {
            tx.put(&numbered(GROUP, group.id), &xdr::encode_to_vec(group));
        }
        Ok(TxOutcome::Commit)
    })
}

/// The orders that were stored last; none without a record.
pub(crate) fn load_orders(store: &dyn MetaStore) -> Result<Option<OrdersRecord>, MetaError> {
    let value = store.get(&[ORDERS])?;
    value.map(|value| decode(&value, "orders")).transpose()
}

pub(crate) fn put_orders(store: &dyn MetaStore, orders: &OrdersRecord) -> Result<Seq, MetaError> {
    put(store, Purpose::Ordinary, &[ORDERS], orders)
}

/// How many changes of its store each data server has told of (R9).
pub(crate) fn load_changes(store: &dyn MetaStore) -> Result<Vec<(u32, u64)>, MetaError> {
    load(store, CHANGES, "count of changes")
}

pub(crate) fn put_changes(store: &dyn MetaStore, id: u32, changes: u64) -> Result<Seq, MetaError> {
    put(store, Purpose::Removal, &numbered(CHANGES, id), &changes)
}

pub(crate) fn load_groups(store: &dyn MetaStore) -> Result<Vec<Group>, MetaError> {
    let groups = load::<Group>(store, GROUP, "placement group")?;
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

/// Stores groups whose rows have changed, in one transaction.
pub(crate) fn put_groups(store: &dyn MetaStore, groups: &[Group]) -> Result<Seq, MetaError> {
    store.transact(&mut |tx| {
        tx.purpose(Purpose::Removal);
        for group in groups {
            tx.put(&numbered(GROUP, group.id), &xdr::encode_to_vec(group));
        }
        Ok(TxOutcome::Commit)
    })
}

pub(crate) fn put_group(store: &dyn MetaStore, group: &Group) -> Result<Seq, MetaError> {
    put(store, Purpose::Ordinary, &numbered(GROUP, group.id), group)
}

pub(crate) fn load_keys(store: &dyn MetaStore) -> Result<Vec<StoredKey>, MetaError> {
    let keys = load::<StoredKey>(store, KEY, "signing key")?;
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

/// Stores signing keys, in one transaction.
pub(crate) fn put_keys(store: &dyn MetaStore, keys: &[StoredKey]) -> Result<Seq, MetaError> {
    store.transact(&mut |tx| {
        tx.purpose(Purpose::Upkeep);
        for stored in keys {
            let value = xdr::encode_to_vec(stored);
            tx.put(&numbered(KEY, stored.key.id), &value);
        }
        Ok(TxOutcome::Commit)
    })
}

/// Forgets signing keys, in one transaction.
pub(crate) fn delete_keys(store: &dyn MetaStore, ids: &[u32]) -> Result<Seq, MetaError> {
    store.transact(&mut |tx| {
        for id in ids {
            tx.delete(&numbered(KEY, *id));
        }
        Ok(TxOutcome::Commit)
    })
}

/// Stores a token's hash. `None` when `tokens_max` wait already, expired ones dropped first.
pub(crate) fn put_token(
    store: &dyn MetaStore,
    hash: &[u8; 32],
    expires_ms: u64,
    now_ms: u64,
    tokens_max: usize,
) -> Result<Option<Seq>, MetaError> {
    let (start, end) = ([TOKEN], meta::prefix_end(&[TOKEN]));
    let mut added = false;
    let seq = store.transact(&mut |tx| {
        let mut waiting = 0;
        for (key, value) in tx.scan(&start, &end, tokens_max + 1)? {
            let record: TokenRecord = decode(&value, "join token")?;
            if record.expires_ms <= now_ms {
                tx.delete(&key);
            } else {
                waiting += 1;
            }
        }
        added = waiting < tokens_max;
        if added {
            tx.put(
                &token_key(hash),
                &xdr::encode_to_vec(&TokenRecord { expires_ms }),
            );
        }
        Ok(TxOutcome::Commit)
    })?;
    Ok(added.then_some(seq))
}

/// Hash and expiry of the stored tokens.
pub(crate) fn load_tokens(
    store: &dyn MetaStore,
    tokens_max: usize,
) -> Result<Vec<([u8; 32], u64)>, MetaError> {
    let found = store.scan(&[TOKEN], &meta::prefix_end(&[TOKEN]), tokens_max)?;
    let read = |(key, value): (Bytes, Bytes)| {
        let hash = key.get(1..).and_then(|b| <[u8; 32]>::try_from(b).ok());
        let hash = hash.ok_or_else(|| MetaError::Corrupt("key of a join token".to_owned()))?;
        let record: TokenRecord = decode(&value, "join token")?;
        Ok((hash, record.expires_ms))
    };
    found.into_iter().map(read).collect()
}

/// What became of a token's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redeemed {
    Taken(Seq),
    Unknown,
    Expired,
}

/// Whether a token waits and is in time, without taking it.
pub(crate) fn token_waits(
    store: &dyn MetaStore,
    hash: &[u8; 32],
    now_ms: u64,
) -> Result<bool, MetaError> {
    let Some(value) = store.get(&token_key(hash))? else {
        return Ok(false);
    };
    Ok(decode::<TokenRecord>(&value, "join token")?.expires_ms > now_ms)
}

/// Takes a token, once, and makes the new data server's record in the same transaction.
pub(crate) fn redeem(
    store: &dyn MetaStore,
    hash: &[u8; 32],
    now_ms: u64,
    id: u32,
    record: &ServerRecord,
) -> Result<Redeemed, MetaError> {
    let key = token_key(hash);
    let mut verdict = Redeemed::Unknown;
    let seq = store.transact(&mut |tx| {
        let Some(value) = tx.get(&key)? else {
            verdict = Redeemed::Unknown;
            return Ok(TxOutcome::Abort);
        };
        let token: TokenRecord = decode(&value, "join token")?;
        tx.delete(&key);
        if token.expires_ms <= now_ms {
            verdict = Redeemed::Expired;
        } else {
            verdict = Redeemed::Taken(Seq(0));
            tx.put(&numbered(SERVER, id), &xdr::encode_to_vec(record));
        }
        Ok(TxOutcome::Commit)
    })?;
    Ok(match verdict {
        Redeemed::Taken(_) => Redeemed::Taken(seq),
        other => other,
    })
}

/// All access tokens with their numbers.
pub(crate) fn load_access(store: &dyn MetaStore) -> Result<Vec<(u32, AccessRecord)>, MetaError> {
    load(store, ACCESS, "access token")
}

/// The access token of this number.
pub(crate) fn get_access(
    store: &dyn MetaStore,
    id: u32,
) -> Result<Option<AccessRecord>, MetaError> {
    let value = store.get(&numbered(ACCESS, id))?;
    value.map(|v| decode(&v, "access token")).transpose()
}

/// Stores an access token under a number above all that were ever given; `None` when there are `tokens_max` that are not over.
pub(crate) fn put_access(
    store: &dyn MetaStore,
    record: &AccessRecord,
    is_over: impl Fn(&AccessRecord) -> bool,
    tokens_max: usize,
) -> Result<Option<(u32, Seq)>, MetaError> {
    let (start, end) = ([ACCESS], meta::prefix_end(&[ACCESS]));
    let mut made = None;
    let seq = store.transact(&mut |tx| {
        tx.purpose(Purpose::Removal);
        let (mut count, mut newest) = (0, newest_access(tx)?);
        for (key, value) in tx.scan(&start, &end, tokens_max + 1)? {
            let number = key.get(1..).and_then(|b| <[u8; 4]>::try_from(b).ok());
            let number =
                number.ok_or_else(|| MetaError::Corrupt("key of an access token".to_owned()))?;
            newest = newest.max(u32::from_be_bytes(number));
            match is_over(&decode(&value, "access token")?) {
                true => tx.delete(&key),
                false => count += 1,
            }
        }
        made = newest.checked_add(1).filter(|_| count < tokens_max);
        if let Some(id) = made {
            tx.put(&numbered(ACCESS, id), &xdr::encode_to_vec(record));
        }
        tx.put(NEWEST_ACCESS, &xdr::encode_to_vec(&made.unwrap_or(newest)));
        Ok(TxOutcome::Commit)
    })?;
    Ok(made.map(|id| (id, seq)))
}

/// The greatest number that was noted for an access token; 0 for none.
fn newest_access(tx: &mut dyn meta::Tx) -> Result<u32, MetaError> {
    let value = tx.get(NEWEST_ACCESS)?;
    value.map_or(Ok(0), |v| decode(&v, "newest access token"))
}

/// Deletes an access token; `None` when there is none of this number.
pub(crate) fn delete_access(store: &dyn MetaStore, id: u32) -> Result<Option<Seq>, MetaError> {
    let key = numbered(ACCESS, id);
    let mut was_there = false;
    let seq = store.transact(&mut |tx| {
        tx.purpose(Purpose::Removal);
        was_there = tx.get(&key)?.is_some();
        if !was_there {
            return Ok(TxOutcome::Abort);
        }
        tx.delete(&key);
        // A store of an earlier release has no note. Without one the number of the newest token would come again.
        let newest = newest_access(tx)?.max(id);
        tx.put(NEWEST_ACCESS, &xdr::encode_to_vec(&newest));
        Ok(TxOutcome::Commit)
    })?;
    Ok(was_there.then_some(seq))
}

/// Makes the store one of a release that took no note of the greatest number of an access token.
#[cfg(test)]
pub(crate) fn forget_newest_access(store: &dyn MetaStore) {
    let forgotten = store.transact(&mut |tx| {
        tx.delete(NEWEST_ACCESS);
        Ok(TxOutcome::Commit)
    });
    forgotten.unwrap();
}
