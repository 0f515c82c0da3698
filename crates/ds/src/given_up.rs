//! A primary whose disk fails hands its places to members whose disks do not (rule P24).
//!
//! # Ownership
//! `failing` has the places that are to be given up. The HEARTBEAT names them, out of turn the first time. The MDS then
//! has this server let go of them (YIELD), as for any other handover, and makes it stale there.
//!
//! # Ordering
//! An operation that failed is no longer in flight when it waits for the handover, which waits for what is in flight. Its
//! client then asks for a new layout, and does it again at the new primary.
//!
//! # Failure
//! Without another member in sync the client is told of the error. One that waits too long is told to come again later.

use std::time::Duration;

use control::PlaceReign;
use layout::MemberState;

use crate::ds::Ds;
use crate::fault::Fault;
use crate::gate::Admitted;
use crate::part::Part;

/// How long an operation waits for another primary.
const GIVE_UP_WAIT: Duration = Duration::from_secs(3);

impl Ds {
    /// What the MDS is told of a fault: to try again when the place is given up for it.
    pub(crate) fn given_up(&self, part: Part, fault: Fault) -> Fault {
        match self.give_up(part, &fault) {
            Some(_) => Fault::Members,
            None => fault,
        }
    }

    /// What a client is told of a fault that ended its operation. Waits until another member is primary, if the place is
    /// given up for it.
    pub(crate) async fn after_fault(&self, part: Part, admitted: Admitted, fault: Fault) -> Fault {
        drop(admitted);
        let Some(reign) = self.give_up(part, &fault) else {
            return fault;
        };
        let Ok(_held) = self.held.try_acquire() else {
            return Fault::Members;
        };
        let is_over = || (!self.gate.reigns(part, reign)).then_some(());
        match self.gate.until_rows(GIVE_UP_WAIT, is_over).await {
            Some(()) => Fault::NotPrimary,
            None => Fault::Members,
        }
    }

    /// Notes that a place is to be given up, if a fault is one of the disk and another member is in sync. Returns the reign
    /// that is to end.
    fn give_up(&self, part: Part, fault: &Fault) -> Option<u32> {
        if part.group == 0 || !fault.is_of_disk() {
            return None;
        }
        let row = self.gate.primary_row(part)?;
        let mut in_sync = row.row.in_state(MemberState::Sync);
        in_sync.find(|ds| *ds != row.row.primary)?;
        self.note(part.id, fault);
        let place = PlaceReign {
            group: part.group,
            place: u32::from(part.id.place),
            reign: row.row.reign,
        };
        if self.failing.note(place) {
            self.announced.wake.notify_one();
        }
        Some(place.reign)
    }

    /// The places that are still to be given up.
    pub(crate) fn failing_places(&self) -> Vec<PlaceReign> {
        self.failing.still(|place| {
            let is_it = self.gate.with_rows(|rows, ds_id| {
                let row = rows.of(place.group, place.place);
                row.is_some_and(|r| (r.row.primary, r.row.reign) == (ds_id, place.reign))
            });
            is_it.unwrap_or(false)
        })
    }
}
