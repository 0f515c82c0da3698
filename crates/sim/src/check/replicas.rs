//! Copies are equal: every member in sync of a place has the same bytes of each part (rules P9, P15).

use super::Findings;
use crate::ds_node::DsNode;
use cluster::Cluster;
use fs::Fs;
use layout::{Group, MemberState, Row};
use namespace::{Cred, FileId, Op, Time};
use objects::{ObjectId, ObjectStore, Span};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Longest part that is compared, in bytes.
const PART_BYTES_MAX: u32 = 64 << 20;

fn groups(cluster: &Cluster) -> Vec<Arc<Group>> {
    let groups = cluster.status().groups.into_iter();
    groups.filter_map(|(id, _)| cluster.group(id)).collect()
}

/// Whether every member of every place is in sync.
pub(crate) fn are_level(cluster: &Cluster) -> bool {
    let is_level = |row: &Row| row.members.0.iter().all(|m| m.state == MemberState::Sync);
    groups(cluster)
        .iter()
        .all(|group| group.rows.iter().all(is_level))
}

/// A data server of the run.
type Node<'n> = tokio::sync::MutexGuard<'n, DsNode>;

/// Compares the parts of all files. `nodes` are the data servers, whose ids count from 1.
pub(crate) fn check(fs: &Fs, nodes: &[Node<'_>], findings: &Findings) {
    let mut ids = BTreeSet::new();
    for node in nodes {
        let listed = node.objects().list(&mut |id, _| {
            ids.insert(id);
            true
        });
        if let Err(error) = listed {
            findings.add(format!("a store of a data server: {error}"));
        }
    }
    let cred = Cred::root();
    for id in ids {
        let mut op = Op::new(&cred, Time::default());
        let Ok(inode) = fs.namespace().getattr(&mut op, FileId(id.file_id)) else {
            continue;
        };
        let group = inode.placement.and_then(|p| fs.cluster().group(p.group));
        let Some(row) = group
            .as_ref()
            .and_then(|g| g.rows.get(usize::from(id.place)))
        else {
            continue;
        };
        compare(id, row, nodes, findings);
    }
}

fn compare(id: ObjectId, row: &Row, nodes: &[Node<'_>], findings: &Findings) {
    let bytes = |ds: u32| {
        let node = nodes.get(ds as usize - 1)?;
        Some(match node.objects().read(id, 0, PART_BYTES_MAX) {
            _ if !node.has_entry(id) => Vec::new(),
            Ok(Span::Pieces(pieces)) => pieces.concat(),
            _ => Vec::new(),
        })
    };
    let first = bytes(row.primary);
    for other in row
        .in_state(MemberState::Sync)
        .filter(|ds| *ds != row.primary)
    {
        let theirs = bytes(other);
        if theirs != first {
            let at = first.iter().flatten().zip(theirs.iter().flatten());
            let at = at.enumerate().find(|(_, (a, b))| a != b).map(|(at, _)| at);
            let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
            findings.add(format!(
                "place {} of file {}: data servers {} and {other} differ ({} and {} bytes, first at {at:?})",
                id.place,
                id.file_id,
                row.primary,
                len(&first),
                len(&theirs),
            ));
        }
    }
}
