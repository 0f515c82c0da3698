//! Rules of a firewall, as `nft list ruleset` and `iptables-save` print them: chains, and what each rule can do to a new TCP connection.
//!
//! Owns both forms. What it does not understand of a rule counts as a condition that may be met. Judges no port.

use std::collections::BTreeMap;

/// Most rules of all chains that are kept: the others are left out, and nothing is certain then.
const RULES_MAX: usize = 200_000;
/// The flag of a table of nft that does nothing now.
const DORMANT: &str = "dormant";
/// What systems call port 2049 in rules.
const NFS: (&str, u16) = ("nfs", 2049);

/// The addresses that a table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
    Both,
}

/// Where the kernel begins with a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// What is for this machine: a filter.
    Input,
    /// Earlier, or not a filter: what is refused here is refused, and what is accepted here is not accepted yet.
    Before,
}

/// What one rule can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) accepts: bool,
    pub(super) refuses: bool,
    /// It has no condition.
    pub(super) always: bool,
    /// Chains of the same table that it may go on with.
    pub(super) jumps: Vec<String>,
    /// No new TCP connection of another machine can meet its conditions.
    pub(super) is_for_others: bool,
    /// Only connections to these ports can; none when any can.
    pub(super) ports: Option<Vec<(u16, u16)>>,
}

impl Rule {
    /// Whether a new TCP connection to this port can meet its conditions, as far as can be told.
    pub(super) fn can_meet(&self, port: u16) -> bool {
        let has = |ports: &Vec<(u16, u16)>| ports.iter().any(|(a, b)| (*a..=*b).contains(&port));
        !self.is_for_others && self.ports.as_ref().is_none_or(has)
    }
}

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) family: Family,
    /// Its table, by which others find it.
    pub(super) table: String,
    pub(super) hook: Option<Hook>,
    /// What no rule decided is refused.
    pub(super) drops_rest: bool,
    pub(super) rules: Vec<Rule>,
}

/// All chains by table and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chains {
    pub(super) all: BTreeMap<(String, String), Chain>,
    /// Rules were left out.
    pub(super) is_cut: bool,
    rules: usize,
}

impl Chains {
    fn chain(&mut self, family: Family, table: &str, name: &str) -> &mut Chain {
        let key = (table.to_owned(), name.to_owned());
        self.all.entry(key).or_insert_with(|| Chain {
            family,
            table: table.to_owned(),
            hook: None,
            drops_rest: false,
            rules: Vec::new(),
        })
    }

    fn push(&mut self, (family, table, name): (Family, &str, &str), rule: Rule) {
        if self.rules >= RULES_MAX {
            self.is_cut = true;
            return;
        }
        self.rules += 1;
        self.chain(family, table, name).rules.push(rule);
    }

    /// Adds what iptables-save (V4) or ip6tables-save (V6) has printed.
    pub(super) fn add_iptables(&mut self, family: Family, text: &str) {
        let mut table = String::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [name] if name.starts_with('*') => table = format!("{family:?}{name}"),
                [name, policy, ..] if name.starts_with(':') => {
                    let name = name.trim_start_matches(':');
                    let is_filter = table.ends_with("*filter");
                    let chain = self.chain(family, &table, name);
                    chain.drops_rest = policy == "DROP";
                    chain.hook = match name {
                        "INPUT" if is_filter => Some(Hook::Input),
                        "INPUT" | "PREROUTING" => Some(Hook::Before),
                        _ => None,
                    };
                }
                ["-A", name, ref rest @ ..] => {
                    self.push((family, &table, name), rule_of_iptables(rest));
                }
                _ => {}
            }
        }
    }

    /// Adds what `nft list ruleset` has printed.
    pub(super) fn add_nft(&mut self, text: &str) {
        let mut at = Place::default();
        let mut statement: Vec<String> = Vec::new();
        let mut inner = 0_usize;
        for word in tokens(text) {
            match (word.as_str(), at.depth) {
                ("{", 0 | 1) => {
                    at.enter(&statement);
                    statement.clear();
                }
                ("}", 1) => at = Place::default(),
                ("}", 2) if inner == 0 => {
                    self.take(&at, &statement);
                    statement.clear();
                    at.depth = 1;
                }
                ("\n", 2) if inner == 0 => {
                    self.take(&at, &statement);
                    statement.clear();
                }
                ("\n", 0 | 1) => {
                    if statement.iter().any(|word| word == DORMANT) {
                        at.family = None;
                    }
                    statement.clear();
                }
                ("\n", _) => {}
                (other, _) => {
                    inner += usize::from(other == "{");
                    inner -= usize::from(other == "}").min(inner);
                    statement.push(word);
                }
            }
        }
    }

    /// A statement of a chain.
    fn take(&mut self, at: &Place, words: &[String]) {
        let (Some(family), Some(chain)) = (at.family, &at.chain) else {
            return;
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let after = |word: &str| {
            let at = words.iter().position(|w| *w == word)?;
            words.get(at + 1).copied()
        };
        match words[..] {
            [] => {}
            ["type", kind, ..] => {
                let chain = self.chain(family, &at.table, chain);
                chain.drops_rest = after("policy") == Some("drop");
                chain.hook = match after("hook") {
                    Some("input") if kind == "filter" => Some(Hook::Input),
                    Some("input" | "prerouting" | "ingress") => Some(Hook::Before),
                    _ => None,
                };
            }
            _ => self.push((family, &at.table, chain), rule_of_nft(&words)),
        }
    }
}

