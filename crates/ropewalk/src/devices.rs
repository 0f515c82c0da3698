//! `ropewalk rdma`: the RDMA devices of this machine, and in words whether and why they can be used.

use crate::cli::RdmaArgs;
use crate::failure::Outcome;
use crate::out;
use crate::table::table;
use fabric_verbs::{DeviceKind, DeviceReport, PortReport, Survey, survey};
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
            "ADDRESSES",
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
        describe(&mut text, device);
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

/// What a device has, and what speaks against it or one of its ports.
fn describe(text: &mut String, device: &DeviceReport) {
    let name = &device.name;
    if device.unusable.is_none() {
        let extensions = if device.invalidates {
            "memory management extensions (Send with invalidate, local invalidate, fast registration)"
        } else {
            "no memory management extensions: no Send with invalidate, no local invalidate, and Linux's NFS client does without the device"
        };
        let receives = match device.shared_receives_max {
            0 => "no shared receive queues".to_owned(),
            most => format!("shared receive queues of up to {most}"),
        };
        let _ = writeln!(text, "{name} has {extensions}; {receives}");
    }
    if let Some(why) = device.why_not() {
        let _ = writeln!(text, "{name} cannot be used: {why}");
    } else {
        for why in device.ports.iter().filter_map(PortReport::why_not) {
            let _ = writeln!(text, "{name}: {why}");
        }
    }
    let lacks = |port: &PortReport| port.is_active && port.interfaces.is_empty();
    if device.kind == DeviceKind::InfiniBand && device.ports.iter().any(lacks) {
        let _ = writeln!(
            text,
            "{name}: addresses of InfiniBand are those of IPoIB interfaces (modprobe ib_ipoib)"
        );
    }
}

fn addresses(port: &PortReport) -> Vec<String> {
    port.addresses.iter().map(ToString::to_string).collect()
}

fn rows(device: &DeviceReport) -> Vec<Vec<String>> {
    let row = |port: Option<&PortReport>| {
        let of_port = |f: &dyn Fn(&PortReport) -> String| port.map_or_else(String::new, f);
        vec![
            device.name.clone(),
            device.kind.name().to_owned(),
            of_port(&|port| port.number.to_string()),
            of_port(&|port| port.state.to_owned()),
            of_port(&|port| port.interfaces.join(",")),
            of_port(&|port| match &addresses(port)[..] {
                [] => "none".to_owned(),
                addresses => addresses.join(","),
            }),
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
            "interfaces": port.interfaces,
            "addresses": addresses(port),
            "why_not": port.why_not(),
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
            "local_invalidation": device.invalidates,
            "memory_management_extensions": device.invalidates,
            "shared_receives_max": device.shared_receives_max,
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
    use fabric_verbs::PortAddress;

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

    /// A device with two ports that are up; the first has these addresses, the second none.
    fn device(addresses: &[&str], invalidates: bool) -> Survey {
        let port = |number, interface: &str, addresses: &[&str]| PortReport {
            number,
            is_active: true,
            state: "active",
            mtu: Some(4096),
            message_bytes_max: 1 << 30,
            interfaces: vec![interface.to_owned()],
            addresses: addresses
                .iter()
                .map(|address| PortAddress {
                    address: address.parse().expect("an address"),
                    interface: interface.to_owned(),
                })
                .collect(),
        };
        let device = DeviceReport {
            name: "mlx5_0".to_owned(),
            kind: DeviceKind::Roce,
            firmware: String::new(),
            unusable: None,
            memory: None,
            queue_pairs_max: 1,
            requests_max: 1,
            pieces_max: 1,
            reads_max: (16, 16),
            invalidates,
            shared_receives_max: 32_767,
            ports: vec![port(1, "eth1", addresses), port(2, "eth2", &[])],
        };
        Survey {
            devices: vec![device],
            ..Survey::default()
        }
    }

    #[test]
    fn a_port_without_an_address_cannot_be_used() {
        let survey = device(&["fe80::1"], true);
        let (text, json) = (to_text(&survey), to_json(&survey));
        assert!(text.contains("fe80::1%eth1"), "{text}");
        for hint in ["dev eth1`", "dev eth2`"] {
            assert!(text.contains(hint), "{text}");
        }
        assert!(text.contains("\nRDMA devices cannot be used: mlx5_0: port 1 (eth1) has no IP"));
        assert_eq!(
            (&json["usable"], &json["devices"][0]["usable"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(json["devices"][0]["ports"][1]["addresses"], json!([]));
    }

    #[test]
    fn a_port_with_an_address_will_do() {
        let survey = device(&["192.0.2.1", "2001:db8::1"], true);
        let (text, json) = (to_text(&survey), to_json(&survey));
        assert!(text.contains("192.0.2.1,2001:db8::1"), "{text}");
        assert!(
            text.contains("\nmlx5_0: port 2 (eth2) has no IP address"),
            "{text}"
        );
        assert!(text.contains("\nRDMA devices can be used"), "{text}");
        assert_eq!(
            (&json["usable"], &json["why_not"]),
            (&json!(true), &json!(null))
        );
        let ports = &json["devices"][0]["ports"];
        assert_eq!(ports[0]["addresses"], json!(["192.0.2.1", "2001:db8::1"]));
        assert_eq!(ports[0]["why_not"], json!(null));
        assert!(
            ports[1]["why_not"]
                .as_str()
                .is_some_and(|why| why.contains("ip addr add"))
        );
    }

    #[test]
    fn what_a_device_does_with_memory_is_said() {
        for invalidates in [true, false] {
            let survey = device(&["192.0.2.1"], invalidates);
            let (text, json) = (to_text(&survey), to_json(&survey));
            assert_eq!(
                text.contains("no memory management extensions"),
                !invalidates
            );
            assert!(
                text.contains("shared receive queues of up to 32767"),
                "{text}"
            );
            let device = &json["devices"][0];
            for key in [
                "remote_invalidation",
                "local_invalidation",
                "memory_management_extensions",
            ] {
                assert_eq!(device[key], invalidates, "{key}");
            }
        }
    }
}
