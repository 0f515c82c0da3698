//! When a filling may go on: the rate that the MDS has set, and the share of the time (rule P26).

use layout::MemberState;

use crate::ds::Ds;
use crate::rows::OwnRow;

impl Ds {
    /// Waits until the next piece of a filling of this place may begin, which sends at most so many bytes. With one member
    /// in sync a place goes first: only the rate counts.
    pub(super) async fn fill_turn(&self, row: &OwnRow, bytes: u64) {
        let share = &self.copies.fill_share;
        if self.copies.fill_rate.admit(bytes).await {
            share.begin();
        }
        if row.row.in_state(MemberState::Sync).count() > 1 {
            share.turn(|| self.counts.of_clients()).await;
        }
    }
}
