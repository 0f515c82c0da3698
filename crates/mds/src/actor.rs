//! The actor of a COMPOUND on the metadata server.

use fs::Actor;
use meta::Seq;
use server::SessionContext;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The actor of a COMPOUND: whom an export lets in.
#[derive(Debug)]
pub struct MdsActor(pub(crate) Actor);

impl Deref for MdsActor {
    type Target = Actor;

    fn deref(&self) -> &Actor {
        &self.0
    }
}

impl DerefMut for MdsActor {
    fn deref_mut(&mut self) -> &mut Actor {
        &mut self.0
    }
}

impl server::Actor for MdsActor {
    fn enter(&mut self, session: &SessionContext) {
        let owner = Arc::clone(&session.owner);
        self.0.enter(session.client, owner);
    }

    fn observe(&mut self, seq: u64) {
        self.0.observe(Seq(seq));
    }
}
