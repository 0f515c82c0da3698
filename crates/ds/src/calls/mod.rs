//! The MDS's calls (control program, procedures from 32), served on the connection that the data server opened.
//!
//! Owns decoding, the order after HELLO, and answers; what a call does is in the files beside it.

mod files;
mod floors;
mod objects;
mod ranges;
pub(crate) mod rows;
mod yielded;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control::{Answer, Refusal, Status, ToDs};
use rpc_service::{Call, Program, ProgramFault, Seal};
use server::Nfsd;
use tokio::sync::watch;
use transport::{ConnHandle, Message, Service};
use xdr::{Encode, Encoder};

use crate::ds::Ds;
use crate::link_end::LinkEnd;

/// How long a call waits for HELLO's answer to be taken in: as long as HELLO itself may take.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The service of one control connection.
pub(crate) struct Calls {
    nfsd: Arc<Nfsd<Ds>>,
    ready: watch::Receiver<bool>,
    end: watch::Sender<Option<LinkEnd>>,
}

impl Calls {
    pub(crate) fn new(
        nfsd: Arc<Nfsd<Ds>>,
        ready: watch::Receiver<bool>,
        end: watch::Sender<Option<LinkEnd>>,
    ) -> Self {
        Self { nfsd, ready, end }
    }

    /// Waits until HELLO's answer was taken; calls on an older connection are refused.
    async fn admitted(&self, conn: &ConnHandle) -> Result<(), Refusal> {
        let mut ready = self.ready.clone();
        let waited = tokio::time::timeout(READY_TIMEOUT, ready.wait_for(|r| *r)).await;
        if !matches!(waited, Ok(Ok(_))) || !self.nfsd.role().gate.is_current(conn) {
            return Err(Refusal::new(
                Status::NotReady,
                "this connection has not said HELLO",
            ));
        }
        Ok(())
    }

    async fn serve(&self, conn: &ConnHandle, call: ToDs, e: &mut Encoder) {
        if let Err(refusal) = self.admitted(conn).await {
            return Answer::<()>::Refused(refusal).encode(e);
        }
        let ds = self.nfsd.role();
        let moves_room = is_change(&call);
        match call {
            ToDs::Null => {}
            ToDs::Stat(args) => say(e, Ok(objects::stat(ds, args).await)),
            ToDs::Commit(args) => say(e, Ok(objects::commit(ds, args).await)),
            ToDs::SetSize(args) => say(e, files::set_size(ds, args).await),
            ToDs::Remove(args) => say(e, files::remove(ds, args).await),
            ToDs::Fence(args) => say(e, floors::fence(ds, args).await),
            ToDs::Keys(args) => say(e, floors::keys(ds, &args)),
            ToDs::Floors(args) => say(e, floors::page(ds, args).await),
            ToDs::Expel(args) => {
                let reason = args.reason.as_str().to_owned();
                tracing::error!("expelled by the MDS: {reason}");
                ds.gate.expel();
                self.end.send_replace(Some(LinkEnd::Expelled { reason }));
                say(e, Ok(()));
            }
            ToDs::Map(args) => say(e, ranges::map(ds, args).await),
            ToDs::Punch(args) => say(e, ranges::punch(ds, conn, args).await),
            ToDs::Reserve(args) => say(e, ranges::reserve(ds, conn, args).await),
            ToDs::Clone(args) => say(e, ranges::clone(ds, conn, args).await),
            ToDs::Yield(args) => say(e, yielded::yield_places(ds, conn, &args.places.0).await),
            ToDs::Rows(args) => say(e, rows::rows(ds, args).await),
            ToDs::Shutdown(args) => {
                let drain_ms = args.drain_ms;
                self.end.send_replace(Some(LinkEnd::Shutdown { drain_ms }));
                say(e, Ok(()));
            }
        }
        if moves_room {
            ds.announced.note_room();
        }
    }
}

/// Whether a call changes objects. Room for data may come and go with it.
const fn is_change(call: &ToDs) -> bool {
    matches!(
        call,
        ToDs::SetSize(_) | ToDs::Remove(_) | ToDs::Punch(_) | ToDs::Reserve(_) | ToDs::Clone(_)
    )
}

fn say<T: Encode>(e: &mut Encoder, result: Result<T, Status>) {
    let refusal = |status| Refusal::new(status, why(status));
    Answer::from(result.map_err(refusal)).encode(e);
}

/// What a refusal says besides its status. Only what is logged here sends anybody to the log.
const fn why(status: Status) -> &'static str {
    match status {
        Status::TooLarge => "the file system of the data server holds no object of that size",
        Status::Unsupported => "the file system of the data server cannot do that",
        Status::NoSpace => "the data server has no room",
        Status::NotPrimary => "another data server is primary of the place",
        Status::Removed => "the object was removed",
        Status::TryLater => "the data server is busy with the object",
        Status::Io => "see the log of the data server",
        _ => "the data server refuses it",
    }
}

impl Program for Calls {
    fn number(&self) -> u32 {
        control::PROGRAM
    }

    fn versions(&self) -> RangeInclusive<u32> {
        control::VERSION_MIN..=control::VERSION_MAX
    }

    async fn call<'r>(&'r self, call: Call<'r>) -> Option<Message> {
        let asked = match ToDs::decode(call.header.procedure, call.args.rest()) {
            Ok(asked) => asked,
            Err(refused) => {
                tracing::warn!("call of the MDS: {refused}");
                return call.refuse(refused.accept_error());
            }
        };
        let mut e = Encoder::new();
        Seal::None.begin(&mut e, call.header.xid);
        if !is_change(&asked) {
            self.serve(call.conn, asked, &mut e).await;
            return Some(e.into());
        }
        let args = Bytes::copy_from_slice(call.args.rest());
        let work = async {
            let mut e = Encoder::new();
            self.serve(call.conn, asked, &mut e).await;
            e.into_bytes().into()
        };
        let repeats = &self.nfsd.role().repeats;
        e.raw(&repeats.once((call.header.procedure, args), work).await);
        Some(e.into())
    }

    fn note(&self, fault: ProgramFault) {
        tracing::warn!(?fault, "call of the MDS");
    }
}

impl Service for Calls {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        rpc_service::serve(self, &[], conn, &record).await
    }
}
