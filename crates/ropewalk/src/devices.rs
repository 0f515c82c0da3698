//! `ropewalk rdma`: the RDMA devices of this machine, and in words whether and why they can be used.

use crate::cli::RdmaArgs;
use crate::failure::Outcome;
use crate::out;
use crate::table::table;
use fabric_verbs::{DeviceReport, PortReport, Survey, survey};
use serde_json::{Value, json};
use std::fmt::Write;

/// What each kind of device is asked for by, where there is none.
const HINT: &str = "Without a device: the kernel's soft-RoCE (modprobe rdma_rxe; rdma link add rxe0 type rxe netdev DEVICE),\n\
                    or the software iWARP that is built in (rdma_provider = \"iwarp\"), which needs nothing.\n";

pub(crate) fn run(args: &RdmaArgs) -> Outcome {
    let survey = survey();
    if args.json {
        let text = serde_json::to_string_pretty(&to_json(&survey)).unwrap_or_default();
        return out::line(&text);
    }
    out::print(&to_text(&survey))
}

fn to_text(survey: &Survey) -> String {
    let mut text = String::new();
    if !survey.devices.is_empty() {
        let head = [
            "DEVICE",
            "KIND",
            ">PORT",
            "STATE",
            "INTERFACE",
            ">MTU",
            ">QUEUE PAIRS",
            ">REQUESTS",
            ">PIECES",
            ">READS",
        ];
        let rows: Vec<Vec<String>> = survey.devices.iter().flat_map(rows).collect();
        text.push_str(&table(&head, &rows));
        text.push('\n');
    }
    for device in &survey.devices {
        if let Some(why) = device.why_not() {
            let _ = writeln!(text, "{} cannot be used: {why}", device.name);
        }
    }
    match survey.why_not() {
        None => text.push_str("RDMA devices can be used: rdma_provider = \"verbs\", or \"auto\"\n"),
        Some(why) => {
            let _ = writeln!(text, "RDMA devices cannot be used: {why}");
            text.push_str(HINT);
        }
    }
    text
}

fn rows(device: &DeviceReport) -> Vec<Vec<String>> {
    let row = |port: Option<&PortReport>| {
        let of_port = |f: &dyn Fn(&PortReport) -> String| port.map_or_else(String::new, f);
        vec![
            device.name.clone(),
            device.kind.name().to_owned(),
            of_port(&|port| port.number.to_string()),
            of_port(&|port| port.state.to_owned()),
            of_port(&|port| port.interface.clone().unwrap_or_default()),
            of_port(&|port| port.mtu.map_or_else(String::new, |mtu| mtu.to_string())),
            device.queue_pairs_max.to_string(),
            device.requests_max.to_string(),
            device.pieces_max.to_string(),
            device.reads_max.0.min(device.reads_max.1).to_string(),
        ]
    };
    if device.ports.is_empty() {
        return vec![row(None)];
    }
    device.ports.iter().map(|port| row(Some(port))).collect()
}

fn to_json(survey: &Survey) -> Value {
    let port = |port: &PortReport| {
        json!({
            "port": port.number,
            "active": port.is_active,
            "state": port.state,
            "interface": port.interface,
            "mtu_bytes": port.mtu,
            "message_bytes_max": port.message_bytes_max,
        })
    };
    let device = |device: &DeviceReport| {
        json!({
            "name": device.name,
            "kind": device.kind.name(),
            "software": device.kind.is_software(),
            "firmware": device.firmware,
            "usable": device.is_usable(),
            "why_not": device.why_not(),
            "queue_pairs_max": device.queue_pairs_max,
            "requests_max": device.requests_max,
            "pieces_max": device.pieces_max,
            "reads_served_max": device.reads_max.0,
            "reads_outstanding_max": device.reads_max.1,
            "remote_invalidation": device.invalidates,
            "ports": device.ports.iter().map(port).collect::<Vec<_>>(),
        })
    };
    json!({
        "usable": survey.why_not().is_none(),
        "why_not": survey.why_not(),
        "devices": survey.devices.iter().map(device).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    //! Goal: whoever has no device is told why and what to do, in words and in JSON.
    use super::*;

    #[test]
    fn a_missing_library_is_said_in_one_line() {
        let survey = Survey {
            library: Some("librdmacm.so.1 cannot be loaded".to_owned()),
            ..Survey::default()
        };
        let text = to_text(&survey);
        assert!(text.starts_with(
            "RDMA devices cannot be used: librdmacm.so.1 cannot be loaded\nWithout a device:"
        ));
        let json = to_json(&survey);
        assert_eq!(json["usable"], false);
        assert_eq!(json["why_not"], "librdmacm.so.1 cannot be loaded");
    }
}
