//! What each resource of a cluster is used, by the utilisation law: rate times cost, divided by what there is.

/// What an operation at the metadata server costs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OperationCost {
    /// CPU of the metadata server, in seconds.
    pub server_s: f64,
    /// CPU of the client, in seconds.
    pub client_s: f64,
    /// Bytes of request and reply on the link.
    pub wire_bytes: f64,
}

/// What a READ at a data server costs: a part for the request, and a part for each byte.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TransferCost {
    /// CPU of the data server for a request, in seconds.
    pub server_request_s: f64,
    /// CPU of the data server for a byte, in seconds.
    pub server_byte_s: f64,
    /// CPU of the client for a request, in seconds.
    pub client_request_s: f64,
    /// CPU of the client for a byte, in seconds.
    pub client_byte_s: f64,
}

/// All that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Costs {
    /// Memory of a metadata server with nobody, in bytes.
    pub idle_bytes: f64,
    /// CPU of a metadata server with nobody, in seconds per second.
    pub idle_cores: f64,
    /// Memory for each session, in bytes.
    pub session_bytes: f64,
    /// Memory for each data server, in bytes.
    pub ds_bytes: f64,
    /// CPU of the metadata server for a heartbeat, in seconds.
    pub heartbeat_s: f64,
    /// CPU of the metadata server for the renewal of a lease, in seconds.
    pub renewal_s: f64,
    /// GETATTR.
    pub getattr: OperationCost,
    /// OPEN that creates, and CLOSE, with a store in memory.
    pub create: OperationCost,
    /// LAYOUTGET.
    pub layoutget: OperationCost,
    /// OPEN that creates, and CLOSE, with a store on a disk; what it waits for is [`Costs::sync_s`].
    pub durable: OperationCost,
    /// READ at a data server.
    pub read: TransferCost,
    /// A sync of the metadata store, in seconds.
    pub sync_s: f64,
}

/// How large a cluster is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterSize {
    /// Data servers.
    pub ds_count: f64,
    /// Clients, with a session each.
    pub sessions_count: f64,
    /// Seconds between two heartbeats of a data server.
    pub heartbeat_every_s: f64,
    /// Seconds between two renewals of a session.
    pub renewal_every_s: f64,
}

/// What a cluster stands on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hardware {
    /// Processors of the metadata server.
    pub mds_cores: f64,
    /// Memory of the metadata server.
    pub mds_memory_bytes: f64,
    /// Link of the metadata server, each way.
    pub mds_link_bytes_per_s: f64,
    /// Processors of each data server.
    pub ds_cores: f64,
    /// Link of each data server, each way.
    pub ds_link_bytes_per_s: f64,
}

/// What each client does.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Demand {
    /// GETATTRs per second.
    pub getattr_per_s: f64,
    /// Files made per second.
    pub create_per_s: f64,
    /// LAYOUTGETs per second.
    pub layoutget_per_s: f64,
    /// READs per second.
    pub read_per_s: f64,
    /// Bytes of each.
    pub read_bytes: f64,
}

/// What can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Processors of the metadata server.
    MdsCpu,
    /// Memory of the metadata server.
    MdsMemory,
    /// Link of the metadata server.
    MdsLink,
    /// Processors of the data servers.
    DsCpu,
    /// Links of the data servers.
    DsLinks,
}

impl Resource {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MdsCpu => "CPU of the metadata server",
            Self::MdsMemory => "memory of the metadata server",
            Self::MdsLink => "link of the metadata server",
            Self::DsCpu => "CPU of the data servers",
            Self::DsLinks => "links of the data servers",
        }
    }
}

/// How much of a resource is used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// Which.
    pub resource: Resource,
    /// Share that is used; above 1 it cannot be.
    pub utilisation: f64,
    /// Clients with which it would be used up, all else as it is; infinite when clients do not use it.
    pub clients_max: f64,
}

impl Costs {
    /// CPU of the metadata server for data servers and sessions that only live, in seconds per second.
    #[must_use]
    pub fn background_cores(&self, cluster: &ClusterSize) -> f64 {
        let heartbeats = cluster.ds_count / cluster.heartbeat_every_s * self.heartbeat_s;
        let renewals = cluster.sessions_count / cluster.renewal_every_s * self.renewal_s;
        self.idle_cores + heartbeats + renewals
    }

    /// Memory of the metadata server with data servers and sessions that only live.
    #[must_use]
    pub fn memory_bytes(&self, cluster: &ClusterSize) -> f64 {
        let servers = cluster.ds_count * self.ds_bytes;
        self.idle_bytes + servers + cluster.sessions_count * self.session_bytes
    }

    /// Data servers whose heartbeats alone would keep the metadata server busy.
    #[must_use]
    pub fn ds_max(&self, hardware: &Hardware, cluster: &ClusterSize) -> f64 {
        let free_cores = hardware.mds_cores - self.idle_cores;
        free_cores * cluster.heartbeat_every_s / self.heartbeat_s
    }

