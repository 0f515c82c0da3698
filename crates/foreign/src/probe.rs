//! The probe of a server: a trial in a directory of its own, which is removed at the end.

use crate::error::{ProbeError, doing};
use crate::ids::caller;
use crate::report::ProbeReport;
use crate::trial::Trial;
use nfs3::procs::FsInfoOk;
use nfs3_client::{Fh, Nfs3Client};

/// Tries a server whose directory `root` was mounted. `random` names the directory of the trial and its ids. Files that others
/// have there are left alone.
///
/// # Errors
/// [`ProbeError`] when the server cannot be tried at all.
pub async fn probe(nfs: &Nfs3Client, root: &Fh, random: u32) -> Result<ProbeReport, ProbeError> {
    let admin = caller(0, 0);
    let info: FsInfoOk = doing(
        "ask for the limits of the server",
        nfs.fsinfo(&admin, root).await,
    )?;
    let room = doing(
        "ask for the room of the server",
        nfs.fsstat(&admin, root).await,
    )?;
    let mut trial = Trial::begin(nfs, root, random).await?;
    trial.run(&info).await;
    let findings = trial.end().await;
    Ok(ProbeReport {
        findings,
        bytes_total: room.tbytes,
        bytes_free: room.abytes,
        io_bytes_max: (info.rtmax, info.wtmax),
        file_bytes_max: info.maxfilesize,
    })
}
