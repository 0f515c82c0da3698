//! An experiment as data: its cells, and the figures that show them.
//!
//! A cell is one point: its place on the horizontal axis, its series, the server that it needs, the number of workers, and their
//! work. A figure takes the cells of one group and one metric of some of their phases. It makes a line of each series.

use super::job::Work;
use super::options::{Options, Peer};
use super::published::Published;
use super::spec::{ClusterSpec, Create, Store, Transport};
use super::work::Workers;
use crate::net::{Link, MTU_DEFAULT, Rate};
use crate::nfs::cluster::ClientLinks;
use crate::nfs::providers::OwnRdma;
use crate::runner::Metric;
use serde::Serialize;

/// Time limit of a phase with `--quick`, in milliseconds.
const QUICK_LIMIT_MS: u64 = 250;

/// One transport, where nothing is compared.
pub(crate) const ONE: &[Transport] = &[Transport::Tcp];

/// What plans are made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Whether it is enough to see that everything works.
    pub(crate) quick: bool,
    /// Whether clusters are our own, so that their shape can be chosen.
    pub(crate) own: bool,
    /// What RDMA to them runs on.
    pub(crate) own_rdma: OwnRdma,
    /// What is laid down of them.
    pub(crate) spec: ClusterSpec,
    /// Between clients and servers, where the user says.
    pub(crate) transports: Option<&'static [Transport]>,
    /// What each of their servers is behind.
    pub(crate) link: Option<Rate>,
    /// What stands beside them.
    pub(crate) peer: Option<Peer>,
}

impl Setting {
    /// Clusters of our own of this specification, in full.
    #[cfg(test)]
    pub(crate) fn full(spec: &str) -> Self {
        Self {
            quick: false,
            own: true,
            own_rdma: OwnRdma::SOFTWARE,
            spec: spec.parse().unwrap(),
            transports: None,
            link: None,
            peer: None,
        }
    }

    pub(crate) fn of(options: &Options) -> Self {
        Self {
            quick: options.quick,
            own: options.target.is_none() && options.mounted.is_none(),
            own_rdma: options.own_rdma(),
            spec: options.cluster,
            transports: options.transports(),
            link: options.link,
            peer: options.peer,
        }
    }

    /// The usual link, where there are links.
    pub(crate) fn link(&self) -> Option<Link> {
        let mtu_bytes = MTU_DEFAULT;
        self.link.map(|rate| Link { rate, mtu_bytes })
    }

    /// A server over each transport, and the peer with the same store, where one is wanted: for experiments with one server.
    pub(crate) fn sides(&self, server: Server, series: &str) -> Vec<(Server, String)> {
        let join = |name: &str| match series {
            "" => name.to_owned(),
            _ => format!("{name}, {series}"),
        };
        match (self.peer, server) {
            (Some(Peer::Ganesha), Server::Own(Own { store, link, .. })) => {
                let mut sides = self.over(ONE, server, &join("ropewalk"));
                sides.push((Server::Ganesha { store, link }, join("nfs-ganesha")));
                sides
            }
            _ => self.over(ONE, server, series),
        }
    }

