//! The actor of a COMPOUND on the metadata server.

use fs::Actor;
use meta::Seq;
use nfs4::ClientId;
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
    fn enter(&mut self, client: ClientId, owner: &Arc<[u8]>) {
        self.0.enter(client, Arc::clone(owner));
    }

    fn observe(&mut self, seq: u64) {
        self.0.observe(Seq(seq));
    }
}
