//! What a run is made of, and the worlds that have names.

use crate::injected_bug::InjectedBug;
use crate::mds_node::LEASE_MS;
use crate::net::NetFaults;
use fs::Creation;

/// The lease where there are greedy clients, in milliseconds: idle clients are asked for credits, and must have sessions then.
const LEASE_OF_IDLERS_MS: u64 = 90_000;

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct Config {
    /// Data servers. Without one no file can be made.
    pub ds: usize,
    /// Clients that work on names and locks.
    pub clients: usize,
    /// Workers of each of them.
    pub workers: usize,
    /// Clients that work on data; they need data servers.
    pub data_clients: usize,
    /// Clients that are delegated files.
    pub holders: usize,
    /// Clients that make many calls at a time and then none.
    pub guests: usize,
    /// Clients that do not keep to their credits.
    pub greedy_clients: usize,
    /// Files that those of a kind share.
    pub files: u64,
    /// Operations of each worker.
    pub steps: u32,
    /// The network.
    pub net_faults: NetFaults,
    /// Whether servers crash.
    pub crashes: bool,
    /// Connections over RDMA, in 1000; `None` lets the seed choose.
    pub rdma: Option<u32>,
    /// Whether clients that work on data also have servers copy, clone, make holes and take storage.
    pub copies: bool,
    /// Whether clients that work on data also set modification times.
    pub times: bool,
    /// Whether objects are made with their files.
    pub eager: bool,
    /// Copies of each stripe.
    pub replicas: u32,
    /// Copies that must be in sync for a write.
    pub copies_min: u32,
    /// Whether data servers are drained and made level meanwhile.
    pub moves: bool,
    /// Whether files are also restriped, with `moves`.
    pub restripes: bool,
    /// Whether some of the clients speak NFSv3; the seed chooses which.
    pub nfs3: bool,
    /// Whether clients of NFSv4.0 open, lock, read and write files beside one of NFSv4.1.
    pub nfs40: bool,
    /// Whether hosts lock these files by NLM, and read and write them by NFSv3.
    pub nlm: bool,
    /// A built-in fault.
    pub bug: Option<InjectedBug>,
}

impl Config {
    /// Names, locks and sessions. Files are made only where there is a data server.
    #[must_use]
    pub const fn names() -> Self {
        Self {
            ds: 1,
            clients: 3,
            workers: 2,
            data_clients: 0,
            holders: 0,
            guests: 0,
            greedy_clients: 0,
            files: 3,
            steps: 40,
            net_faults: NetFaults::ROUGH,
            crashes: true,
            rdma: None,
            copies: false,
            times: false,
            eager: false,
            replicas: 1,
            copies_min: 1,
            moves: false,
            restripes: false,
            nfs3: false,
            nfs40: false,
            nlm: false,
            bug: None,
        }
    }

    pub(crate) fn creation(&self) -> Creation {
        if self.eager {
            Creation::Eager
        } else {
            Creation::Lazy
        }
    }

    /// Clients that keep to their credits and clients that do not, all over RDMA. There is no other trouble, so that whatever a
    /// client of the first kind suffers is the doing of the second.
    #[must_use]
    pub const fn greedy() -> Self {
        Self {
            ds: 1,
            clients: 1,
            data_clients: 1,
            guests: 3,
            greedy_clients: 4,
            steps: 30,
            net_faults: NetFaults::NONE,
            crashes: false,
            rdma: Some(1000),
            ..Self::names()
        }
    }

    /// Copies, and how many must be in sync, as the metadata server is told.
    pub(crate) fn told_copies(&self) -> (u32, u32) {
        match self.bug {
            Some(InjectedBug::PromiseToOne) => (self.replicas, 1),
            _ => (self.replicas, self.copies_min),
        }
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        if self.greedy_clients > 0 {
            LEASE_OF_IDLERS_MS
        } else {
            LEASE_MS
        }
    }

    /// A whole cluster, with a little of everything.
    #[must_use]
    pub const fn cluster() -> Self {
        Self {
            ds: 3,
            clients: 1,
            workers: 2,
            data_clients: 3,
            ..Self::names()
        }
    }

    /// One file that all clients want, and servers that live on: what leases, recalls and fences are for.
    #[must_use]
    pub const fn contended() -> Self {
        Self {
            clients: 0,
            files: 1,
            steps: 100,
            crashes: false,
            ..Self::cluster()
        }
    }

    /// A cluster where servers work on ranges by themselves: COPY, CLONE, ALLOCATE, DEALLOCATE.
    #[must_use]
    pub const fn copies() -> Self {
        Self {
            clients: 0,
            steps: 60,
            copies: true,
            ..Self::cluster()
        }
    }

    /// The same with two files that all clients want, and servers that live on.
    #[must_use]
    pub const fn contended_copies() -> Self {
        Self {
            files: 2,
            copies: true,
            ..Self::contended()
        }
    }

    /// A cluster with two copies of each stripe, that loses data servers for longer than their lease.
    #[must_use]
    pub const fn replicated() -> Self {
        Self {
            clients: 0,
            steps: 60,
            replicas: 2,
            ..Self::cluster()
        }
    }

    /// Three copies, and no write for which fewer than two are in sync. With two copies clients would lose patience.
    #[must_use]
    pub const fn two_at_least() -> Self {
        Self {
            ds: 4,
            replicas: 3,
            copies_min: 2,
            ..Self::replicated()
        }
    }

    /// A cluster where modification times are set.
    #[must_use]
    pub const fn times() -> Self {
        Self {
            clients: 0,
            steps: 60,
            times: true,
            ..Self::cluster()
        }
    }

    /// Files that are delegated to clients, of which all want to change them now and then.
    #[must_use]
    pub const fn delegations() -> Self {
        Self {
            clients: 0,
            holders: 3,
            files: 2,
            steps: 150,
            ..Self::names()
        }
    }
}