/// Where a reader of nft's text is.
#[derive(Debug, Default)]
struct Place {
    depth: u8,
    family: Option<Family>,
    table: String,
    /// None in a set, a map or another thing that is no chain.
    chain: Option<String>,
}

impl Place {
    fn enter(&mut self, head: &[String]) {
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        match (self.depth, &head[..]) {
            (0, ["table", family, name]) => {
                self.family = match *family {
                    "ip" => Some(Family::V4),
                    "ip6" => Some(Family::V6),
                    "inet" | "netdev" => Some(Family::Both),
                    _ => None,
                };
                self.table = format!("{family} {name}");
            }
            (1, ["chain", name]) => self.chain = Some((*name).to_owned()),
            _ => self.chain = None,
        }
        self.depth += 1;
    }
}

/// Words, signs and ends of lines; what is in quotes is one word, without them. Comments are left out.
fn tokens(text: &str) -> impl Iterator<Item = String> {
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        let is_blank = |c: &char| *c == ' ' || *c == '\t' || *c == '\r';
        while chars.next_if(is_blank).is_some() {}
        if chars.peek() == Some(&'#') {
            while chars.next_if(|c| *c != '\n').is_some() {}
        }
        let first = chars.next()?;
        if first == '"' {
            let quoted: String = std::iter::from_fn(|| chars.next_if(|c| *c != '"')).collect();
            let _ = chars.next();
            return Some(quoted);
        }
        let is_sign = |c: char| matches!(c, '{' | '}' | ';' | ',' | '\n');
        let mut word = first.to_string();
        while let Some(c) = chars.next_if(|c| !is_sign(first) && !is_sign(*c) && !is_blank(c)) {
            word.push(c);
        }
        Some(word)
    })
}

fn rule_of_nft(words: &[&str]) -> Rule {
    let has = |word: &str| words.contains(&word);
    let any = |list: &[&str]| list.iter().any(|word| has(word));
    let is_open = words
        .iter()
        .any(|w| *w == "!=" || *w == "!" || w.starts_with('@'));
    let follows = |first: &str, second: &str| words.windows(2).any(|w| w == [first, second]);
    let of_loopback = follows("iif", "lo") || follows("iifname", "lo");
    let of_old = follows("ct", "state") && !any(&["new", "untracked"]);
    let others = [
        "udp",
        "udplite",
        "icmp",
        "icmpv6",
        "ipv6-icmp",
        "igmp",
        "sctp",
        "dccp",
        "esp",
        "ah",
    ];
    let of_others = any(&others) && !any(&["tcp", "th"]);
    let targets = words
        .windows(2)
        .filter(|w| w[0] == "jump" || w[0] == "goto");
    let plain: Vec<&&str> = words.iter().skip_while(|w| is_counted(w)).collect();
    Rule {
        accepts: any(&["accept", "queue", "vmap", "tproxy"]),
        refuses: any(&["drop", "reject", "queue", "vmap"]),
        always: plain
            .first()
            .is_some_and(|w| **w == "drop" || **w == "reject"),
        jumps: targets.map(|w| w[1].to_owned()).collect(),
        is_for_others: !is_open && (of_loopback || of_old || of_others),
        ports: if is_open { None } else { ports_of_nft(words) },
    }
}

/// A word of a counter.
fn is_counted(word: &str) -> bool {
    matches!(word, "counter" | "packets" | "bytes") || word.parse::<u64>().is_ok()
}

/// The ports behind `dport`; none when they are not understood.
fn ports_of_nft(words: &[&str]) -> Option<Vec<(u16, u16)>> {
    let at = words.iter().position(|w| *w == "dport")?;
    let rest = &words[at + 1..];
    match rest.first()? {
        &"{" => {
            let inside = rest[1..].iter().take_while(|w| **w != "}");
            let ports = inside.filter(|w| **w != ",");
            ports.map(|w| range(w)).collect()
        }
        word => Some(vec![range(word)?]),
    }
}

