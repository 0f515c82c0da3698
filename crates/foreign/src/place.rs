//! Where a new file goes: a group over servers that are up and have room, in rotation.

use crate::foreign::Foreign;
use crate::refusals::NoPlace;
use meta::MetaError;

impl Foreign {
    /// A group for a new file. The width is cut to what there is; fewer mirrors are refused. A new group is in the metadata store
    /// before it is told, so whatever names it there is durable after it.
    ///
    /// # Errors
    /// [`MetaError`]; inside, why there is no place.
    pub fn pick(&self, width: u32, mirrors: u32) -> Result<Result<u32, NoPlace>, MetaError> {
        let _ = (width, mirrors);
        Ok(Err(NoPlace::NotYet))
    }
}
