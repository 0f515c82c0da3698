//! The line of a report that names the transports.

use crate::suite::measure::Results;
use crate::suite::plan::Server;

/// Who made the transports: software is a protocol, not hardware.
pub(super) fn transports(results: &Results) -> String {
    let mut names: Vec<String> = Vec::new();
    for cell in &results.plan.cells {
        let name = match (cell.server, cell.server.transport()) {
            (_, Some(transport)) => {
                let provider = results.carriers.own_rdma.provider(transport);
                format!("Transport: {}, by {provider}", transport.name())
            }
            (Server::LocalDisk, None) => continue,
            (_, None) => match &results.carriers.given {
                Some(provider) => format!("Transport: to the given server, by {provider}"),
                None => "Transport: that of the given server or mount".to_owned(),
            },
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join("; ")
}
