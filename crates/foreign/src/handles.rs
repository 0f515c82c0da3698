//! The objects of a file for a layout, and ahead of one.

use crate::dirs::Missing;
use crate::fail::Fail;
use crate::file_at::{FileAt, PlacedObject};
use crate::foreign::Foreign;
use crate::object::IfNewer;
use crate::refusals::FarError;

impl Foreign {
    /// The objects of each good mirror, by stripe. Missing ones are made, and all have the ids of the epoch then.
    ///
    /// # Errors
    /// [`FarError`]: `Delay` while a server is down, and when the file has a newer epoch already. The latter names no mirror.
    pub async fn handles(&self, at: &FileAt) -> Result<Vec<Vec<PlacedObject>>, FarError> {
        let mirrors = self.mirrors(at)?;
        let epoch = at.epoch;
        let (done, failures) = self
            .each_object(&mirrors, |_, _, spot| async move {
                match self
                    .give(&spot, epoch, Missing::Made, IfNewer::Refuse)
                    .await
                {
                    Ok(Some(fh)) => Ok(Some((spot.server.id, fh))),
                    Ok(None) => Err(Fail::Wrong("an object was not made")),
                    // No mirror is to blame.
                    Err(Fail::Newer) => Ok(None),
                    Err(fail) => Err(fail),
                }
            })
            .await;
        if failures.mirrors != 0 {
            return Err(failures.error());
        }
        let mut out: Vec<Vec<PlacedObject>> = Vec::new();
        for (mirror, stripe, object) in done {
            let Some((server, fh)) = object else {
                return Err(FarError::of(nfs4::NfsStatus::Delay));
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

    /// As [`Foreign::handles`], for what is needed later.
    ///
    /// # Errors
    /// As [`Foreign::handles`].
    pub async fn make(&self, at: &FileAt) -> Result<(), FarError> {
        self.handles(at).await.map(drop)
    }
}
