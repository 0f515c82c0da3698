//! Whether rules of a firewall on this machine know the ports of its servers.
//!
//! Reads rules as text, and understands no more than ports and refusals: it warns, and never says that something is blocked. Other
//! machines' firewalls cannot be seen.

use super::outside;
use super::row::Row;
use rustix::process::geteuid;
use std::net::SocketAddr;

const CHECK: &str = "firewall";
/// What prints rules.
const PRINTERS: [(&str, &[&str]); 3] = [
    ("nft", &["list", "ruleset"]),
    ("iptables-save", &[]),
    ("ip6tables-save", &[]),
];
/// What systems call port 2049 in rules.
const NFS: (&str, u16) = ("nfs", 2049);

/// For the listeners of all servers here.
pub(super) fn check(listeners: &[SocketAddr]) -> Row {
    let beyond = listeners
        .iter()
        .filter(|address| !address.ip().to_canonical().is_loopback());
    let mut ports: Vec<u16> = beyond.map(SocketAddr::port).collect();
    ports.sort_unstable();
    ports.dedup();
    if ports.is_empty() {
        return Row::ok(CHECK, "no server listens beyond loopback");
    }
    if !geteuid().is_root() {
        return Row::unknown(CHECK, "only root can read the rules of the firewall");
    }
    let rules: Vec<String> = PRINTERS
        .iter()
        .filter_map(|(program, arguments)| outside::ask(program, arguments))
        .collect();
    match rules.is_empty() {
        true => Row::unknown(
            CHECK,
            "no rules can be read: neither nft nor iptables-save answers",
        ),
        false => judge(&rules.join("\n"), &ports),
    }
}

fn judge(rules: &str, ports: &[u16]) -> Row {
    if !refuses(rules) {
        return Row::ok(CHECK, "no rule of this machine refuses connections");
    }
    let named = ranges(rules);
    let is_named = |port: u16| {
        named
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&port))
    };
    let missing: Vec<String> = ports
        .iter()
        .filter(|port| !is_named(**port))
        .map(u16::to_string)
        .collect();
    match missing.is_empty() {
        true => Row::ok(
            CHECK,
            "there are rules that refuse, and rules that name the ports of the servers",
        ),
        false => Row::warning(
            CHECK,
            format!(
                "rules refuse connections, and none names port {}",
                missing.join(", ")
            ),
            "let clients and data servers in at these ports (TCP), unless a rule for their addresses does",
        ),
    }
}

/// Whether anything that comes in is refused.
fn refuses(rules: &str) -> bool {
    let of_nft = rules.contains("hook input")
        && rules
            .lines()
            .any(|line| words(line).any(|word| word == "drop" || word == "reject"));
    let of_iptables = |line: &str| {
        let is_end = ["-j DROP", "-j REJECT"]
            .iter()
            .any(|end| line.contains(end));
        line.starts_with(":INPUT DROP") || (line.starts_with("-A") && is_end)
    };
    of_nft || rules.lines().any(of_iptables)
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '{' | '}'))
        .filter(|word| !word.is_empty())
}

/// Ports and ranges of ports in rules, and in sets that rules name.
fn ranges(rules: &str) -> Vec<(u16, u16)> {
    let mut found = Vec::new();
    let mut in_set = false;
    for line in rules.lines() {
        in_set |= line.contains("elements");
        if in_set || line.contains("dport") {
            let mut counts = false;
            for word in words(line) {
                if !counts {
                    found.extend(range(word));
                }
                counts = word == "packets" || word == "bytes";
            }
        }
        in_set &= !line.contains('}');
    }
    found
}

/// `2049`, `2049-2149` as nft writes it, `2049:2149` as iptables does, or `nfs`.
fn range(word: &str) -> Option<(u16, u16)> {
    let (name, port) = NFS;
    if word == name {
        return Some((port, port));
    }
    let (first, last) = word.split_once(['-', ':']).unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    //! Goal: a port that rules do not name is warned of, in the words of nft and of iptables.
    use super::*;
    use crate::doctor::row::Verdict;

    const NFT: &str = "table inet filter {\n\tset more {\n\t\ttype inet_service\n\t\telements = { 4000,\n\t\t\t     4001 }\n\t}\n\
                       \tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\
                       \t\tct state established,related counter packets 2149 bytes 9 accept\n\
                       \t\ttcp dport { 22, 2049-2050 } counter packets 2149 bytes 2149 accept\n\t}\n}\n";
    const IPTABLES: &str = "*filter\n:INPUT DROP [12:3456]\n:OUTPUT ACCEPT [1:2149]\n\
                            -A INPUT -p tcp -m multiport --dports 22,2049:2050 -j ACCEPT\nCOMMIT\n";

    #[test]
    fn ports_that_no_rule_names_are_warned_of() {
        for (rules, ports, verdict) in [
            ("", &[2049][..], Verdict::Ok),
            (
                "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n",
                &[2049],
                Verdict::Ok,
            ),
            (NFT, &[2049, 2050, 4001], Verdict::Ok),
            (NFT, &[2049, 2149], Verdict::Warning),
            (&NFT.replace("2049-2050", "nfs"), &[2049], Verdict::Ok),
            (
                &NFT.replace("policy drop", "policy accept"),
                &[2149],
                Verdict::Ok,
            ),
            (IPTABLES, &[2049, 2050], Verdict::Ok),
            (IPTABLES, &[2149], Verdict::Warning),
            (
                ":INPUT ACCEPT [0:0]\n-A INPUT -j REJECT --reject-with x\n",
                &[2049],
                Verdict::Warning,
            ),
        ] {
            let row = judge(rules, ports);
            assert_eq!(row.verdict, verdict, "{row:?}: {rules}");
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
