//! The administration API: what can be asked of a server ([`Request`]), by which HTTP request ([`ROUTES`]), and in which
//! [`CallerRole`].
//!
//! The crate owns the messages, their HTTP form, the server and the client of it, and the OpenAPI document. It knows
//! nothing of what an order does: a server hands in a [`Desk`] that answers. The admin socket and `admin_listen` serve the
//! same API, so a command and a page do the same by the same code.
//!
//! # Failure
//! Every byte of a peer is untrusted until its token is known, and bounded after that: connections, heads, bodies, streams
//! and times have named limits. A refusal is a problem document (RFC 9457).
#![forbid(unsafe_code)]

mod ask;
mod by_address;
mod caller;
mod desk;
mod events;
mod http_form;
mod openapi;
mod patient;
mod problem;
mod request;
mod route;
mod routes;
mod samples;
mod serve;
mod stream;
mod tls;
mod tunnel;

pub use ask::{AskError, ClientTls, Server, ask};
pub use by_address::CONNECTIONS_PER_ADDRESS_MAX;
pub use caller::{Caller, CallerRole, Denied};
pub use desk::{Answering, Asset, BoxFuture, Desk, Refusal};
pub use events::{AUDIT_TARGET, EVENTS_MAX, Event, EventPage, Events, Level};
pub use openapi::{Answers, document};
pub use problem::Problem;
pub use request::{CLIENTS_MAX, Request};
pub use route::{API_ROOT, Param, ParamKind, Route};
pub use routes::ROUTES;
pub use samples::{STREAMS_MAX, Samples, TUNNELS_MAX};
pub use serve::{
    BODY_BYTES_MAX, CONNECTIONS_MAX, CONTENT_POLICY, Door, HEAD_BYTES_MAX, OPEN_METRICS, serve,
};
pub use stream::run_samples;
pub use tls::{Listener, Stream};
pub use tunnel::open_tunnel;
