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

/// The places with a member that is not in sync, in words.
pub(crate) fn unlevel(cluster: &Cluster) -> Vec<String> {
    let is_level = |row: &Row| row.members.0.iter().all(|m| m.state == MemberState::Sync);
    let mut unlevel = Vec::new();
    for group in groups(cluster) {
        let rows = (0..).zip(&group.rows).filter(|(_, row)| !is_level(row));
        unlevel.extend(rows.map(|(place, row): (u32, &Row)| {
            format!("group {} place {place}: {:?}", group.id, row.members.0)
        }));
    }
    unlevel
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
        strays(id, row, nodes, findings);
    }
}

/// A data server that has left a place has none of its parts (rule P18).
fn strays(id: ObjectId, row: &Row, nodes: &[Node<'_>], findings: &Findings) {
    for (ds, node) in (1..).zip(nodes) {
        if row.state_of(ds).is_none() && node.has_entry(id) {
            findings.add(format!(
                "place {} of file {}: data server {ds} is no member, and has a part",
                id.place, id.file_id,
            ));
        }
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