fn rule_of_iptables(words: &[&str]) -> Rule {
    let value = |names: &[&str]| {
        let at = words.iter().position(|w| names.contains(w))?;
        let is_negated = at > 0 && words[at - 1] == "!";
        words.get(at + 1).copied().filter(|_| !is_negated)
    };
    let target = value(&["-j", "-g"]).unwrap_or_default();
    let of_loopback = value(&["-i"]) == Some("lo");
    let of_others = value(&["-p"]).is_some_and(|p| !matches!(p, "tcp" | "6" | "all" | "0"));
    let of_old = value(&["--state", "--ctstate"])
        .is_some_and(|states| !states.contains("NEW") && !states.contains("UNTRACKED"));
    let ports = value(&["--dport", "--dports", "--destination-ports"]);
    let ports = ports.map(|list| list.split(',').map(range).collect::<Option<Vec<_>>>());
    let builtin = [
        "ACCEPT", "DROP", "REJECT", "RETURN", "LOG", "QUEUE", "NFQUEUE", "",
    ];
    Rule {
        accepts: matches!(target, "ACCEPT" | "QUEUE" | "NFQUEUE"),
        refuses: matches!(target, "DROP" | "REJECT" | "QUEUE" | "NFQUEUE"),
        always: words.first() == Some(&"-j") && matches!(target, "DROP" | "REJECT"),
        jumps: (!builtin.contains(&target))
            .then(|| target.to_owned())
            .into_iter()
            .collect(),
        is_for_others: of_loopback || of_others || of_old,
        ports: ports.flatten(),
    }
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
    //! Goal: conditions that no new connection can meet are known, and all others count as met.
    use super::*;

    /// The same condition in both forms, or two that are alike, and whether a connection to 2049 can meet them.
    const CONDITIONS: [(&str, &str, bool); 16] = [
        (
            "tcp dport 2049 accept",
            "-p tcp -m tcp --dport 2049 -j ACCEPT",
            true,
        ),
        (
            "tcp dport { 22, 2000-3000 } accept",
            "-p tcp --dports 22,2000:3000 -j ACCEPT",
            true,
        ),
        (
            "tcp dport { 22, 80 } accept",
            "-p tcp -m multiport --dports 22,80 -j ACCEPT",
            false,
        ),
        (
            "tcp dport != 22 accept",
            "-p tcp -m tcp ! --dport 22 -j ACCEPT",
            true,
        ),
        (
            "tcp dport @open accept",
            "-m set --match-set open dst -j ACCEPT",
            true,
        ),
        (
            "tcp dport nfs counter packets 1 bytes 22 accept",
            "-p tcp --dport 2049 -j X",
            true,
        ),
        ("iifname \"lo\" accept", "-i lo -j ACCEPT", false),
        ("iifname != \"lo\" accept", "! -i lo -j ACCEPT", true),
        (
            "ct state established,related accept",
            "-m state --state RELATED,ESTABLISHED -j ACCEPT",
            false,
        ),
        (
            "ct state vmap { established : accept, invalid : drop }",
            "-p udp -j ACCEPT",
            false,
        ),
        (
            "ct state new tcp dport 2049 accept",
            "-m conntrack --ctstate NEW -j ACCEPT",
            true,
        ),
        (
            "udp dport 2049 accept",
            "-p udp -m udp --dport 2049 -j ACCEPT",
            false,
        ),
        (
            "meta l4proto { tcp, udp } th dport 2049 accept",
            "-p all -j ACCEPT",
            true,
        ),
        (
            "ip saddr 10.0.0.0/8 accept",
            "-s 10.0.0.0/8 -j ACCEPT",
            true,
        ),
        (
            "ip saddr . tcp dport { 10.0.0.1 . 22 } accept",
            "-j chain",
            true,
        ),
        ("icmp type echo-request accept", "-p icmp -j ACCEPT", false),
    ];

    #[test]
    fn conditions_of_rules_are_understood_or_count_as_met() {
        for (nft, iptables, can_meet) in CONDITIONS {
            let words: Vec<String> = tokens(nft).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(rule_of_nft(&words).can_meet(2049), can_meet, "{nft}");
            let words: Vec<&str> = iptables.split_whitespace().collect();
            assert_eq!(
                rule_of_iptables(&words).can_meet(2049),
                can_meet,
                "{iptables}"
            );
        }
    }

    #[test]
    fn strange_text_ends() {
        for text in [
            "}}}",
            "{{{{",
            "table",
            "table ip x {",
            "\"",
            "chain {\n}\n",
            "table ip x { chain y { } }",
        ] {
            let mut chains = Chains::default();
            chains.add_nft(text);
            chains.add_iptables(Family::V4, text);
            assert!(
                chains.all.values().all(|chain| chain.rules.is_empty()),
                "{text}"
            );
        }
    }
}
