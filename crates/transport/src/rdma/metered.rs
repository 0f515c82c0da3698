//! A connection's place in the list of what single connections have carried.

use super::traffic::{Carried, Meter};
use crate::ConnHandle;
use std::sync::Arc;

/// The place, given back when dropped.
#[derive(Debug)]
pub(super) struct Metered {
    conn: ConnHandle,
    meter: Arc<Meter>,
}

impl Metered {
    pub(super) fn new(conn: &ConnHandle) -> Self {
        let meters = conn.context().meters();
        Self {
            meter: meters.add(conn.id(), conn.peer().clone(), conn.local().clone()),
            conn: conn.clone(),
        }
    }

    pub(super) fn set(&self, carried: Carried) {
        self.meter.set(carried);
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.conn.context().meters().remove(self.conn.id());
    }
}
