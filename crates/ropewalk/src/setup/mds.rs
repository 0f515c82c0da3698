//! `ropewalk setup mds`: which clients, where the state lies, and who may write.
//!
//! Owns the text of a new `mds.toml`. The text depends on the answers and on the addresses of this machine only.

use super::networks::{self, OwnAddress};
use super::plan::{
    NFS_PORT, Plan, WriteArgs, absolute, addresses, parse_address, parse_nfs_address, path_value,
    setting,
};
use super::questions::{Question, Questions};
use super::user::{Owner, parse_owner};
use crate::config_cmd::ServerRole;
use crate::failure::{Outcome, usage};
use server::exports::{ClientRule, EXPORT_RULES_MAX};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The port where data servers join.
const CONTROL_PORT: u16 = 2149;
/// Where the state lies when nobody says.
const DIR_DEFAULT: &str = "/var/lib/ropewalk/mds";
/// The answer that lets in this machine only.
const LOOPBACK: &str = "127.0.0.1";

/// `ropewalk setup mds`.
#[derive(Debug, clap::Args)]
pub(crate) struct MdsSetup {
    /// Addresses or networks that clients come from, e.g. 10.0.0.0/8 [default: the private networks of this machine]
    #[arg(long, value_name = "NET[,NET]", value_delimiter = ',', value_parser = parse_client)]
    clients: Vec<String>,
    /// Directory of the state [default: /var/lib/ropewalk/mds]
    #[arg(long, alias = "state-dir", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// User who may write to the new tree: the owner of its root directory
    #[arg(long, value_name = "USER|UID:GID", value_parser = parse_owner)]
    owner: Option<Owner>,
    /// Addresses that clients mount from [default: those of this machine in the networks of the clients, port 2049]
    #[arg(long, value_name = "ADDR[:PORT]", value_delimiter = ',', value_parser = parse_nfs_address)]
    listen: Vec<SocketAddr>,
    /// Addresses where data servers join [default: those of --listen, port 2149]
    #[arg(long, value_name = "ADDR[:PORT]", value_delimiter = ',', value_parser = parse_control_address)]
    control_listen: Vec<SocketAddr>,
    #[command(flatten)]
    pub(super) write: WriteArgs,
}

fn parse_control_address(text: &str) -> Result<SocketAddr, String> {
    parse_address(text, CONTROL_PORT)
}

fn parse_client(text: &str) -> Result<String, String> {
    let rule: Result<ClientRule, _> = text.trim().parse();
    rule.map_err(|e| e.to_string())?;
    Ok(text.trim().to_owned())
}

fn parse_clients(text: &str) -> Result<Vec<String>, String> {
    let clients: Vec<String> = text
        .split(',')
        .map(parse_client)
        .collect::<Result<_, _>>()?;
    match clients.len() {
        0..=EXPORT_RULES_MAX => Ok(clients),
        _ => Err("that is more than 1024 networks".to_owned()),
    }
}

/// Asks for what was not said, and makes the text.
pub(super) fn plan(args: &MdsSetup, questions: &mut Questions) -> Outcome<Plan> {
    let own = networks::own();
    let clients = match &args.clients[..] {
        [] => questions.ask(
            &Question {
                option: "--clients",
                text: "Addresses or networks that clients come from",
                default: Some(networks_of(&own)),
            },
            parse_clients,
        )?,
        said => said.to_vec(),
    };
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => questions.ask(
            &Question {
                option: "--dir",
                text: "Directory of the state",
                default: Some(DIR_DEFAULT.to_owned()),
            },
            |text| Ok(PathBuf::from(text)),
        )?,
    };
    let owner = match args.owner {
        Some(owner) => owner,
        None => questions.ask(
            &Question {
                option: "--owner",
                text: "User who may write to the new tree (a name, or UID:GID as clients know it)",
                default: None,
            },
            parse_owner,
        )?,
    };
    let listen = match &args.listen[..] {
        [] => listeners(&clients, &own)?,
        said => said.to_vec(),
    };
    let control = match &args.control_listen[..] {
        [] => with_port(&listen, CONTROL_PORT),
        said => said.to_vec(),
    };
    let answers = Answers {
        clients,
        state_dir: path_value(&absolute(&dir)?)?,
        owner,
        listen,
        control,
    };
    Ok(answers.plan())
}

