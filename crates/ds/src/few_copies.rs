//! Places with fewer members in sync than `copies_min`: changes wait, promises do not leave, reads go on (rule P20).
//!
//! # Ownership
//! The MDS says with each row how many members must be in sync; the gate refuses changes by it. This file waits, and asks
//! again before a promise leaves.
//!
//! # Ordering
//! A promise asks when its members have answered. A member that was left out meanwhile is in sync no more then; one that
//! is in sync has all that was applied before it became so.
//!
//! # Failure
//! A client whose change waits too long is told to come again later. A refused change was not applied.

use std::time::Duration;

use crate::ds::{Ds, NotAdmitted};
use crate::fault::Fault;
use crate::gate::{Admitted, Refused};
use crate::part::Part;

/// How long a change waits for copies before its client is told to come again later: reads need its slot of the session.
const COPIES_WAIT: Duration = Duration::from_secs(3);

impl Ds {
    /// Waits until `admit` refuses no more for want of copies. `None` when it goes on to.
    pub(crate) async fn until_copies(
        &self,
        admit: impl Fn() -> Result<Admitted, NotAdmitted>,
    ) -> Option<Result<Admitted, NotAdmitted>> {
        let look = || match admit() {
            Err(NotAdmitted::Refused(Refused::FewCopies { .. })) => None,
            other => Some(other),
        };
        self.gate.until_rows(COPIES_WAIT, look).await
    }

    /// Before a promise leaves, and before a change for which the MDS asks.
    ///
    /// # Errors
    /// [`Fault::Members`] while fewer members of the place are in sync than must be; [`Fault::NotPrimary`].
    pub(crate) fn check_copies(&self, part: Part) -> Result<(), Fault> {
        if part.group == 0 {
            return Ok(());
        }
        let row = self.gate.primary_row(part).ok_or(Fault::NotPrimary)?;
        match row.has_copies() {
            true => Ok(()),
            false => Err(Fault::Members),
        }
    }

    /// Makes all that was applied to a part durable at enough members.
    ///
    /// # Errors
    /// As [`Ds::promise`] and [`Ds::check_copies`].
    pub(crate) async fn promise_copies(&self, part: Part) -> Result<(), Fault> {
        self.promise(part).await?;
        self.check_copies(part)
    }
}
