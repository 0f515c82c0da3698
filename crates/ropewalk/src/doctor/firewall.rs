//! Whether a firewall on this machine lets clients in at the ports of its servers.
//!
//! It warns only where a port is certainly closed: a chain refuses what no rule accepts, and no rule could accept the port. Otherwise
//! it says that it cannot tell. Other machines' firewalls cannot be seen.

use super::outside;
use super::row::Row;
use super::rules::{Chain, Chains, Family, Hook};
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The name of its row.
pub(super) const CHECK: &str = "firewall";

/// For the listeners of all servers here.
pub(super) fn check(listeners: &[SocketAddr]) -> Row {
    let beyond = listeners
        .iter()
        .filter(|address| !address.ip().to_canonical().is_loopback());
    let wanted: BTreeSet<(u16, bool)> = beyond.map(|a| (a.port(), a.is_ipv4())).collect();
    if wanted.is_empty() {
        return Row::ok(CHECK, "no server listens beyond loopback");
    }
    if !geteuid().is_root() {
        return Row::unknown(CHECK, "only root can read the rules of the firewall");
    }
    match printed() {
        Some(chains) => judge(&chains, &wanted),
        None => Row::unknown(
            CHECK,
            "no rules can be read: neither nft nor iptables-save answers",
        ),
    }
}

/// The rules of this machine. None when no program prints them.
fn printed() -> Option<Chains> {
    let nft = outside::ask("nft", &["list", "ruleset"]);
    let v4 = outside::ask("iptables-save", &[]);
    let v6 = outside::ask("ip6tables-save", &[]);
    let mut chains = Chains::default();
    if nft.is_none() && v4.is_none() && v6.is_none() {
        return None;
    }
    chains.add_nft(&nft.unwrap_or_default());
    chains.add_iptables(Family::V4, &v4.unwrap_or_default());
    chains.add_iptables(Family::V6, &v6.unwrap_or_default());
    Some(chains)
}

/// How a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// Nothing refuses it.
    Open,
    /// Something may.
    Unsure,
    /// A chain certainly does.
    Closed,
}

fn judge(chains: &Chains, wanted: &BTreeSet<(u16, bool)>) -> Row {
    let of = |state: Port| {
        let is_it = |(port, is_v4): &&(u16, bool)| port_state(chains, *port, *is_v4) == state;
        let ports: BTreeSet<u16> = wanted.iter().filter(is_it).map(|(port, _)| *port).collect();
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        ports.join(", ")
    };
    let (closed, unsure) = (of(Port::Closed), of(Port::Unsure));
    if !closed.is_empty() {
        return Row::warning(
            CHECK,
            format!(
                "rules of this machine refuse connections to port {closed}: none could accept them"
            ),
            "let clients and data servers in at these ports (TCP)",
        );
    }
    match unsure.is_empty() {
        true => Row::ok(CHECK, "no rule of this machine refuses connections"),
        false => Row::unknown(
            CHECK,
            format!(
                "cannot tell whether the rules of this machine let clients in at port {unsure}: try from a client"
            ),
        ),
    }
}

fn port_state(chains: &Chains, port: u16, is_v4: bool) -> Port {
    let not_here = if is_v4 { Family::V6 } else { Family::V4 };
    let begins = chains
        .all
        .values()
        .filter(|chain| chain.hook.is_some() && chain.family != not_here);
    let mut state = match chains.is_cut {
        true => Port::Unsure,
        false => Port::Open,
    };
    for chain in begins {
        let seen = walk(chains, chain, port);
        if seen.refuses_rest
            && !seen.may_accept
            && chain.hook == Some(Hook::Input)
            && !chains.is_cut
        {
            return Port::Closed;
        }
        if seen.may_refuse {
            state = Port::Unsure;
        }
    }
    state
}

/// What the rules of a chain, and of those that it goes on with, can do to a port.
#[derive(Debug, Default)]
struct Seen {
    may_accept: bool,
    may_refuse: bool,
    /// What no rule has accepted is refused.
    refuses_rest: bool,
}