/// The private networks of this machine; where there is none, this machine.
fn networks_of(own: &[OwnAddress]) -> String {
    let private = own.iter().filter(|own| own.is_private());
    let mut networks: Vec<String> = private.map(OwnAddress::network).collect();
    networks.dedup();
    match networks.is_empty() {
        true => LOOPBACK.to_owned(),
        false => networks.join(","),
    }
}

/// Addresses of this machine that these clients are near to; else all of them, as clients may come through a gateway.
fn listeners(clients: &[String], own: &[OwnAddress]) -> Outcome<Vec<SocketAddr>> {
    let rules: Vec<ClientRule> = clients.iter().filter_map(|c| c.parse().ok()).collect();
    let is_near = |ip: IpAddr| rules.iter().any(|rule| rule.contains(ip));
    let all = own.iter().map(|own| own.ip);
    let mut near: Vec<IpAddr> = all.clone().filter(|ip| is_near(*ip)).collect();
    // `*` is no wish for loopback.
    let is_wished = |ip: &IpAddr| {
        clients
            .iter()
            .any(|client| client.parse::<IpAddr>() == Ok(*ip))
    };
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if is_wished(&loopback) {
        near.insert(0, loopback);
    }
    let chosen = if near.is_empty() { all.collect() } else { near };
    match chosen.is_empty() {
        true => Err(usage(
            "--listen is missing: this machine has no address for clients beyond loopback",
        )),
        false => Ok(chosen
            .iter()
            .map(|ip| SocketAddr::new(*ip, NFS_PORT))
            .collect()),
    }
}

fn with_port(list: &[SocketAddr], port: u16) -> Vec<SocketAddr> {
    let mut list: Vec<SocketAddr> = list.iter().map(|a| SocketAddr::new(a.ip(), port)).collect();
    list.dedup();
    list
}

/// All that the text depends on.
struct Answers {
    clients: Vec<String>,
    state_dir: String,
    owner: Owner,
    listen: Vec<SocketAddr>,
    control: Vec<SocketAddr>,
}

impl Answers {
    fn plan(self) -> Plan {
        let mount = self.listen.first().map(mount_command);
        let from_here = self.listen.iter().all(|a| a.ip().is_loopback());
        let note = "only this machine can mount: --clients names other networks";
        let on_nfs = self.listen.iter().map(|a| (*a, "--listen"));
        let on_control = self.control.iter().map(|a| (*a, "--control-listen"));
        let token = format!("ropewalk token create --dir {}", self.state_dir);
        let join = "ropewalk setup ds  # on each machine with disks, with a token of its own";
        Plan {
            role: ServerRole::Mds,
            text: self.text(),
            secret: None,
            reads: None,
            listen: on_nfs.chain(on_control).collect(),
            notes: from_here.then(|| note.to_owned()).into_iter().collect(),
            then: [token, join.to_owned()].into_iter().chain(mount).collect(),
            state_dir: self.state_dir.into(),
        }
    }

    fn text(&self) -> String {
        let mut text = "# Written by `ropewalk setup mds`. docs/operate/configuration.md has all settings.\n\n".to_owned();
        text += &setting(
            "Directory of all durable state.",
            "state_dir",
            self.state_dir.as_str(),
        );
        text += &setting(
            "Addresses that clients mount from.",
            "listen",
            addresses(&self.listen),
        );
        let comment = "Where data servers join, over mutual TLS.";
        text += &setting(comment, "control_listen", addresses(&self.control));
        text += &format!(
            "# Who may write to the root directory of a new file system: root of clients is nobody.\n\
             [root]\nuid = {}\ngid = {}\nmode = \"0755\"\n",
            self.owner.uid, self.owner.gid
        );
        for clients in &self.clients {
            text += "\n# Who may mount, as often as needed.\n[[export]]\nclients = ";
            text += &toml::Value::from(clients.as_str()).to_string();
            text.push('\n');
        }
        text
    }
}

