//! CB_RECALL_SLOT (RFC 8881 §20.8): slots that idle clients hold beyond their share are asked for.

use crate::ClientTable;
use crate::back_channel::SessionPath;
use crate::callback_path::{CALLBACK_MS_MAX, deliver, status_only};
use nfs4::CbCompoundBuilder;
use nfs4::cb::CbRecallSlotArgs;
use state::SlotRecall;
use std::sync::Arc;

impl ClientTable {
    /// Asks for what idle clients hold too much of: beyond the share of each session, and of the credits of the transport. To be called
    /// about once a second.
    pub fn recall_slots(self: &Arc<Self>) {
        let short = std::mem::take(&mut *self.credits_short.lock());
        let mut recalls = self.lock().slot_recalls(self.now_ms());
        if !short.is_empty() {
            recalls.extend(self.lock().shrink_sessions(&short));
        }
        for recall in recalls {
            let table = Arc::clone(self);
            tokio::spawn(async move { table.recall_slots_of(recall).await });
        }
    }

    /// A client that does not answer hears of the target by SEQUENCE, as the others do.
    async fn recall_slots_of(&self, recall: SlotRecall) {
        let args = CbRecallSlotArgs {
            target_highest_slot_id: recall.target_highest_slot,
        };
        let build = |b: &mut CbCompoundBuilder| {
            b.push(&args);
        };
        let path = SessionPath::only(self, recall.client, recall.session);
        if let Err(error) = deliver(&path, CALLBACK_MS_MAX, &build, status_only).await {
            tracing::debug!(?error, "CB_RECALL_SLOT");
        }
    }
}
