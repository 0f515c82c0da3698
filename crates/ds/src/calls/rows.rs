//! ROWS (rules P2, P3, P21).
//!
//! # Ordering
//! Versions durable in the index, then the rows count, then the answer.

use std::collections::BTreeMap;

use control::{PlaceRow, RowsArgs, RowsOk, Status};

use crate::ds::Ds;

/// Takes rows of places.
pub(super) async fn rows(ds: &Ds, args: RowsArgs) -> Result<RowsOk, Status> {
    let is_sound = |told: &PlaceRow| {
        told.row.is_sound() && told.place < told.width && told.row.era <= told.version
    };
    if !args.rows.0.iter().all(is_sound) {
        return Err(Status::Invalid);
    }
    let versions: BTreeMap<u32, u32> = args
        .rows
        .0
        .iter()
        .map(|told| (told.group, told.version))
        .collect();
    let (newer, seq) = ds.index.note_group_versions(&versions).map_err(|error| {
        tracing::error!(%error, "rows of places");
        Status::Io
    })?;
    ds.index.durable(seq).await.map_err(|_| Status::Io)?;
    for group in &newer {
        tracing::error!(
            group,
            "the MDS told an older version of this placement group"
        );
    }
    let rows = args.rows.0.into_iter();
    let taken = rows.filter(|told| !newer.contains(&told.group));
    if !ds.gate.take_rows(taken) {
        return Err(Status::TableFull);
    }
    let newer = newer.into();
    Ok(RowsOk { newer })
}