    /// What tables show beside each value: where links have a cap, whether they or the processors were the limit.
    pub(crate) fn beside(&self) -> &'static [Metric] {
        match self.link {
            Some(_) => &[Metric::CpuIdlePercent],
            None => &[],
        }
    }

    /// Between clients and our own servers, where the user does not say: those whose series stand beside each other.
    pub(crate) fn transports(&self, default: &'static [Transport]) -> &'static [Transport] {
        match (self.own, self.link) {
            (false, _) => ONE,
            // Over links a comparison takes long: both only when the user wants both.
            (true, Some(_)) => self.transports.unwrap_or(ONE),
            (true, None) => self.transports.unwrap_or(default),
        }
    }

    /// A server over each transport, with the name that its series has.
    pub(crate) fn over(
        &self,
        default: &'static [Transport],
        server: Server,
        series: &str,
    ) -> Vec<(Server, String)> {
        let transports = self.transports(default);
        // What is over TCP alone needs no word of it.
        let name = |transport: Transport| match (transports, series) {
            (ONE, _) => series.to_owned(),
            (_, "") => self.own_rdma.label(transport),
            _ => format!("{series}, {}", self.own_rdma.label(transport)),
        };
        let servers = transports.iter();
        servers.map(|t| (server.over(*t), name(*t))).collect()
    }

    /// The full or the quick value.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// How long a phase may take at most, in milliseconds.
    pub(crate) fn limit_ms(&self) -> Option<u64> {
        self.quick.then_some(QUICK_LIMIT_MS)
    }

    /// How long a phase without an end of its own takes, in milliseconds.
    pub(crate) fn time_ms(&self, full: u64) -> u64 {
        self.pick(full, QUICK_LIMIT_MS)
    }

    /// The servers of a row over numbers of data servers: one when it is given or laid down.
    pub(crate) fn servers(&self, full: &[u16], quick: &[u16], store: Store) -> Vec<Server> {
        if !self.own {
            return vec![Server::Given];
        }
        let laid_down = self.spec.ds_count;
        let counts = self.pick(full, quick);
        let counts = laid_down.as_ref().map_or(counts, std::slice::from_ref);
        counts.iter().map(|ds| self.server(*ds, store)).collect()
    }

    /// One server, as far as it is not laid down otherwise.
    pub(crate) fn server(&self, ds_count: u16, store: Store) -> Server {
        if !self.own {
            return Server::Given;
        }
        let ds_count = self.spec.ds_count.unwrap_or(ds_count);
        Server::Own(Own {
            ds_count,
            // On an axis of data servers the first points have fewer servers than that.
            copies: self.spec.copies.unwrap_or(1).min(u32::from(ds_count)),
            store: self.spec.store.unwrap_or(store),
            transport: self.transports(ONE)[0],
            create: self.spec.create.unwrap_or(Create::Lazy),
            link: self.link(),
            clients: None,
            nfs3: false,
        })
    }
}

/// What a cell runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Server {
    /// What the user named.
    Given,
    /// None: a directory on the disk of this machine.
    LocalDisk,
    /// The bare RPC program, over our own transport.
    BareRpc {
        /// Between client and server.
        transport: Transport,
    },
    /// Bare servers, one that sends ranges of a file and one that writes them: what the line carries.
    BareStream {
        /// What they are behind.
        link: Option<Link>,
    },
    /// nfs-ganesha with FSAL_VFS.
    Ganesha {
        /// Where its files are: on a tmpfs or a disk.
        store: Store,
        /// What it is behind.
        link: Option<Link>,
    },
    /// A cluster of our own.
    Own(Own),
}

/// A cluster of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Own {
    /// Data servers.
    pub(crate) ds_count: u16,
    /// Copies of each stripe.
    pub(crate) copies: u32,
    /// Where it keeps data.
    pub(crate) store: Store,
    /// Between clients and servers.
    pub(crate) transport: Transport,
    /// When objects are made.
    pub(crate) create: Create,
    /// What each server is behind.
    pub(crate) link: Option<Link>,
    /// Clients behind links of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clients: Option<ClientLinks>,
    /// Whether clients speak NFSv3.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) nfs3: bool,
}

impl Own {
    fn text(self) -> String {
        let mut text = format!(
            "{} data server{}, {}, {}",
            self.ds_count,
            if self.ds_count == 1 { "" } else { "s" },
            self.store.name(),
            self.transport.name()
        );
        if self.copies > 1 {
            text += &format!(", {} copies", self.copies);
        }
        if self.create == Create::Eager {
            text += ", eager";
        }
        if let Some(link) = self.link {
            text += &format!(", {link}");
        }
        if self.nfs3 {
            text += ", NFSv3";
        }
        text
    }
}

impl Server {
    /// Between clients and server, when it is our choice.
    pub(crate) fn transport(self) -> Option<Transport> {
        match self {
            Self::Given | Self::LocalDisk => None,
            Self::BareStream { .. } | Self::Ganesha { .. } => Some(Transport::Tcp),
            Self::Own(Own { transport, .. }) | Self::BareRpc { transport } => Some(transport),
        }
    }

    /// Its place on an axis of data servers.
    pub(crate) fn x(self) -> X {
        match self {
            Self::Own(own) => X::count(u64::from(own.ds_count)),
            _ => X::named(1.0, "given"),
        }
    }

    /// The same over another transport, where that is our choice.
    pub(crate) fn over(self, transport: Transport) -> Self {
        match self {
            Self::Own(own) => Self::Own(Own { transport, ..own }),
            Self::BareRpc { .. } => Self::BareRpc { transport },
            other => other,
        }
    }

