//! What is at the servers of a file.

use crate::fail::Failures;
use crate::file_at::FileAt;
use crate::foreign::Foreign;
use crate::refusals::FarError;
use control::{StatItem, Status};
use nfs3::Fattr3;
use nfs4::NfsTime;

/// An object that is not there.
const MISSING: StatItem = StatItem {
    status: Status::NotFound,
    size_bytes: 0,
    durable_bytes: 0,
    space_bytes: 0,
    modified: NfsTime {
        seconds: 0,
        nanoseconds: 0,
    },
};

impl Foreign {
    /// What is at the servers of a file: one item a stripe, from the first good mirror that answers. Its space is that of all good
    /// mirrors together.
    ///
    /// # Errors
    /// [`FarError`] when no good mirror tells of some stripe.
    pub async fn stat(&self, at: &FileAt) -> Result<Vec<StatItem>, FarError> {
        let mirrors = self.mirrors(at)?;
        let (done, failures) = self
            .each_object(&mirrors, |_, _, spot| async move {
                let (nfs, who) = (&spot.server.nfs, &spot.server.root_caller);
                let stat = |fh| async move { nfs.getattr(who, &fh).await };
                self.with(&spot, stat).await
            })
            .await;
        (0..mirrors.group.width)
            .map(|stripe| {
                let told = done.iter().filter(|(_, of, _)| *of == stripe);
                one_of(told.map(|(_, _, attributes)| *attributes), &failures)
            })
            .collect()
    }
}

/// The item of one stripe, from what its mirrors told: the first that has the object.
fn one_of(
    told: impl Iterator<Item = Option<Fattr3>>,
    failures: &Failures,
) -> Result<StatItem, FarError> {
    let mut told = told.peekable();
    if told.peek().is_none() {
        return Err(failures.error());
    }
    let mut there = told.flatten();
    let first = there.next();
    let others: u64 = there.map(|a| a.used).fold(0, u64::saturating_add);
    Ok(match first {
        None => MISSING,
        Some(attributes) => StatItem {
            status: Status::Ok,
            size_bytes: attributes.size,
            durable_bytes: attributes.size,
            space_bytes: attributes.used.saturating_add(others),
            modified: NfsTime {
                seconds: i64::from(attributes.mtime.seconds),
                nanoseconds: attributes.mtime.nanoseconds.min(999_999_999),
            },
        },
    })
}
