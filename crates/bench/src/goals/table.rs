//! The one table of goals, `docs/goals.toml`, as it was when this program was compiled.

use super::Row;
use crate::nfs::client::MINOR_VERSION;
use crate::nfs::cluster::Carrier;
use crate::runner::{Metric, Spread};
use serde::Deserialize;

const TEXT: &str = include_str!("../../../../docs/goals.toml");

/// What Ropewalk is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Denominator {
    /// The bare READ.
    #[serde(rename = "sendfile")]
    SendFile,
    /// The bare WRITE.
    #[serde(rename = "recv+pwrite")]
    PWrite,
    /// Bare messages of the same sizes, with a thread for each connection.
    #[serde(rename = "ping-pong")]
    PingPong,
    /// The same on tokio.
    #[serde(rename = "ping-pong on tokio")]
    PingPongTokio,
    /// The bare transaction of a create.
    #[serde(rename = "bare store")]
    BareStore,
    /// Both, one after the other.
    #[serde(rename = "ping-pong and bare store")]
    PingPongAndStore,
    /// The same with one copy.
    #[serde(rename = "one copy")]
    OneCopy,
    /// The same with one copy, on a tmpfs.
    #[serde(rename = "one copy on tmpfs")]
    OneCopyTmpfs,
    /// The same with one copy, on a disk.
    #[serde(rename = "one copy on a disk")]
    OneCopyDisk,
    /// A time that nobody has measured.
    #[serde(rename = "one second")]
    Second,
    /// CPU time of the data server alone, in the same rounds.
    #[serde(rename = "the data server alone")]
    DataServerAlone,
    /// The same with nobody who watches.
    #[serde(rename = "nobody watches")]
    Unwatched,
    /// The same with one client.
    #[serde(rename = "one client")]
    OneClient,
    /// The same with one data server.
    #[serde(rename = "one data server")]
    OneDataServer,
    /// The same at one NFSv3 server of others.
    #[serde(rename = "one nfs3 server")]
    OneNfs3Server,
    /// The same, with the objects made before OPEN is answered.
    #[serde(rename = "eager")]
    Eager,
    /// The same at as many own data servers.
    #[serde(rename = "own data servers")]
    OwnDataServers,
    /// A bare stream over the same link.
    #[serde(rename = "bare stream")]
    Line,
    /// The same by a layout.
    #[serde(rename = "a layout")]
    Layout,
    /// The same over TCP.
    #[serde(rename = "tcp")]
    Tcp,
    /// The same over TCP with a client of plain sockets.
    #[serde(rename = "tcp with plain sockets")]
    TcpSockets,
    /// The same beside a few sessions that do nothing.
    #[serde(rename = "100 idle sessions")]
    FewIdle,
    /// What an idle connection takes in the design of the paper.
    #[serde(rename = "96 KiB of the paper")]
    Paper,
    /// nfs-ganesha on a disk, as durable as it can be made.
    #[serde(rename = "nfs-ganesha VFS on ext4")]
    GaneshaDisk,
    /// nfs-ganesha on the tmpfs that Ropewalk stands on.
    #[serde(rename = "nfs-ganesha VFS on tmpfs")]
    GaneshaTmpfs,
    /// nfs-ganesha with its file system in memory.
    #[serde(rename = "nfs-ganesha MEM")]
    GaneshaMem,
}

impl Denominator {
    /// As in the table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SendFile => "sendfile",
            Self::PWrite => "recv+pwrite",
            Self::PingPong => "ping-pong",
            Self::PingPongTokio => "ping-pong on tokio",
            Self::BareStore => "bare store",
            Self::PingPongAndStore => "ping-pong and bare store",
            Self::OneCopy => "one copy",
            Self::OneCopyTmpfs => "one copy on tmpfs",
            Self::OneCopyDisk => "one copy on a disk",
            Self::Second => "one second",
            Self::DataServerAlone => "the data server alone",
            Self::Unwatched => "nobody watches",
            Self::OneClient => "one client",
            Self::OneDataServer => "one data server",
            Self::OneNfs3Server => "one nfs3 server",
            Self::Eager => "eager",
            Self::OwnDataServers => "own data servers",
            Self::Line => "bare stream",
            Self::Layout => "a layout",
            Self::Tcp => "tcp",
            Self::TcpSockets => "tcp with plain sockets",
            Self::FewIdle => "100 idle sessions",
            Self::Paper => "96 KiB of the paper",
            Self::GaneshaDisk => "nfs-ganesha VFS on ext4",
            Self::GaneshaTmpfs => "nfs-ganesha VFS on tmpfs",
            Self::GaneshaMem => "nfs-ganesha MEM",
        }
    }
}

/// Most that is asked for of what the machine can do at all, where the raw limit is measured beside a peer.
const RAW_SHARE: f64 = 0.95;