    /// How much of each resource such clients use.
    #[must_use]
    pub fn uses(&self, hardware: &Hardware, cluster: &ClusterSize, demand: &Demand) -> Vec<Use> {
        let nobody = ClusterSize {
            sessions_count: 0.0,
            ..*cluster
        };
        let operations = [
            (demand.getattr_per_s, &self.getattr),
            (demand.create_per_s, &self.durable),
            (demand.layoutget_per_s, &self.layoutget),
        ];
        let sum = |of: fn(&OperationCost) -> f64| -> f64 {
            operations.iter().map(|(rate, cost)| rate * of(cost)).sum()
        };
        let read = &self.read;
        let ds_s = read.server_request_s + read.server_byte_s * demand.read_bytes;
        let renewal_cores = self.renewal_s / cluster.renewal_every_s;
        // What there is, what is used without a client, and what each client uses.
        let shares = [
            (
                Resource::MdsCpu,
                hardware.mds_cores,
                self.background_cores(&nobody),
                renewal_cores + sum(|cost| cost.server_s),
            ),
            (
                Resource::MdsMemory,
                hardware.mds_memory_bytes,
                self.memory_bytes(&nobody),
                self.session_bytes,
            ),
            (
                Resource::MdsLink,
                hardware.mds_link_bytes_per_s,
                0.0,
                sum(|cost| cost.wire_bytes),
            ),
            (
                Resource::DsCpu,
                hardware.ds_cores * cluster.ds_count,
                0.0,
                demand.read_per_s * ds_s,
            ),
            (
                Resource::DsLinks,
                hardware.ds_link_bytes_per_s * cluster.ds_count,
                0.0,
                demand.read_per_s * demand.read_bytes,
            ),
        ];
        shares
            .into_iter()
            .map(|(resource, there_is, without, each)| Use {
                resource,
                utilisation: (without + cluster.sessions_count * each) / there_is,
                clients_max: (there_is - without).max(0.0) / each,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    //! Uses by hand, and that the first resource to end is the one with the fewest clients.
    use super::*;

    const COSTS: Costs = Costs {
        idle_bytes: 10e6,
        idle_cores: 0.01,
        session_bytes: 20e3,
        ds_bytes: 10e3,
        heartbeat_s: 50e-6,
        renewal_s: 40e-6,
        getattr: OperationCost {
            server_s: 10e-6,
            client_s: 12e-6,
            wire_bytes: 400.0,
        },
        create: OperationCost {
            server_s: 50e-6,
            client_s: 20e-6,
            wire_bytes: 1000.0,
        },
        layoutget: OperationCost {
            server_s: 20e-6,
            client_s: 12e-6,
            wire_bytes: 500.0,
        },
        durable: OperationCost {
            server_s: 60e-6,
            client_s: 20e-6,
            wire_bytes: 1000.0,
        },
        read: TransferCost {
            server_request_s: 5e-6,
            server_byte_s: 0.2e-9,
            client_request_s: 5e-6,
            client_byte_s: 0.3e-9,
        },
        sync_s: 1e-3,
    };
    const CLUSTER: ClusterSize = ClusterSize {
        ds_count: 1000.0,
        sessions_count: 8000.0,
        heartbeat_every_s: 4.0,
        renewal_every_s: 40.0,
    };
    const HARDWARE: Hardware = Hardware {
        mds_cores: 16.0,
        mds_memory_bytes: 64e9,
        mds_link_bytes_per_s: 12.5e9,
        ds_cores: 8.0,
        ds_link_bytes_per_s: 12.5e9,
    };

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn those_that_only_live_cost_what_they_say() {
        // 250 heartbeats of 50 µs and 200 renewals of 40 µs in each second.
        close(COSTS.background_cores(&CLUSTER), 0.01 + 0.0125 + 0.008);
        close(COSTS.memory_bytes(&CLUSTER), 10e6 + 10e6 + 160e6);
        close(COSTS.ds_max(&HARDWARE, &CLUSTER), 15.99 * 4.0 / 50e-6);
    }

    #[test]
    fn each_resource_ends_where_its_clients_use_it_up() {
        let demand = Demand {
            getattr_per_s: 100.0,
            create_per_s: 10.0,
            layoutget_per_s: 10.0,
            read_per_s: 1000.0,
            read_bytes: 1e6,
        };
        let uses = COSTS.uses(&HARDWARE, &CLUSTER, &demand);
        for used in &uses {
            let full = ClusterSize {
                sessions_count: used.clients_max,
                ..CLUSTER
            };
            let again = COSTS.uses(&HARDWARE, &full, &demand);
            let same = again.iter().find(|u| u.resource == used.resource).unwrap();
            close(same.utilisation, 1.0);
        }
        let of = |resource| uses.iter().find(|u| u.resource == resource).unwrap();
        // 1.8 ms of operations and 1 µs of renewal for each client in a second.
        let each = 100.0 * 10e-6 + 10.0 * 60e-6 + 10.0 * 20e-6 + 1e-6;
        close(
            of(Resource::MdsCpu).utilisation,
            (0.0225 + 8000.0 * each) / 16.0,
        );
        // 8,000 clients with 1 GB/s each on 1,000 links of 12.5 GB/s.
        close(of(Resource::DsLinks).utilisation, 0.64);
        close(of(Resource::DsLinks).clients_max, 12_500.0);
        close(
            of(Resource::DsCpu).utilisation,
            8000.0 * 1000.0 * 205e-6 / 8000.0,
        );
    }

    #[test]
    fn what_clients_do_not_use_never_ends() {
        let uses = COSTS.uses(&HARDWARE, &CLUSTER, &Demand::default());
        let idle = uses
            .iter()
            .find(|u| u.resource == Resource::DsLinks)
            .unwrap();
        assert!(idle.clients_max.is_infinite());
        assert_eq!(idle.utilisation, 0.0);
    }
}
