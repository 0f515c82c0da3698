//! The newest version of each placement group that the MDS told (rule P21): it never falls.
//!
//! Owns the keys `g` of the index. May call the index alone.

use std::collections::BTreeMap;

use meta::{MetaError, Purpose, Seq, TxOutcome};

use crate::index::{Index, group_key, put, value};

impl Index {
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
