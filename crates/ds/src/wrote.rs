//! WROTE of the control program: telling the MDS of stable writes (rule R2).

use std::time::Duration;

use control::{Status, WroteArgs, WroteItem};
use nfs4::NfsStatus;
use objects::ObjectId;

use crate::apply::Applied;
use crate::counts::count;
use crate::ds::Ds;
use crate::sizes::{nfs_status, status_of_refusal};

/// How long a report waits for the MDS. Above it the client is told to try later.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Ds {
    /// Tells the MDS of a stable write up to this offset of the file: after `FILE_SYNC` Linux sends no LAYOUTCOMMIT.
    pub(crate) async fn report(
        &self,
        id: ObjectId,
        end_offset: u64,
        applied: Applied,
    ) -> Result<(), NfsStatus> {
        count(&self.counts.wrote_reports);
        let item = WroteItem {
            file_id: id.file_id,
            generation: id.generation,
            end_offset,
            time: applied.time,
            taken_bytes: applied.taken_bytes,
        };
        let send = async |items| self.send_reports(items).await;
        let told = self.reports.report(item, send).await;
        told.inspect_err(|_| self.space_told.forget(id))?;
        self.sizes.forget(id.file_id);
        Ok(())
    }

    async fn send_reports(&self, items: Vec<WroteItem>) -> Vec<Result<(), NfsStatus>> {
        let count = items.len();
        let args = WroteArgs {
            items: items.into(),
        };
        let told = self.call_mds(&args, TIMEOUT).await;
        let statuses = told.map_err(|e| nfs_status(&e));
        let of = |at: usize| match &statuses {
            Ok(statuses) => match statuses.0.get(at) {
                Some(Status::Ok) => Ok(()),
                Some(status) => Err(status_of_refusal(*status)),
                None => Err(NfsStatus::Delay),
            },
            Err(status) => Err(*status),
        };
        (0..count).map(of).collect()
    }
}