fn walk(chains: &Chains, begin: &Chain, port: u16) -> Seen {
    let mut seen = Seen {
        may_refuse: begin.drops_rest,
        refuses_rest: begin.drops_rest,
        ..Seen::default()
    };
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<&str> = Vec::new();
    let mut chain = begin;
    loop {
        for rule in chain.rules.iter().filter(|rule| rule.can_meet(port)) {
            seen.may_accept |= rule.accepts;
            seen.may_refuse |= rule.refuses;
            let fresh = rule.jumps.iter().filter(|name| names.insert(name));
            next.extend(fresh.map(String::as_str));
            // Rules below the end of the first chain are never reached.
            if rule.always && std::ptr::eq(chain, begin) {
                seen.refuses_rest = true;
                break;
            }
        }
        let found = loop {
            let Some(name) = next.pop() else {
                return seen;
            };
            let key = (begin.table.clone(), name.to_owned());
            if let Some(found) = chains.all.get(&key) {
                break found;
            }
        };
        chain = found;
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a port is warned of only where no rule could accept it, in the words of nft and of iptables.
    use super::*;
    use crate::doctor::row::Verdict;

    const NFT: &str = "table inet filter {\n\tset more {\n\t\ttype inet_service\n\t\telements = { 4000,\n\t\t\t     4001 }\n\t}\n\
                       \tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\
                       \t\tct state established,related counter packets 2149 bytes 9 accept\n\
                       \t\tiifname \"lo\" accept\n\
                       \t\ttcp dport { 22, 2049-2050 } counter packets 2149 bytes 2149 accept\n\t}\n}\n";
    const IPTABLES: &str = "*filter\n:INPUT DROP [12:3456]\n:OUTPUT ACCEPT [1:2149]\n-A INPUT -i lo -j ACCEPT\n\
                            -A INPUT -p tcp -m multiport --dports 22,2049:2050 -j ACCEPT\nCOMMIT\n";
    /// As ufw has it: chains that chains go on with.
    const UFW: &str = "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:user - [0:0]\n:before - [0:0]\n-A INPUT -j before\n\
                       -A before -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A before -j user\n\
                       -A user -p tcp -m tcp --dport 2049 -j ACCEPT\n-A user -j before\nCOMMIT\n";
    /// As on a machine with containers: nothing of it is for this machine.
    const FORWARD: &str =
        "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n-A FORWARD -j DROP\nCOMMIT\n";

    fn read(rules: &str) -> Chains {
        let mut chains = Chains::default();
        match rules.contains("table ") {
            true => chains.add_nft(rules),
            false => chains.add_iptables(Family::V4, rules),
        }
        chains
    }

    #[test]
    fn a_port_is_closed_only_where_no_rule_could_accept_it() {
        let jump = NFT.replace("tcp dport { 22, 2049-2050 }", "jump zones\n\t\ttcp dport 9");
        let of_address = IPTABLES.replace("-i lo", "-s 10.0.0.0/8");
        let in_set = NFT.replace("{ 22, 2049-2050 }", "@more");
        let end = ":INPUT ACCEPT [0:0]\n-A INPUT -j REJECT --reject-with x\n-A INPUT -j ACCEPT\n";
        let end = format!("*filter\n{end}COMMIT\n");
        let only_v6 = NFT.replace("inet", "ip6");
        for (rules, port, verdict) in [
            ("", 2049, Verdict::Ok),
            ("*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n", 2049, Verdict::Ok),
            (FORWARD, 2049, Verdict::Ok),
            (NFT, 2050, Verdict::Unknown),
            (NFT, 2149, Verdict::Warning),
            (&only_v6, 2149, Verdict::Ok),
            (&in_set, 2149, Verdict::Unknown),
            (&NFT.replace("2049-2050", "nfs"), 2049, Verdict::Unknown),
            (
                &NFT.replace("policy drop", "policy accept"),
                2149,
                Verdict::Ok,
            ),
            // A chain that is not there accepts nothing.
            (&jump, 2149, Verdict::Warning),
            (IPTABLES, 2050, Verdict::Unknown),
            (IPTABLES, 2149, Verdict::Warning),
            (&of_address, 2149, Verdict::Unknown),
            (&end, 2049, Verdict::Warning),
            (UFW, 2049, Verdict::Unknown),
            (UFW, 2149, Verdict::Warning),
        ] {
            let row = judge(&read(rules), &[(port, true)].into());
            assert_eq!(row.verdict, verdict, "{row:?}: {port}: {rules}");
        }
    }

    #[test]
    fn loopback_needs_no_rule() {
        let row = check(&[
            "127.0.0.1:2049".parse().unwrap(),
            "[::1]:2149".parse().unwrap(),
        ]);
        assert_eq!(row.verdict, Verdict::Ok);
    }
}
