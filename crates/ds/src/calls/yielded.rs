//! YIELD (rule P14): this server lets go of places of which it is primary.
//!
//! # Ordering
//! Nothing more is let in, what was let in ends, the members in sync apply what they were passed, then the answer.
//!
//! # Failure
//! When it cannot be done in time this server takes the places back, and the answer says so. A server whose answer is lost
//! says HELLO again, which brings the places back.

use std::time::Duration;

use control::{PlaceReign, Status};
use transport::ConnHandle;

use crate::ds::Ds;

/// How long what was let in may take.
const DRAIN_WAIT: Duration = Duration::from_secs(8);

/// Lets go of places.
///
/// # Errors
/// `NotPrimary` when they are not this server's; `TryLater` when what goes on does not end in time, or a member in sync
/// does not take it.
pub(super) async fn yield_places(
    ds: &Ds,
    conn: &ConnHandle,
    places: &[PlaceReign],
) -> Result<(), Status> {
    if !ds.gate.let_go(conn, places) {
        return Err(Status::NotPrimary);
    }
    let drained = async {
        ds.gate.drain_all().await;
        ds.drain_streams(places).await
    };
    match tokio::time::timeout(DRAIN_WAIT, drained).await {
        Ok(true) => Ok(()),
        _ => {
            ds.gate.take_back(conn, places);
            Err(Status::TryLater)
        }
    }
}
