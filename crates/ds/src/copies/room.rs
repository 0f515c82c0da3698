//! Room of places: that of the fullest member in sync, less what is queued for it (rule P24).
//!
//! # Ownership
//! `own_room` measures this store; what another member has told lies in its stream.
//!
//! # Ordering
//! Asked before a change is applied. A store keeps some bytes of which its room does not tell, so what was let in by an
//! older number finds room all the same.
//!
//! # Failure
//! A room that is not known refuses nothing. A member that had none is asked again before the next refusal.

use std::time::Duration;

use layout::MemberState;
use nfs4::NfsTime;
use objects::ObjectError;
use parts::{FileGeneration, StreamItem};

use super::stream::{Head, Outcome, Owned, Stream};
use crate::apply::Change;
use crate::ds::Ds;
use crate::fault::Fault;
use crate::own_stripes::more_bytes;
use crate::part::Part;
use crate::rows::OwnRow;

/// How long a member that was full may take to say whether it still is.
const ASK_WAIT: Duration = Duration::from_secs(2);

impl Ds {
    /// Refuses a change that takes bytes for which a member in sync has no room.
    ///
    /// # Errors
    /// No space; [`Fault::Members`] when a member that had no room does not say whether it still has none.
    pub(super) async fn check_room(
        &self,
        part: Part,
        row: &OwnRow,
        change: &Change<'_>,
    ) -> Result<(), Fault> {
        let bytes = match change {
            Change::Write { data, .. } => data.len() as u64,
            Change::Reserve { own, range } => {
                more_bytes(&*self.objects, part.id, *own, *range).map_err(Fault::Object)?
            }
            _ => 0,
        };
        if bytes == 0 {
            return Ok(());
        }
        let own = &self.copies.own_room;
        if own.bytes(&*self.objects) < bytes {
            return Err(Fault::Object(ObjectError::NoSpace));
        }
        own.take(bytes);
        for member in row.row.in_state(MemberState::Sync) {
            let stream = self.copies.streams.lock().get(&member).cloned();
            let Some(stream) = stream.filter(|stream| !stream.has_room(bytes)) else {
                continue;
            };
            Box::pin(ask(part, row, &stream)).await?;
            if !stream.has_room(bytes) {
                return Err(Fault::Object(ObjectError::NoSpace));
            }
        }
        Ok(())
    }
}

/// Has a member tell its room again: bytes may have been freed there of which this server heard nothing.
async fn ask(part: Part, row: &OwnRow, stream: &Stream) -> Result<(), Fault> {
    let Some(lane) = stream.lane_to_ask() else {
        return Ok(());
    };
    let head = Head {
        group: part.group,
        place: u32::from(part.id.place),
        reign: row.row.reign,
        // The lane follows from the file.
        file: FileGeneration {
            file_id: u64::from(lane),
            generation: 0,
        },
        time: NfsTime::default(),
    };
    let Some(told) = stream.push(head, Owned::Plain(StreamItem::Nothing), true) else {
        return Ok(());
    };
    match tokio::time::timeout(ASK_WAIT, told).await {
        Ok(Ok(Outcome::Done(_) | Outcome::Full)) => Ok(()),
        _ => Err(Fault::Members),
    }
}
