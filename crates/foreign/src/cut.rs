//! The end of a file, set at each of its objects. Those that write by an older layout are kept out first.
//!
//! # Failure
//! An object that is lost has nothing to be cut. Where another mirror was cut the one that lacks it fails. Where none was whole the
//! file stays an error to its readers, and its truncation is done: it would wait for ever otherwise.

use crate::dirs::Missing;
use crate::fail::{Fail, Failures};
use crate::file_at::FileAt;
use crate::foreign::Foreign;
use crate::object::{IfNewer, Spot};
use crate::refusals::FarError;
use nfs3::Sattr3;
use nfs4::NfsStatus;

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// It ends there, or was never made.
    Done,
    /// It was made and is gone, or its server is.
    Lost,
    /// The file has a newer epoch.
    Refused,
}

impl Foreign {
    /// Cuts each object of the good mirrors to `size`, or makes it as long. They have the ids of the epoch before. An object that was
    /// never made stays so. One that is lost is made again where `size` is 0: none of its bytes is needed. Nobody may read the file
    /// before all have been cut. Returns the mirrors that failed, for the caller to mark bad.
    ///
    /// # Errors
    /// [`FarError`] when no mirror did it; `Delay` without a mirror when the file has a newer epoch already.
    pub async fn cut(&self, at: &FileAt, size: u64) -> Result<u32, FarError> {
        let mirrors = self.mirrors(at)?;
        let epoch = at.epoch;
        let (done, mut failures) = self
            .each_place(&mirrors, |_, _, spot| async move {
                let cut = match spot {
                    Ok(spot) => self.cut_object(&spot, epoch, size).await,
                    Err(fail) => Err(fail),
                };
                match cut {
                    // No mirror is to blame.
                    Err(Fail::Newer) => Ok(Cut::Refused),
                    Err(Fail::Lost | Fail::Removed) => Ok(Cut::Lost),
                    cut => cut.map(|()| Cut::Done),
                }
            })
            .await;
        if done.iter().any(|(_, _, cut)| *cut == Cut::Refused) {
            return Err(FarError::of(NfsStatus::Delay));
        }
        let lost = done.iter().filter(|(_, _, cut)| *cut == Cut::Lost);
        let lost = lost.fold(0, |all, (mirror, _, _)| all | 1 << mirror);
        if lost == mirrors.good && failures == Failures::default() {
            tracing::warn!(
                file = at.number,
                size,
                "a file is cut of which no mirror is whole"
            );
            return Ok(0);
        }
        for mirror in mirrors.each().filter(|mirror| lost & (1 << mirror) != 0) {
            failures.add(mirror, NfsStatus::Io);
        }
        failures.of_some(mirrors.good)
    }

    async fn cut_object(&self, spot: &Spot, epoch: u64, size: u64) -> Result<(), Fail> {
        let is_anew = spot.was_made && size == 0;
        let missing = match is_anew {
            true => Missing::MadeAnew,
            false => Missing::Left,
        };
        let (nfs, who) = (&spot.server.nfs, &spot.server.root_caller);
        let wanted = &Sattr3 {
            size: Some(size),
            ..Sattr3::default()
        };
        let cut = |fh| async move { nfs.setattr(who, &fh, wanted, None).await };
        // The handle that is known may be of an object that is lost.
        let mut tries = u32::from(is_anew);
        loop {
            self.give(spot, epoch, missing, IfNewer::Refuse).await?;
            match self.with(spot, &cut).await {
                Err(Fail::Lost) if tries > 0 => tries -= 1,
                cut => return cut.map(drop),
            }
        }
    }
}
