//! The objects of a file for a layout, and ahead of one.

use crate::dirs::Missing;
use crate::fail::Fail;
use crate::file_at::{FileAt, PlacedObject};
use crate::foreign::Foreign;
use crate::object::IfNewer;
use crate::refusals::FarError;
use nfs3_client::Fh;
use nfs4::NfsStatus;

/// What became of an object that a layout is to name.
enum Found {
    At(u32, Fh),
    Missing,
    /// Its file has a newer epoch.
    Newer,
}

impl Foreign {
    /// The objects of each good mirror, by stripe. Missing ones are made, and all have the ids of the epoch then. An object that is
    /// missing at one mirror and there at another fails its mirror: an empty one in its place would read as zeros. So does each one
    /// that was made and is missing.
    ///
    /// # Errors
    /// [`FarError`]: `Delay` while a server is down, and when the file has a newer epoch already. The latter names no mirror. `Io` when
    /// some stripe is lost at all mirrors that count.
    pub async fn handles(&self, at: &FileAt) -> Result<Vec<Vec<PlacedObject>>, FarError> {
        let found = self.objects(at, Missing::Left).await?;
        let is_there = |stripe: u32| {
            let of_it = found.iter().filter(|(_, of, _)| *of == stripe);
            of_it
                .clone()
                .any(|(_, _, object)| matches!(object, Found::At(..)))
        };
        let missing = found
            .iter()
            .filter(|(_, _, object)| matches!(object, Found::Missing));
        let lost = missing
            .clone()
            .filter(|(_, stripe, _)| at.has_objects || is_there(*stripe));
        let lost = lost.fold(0, |all, (mirror, _, _)| all | 1 << mirror);
        if lost != 0 {
            let is_all = missing.clone().any(|(_, stripe, _)| !is_there(*stripe));
            return Err(FarError {
                status: match at.has_objects && is_all {
                    true => NfsStatus::Io,
                    false => NfsStatus::Delay,
                },
                failed_mirrors: lost,
            });
        }
        let found = match missing.count() {
            0 => found,
            _ => self.objects(at, Missing::Made).await?,
        };
        self.by_mirror(found)
    }

    /// Makes the objects of a new file, at all of its mirrors, for what is needed later. It takes one CREATE at each server, and
    /// all are made at the same time. Nobody may have written to the file.
    ///
    /// # Errors
    /// As [`Foreign::handles`].
    pub async fn make(&self, at: &FileAt) -> Result<(), FarError> {
        let made = self.objects(at, Missing::MadeUnseen).await?;
        self.by_mirror(made).map(drop)
    }

    /// The objects of the good mirrors: mirror, stripe, and what became of each.
    async fn objects(
        &self,
        at: &FileAt,
        missing: Missing,
    ) -> Result<Vec<(u32, u32, Found)>, FarError> {
        let mirrors = self.mirrors(at)?;
        let epoch = at.epoch;
        let (done, failures) = self
            .each_object(&mirrors, |_, _, spot| async move {
                match self.give(&spot, epoch, missing, IfNewer::Refuse).await {
                    Ok(Some(fh)) => Ok(Found::At(spot.server.id, fh)),
                    Ok(None) => Ok(Found::Missing),
                    // No mirror is to blame.
                    Err(Fail::Newer) => Ok(Found::Newer),
                    Err(fail) => Err(fail),
                }
            })
            .await;
        match failures.mirrors {
            0 => Ok(done),
            _ => Err(failures.error()),
        }
    }

    fn by_mirror(
        &self,
        objects: Vec<(u32, u32, Found)>,
    ) -> Result<Vec<Vec<PlacedObject>>, FarError> {
        let mut out: Vec<Vec<PlacedObject>> = Vec::new();
        for (mirror, stripe, object) in objects {
            let Found::At(server, fh) = object else {
                return Err(FarError::of(NfsStatus::Delay));
            };
            let object = PlacedObject {
                server,
                mirror,
                stripe,
                device: self.name_of(server),
                fh,
            };
            match out.last_mut() {
                Some(row) if row.last().is_some_and(|last| last.mirror == mirror) => {
                    row.push(object);
                }
                _ => out.push(vec![object]),
            }
        }
        Ok(out)
    }
}
