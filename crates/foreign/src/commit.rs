//! COMMIT at all good mirrors, and one write verifier for all servers of a file (rule R11).

use crate::file_at::{FarCommitted, FileAt};
use crate::foreign::Foreign;
use crate::refusals::FarError;
use nfs4::Verifier;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

impl Foreign {
    /// Makes what was written to a file durable at all good mirrors. It succeeds where one of them did it.
    ///
    /// # Errors
    /// [`FarError`] when no mirror did it, or one had no room for what was written before.
    pub async fn commit(&self, at: &FileAt) -> Result<FarCommitted, FarError> {
        let mirrors = self.mirrors(at)?;
        let (done, failures) = self
            .each_object(&mirrors, |_, _, spot| async move {
                let (nfs, who) = (&spot.server.nfs, &spot.server.root_caller);
                let commit = |fh| async move { nfs.commit(who, &fh, 0, 0).await };
                let ok = self.with(&spot, commit).await?;
                Ok(ok.map(|ok| (spot.server.id, spot.server.saw(ok.verf))))
            })
            .await;
        let failed_mirrors = failures.of_some(mirrors.good)?;
        let seen: BTreeMap<u32, Verifier> =
            done.into_iter().filter_map(|(_, _, seen)| seen).collect();
        Ok(FarCommitted {
            verifier: self.verifier(at, &seen),
            verifiers: seen,
            failed_mirrors,
        })
    }

    /// One write verifier for those of the servers of a file: as in `seen`, and else as last seen. A server that restarted between
    /// WRITE and COMMIT changes it.
    #[must_use]
    pub fn verifier(&self, at: &FileAt, seen: &BTreeMap<u32, Verifier>) -> Verifier {
        let mut hasher = DefaultHasher::new();
        let group = self.group(at.group);
        for id in group.iter().flat_map(|group| &group.servers) {
            let last = || self.server(*id).and_then(|server| *server.verifier.lock());
            let verifier = seen.get(id).copied().or_else(last);
            hasher.write(&verifier.unwrap_or_default().bytes);
        }
        Verifier {
            bytes: hasher.finish().to_be_bytes(),
        }
    }
}
