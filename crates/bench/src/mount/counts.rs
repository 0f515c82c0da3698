//! What the kernel counts of an NFS mount (`/proc/self/mountstats`, Linux' net/sunrpc/stats.c).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The fields of an operation's line that are read: requests, and milliseconds from the last byte sent to the answer.
const COUNT_FIELD: usize = 0;
const RTT_MS_FIELD: usize = 6;

/// Requests of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct OfOperation {
    pub(crate) requests_count: u64,
    /// How long their answers took, all together.
    pub(crate) answer_ms: u64,
}

/// Requests of one mount.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counts(pub(crate) BTreeMap<String, OfOperation>);

impl Counts {
    /// Those of the mount that a directory is on; `None` when it is no NFS mount.
    pub(crate) fn of(dir: &Path) -> Option<Self> {
        let dir = dir.canonicalize().ok()?;
        let text = std::fs::read_to_string("/proc/self/mountstats").ok()?;
        Self::parse(&text, &dir)
    }

    /// The mount is the one with the longest path above the directory.
    fn parse(text: &str, dir: &Path) -> Option<Self> {
        let mut found: Option<(PathBuf, Self)> = None;
        let mut is_current = false;
        for line in text.lines() {
            if line.starts_with("device ") {
                let mount = mount_of(line).filter(|mount| dir.starts_with(mount));
                let longest = found.as_ref().map(|(path, _)| path.as_os_str().len());
                let mount = mount.filter(|m| longest.is_none_or(|l| m.as_os_str().len() >= l));
                is_current = mount.is_some();
                if let Some(mount) = mount {
                    found = Some((mount, Self::default()));
                }
            } else if let (true, Some((_, counts))) = (is_current, &mut found) {
                counts.take(line);
            }
        }
        let (_, counts) = found?;
        (!counts.0.is_empty()).then_some(counts)
    }

    fn take(&mut self, line: &str) {
        let Some((name, fields)) = line.trim().split_once(": ") else {
            return;
        };
        let is_operation = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let fields: Result<Vec<u64>, _> = fields.split_whitespace().map(str::parse).collect();
        let (true, Ok(fields)) = (is_operation, fields) else {
            return;
        };
        if let (Some(count), Some(ms)) = (fields.get(COUNT_FIELD), fields.get(RTT_MS_FIELD)) {
            let of = OfOperation {
                requests_count: *count,
                answer_ms: *ms,
            };
            self.0.insert(name.to_owned(), of);
        }
    }

    /// What came since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let came = self.0.iter().filter_map(|(name, now)| {
            let then = before.0.get(name).copied().unwrap_or_default();
            let of = OfOperation {
                requests_count: now.requests_count.saturating_sub(then.requests_count),
                answer_ms: now.answer_ms.saturating_sub(then.answer_ms),
            };
            (of.requests_count > 0).then(|| (name.clone(), of))
        });
        Self(came.collect())
    }

    /// All requests.
    pub(crate) fn requests_count(&self) -> u64 {
        self.0.values().map(|of| of.requests_count).sum()
    }
}

/// The path of an NFS mount's first line.
fn mount_of(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once(" mounted on ")?;
    let (path, kind) = rest.split_once(" with fstype ")?;
    kind.starts_with("nfs").then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    //! Goal: the counts are those of the mount that a directory lies on, and of no other.
    use super::*;

    const TEXT: &str = "\
device proc mounted on /proc with fstype proc
device 192.0.2.1:/ mounted on /mnt/a with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2
\tbytes:\t1 2 3 4 5 6 7 8
\txprt:\ttcp 0 1 2
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 10 10 0 2000 40000 3 25 30 0
\t     GETATTR: 4 4 0 800 900 0 2 2 0
device 192.0.2.2:/ mounted on /mnt/a/b with fstype nfs4 statvers=1.1
\tper-op statistics
\t        READ: 7 7 0 2000 40000 3 70 80 0
";

    #[test]
    fn a_directory_has_the_counts_of_the_nearest_mount() {
        let of = |dir: &str| Counts::parse(TEXT, Path::new(dir));
        let above = of("/mnt/a/x").unwrap();
        assert_eq!(above.requests_count(), 15);
        let read = OfOperation {
            requests_count: 10,
            answer_ms: 25,
        };
        assert_eq!(above.0["READ"], read);
        assert_eq!(of("/mnt/a/b/x").unwrap().requests_count(), 7);
        assert_eq!((of("/proc/1"), of("/mnt/abc"), of("/")), (None, None, None));
    }

    #[test]
    fn only_what_came_is_counted() {
        let counts = Counts::parse(TEXT, Path::new("/mnt/a")).unwrap();
        assert_eq!(counts.since(&counts), Counts::default());
        let mut more = counts.clone();
        more.0.get_mut("READ").unwrap().requests_count += 3;
        assert_eq!(more.since(&counts).requests_count(), 3);
    }
}
