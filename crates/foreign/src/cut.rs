//! The end of a file, set at each of its objects. Those that write by an older layout are kept out first.

use crate::dirs::Missing;
use crate::fail::Fail;
use crate::file_at::FileAt;
use crate::foreign::Foreign;
use crate::object::IfNewer;
use crate::refusals::FarError;
use nfs3::Sattr3;
use nfs4::NfsStatus;

impl Foreign {
    /// Cuts each object of the good mirrors to `size`, or makes it as long. They have the ids of the epoch before. A missing object
    /// stays so. Returns the mirrors that failed, for the caller to mark bad.
    ///
    /// # Errors
    /// [`FarError`] when no mirror did it; `Delay` without a mirror when the file has a newer epoch already.
    pub async fn cut(&self, at: &FileAt, size: u64) -> Result<u32, FarError> {
        let mirrors = self.mirrors(at)?;
        let epoch = at.epoch;
        let wanted = &Sattr3 {
            size: Some(size),
            ..Sattr3::default()
        };
        let (done, failures) = self
            .each_object(&mirrors, |_, _, spot| async move {
                let given = self.give(&spot, epoch, Missing::Left, IfNewer::Refuse);
                match given.await {
                    Ok(_) => {}
                    // No mirror is to blame.
                    Err(Fail::Newer) => return Ok(false),
                    Err(fail) => return Err(fail),
                }
                let (nfs, who) = (&spot.server.nfs, &spot.server.root_caller);
                let cut = |fh| async move { nfs.setattr(who, &fh, wanted, None).await };
                self.with(&spot, cut).await.map(|_| true)
            })
            .await;
        if done.iter().any(|(_, _, is_cut)| !is_cut) {
            return Err(FarError::of(NfsStatus::Delay));
        }
        failures.of_some(mirrors.good)
    }
}
