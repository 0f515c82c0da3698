//! The newest version of each placement group that the MDS told (rule P21): it never falls.
//!
//! Owns the keys `g` of the index. May call the index alone.

use std::collections::BTreeMap;

use control::{GROUP_VERSIONS_MAX, GroupVersion};
use meta::{MetaError, Purpose, Seq, TxOutcome};

use crate::index::{Index, decoded, group_key, put, value};

impl Index {
    /// The newest version of each group that the MDS told; at most as many as HELLO takes.
    ///
    /// # Errors
    /// [`MetaError`].
    pub(crate) fn group_versions(&self) -> Result<Vec<GroupVersion>, MetaError> {
        let limit = GROUP_VERSIONS_MAX as usize;
        let (start, end) = (group_key(0), meta::prefix_end(b"g"));
        let pairs = self.store.scan(&start, &end, limit)?;
        let mut known = Vec::with_capacity(pairs.len());
        for (key, version) in pairs {
            let version = decoded(&version)?;
            let group = key.get(1..).and_then(|id| id.try_into().ok());
            let group = group.map(u32::from_be_bytes);
            let group = group.ok_or_else(|| MetaError::Corrupt("a placement group".to_owned()))?;
            known.push(GroupVersion { group, version });
        }
        Ok(known)
    }

    /// Notes versions of placement groups that the MDS told. Returns the groups of which a newer one was told before,
    /// and what makes the others durable.
    pub(crate) fn note_group_versions(
        &self,
        versions: &BTreeMap<u32, u32>,
    ) -> Result<(Vec<u32>, Seq), MetaError> {
        let mut newer = Vec::new();
        let mut risen = Vec::new();
        for (group, version) in versions {
            match value::<u32>(&*self.store, &group_key(*group))? {
                Some(known) if known > *version => newer.push(*group),
                Some(known) if known == *version => {}
                _ => risen.push((group_key(*group), *version)),
            }
        }
        if risen.is_empty() {
            return Ok((newer, self.store.applied()));
        }
        let seq = self.transact(&mut |tx| {
            tx.purpose(Purpose::Removal);
            for (key, version) in &risen {
                // Another call may have noted a newer one.
                let known: u32 = value(tx, key)?.unwrap_or(0);
                put(tx, key, &known.max(*version));
            }
            Ok(TxOutcome::Commit)
        })?;
        Ok((newer, seq))
    }
}
