//! ROWS (rules P2, P3, P21).
//!
//! # Ordering
//! Versions durable in the index, then the rows count, then the answer. Rows for which the index took until after another
//! HELLO do not count: they are told anew.

use std::collections::BTreeMap;

use control::{PlaceRow, RowsArgs, RowsOk, Status};

use crate::ds::Ds;

/// Takes rows of places.
pub(super) async fn rows(ds: &Ds, args: RowsArgs) -> Result<RowsOk, Status> {
    ds.copies.note_addresses(args.members.0);
    let newer = take_rows(ds, args.rows.0).await?;
    Ok(RowsOk {
        newer: newer.into(),
    })
}

/// Takes rows of places. Returns the groups of which a newer version was told before.
///
/// # Errors
/// `Invalid` for a row that cannot be; `TableFull`; `Io` when the index fails.
pub(crate) async fn take_rows(ds: &Ds, rows: Vec<PlaceRow>) -> Result<Vec<u32>, Status> {
    let is_sound = |told: &PlaceRow| {
        told.row.is_sound() && told.place < told.width && told.row.era <= told.version
    };
    if !rows.iter().all(is_sound) {
        return Err(Status::Invalid);
    }
    let tenure = ds.gate.tenure();
    let versions: BTreeMap<u32, u32> = rows.iter().map(|told| (told.group, told.version)).collect();
    let note = || {
        ds.index.note_group_versions(&versions).map_err(|error| {
            tracing::error!(%error, "rows of places");
            Status::Io
        })
    };
    let (newer, seq) = note()?;
    ds.index.durable(seq).await.map_err(|_| Status::Io)?;
    // Newer rows may have been taken meanwhile, and the place been left.
    let (passed, _) = note()?;
    for group in &newer {
        tracing::error!(
            group,
            "the MDS told an older version of this placement group"
        );
    }
    let taken = rows
        .into_iter()
        .filter(|told| !newer.contains(&told.group) && !passed.contains(&told.group));
    if !ds.gate.take_rows(tenure, taken) {
        return Err(Status::TableFull);
    }
    ds.copies.rows_changed();
    Ok(newer)
}
