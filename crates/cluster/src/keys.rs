//! The live keys, and when each was made.

use crate::records::{self, StoredKey};
use control::KeySet;
use layout::{KeyBytes, KeyRecord, KeyRing, KeyState, SigningKey};
use meta::{MetaError, MetaStore, Seq};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long keys are used, in milliseconds of wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTimes {
    /// A new key is made when the active one is as old.
    pub rotation_ms: u64,
    /// When a new key is as old, layouts that need an older one are recalled.
    pub overlap_ms: u64,
}

/// A live key, for status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyStatus {
    /// Its id.
    pub id: u32,
    /// Its state.
    pub state: KeyState,
    /// When it was made: milliseconds since 1970.
    pub made_ms: u64,
}

/// What [`rotate_key`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotatedKey {
    /// Id of the new key.
    pub id: u32,
    /// Whether it signs already; if not, a data server has yet to take it.
    pub signs: bool,
}

/// Which keys a data server has, as far as it matters there: all live ones verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HeldKeys {
    pub(crate) newest_id: u32,
    pub(crate) retired_through: u32,
}

/// The live keys.
pub(crate) struct Keys {
    pub(crate) ring: KeyRing,
    /// When each was made.
    pub(crate) made_ms: BTreeMap<u32, u64>,
}

pub(crate) fn fresh_key(id: u32, random: &Arc<dyn Fn() -> u64 + Send + Sync>) -> SigningKey {
    let mut bytes = [0; layout::KEY_BYTES];
    for part in bytes.chunks_exact_mut(8) {
        part.copy_from_slice(&random().to_be_bytes());
    }
    SigningKey::new(id, KeyBytes::from_random(bytes))
}

impl Keys {
    /// The stored keys; the first one is made here. Serve nothing before the returned transaction is durable.
    pub(crate) fn open(
        store: &dyn MetaStore,
        random: &Arc<dyn Fn() -> u64 + Send + Sync>,
        now_ms: u64,
    ) -> Result<(Self, Seq), MetaError> {
        let stored = records::load_keys(store)?;
        let records: Vec<KeyRecord> = stored.iter().map(|s| s.key.clone()).collect();
        // Ids rise by one and the oldest retire first, so below the lowest everything has.
        let retired_through = records.iter().map(|r| r.id).min().unwrap_or(1) - 1;
        let ring = KeyRing::from_records(&records, retired_through)
            .map_err(|e| MetaError::Corrupt(format!("signing keys: {e}")))?;
        let mut keys = Self {
            ring,
            made_ms: stored.iter().map(|s| (s.key.id, s.made_ms)).collect(),
        };
        if keys.ring.active().is_some() {
            return Ok((keys, store.applied()));
        }
        let key = fresh_key(keys.ring.newest_id() + 1, random);
        keys.made_ms.insert(key.id(), now_ms);
        keys.ring
            .insert_active(key)
            .map_err(|e| MetaError::Corrupt(format!("signing keys: {e}")))?;
        let seq = records::put_keys(store, &keys.stored(&keys.ring))?;
        Ok((keys, seq))
    }

    pub(crate) fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// The message for data servers, and what they have once they took it.
    pub(crate) fn to_send(&self) -> (KeySet, HeldKeys) {
        (KeySet::of(&self.ring), self.held())
    }

    pub(crate) fn held(&self) -> HeldKeys {
        HeldKeys {
            newest_id: self.ring.newest_id(),
            retired_through: self.ring.retired_through(),
        }
    }

    pub(crate) fn stored(&self, ring: &KeyRing) -> Vec<StoredKey> {
        let stored = |key: KeyRecord| StoredKey {
            made_ms: self.made_ms.get(&key.id).copied().unwrap_or(0),
            key,
        };
        ring.records().into_iter().map(stored).collect()
    }

    /// Whether the active key is old enough for another. One from far in the future was made by a wrong clock.
    pub(crate) fn is_due(&self, now_ms: u64, rotation_ms: u64) -> bool {
        let active = self.ring.active().map(SigningKey::id);
        let made_ms = active.and_then(|id| self.made_ms.get(&id)).copied();
        let old = made_ms.is_none_or(|made| now_ms.abs_diff(made) >= rotation_ms);
        let room = self.ring.records().len() < layout::KEYS_MAX as usize;
        old && room && self.ring.next().is_none()
    }

    /// The newest key whose layouts may be recalled: the one that signs after it is older than the overlap.
    pub(crate) fn overdue(&self, now_ms: u64, overlap_ms: u64) -> Option<u32> {
        let active = self.ring.active()?.id();
        let mut successors = self.made_ms.range(..=active).rev();
        let old = |made: u64| now_ms.abs_diff(made) >= overlap_ms;
        let (id, _) = successors.find(|(_, made)| old(**made))?;
        let overdue = id - 1;
        (overdue > self.ring.retired_through()).then_some(overdue)
    }

    pub(crate) fn status(&self) -> Vec<KeyStatus> {
        let status = |s: StoredKey| KeyStatus {
            id: s.key.id,
            state: s.key.state,
            made_ms: s.made_ms,
        };
        self.stored(&self.ring).into_iter().map(status).collect()
    }
}