    /// The same with another time at which objects are made, where that is our choice.
    pub(crate) fn creating(self, create: Create) -> Self {
        match self {
            Self::Own(own) => Self::Own(Own { create, ..own }),
            other => other,
        }
    }

    /// The same behind links with another MTU, where it has links.
    pub(crate) fn with_mtu(self, mtu_bytes: u32) -> Self {
        let change = |link: Link| Link { mtu_bytes, ..link };
        match self {
            Self::Own(own) => Self::Own(Own {
                link: own.link.map(change),
                ..own
            }),
            other => other,
        }
    }

    /// In words.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Given => "the given server".to_owned(),
            Self::LocalDisk => "the disk of this machine".to_owned(),
            Self::BareRpc { transport } => format!("the bare RPC program, {}", transport.name()),
            Self::BareStream { link: None } => "bare streams".to_owned(),
            Self::BareStream { link: Some(link) } => format!("bare streams, {link}"),
            Self::Ganesha { store, link: None } => {
                format!("nfs-ganesha VFS, {}, tcp", store.name())
            }
            Self::Ganesha {
                store,
                link: Some(link),
            } => format!("nfs-ganesha VFS, {}, tcp, {link}", store.name()),
            Self::Own(own) => own.text(),
        }
    }
}

/// A place on the horizontal axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct X {
    /// As a number.
    pub(crate) value: f64,
    /// For people.
    pub(crate) label: String,
}

impl X {
    pub(crate) fn named(value: f64, label: &str) -> Self {
        Self {
            value,
            label: label.to_owned(),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "axes have small numbers")]
    pub(crate) fn count(count: u64) -> Self {
        Self::named(count as f64, &count.to_string())
    }

    /// A size in bytes, shown with a unit.
    #[allow(clippy::cast_precision_loss, reason = "axes have small numbers")]
    pub(crate) fn size(bytes: u64) -> Self {
        let label = match bytes {
            b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
            b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
            b => format!("{b} B"),
        };
        Self {
            value: bytes as f64,
            label,
        }
    }
}

/// One point.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cell {
    /// Figures name it.
    pub(crate) group: &'static str,
    /// Where it stands.
    pub(crate) x: X,
    /// The line that it belongs to.
    pub(crate) series: String,
    /// What it runs against.
    pub(crate) server: Server,
    /// Who works.
    pub(crate) workers: Workers,
    /// What they do.
    pub(crate) work: Work,
    /// Whether our own servers must forget what they have cached before it is read.
    pub(crate) cold: bool,
}

impl Cell {
    /// What its files take of memory, where servers keep them there.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let is_in_memory = match self.server {
            Server::Own(Own { store, .. }) | Server::Ganesha { store, .. } => {
                store == Store::Memory
            }
            _ => false,
        };
        if is_in_memory {
            self.work.data_bytes(self.workers)
        } else {
            0
        }
    }

    /// Whether it stands at the same place of the same group, with the same workers.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let key = |cell: &Self| (cell.group, cell.workers, cell.cold);
        key(self) == key(other) && self.x == other.x
    }

    /// In words, for progress and failures.
    pub(crate) fn text(&self) -> String {
        let series = match self.series.as_str() {
            "" => String::new(),
            series => format!("{series}, "),
        };
        format!("{series}{} ({})", self.x.label, self.server.text())
    }
}

/// One figure.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Part of file names.
    pub(crate) id: &'static str,
    /// Above it.
    pub(crate) title: String,
    /// Its cells.
    pub(crate) group: &'static str,
    /// What the horizontal axis says.
    pub(crate) x_label: &'static str,
    /// What the vertical axis shows.
    pub(crate) metric: Metric,
    /// Phases shown; with several, each has lines of its own.
    pub(crate) phases: &'static [&'static str],
    /// The published figure.
    pub(crate) published: Published,
    /// What tables show beside each value.
    pub(crate) beside: &'static [Metric],
    /// What a reader of this figure must know, beside it.
    pub(crate) remark: Option<&'static str>,
    /// The series whose largest value is the whole of which the others are shares; it is not shown itself.
    pub(crate) share_of: Option<&'static str>,
}

/// One experiment.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// As on the command line.
    pub(crate) name: &'static str,
    /// In words.
    pub(crate) title: &'static str,
    /// What a reader must know.
    pub(crate) notes: Vec<String>,
    /// Its points.
    pub(crate) cells: Vec<Cell>,
    /// What shows them.
    pub(crate) figures: Vec<Figure>,
}
