//! What is at the servers of a file.

use crate::fail::{Fail, Failures};
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
    /// mirrors together. A stripe that all of them have lost is [`Status::NotFound`], as one that was never made: there are no bytes of it.
    ///
    /// # Errors
    /// [`FarError`] when no good mirror tells of some stripe, or those that answer have lost it.
    pub async fn stat(&self, at: &FileAt) -> Result<Vec<StatItem>, FarError> {
        let mirrors = self.mirrors(at)?;
        let (done, failures) = self
            .each_object(&mirrors, |_, _, spot| async move {
                let (nfs, who) = (&spot.server.nfs, &spot.server.root_caller);
                let stat = |fh| async move { nfs.getattr(who, &fh).await };
                match self.with(&spot, stat).await {
                    Ok(Some(attributes)) => Ok(Seen::There(attributes)),
                    Ok(None) => Ok(Seen::Missing),
                    Err(Fail::Lost) => Ok(Seen::Lost),
                    Err(fail) => Err(fail),
                }
            })
            .await;
        (0..mirrors.group.width)
            .map(|stripe| {
                let told = done.iter().filter(|(_, of, _)| *of == stripe);
                one_of(told.map(|(_, _, seen)| *seen), &failures)
            })
            .collect()
    }
}

/// What a mirror tells of an object.
#[derive(Clone, Copy)]
enum Seen {
    There(Fattr3),
    Missing,
    /// It was made, and is missing.
    Lost,
}

/// The item of one stripe, from what its mirrors told: the first that has the object. A mirror that does not answer may have what
/// the others have lost.
fn one_of(
    told: impl Iterator<Item = Seen> + Clone,
    failures: &Failures,
) -> Result<StatItem, FarError> {
    let mut there = told.clone().filter_map(|seen| match seen {
        Seen::There(attributes) => Some(attributes),
        Seen::Missing | Seen::Lost => None,
    });
    let Some(first) = there.next() else {
        let may_be_elsewhere =
            failures.mirrors != 0 && !told.clone().any(|seen| matches!(seen, Seen::Missing));
        return match told.count() == 0 || may_be_elsewhere {
            true => Err(failures.error()),
            false => Ok(MISSING),
        };
    };
    let others: u64 = there.map(|a| a.used).fold(0, u64::saturating_add);
    Ok(StatItem {
        status: Status::Ok,
        size_bytes: first.size,
        durable_bytes: first.size,
        space_bytes: first.used.saturating_add(others),
        modified: NfsTime {
            seconds: i64::from(first.mtime.seconds),
            nanoseconds: first.mtime.nanoseconds.min(999_999_999),
        },
    })
}
