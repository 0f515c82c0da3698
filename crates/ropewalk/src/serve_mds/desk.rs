//! Who answers the administration API at a metadata server.
//!
//! Owns the way from a request to its answer, and the listeners of the API. May call all that a command needs; the work
//! itself is elsewhere.
//!
//! # Failure
//! Beyond loopback the API is served over TLS only.

use super::readings::Readings;
use super::view::{View, json};
use super::{access, orders, reload};
use crate::admin::{AdminSocket, Answering, Desk, Refusal, Request};
use crate::api;
use crate::clients;
use crate::config::is_loopback;
use crate::dashboard;
use crate::failure::{Outcome, cannot};
use crate::key::RotatedKey;
use crate::logging;
use crate::nlm_hosts;
use crate::status::ServerStatus;
use ::admin::{
    Asset, BoxFuture, Caller, Denied, Door, EVENTS_MAX, Events, Listener, Samples, Stream,
};
use ::fs::rotate_key;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use transport::{Context, DynService};

/// Answers for a metadata server.
pub(super) struct MdsDesk {
    view: Arc<View>,
    nfs: Arc<dyn DynService>,
    context: Context,
    samples: Samples,
    readings: Mutex<Readings>,
    openapi: Value,
}

impl MdsDesk {
    /// Of the server that this shows. `nfs` is what administrators reach, and `context` bounds their connections.
    pub(super) fn new(view: Arc<View>, nfs: Arc<dyn DynService>, context: Context) -> Arc<Self> {
        Arc::new(Self {
            view,
            nfs,
            context,
            samples: Samples::default(),
            readings: Mutex::default(),
            openapi: api::document(),
        })
    }

    /// Serves the API at the admin socket and at `admin_listen`, until what is returned is dropped. Needs a runtime.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(super) fn serve(
        self: Arc<Self>,
        socket: AdminSocket,
        network: Vec<transport::tcp::Listener>,
    ) -> Outcome<JoinSet<()>> {
        let mut tasks = JoinSet::new();
        for listener in network {
            let listener = self.listener(listener)?;
            let desk = Arc::clone(&self) as Arc<dyn Desk>;
            tasks.spawn(::admin::serve(listener, Door::Network, desk));
        }
        tasks.spawn(socket.serve(Arc::clone(&self) as Arc<dyn Desk>));
        tasks.spawn(::admin::run_samples(self));
        Ok(tasks)
    }

    fn listener(&self, bound: transport::tcp::Listener) -> Outcome<Listener> {
        let what = "serve the administration API";
        let listener = TcpListener::from_std(bound.into_socket()).map_err(cannot(what))?;
        let address = listener.local_addr().map_err(cannot(what))?;
        if is_loopback(address.ip()) {
            return Ok(Listener::Tcp(listener));
        }
        let mut names = self.view.config.admin_names.clone();
        if !address.ip().is_unspecified() {
            names.push(address.ip().to_string());
        }
        let tls = cluster_tls::admin_server_config(&self.view.ca, &names);
        let tls = tls.map_err(cannot("set up TLS for `admin_listen`"))?;
        Ok(Listener::Tls(listener, Arc::new(tls)))
    }
}

impl Desk for MdsDesk {
    fn answer(&self, request: Request) -> Answering {
        if request == Request::Health {
            let health = self
                .readings
                .lock()
                .health(Instant::now(), self.view.status());
            return Box::pin(std::future::ready(json(health)));
        }
        Box::pin(answer(Arc::clone(&self.view), request))
    }

    fn caller(&self, token: &str) -> Result<Caller, Denied> {
        access::caller(self.view.cluster(), token)
    }

    fn events(&self) -> &Events {
        logging::events()
    }

    fn samples(&self) -> &Samples {
        &self.samples
    }

    fn openapi(&self) -> &Value {
        &self.openapi
    }

    fn serve_nfs(&self, stream: Box<dyn Stream>, peer: Arc<str>) -> BoxFuture {
        let service = Arc::clone(&self.nfs);
        let context = self.context.clone();
        Box::pin(async move { transport::tunnel::serve(stream, &peer, service, &context).await })
    }

    fn assets(&self) -> &'static [Asset] {
        &dashboard::ASSETS
    }
}

async fn answer(view: Arc<View>, request: Request) -> Result<Value, Refusal> {
    match request {
        Request::Status => json(ServerStatus::Mds(Box::new(view.status()))),
        Request::Events { after, limit } => {
            let limit = limit.map_or(EVENTS_MAX, |n| n as usize);
            json(logging::events().page(after, limit.clamp(1, EVENTS_MAX)))
        }
        Request::TokenCreate { ttl_seconds } => json(view.create_token(ttl_seconds).await?),
        Request::TokenList => json(view.tokens()?),
        Request::Expel {
            ds_id,
            yes_lose_data,
        } => json(view.expel(ds_id, yes_lose_data).await?),
        Request::DsLoss { ds_id } => json(view.loss(ds_id).await?),
        Request::FilePaths { files } => json(view.paths(files).await?),
        Request::AcceptState => json(view.accept_state().await?),
        Request::Scrub => json(view.cluster().order_scrub()),
        Request::Config => json(view.live.current()),
        Request::Reload { check } => json(reload::run(&view.live, check).await?),
        Request::ClientList { after, limit } => {
            json(clients::list(view.fs(), after.as_deref(), limit)?)
        }
        Request::ClientShow { id } => json(clients::show(view.fs(), &id).await?),
        Request::ClientEvict { id } => json(clients::evict(view.fs(), &id).await?),
        Request::LockList { path } => json(clients::locks_of(view.fs(), &path).await?),
        Request::NlmHosts => json(nlm_hosts::hosts(view.fs())),
        Request::NlmFree { host } => json(nlm_hosts::free(view.fs(), &host).await?),
        Request::KeyRotate => {
            let made = rotate_key(view.fs()).await.map_err(|e| e.to_string())?;
            let (id, signs) = (made.id, made.signs);
            json(RotatedKey { id, signs })
        }
        order @ (Request::AccessCreate { .. }
        | Request::AccessList
        | Request::AccessRevoke { .. }) => access::run(&view, order).await,
        order => Ok(orders::run(view.fs(), order).await?),
    }
}