/// Which side of a number a ratio must lie on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    /// The median decides; the spread is shown beside it.
    pub(super) fn is_met(self, ratio: Spread) -> bool {
        match self {
            Self::AtLeast(least) => ratio.median >= least,
            Self::AtMost(most) => ratio.median <= most,
        }
    }

    /// The number.
    pub(super) const fn factor(self) -> f64 {
        match self {
            Self::AtLeast(least) => least,
            Self::AtMost(most) => most,
        }
    }

    /// What may be asked for of the same metric of a raw subject.
    pub(super) const fn of_raw(self) -> Self {
        match self {
            Self::AtLeast(_) => Self::AtLeast(RAW_SHARE),
            Self::AtMost(_) => Self::AtMost(1.0 / RAW_SHARE),
        }
    }

    /// Whether `demand` is more than this.
    pub(super) fn is_below(self, demand: Spread) -> bool {
        match self {
            Self::AtLeast(least) => demand.median > least,
            Self::AtMost(most) => demand.median < most,
        }
    }

    pub(super) fn text(self) -> String {
        let (sign, number) = match self {
            Self::AtLeast(least) => (">=", least),
            Self::AtMost(most) => ("<=", most),
        };
        // Small ones need more digits than two.
        let digits = if number < 0.1 { 4 } else { 2 };
        format!("{sign} {number:.digits$}")
    }
}

/// The protocol of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Nfs3,
    Nfs4,
}

/// What is done, by how many at once, of what and over what: all of a goal but its ratio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) operation: String,
    pub(super) size_bytes: Option<u32>,
    pub(super) connections: usize,
    pub(super) data_servers: u16,
    pub(super) carrier: Carrier,
    pub(super) protocol: Protocol,
}

impl Shape {
    /// In words.
    pub(super) fn text(&self) -> String {
        let mut text = self.operation.clone();
        match self.size_bytes {
            Some(bytes) if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => {
                text += &format!(" {} MiB", bytes >> 20);
            }
            Some(bytes) if !bytes.is_multiple_of(1024) => text += &format!(" {bytes} B"),
            Some(bytes) => text += &format!(" {} KiB", bytes / 1024),
            None => {}
        }
        text += &format!(", {} at once", self.connections);
        if self.data_servers > 1 {
            text += &format!(", {} data servers", self.data_servers);
        }
        if self.carrier != Carrier::Tcp {
            text += &format!(", {}", self.carrier.name());
        }
        if self.protocol == Protocol::Nfs3 {
            text += ", NFSv3";
        }
        text
    }
}

/// One goal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Goal {
    pub(super) row: Row,
    pub(super) shape: Shape,
    pub(super) to: Denominator,
    pub(super) metric: Metric,
    pub(super) limit: Limit,
}

/// One value or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T: Clone> OneOrMore<T> {
    fn all(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

/// A part of the file: one goal for each combination of its lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    row: Row,
    operation: OneOrMore<String>,
    size_bytes: Option<OneOrMore<u32>>,
    connections: OneOrMore<usize>,
    #[serde(default = "one")]
    data_servers: u16,
    #[serde(default)]
    transport: Carrier,
    version: Option<u32>,
    minor_version: Option<u32>,
    to: OneOrMore<Denominator>,
    metric: String,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

const fn one() -> u16 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    goal: Vec<Entry>,
}

impl Entry {
    fn goals(&self) -> Result<Vec<Goal>, String> {
        let metric = Metric::ALL.into_iter().find(|m| m.name() == self.metric);
        let metric = metric.ok_or_else(|| format!("there is no metric {:?}", self.metric))?;
        let limit = match (self.at_least, self.at_most) {
            (Some(least), None) => Limit::AtLeast(least),
            (None, Some(most)) => Limit::AtMost(most),
            _ => return Err("a goal has either at_least or at_most".to_owned()),
        };
        let protocol = match (self.version, self.minor_version) {
            (None, Some(MINOR_VERSION)) => Protocol::Nfs4,
            (Some(nfs3::VERSION), None) => Protocol::Nfs3,
            (None, Some(other)) => {
                return Err(format!("nothing is measured over NFSv4.{other}"));
            }
            _ => {
                return Err("a goal has either version = 3 or minor_version".to_owned());
            }
        };
        let sizes: Vec<Option<u32>> = match &self.size_bytes {
            Some(sizes) => sizes.all().iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let mut goals = Vec::new();
        for operation in self.operation.all() {
            for size_bytes in &sizes {
                for connections in self.connections.all() {
                    let shape = Shape {
                        operation: operation.clone(),
                        size_bytes: *size_bytes,
                        connections: *connections,
                        data_servers: self.data_servers,
                        carrier: self.transport,
                        protocol,
                    };
                    goals.extend(self.to.all().iter().map(|to| Goal {
                        row: self.row,
                        shape: shape.clone(),
                        to: *to,
                        metric,
                        limit,
                    }));
                }
            }
        }
        Ok(goals)
    }
}

/// All goals.
#[derive(Debug, Clone)]
pub(super) struct Table(Vec<Goal>);

impl Table {
    /// The table that this program was compiled with.
    pub(super) fn load() -> Self {
        Self::parse(TEXT).expect("a file of this source tree, which a test has read")
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        let goals: Result<Vec<_>, String> = file.goal.iter().map(Entry::goals).collect();
        Ok(Self(goals?.concat()))
    }

