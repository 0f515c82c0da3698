//! The removal of an object at one server.

use crate::dirs::object_name;
use crate::fail::Fail;
use crate::file_at::FileAt;
use crate::foreign::Foreign;
use crate::refusals::FarError;
use nfs3::Nfs3Status;

impl Foreign {
    /// Removes an object at one server. One that is not there is removed; so is all that a removed server had. With another disk in
    /// the server's place nothing is.
    ///
    /// # Errors
    /// [`FarError`]; `Delay` while the server is down.
    pub async fn remove(&self, server: u32, number: u64, generation: u32) -> Result<(), FarError> {
        match self.remove_object(server, number, generation).await {
            Ok(()) | Err(Fail::Removed) => Ok(()),
            Err(fail) => {
                tracing::debug!(server, number, %fail, "removal at a foreign server");
                if let Some(server) = self.server(server) {
                    server.note_failure(&fail);
                }
                Err(FarError::of(fail.status()))
            }
        }
    }

    async fn remove_object(&self, server: u32, number: u64, generation: u32) -> Result<(), Fail> {
        let at = FileAt {
            number,
            generation,
            group: 0,
            stripe_unit: 0,
            epoch: 0,
            bad_mirrors: 0,
            has_objects: false,
        };
        let spot = self.spot(server, &at)?;
        let _one = spot.server.lock_of(number).lock().await;
        let name = &object_name(number, generation);
        let (nfs, who) = (&spot.server.nfs, &spot.server.root_caller);
        let removed = self.in_dir(
            &spot,
            |dir| async move { nfs.remove(who, &dir, name).await },
        );
        match removed.await {
            Ok(_) => {}
            // On another disk it would be missing, too.
            Err(fail) if fail.is(Nfs3Status::NoEnt) => spot.server.see_place().await?,
            Err(fail) => return Err(fail),
        }
        // Somebody may have found the file before it was removed, and be about to make its object.
        self.handles.removed(spot.key());
        self.fences.settle(spot.key(), u64::MAX);
        Ok(())
    }
}