fn mount_command(address: &SocketAddr) -> String {
    let host = match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let port = match address.port() {
        NFS_PORT => String::new(),
        port => format!(",port={port}"),
    };
    format!("mount -t nfs -o vers=4.2{port} {host}:/ /mnt  # on clients")
}

#[cfg(test)]
mod tests {
    //! Goal: the text is a configuration that lets the owner write and root not; addresses are near the clients.
    use super::*;
    use crate::config::{self, MdsConfig};

    fn own(list: &[(&str, u8)]) -> Vec<OwnAddress> {
        let one = |(ip, prefix_bits): &(&str, u8)| OwnAddress {
            ip: ip.parse().unwrap(),
            prefix_bits: *prefix_bits,
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn clients_are_those_of_private_networks_unless_somebody_says() {
        for (list, clients) in [
            (
                &[("10.0.0.5", 8), ("fd00::5", 64)][..],
                "10.0.0.0/8,fd00::/64",
            ),
            (&[("203.0.113.5", 24)], LOOPBACK),
            (&[], LOOPBACK),
        ] {
            assert_eq!(networks_of(&own(list)), clients);
        }
    }

    #[test]
    fn servers_listen_near_their_clients() {
        let machine = own(&[("10.0.0.5", 8), ("192.168.1.5", 24), ("fd00::5", 64)]);
        for (clients, machine, listen) in [
            ("10.0.0.0/8", &machine[..], Some("10.0.0.5:2049")),
            (
                "fd00::/8,192.168.0.0/16",
                &machine,
                Some("192.168.1.5:2049 [fd00::5]:2049"),
            ),
            ("172.16.0.0/12", &machine[..1], Some("10.0.0.5:2049")),
            ("*", &machine[..1], Some("10.0.0.5:2049")),
            ("127.0.0.1", &[], Some("127.0.0.1:2049")),
            (
                "127.0.0.1,10.0.0.0/8",
                &machine[..1],
                Some("127.0.0.1:2049 10.0.0.5:2049"),
            ),
            ("10.0.0.0/8", &[], None),
        ] {
            let clients = parse_clients(clients).unwrap();
            let found = listeners(&clients, machine)
                .ok()
                .map(|l| addresses(&l).join(" "));
            assert_eq!(found.as_deref(), listen, "{clients:?}");
        }
    }

    #[test]
    fn the_text_is_a_configuration_that_its_owner_can_write_with() {
        let answers = Answers {
            clients: vec!["10.0.0.0/8".to_owned(), "fd00::/64".to_owned()],
            state_dir: "/s \"quoted\"".to_owned(),
            owner: Owner {
                uid: 1000,
                gid: 100,
            },
            listen: vec!["10.0.0.1:2049".parse().unwrap()],
            control: vec!["10.0.0.1:2149".parse().unwrap()],
        };
        let config: MdsConfig = config::parse(&answers.text()).unwrap();
        assert!(config.squashes_root());
        let root = config.root_of_new();
        assert_eq!((root.uid, root.gid, root.mode.0), (1000, 100, 0o755));
        assert_eq!(config.state_dir.to_str(), Some("/s \"quoted\""));
        assert_eq!(config.exports.len(), 2);
        let plan = answers.plan();
        let mount = plan.then.last().unwrap();
        assert!(
            mount.starts_with("mount -t nfs -o vers=4.2 10.0.0.1:/ /mnt"),
            "{mount}"
        );
        assert!(plan.notes.is_empty());
        let options: Vec<&str> = plan.listen.iter().map(|(_, option)| *option).collect();
        assert_eq!(options, ["--listen", "--control-listen"]);
    }

    #[test]
    fn a_mount_names_a_port_that_is_not_the_usual_one() {
        let text = mount_command(&"[fd00::1]:99".parse().unwrap());
        assert!(text.starts_with("mount -t nfs -o vers=4.2,port=99 [fd00::1]:/ /mnt"));
    }
}
