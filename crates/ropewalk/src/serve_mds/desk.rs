//! What answers the administration API at a metadata server.
//!
//! Owns the way from a request to its answer, and the listeners of the API. May call all that a command needs; the work
//! itself is elsewhere.
//!
//! # Failure
//! Beyond loopback the API is served over TLS only. When a token is taken back, the NFS clients of its tunnels are evicted.

use super::readings::Readings;
use super::refusals::{failed, of_cluster};
use super::view::{View, json};
use super::{access, orders, reload};
use crate::admin::{AdminSocket, Answering, Desk, Refusal, Request};
use crate::api;
use crate::busiest;
use crate::clients;
use crate::config::is_loopback;
use crate::dashboard;
use crate::failure::{Outcome, cannot};
use crate::key::RotatedKey;
use crate::logging;
use crate::metrics;
use crate::nlm_hosts;
use crate::status::health::Health;
use crate::status::{MdsStatus, ServerStatus};
use ::admin::{
    Asset, BoxFuture, Caller, Denied, Door, EVENTS_MAX, Events, Listener, Samples, Stream,
};
use ::fs::rotate_key;
use bytes::Bytes;
use cluster_tls::AdminCerts;
use nfs4::ClientId;
use parking_lot::Mutex;
use rustls::ServerConfig;
use serde_json::Value;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use transport::{Context, DynService};

/// Answers for a metadata server.
pub(super) struct MdsDesk {
    own: Weak<Self>,
    view: Arc<View>,
    nfs: Arc<dyn DynService>,
    context: Context,
    readings: Mutex<Readings>,
    openapi: Bytes,
}

impl MdsDesk {
    /// Of the server that this shows. `context` bounds the connections of administrators.
    pub(super) fn new(view: Arc<View>, context: Context) -> Arc<Self> {
        // NFSv4 alone: nothing else is needed, and what the other programs know of a peer is its address.
        let nfs = Arc::new(Arc::clone(&view.nfsd).with_programs(Vec::new()));
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            view,
            nfs,
            context,
            readings: Mutex::default(),
            openapi: api::document().to_string().into(),
        })
    }

    /// Serves the API at the admin socket and at `admin_listen`, until what is returned is dropped. It has a thread of its own:
    /// expensive requests must not delay the control port.
    ///
    /// # Errors
    /// TLS cannot be set up, or there is no thread.
    pub(super) fn serve(
        self: Arc<Self>,
        socket: AdminSocket,
        network: Vec<transport::tcp::Listener>,
        certs: Option<Arc<AdminCerts>>,
    ) -> Outcome<Serving> {
        let what = "serve the administration API";
        let tls = certs.map(cluster_tls::admin_server_config).transpose();
        let tls = tls.map_err(cannot(what))?.map(Arc::new);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(cannot(what))?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("admin".to_owned());
        let serving = move || {
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                // Without listeners there is no TLS either.
                for (listener, tls) in network.into_iter().zip(tls.iter().cycle()) {
                    match opened(listener, Arc::clone(tls)) {
                        Ok(listener) => {
                            let desk = Arc::clone(&self) as Arc<dyn Desk>;
                            tasks.spawn(::admin::serve(listener, Door::Network, desk));
                        }
                        Err(error) => tracing::error!(%error, "`admin_listen` is not served"),
                    }
                }
                tasks.spawn(socket.serve(Arc::clone(&self) as Arc<dyn Desk>));
                tasks.spawn(::admin::run_samples(self));
                let _ = stopped.await;
            });
            // What still runs ends here: the process is about to.
            drop(runtime);
        };
        Ok(Serving {
            thread: Some(thread.spawn(serving).map_err(cannot(what))?),
            stop: Some(stop),
        })
    }

    /// The health that a reading shows.
    fn health(&self, status: MdsStatus) -> Health {
        self.readings.lock().health(Instant::now(), status)
    }

    /// Clients that use this tunnel.
    fn clients_by(&self, peer: &str) -> Vec<ClientId> {
        let clients = self.view.fs().clients();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = clients.page(after);
            let Some(last) = page.last() else {
                return found;
            };
            after = Some(last.view.id);
            let by_it = page
                .iter()
                .filter(|c| c.addresses.iter().any(|a| a == peer));
            found.extend(by_it.map(|c| c.view.id));
        }
    }
}

/// A listener on the runtime of its thread. Browsers of this machine may do without TLS.
fn opened(bound: transport::tcp::Listener, tls: Arc<ServerConfig>) -> std::io::Result<Listener> {
    let listener = TcpListener::from_std(bound.into_socket())?;
    Ok(match is_loopback(listener.local_addr()?.ip()) {
        true => Listener::Either(listener, tls),
        false => Listener::Tls(listener, tls),
    })
}

/// The thread of the API. Dropping it ends what it serves.
pub(super) struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Desk for MdsDesk {
    fn answer(&self, request: Request) -> Answering {
        if request == Request::Health {
            let health = self.health(self.view.status());
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

    fn sample(&self) -> Result<Value, Refusal> {
        let status = self.view.status();
        let shown = json(ServerStatus::Mds(Box::new(status.clone())))?;
        json(serde_json::json!({"status": shown, "health": self.health(status)}))
    }

    fn samples(&self) -> &Samples {
        &self.view.samples
    }

    fn openapi(&self) -> Option<&Bytes> {
        Some(&self.openapi)
    }

    fn serve_nfs(&self, stream: Box<dyn Stream>, peer: Arc<str>, until: BoxFuture) -> BoxFuture {
        let (desk, service, context) = (
            self.own.upgrade(),
            Arc::clone(&self.nfs),
            self.context.clone(),
        );
        Box::pin(async move {
            let Some(desk) = desk else {
                return;
            };
            let unwelcome = Mutex::new(Vec::new());
            let until = async {
                until.await;
                // Before the connection goes: then nobody knows any more whose it was.
                *unwelcome.lock() = desk.clients_by(&peer);
            };
            transport::tunnel::serve(stream, &peer, service, &context, until).await;
            for client in unwelcome.into_inner() {
                // What it holds opens files at data servers: it must not wait for the lease.
                ::fs::evict(desk.view.fs(), client).await;
            }
        })
    }

    fn has_room(&self) -> bool {
        self.context.has_room()
    }

    fn metrics(&self) -> Result<String, Refusal> {
        let status = ServerStatus::Mds(Box::new(self.view.status()));
        metrics::page(status).map_err(failed)
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
        Request::Top { limit } => json(busiest::top(view.fs(), limit).await?),
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
            let made = rotate_key(view.fs()).await.map_err(of_cluster)?;
            let (id, signs) = (made.id, made.signs);
            json(RotatedKey { id, signs })
        }
        order @ (Request::AccessCreate { .. }
        | Request::AccessList
        | Request::AccessRevoke { .. }) => access::run(&view, order).await,
        order => orders::run(view.fs(), order).await,
    }
}
