//! One phase of one cell as a subject of a comparison: what goals measure with load generators that are processes.

use super::environment::Environment;
use super::experiments::io;
use super::job::Work;
use crate::suite::work::{Access, BareWork, Workers};

use super::measure::run_cell;
use super::plan::{Cell, Own, Server, X};
use super::spec::{Create, Store, Transport};
use crate::load::Load;
use crate::net::Link;
use crate::nfs::cluster::ClientLinks;
use crate::{BenchError, Sample, Subject};
use serde_json::{Value, json};

/// Size of each client's file: some stripes on every data server.
const FILE_BYTES: u64 = 32 << 20;
/// The same of clients behind slow links.
const SLOW_FILE_BYTES: u64 = 8 << 20;
/// Payload of a bare request.
const BARE_BYTES: u32 = 1 << 20;
const GROUP: &str = "alone";

/// A subject. The load's connections are client processes.
#[derive(Debug)]
pub(crate) struct SingleCell {
    environment: Environment,
    cell: Cell,
    access: Access,
    name: String,
    /// Client processes, where they are not the load's connections.
    clients_count: Option<u32>,
    runs_count: u32,
}

impl SingleCell {
    /// Sequential records of one size on a cluster behind links, a file for each client.
    pub(crate) fn streams(
        environment: Environment,
        (ds_count, link): (u16, Link),
        access: Access,
        record_bytes: u32,
    ) -> Self {
        let server = Server::Own(Own {
            ds_count,
            copies: 1,
            store: Store::Memory,
            transport: Transport::Tcp,
            create: Create::Lazy,
            link: Some(link),
            clients: None,
            nfs3: false,
        });
        let sizes = (FILE_BYTES, record_bytes);
        let cell = io::streams(GROUP, server.x(), String::new(), server, 1, sizes);
        let cell = io::with(cell, |work| {
            work.window = io::window(server, record_bytes);
            work.phases = vec![access];
            work.requests_count = Some(u64::MAX);
        });
        Self::new(environment, cell, access, format!("{ds_count} ds"))
    }

    /// The same on a cluster that keeps so many copies.
    pub(crate) fn with_copies(mut self, copies: u32) -> Self {
        if let Server::Own(own) = &mut self.cell.server {
            own.copies = copies;
            self.name = format!("{}, copies={copies}", self.name);
        }
        self
    }

    /// The same with so many clients, whatever the load says, each behind such a link. Files are smaller: links of clients are slow,
    /// and files are filled before they are read.
    pub(crate) fn behind_links(mut self, clients: ClientLinks) -> Self {
        if let Server::Own(own) = &mut self.cell.server {
            own.clients = Some(clients);
        }
        if let Work::Stream(work) = &mut self.cell.work {
            work.file_bytes = SLOW_FILE_BYTES;
        }
        self.cell.workers.behind_link = true;
        self.clients_count = Some(clients.count.into());
        self
    }

    /// The same with clients that speak NFSv3.
    pub(crate) fn by_nfs3(mut self) -> Self {
        if let Server::Own(own) = &mut self.cell.server {
            own.nfs3 = true;
        }
        let count = self.clients_count.unwrap_or(1);
        let plural = if count == 1 { "" } else { "s" };
        self.name = format!("NFSv3, {count} client{plural}");
        self
    }

    /// What a bare server's link carries.
    pub(crate) fn line(environment: Environment, link: Link, access: Access) -> Self {
        let cell = Cell {
            group: GROUP,
            x: X::count(1),
            series: String::new(),
            server: Server::BareStream { link: Some(link) },
            workers: Workers::processes(1),
            work: Work::Bare(BareWork {
                payload_bytes: BARE_BYTES,
                requests_count: u64::MAX,
                limit_ms: None,
            }),
            cold: false,
        };
        Self::new(environment, cell, access, "bare stream".to_owned())
    }

    fn new(environment: Environment, cell: Cell, access: Access, name: String) -> Self {
        Self {
            environment,
            cell,
            access,
            name,
            clients_count: None,
            runs_count: 0,
        }
    }
}

impl Subject for SingleCell {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn settings(&self) -> Value {
        json!({ "cell": self.cell, "phase": self.access.name() })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let time_ms = u64::try_from(load.measure.as_millis()).ok();
        let connections = u32::try_from(load.connections_count).unwrap_or(u32::MAX);
        let mut cell = self.cell.clone();
        cell.workers.processes_count = self.clients_count.unwrap_or(connections);
        match &mut cell.work {
            Work::Stream(work) => work.limit_ms = time_ms,
            Work::Bare(work) => work.limit_ms = time_ms,
            _ => {}
        }
        self.runs_count += 1;
        let number = format!("{}-{}", std::process::id(), self.runs_count);
        let started = self.environment.start(cell.server)?;
        let done = run_cell(&self.environment, &started, &cell, &number)?;
        let mut phases = done.phases.into_iter();
        let found = phases.find(|(name, _)| name == self.access.name());
        found.map(|(_, sample)| sample).ok_or(BenchError::Setting {
            name: "the phase of a subject",
            must_be: "one of its cell",
        })
    }
}
