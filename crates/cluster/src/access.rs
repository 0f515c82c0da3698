//! Access tokens of the administration API: made, listed, checked and revoked. Records `y`; only hashes are kept.
//!
//! # Failure
//! A token is good only after its record is durable. A revocation counts at once, and is durable before it is told.

use crate::cluster::Cluster;
use crate::records::{self, AccessRecord, AccessRole};
use cluster_tls::{ACCESS_TOKENS_MAX, AccessName, AccessSecret};
use meta::MetaError;

/// Why a token is not made, or not taken.
#[derive(Debug)]
pub enum AccessError {
    /// [`ACCESS_TOKENS_MAX`] tokens are there.
    Full,
    /// There is none of this number, or its secret is another.
    Unknown,
    /// Its time is over.
    Expired,
    /// The store failed.
    Store(MetaError),
}

impl std::fmt::Display for AccessError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => write!(
                f,
                "there are {ACCESS_TOKENS_MAX} access tokens already; revoke one first"
            ),
            Self::Unknown => f.write_str("there is no such access token"),
            Self::Expired => f.write_str("the access token has expired"),
            Self::Store(e) => write!(f, "metadata store: {e}"),
        }
    }
}

impl std::error::Error for AccessError {}

impl From<MetaError> for AccessError {
    fn from(e: MetaError) -> Self {
        Self::Store(e)
    }
}

/// Makes a token; its number. Tokens whose time is over make room. No number comes again, so that a repeated revocation cannot
/// meet another token.
///
/// # Errors
/// [`AccessError::Full`] or [`AccessError::Store`].
pub async fn add_access(
    cluster: &Cluster,
    name: AccessName,
    role: AccessRole,
    secret: &AccessSecret,
    ttl_ms: Option<u64>,
) -> Result<u32, AccessError> {
    let now_ms = cluster.now_wall_ms();
    let record = AccessRecord {
        name,
        role,
        hash: secret.hash(),
        made_ms: now_ms,
        expires_ms: ttl_ms.map_or(0, |ttl| now_ms.saturating_add(ttl)),
    };
    let is_over = |old: &AccessRecord| is_over(old, now_ms);
    let stored = records::put_access(&*cluster.store, &record, is_over, ACCESS_TOKENS_MAX)?;
    let (id, seq) = stored.ok_or(AccessError::Full)?;
    cluster.store.durable(seq).await?;
    Ok(id)
}

/// All tokens with their numbers, those whose time is over included.
///
/// # Errors
/// [`AccessError::Store`].
pub fn access_tokens(cluster: &Cluster) -> Result<Vec<(u32, AccessRecord)>, AccessError> {
    Ok(records::load_access(&*cluster.store)?)
}

/// Takes a token back.
///
/// # Errors
/// [`AccessError::Unknown`] or [`AccessError::Store`].
pub async fn revoke_access(cluster: &Cluster, id: u32) -> Result<(), AccessError> {
    let seq = records::delete_access(&*cluster.store, id)?;
    let seq = seq.ok_or(AccessError::Unknown)?;
    Ok(cluster.store.durable(seq).await?)
}

/// The token of this number, if the secret is its own and its time is not over.
///
/// # Errors
/// [`AccessError`].
pub fn check_access(
    cluster: &Cluster,
    id: u32,
    secret: &AccessSecret,
) -> Result<AccessRecord, AccessError> {
    let record = records::get_access(&*cluster.store, id)?.ok_or(AccessError::Unknown)?;
    if !secret.has_hash(&record.hash) {
        return Err(AccessError::Unknown);
    }
    match is_over(&record, cluster.now_wall_ms()) {
        true => Err(AccessError::Expired),
        false => Ok(record),
    }
}

fn is_over(record: &AccessRecord, now_ms: u64) -> bool {
    record.expires_ms != 0 && record.expires_ms <= now_ms
}

#[cfg(test)]
mod tests {
    //! Goal: tokens are bounded in number, make room when they are over, and can be taken back.
    use super::*;
    use meta::MemStore;

    fn record(expires_ms: u64) -> AccessRecord {
        AccessRecord {
            name: AccessName::cut("x"),
            role: AccessRole::Viewer,
            hash: [1; 32],
            made_ms: 0,
            expires_ms,
        }
    }

    /// Stores a token that ends at `expires_ms`. Returns its number, if there was room.
    fn put(store: &MemStore, (expires_ms, now_ms): (u64, u64), tokens_max: usize) -> Option<u32> {
        let is_over = |old: &AccessRecord| is_over(old, now_ms);
        let put = records::put_access(store, &record(expires_ms), is_over, tokens_max);
        put.unwrap().map(|(id, _)| id)
    }

    #[test]
    fn tokens_that_are_over_make_room_and_numbers_go_on() {
        let store = MemStore::new();
        let put = |expires_ms, now_ms| put(&store, (expires_ms, now_ms), 2);
        assert_eq!(put(0, 10), Some(1));
        assert_eq!(put(20, 10), Some(2));
        assert_eq!(put(0, 19), None, "two are there");
        assert_eq!(put(0, 20), Some(3), "the second is over");
        let ids = |store: &MemStore| -> Vec<u32> {
            let all = records::load_access(store).unwrap();
            all.into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(ids(&store), [1, 3]);
        assert!(records::delete_access(&store, 1).unwrap().is_some());
        assert!(records::delete_access(&store, 1).unwrap().is_none());
        assert!(records::get_access(&store, 1).unwrap().is_none());
        assert_eq!(records::get_access(&store, 3).unwrap(), Some(record(0)));
    }

    #[test]
    fn the_number_of_a_revoked_token_never_comes_again() {
        let store = MemStore::new();
        let put = |expires_ms, now_ms| put(&store, (expires_ms, now_ms), 1);
        let revoke = |id| records::delete_access(&store, id).unwrap().is_some();
        assert_eq!(put(0, 10), Some(1));
        assert!(revoke(1));
        assert_eq!(put(20, 10), Some(2));
        assert!(!revoke(1), "a retry");
        assert_eq!(put(0, 20), Some(3), "the second is over");
        assert!(revoke(3));
        assert_eq!(put(0, 20), Some(4));
    }

    #[test]
    fn a_store_of_an_earlier_release_takes_note_when_a_token_goes() {
        let store = MemStore::new();
        assert_eq!(put(&store, (0, 0), 9), Some(1));
        assert_eq!(put(&store, (0, 0), 9), Some(2));
        records::forget_newest_access(&store);
        assert!(records::delete_access(&store, 2).unwrap().is_some());
        assert_eq!(put(&store, (0, 0), 9), Some(3));
    }
}