    /// Those of a row, in order.
    pub(super) fn of(&self, row: Row) -> impl Iterator<Item = &Goal> {
        self.0.iter().filter(move |goal| goal.row == row)
    }

    /// What a row has goals for, each once, in order.
    pub(super) fn shapes(&self, row: Row) -> Vec<Shape> {
        let mut shapes: Vec<Shape> = Vec::new();
        for goal in self.of(row) {
            if !shapes.contains(&goal.shape) {
                shapes.push(goal.shape.clone());
            }
        }
        shapes
    }
}

#[cfg(test)]
pub(super) mod tests {
    //! The table is well-formed, has each thing once, and the median decides.
    use super::*;

    pub(in crate::goals) fn all() -> Vec<Goal> {
        Table::load().0
    }

    #[test]
    fn the_same_thing_has_one_goal() {
        let goals = all();
        assert!(!goals.is_empty());
        for (n, goal) in goals.iter().enumerate() {
            let same = |other: &&Goal| {
                (&other.shape, other.to, other.metric) == (&goal.shape, goal.to, goal.metric)
            };
            let earlier = goals[..n].iter().find(same);
            assert!(earlier.is_none(), "twice: {goal:?}");
        }
    }

    #[test]
    fn names_of_denominators_are_those_of_the_file() {
        for goal in all() {
            let name = serde_json::Value::from(goal.to.name());
            let read: Denominator = serde_json::from_value(name).unwrap();
            assert_eq!(read, goal.to);
        }
    }

    #[test]
    fn lists_are_all_combinations() {
        let text = "[[goal]]\nrow = \"read\"\noperation = [\"A\", \"B\"]\nsize_bytes = [1024, 2097152]\nconnections = [1, 4]\n\
                    minor_version = 2\nto = [\"sendfile\", \"tcp\"]\nmetric = \"p50_us\"\nat_most = 2.0\n";
        let table = Table::parse(text).unwrap();
        assert_eq!(table.0.len(), 16);
        assert_eq!(table.shapes(Row::Read).len(), 8);
        assert_eq!(table.0[0].limit, Limit::AtMost(2.0));
        let texts: Vec<String> = table.shapes(Row::Read).iter().map(Shape::text).collect();
        assert_eq!(texts[0], "A 1 KiB, 1 at once");
        assert_eq!(texts[7], "B 2 MiB, 4 at once");
        for (part, wrong) in [
            ("p50_us", "speed"),
            ("minor_version = 2", "minor_version = 0"),
            ("at_most = 2.0", "at_most = 2.0\nat_least = 1.0"),
            ("sendfile", "tape"),
            ("\"read\"", "\"reed\""),
            ("minor_version", "major_version"),
            ("minor_version = 2", "version = 4"),
            ("minor_version = 2", "version = 3\nminor_version = 2"),
            ("minor_version = 2\n", ""),
        ] {
            let text = text.replace(part, wrong);
            assert!(Table::parse(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_operation_by_another_protocol_is_another_thing() {
        let text = |protocol: &str| {
            format!(
                "[[goal]]\nrow = \"v3\"\noperation = \"A\"\nconnections = 1\n{protocol}\nto = \"tcp\"\nmetric = \"p50_us\"\nat_most = 2.0\n"
            )
        };
        let both = text("version = 3") + &text("minor_version = 2");
        let shapes = Table::parse(&both).unwrap().shapes(Row::V3);
        let texts: Vec<String> = shapes.iter().map(Shape::text).collect();
        assert_eq!(texts, ["A, 1 at once, NFSv3", "A, 1 at once"]);
    }

    #[test]
    fn the_median_decides() {
        let is_met = |limit: Limit, median| {
            let (min, max) = (0.1, 9.0);
            limit.is_met(Spread { median, min, max })
        };
        assert!(is_met(Limit::AtLeast(0.7), 0.7));
        assert!(!is_met(Limit::AtLeast(0.7), 0.69));
        assert!(is_met(Limit::AtMost(2.0), 2.0));
        assert!(!is_met(Limit::AtMost(2.0), 2.01));
        assert_eq!(Limit::AtLeast(0.7).text(), ">= 0.70");
        assert_eq!(Limit::AtMost(0.0834).text(), "<= 0.0834");
    }
}
