//! Creates at NFSv3 servers of others by their number, as figures 4 and 5 of the paper show them, and at own data servers.

use super::Planning;
use super::table::{Denominator, Protocol, Shape};
use super::trial::{Ground, Look, Trial};
use crate::nfs::cluster::Carrier;
use crate::nfs::foreign::{ForeignCreates, Objects};
use crate::runner::Metric;

/// Servers of the curve, and of that of `--quick`.
const COUNTS: [u16; 5] = [1, 2, 4, 8, 16];
const COUNTS_QUICK: [u16; 2] = [1, 2];
/// What is compared, and how goals name it. The table has them in this order.
const OPERATIONS: [(Objects, &str); 3] = [
    (Objects::Eager, "eager create at nfs3 servers"),
    (Objects::Ahead, "create at nfs3 servers, made ahead"),
    (Objects::Own, "create with a layout"),
];

/// Eager creates, creates with objects made ahead, and those at own data servers, each by number of servers.
pub(super) fn creates(planning: &Planning<'_>) -> Vec<Trial> {
    let counts = planning.pick(COUNTS.as_slice(), COUNTS_QUICK.as_slice());
    let title = "A create with a layout, by servers that its file lies on; NFSv3 servers are ropewalks in memory";
    let mut trial = Trial::new(title, Ground::Tmpfs, 1);
    trial.look = Look::Creates(counts.to_vec());
    let [eager, ahead, own] = OPERATIONS.map(|(objects, operation)| {
        let add = |servers_count: &u16| {
            let servers_count = *servers_count;
            trial.add(move |stage| {
                Ok(ForeignCreates {
                    cluster: stage.any_cluster(1, Carrier::Tcp),
                    servers_count,
                    objects,
                })
            })
        };
        let places: Vec<usize> = counts.iter().map(add).collect();
        let shape = Shape {
            protocol: Protocol::Nfs4,
            operation: operation.to_owned(),
            size_bytes: None,
            connections: 1,
            data_servers: counts[counts.len() - 1],
            carrier: Carrier::Tcp,
        };
        (shape, places[0], places[places.len() - 1])
    });
    let p50 = Metric::LatencyP50Us;
    for ((shape, _, ours), to) in [
        (&eager, (Denominator::OneNfs3Server, eager.1)),
        (&ahead, (Denominator::OneNfs3Server, ahead.1)),
        (&ahead, (Denominator::Eager, eager.2)),
        (&ahead, (Denominator::OwnDataServers, own.2)),
        (&own, (Denominator::OneDataServer, own.1)),
    ] {
        trial.claim(shape, *ours, to, p50);
    }
    vec![trial]
}
