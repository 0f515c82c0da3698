//! Attributes as replies showed them: a change value stands for one content, and none goes back (rule R7).
//!
//! A reply that showed what a crash then took back is found here too. The next change of the file gives the same value
//! to another content, or an older value appears again.

use nfs4::attr::Attrs;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    mode: Option<u32>,
    numlinks: Option<u32>,
    size: Option<u64>,
    mtime: Option<nfs4::NfsTime>,
    ctime: Option<nfs4::NfsTime>,
}

#[derive(Debug, Default)]
struct File {
    contents: BTreeMap<u64, Content>,
    /// Highest change value shown up to an event, ascending.
    shown: Vec<(u64, u64)>,
}

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    files: BTreeMap<u64, File>,
}

impl Checker {
    /// Attributes in a reply sent at event `now`, whose request was first sent at event `sent`.
    pub(crate) fn reply(&mut self, attrs: &Attrs, sent: u64, now: u64) -> Option<String> {
        let (id, change) = (attrs.fileid?, attrs.change?);
        let file = self.files.entry(id).or_default();
        let content = Content {
            mode: attrs.mode,
            numlinks: attrs.numlinks,
            size: attrs.size,
            mtime: attrs.time_modify,
            ctime: attrs.time_metadata,
        };
        let known = file
            .contents
            .entry(change)
            .or_insert_with(|| content.clone());
        if *known != content {
            let text = format!("file {id}: change {change} is {known:?} and {content:?}");
            return Some(text);
        }
        let before = file.shown.partition_point(|(event, _)| *event < sent);
        let floor = before.checked_sub(1).map_or(0, |at| file.shown[at].1);
        if change < floor {
            let text = format!("file {id}: change {change} after {floor} had been shown");
            return Some(text);
        }
        let highest = file.shown.last().map_or(0, |(_, change)| *change);
        if change > highest {
            file.shown.push((now, change));
        }
        None
    }
}
