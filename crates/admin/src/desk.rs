//! What a server hands in, so that the API has something to answer with.

use crate::caller::{Caller, Denied};
use crate::events::Events;
use crate::request::Request;
use crate::samples::Samples;
use crate::tls::Stream;
use bytes::Bytes;
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Why a request is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A value makes no sense, whatever the state of things is.
    Invalid(String),
    /// What it names is not there.
    NotFound(String),
    /// It is there, and the server refuses: the state of things forbids it.
    Refused(String),
    /// The server itself failed.
    Failed(String),
}

impl Refusal {
    /// The sentence.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Invalid(text)
            | Self::NotFound(text)
            | Self::Refused(text)
            | Self::Failed(text) => text,
        }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self::Refused(text)
    }
}

/// The answer to a request.
pub type Answering = Pin<Box<dyn Future<Output = Result<Value, Refusal>> + Send + 'static>>;

/// What goes on for as long as a stream.
pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// A file of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its path, such as `/` or `/assets/app.js`.
    pub path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
}

/// Who answers at a server.
pub trait Desk: Send + Sync + 'static {
    /// Does what a request says. Whoever calls this runs it to its end, also when the caller has gone.
    fn answer(&self, request: Request) -> Answering;

    /// Whose token this is.
    ///
    /// # Errors
    /// [`Denied`].
    fn caller(&self, token: &str) -> Result<Caller, Denied>;

    /// What the server has told lately.
    fn events(&self) -> &Events;

    /// Whether there are streams and tunnels at this server.
    ///
    /// # Errors
    /// [`Refusal::NotFound`]: which server has them.
    fn has_streams(&self) -> Result<(), Refusal> {
        Ok(())
    }

    /// What pages follow: an object with the state, and the health that it shows.
    ///
    /// # Errors
    /// [`Refusal`].
    fn sample(&self) -> Result<Value, Refusal>;

    /// The samples that pages follow.
    fn samples(&self) -> &Samples;

    /// The OpenAPI document as JSON, where there is one.
    fn openapi(&self) -> Option<&Bytes>;

    /// Serves NFS over a stream until it ends, with the rights of an administrator; `peer` is its name, no other's. When
    /// `until` is ready no further request is taken, and nothing that the peer holds stays.
    fn serve_nfs(&self, stream: Box<dyn Stream>, peer: Arc<str>, until: BoxFuture) -> BoxFuture;

    /// Whether NFS has room for the connection of one more tunnel.
    fn has_room(&self) -> bool;

    /// What the server counts, in the text format of OpenMetrics.
    ///
    /// # Errors
    /// [`Refusal`].
    fn metrics(&self) -> Result<String, Refusal>;

    /// The files of the page.
    fn assets(&self) -> &'static [Asset];
}
