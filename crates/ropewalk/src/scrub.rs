//! `ropewalk scrub`: when data servers compared their disks with sums, what they found, and the order to do it now.

use crate::admin::{Request, Server, ask, mds_server};
use crate::cli::ScrubArgs;
use crate::failure::{Outcome, cannot, failed};
use crate::movement::{Progress, watch};
use crate::out;
use crate::status::{DataServerRow, STATE_EXPELLED, of_mds};
use crate::table::{bytes, table};
use crate::times::now_s;
use fs::FILE_PATHS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A file with a damaged last copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DamagedFile {
    /// The number by which data servers know it.
    pub number: u64,
    /// Its inode.
    pub inode: u64,
    /// One of its paths in the file system; `None` for one that has no name, or when too many names were looked at.
    pub path: Option<String>,
}

/// `ropewalk scrub`.
pub(crate) fn run(args: &ScrubArgs) -> Outcome {
    let server = mds_server(&args.place)?;
    if args.now {
        let order: u64 = ask(&server, &Request::Scrub)?;
        if args.no_wait {
            return out::line(
                "the data servers compare their disks; `ropewalk scrub` shows how far they are",
            );
        }
        wait(&server, order)?;
    }
    let servers = servers(&server)?;
    let files = damaged_files(&server, &servers);
    if args.json {
        let row = |ds: &DataServerRow| {
            let damaged: Vec<_> = files_of(ds, &files).collect();
            serde_json::json!({
                "id": ds.id, "state": ds.state, "scrub": ds.scrub, "damaged_files": damaged,
            })
        };
        let rows: Vec<_> = servers.iter().map(row).collect();
        let text = serde_json::to_string_pretty(&rows).map_err(cannot("write JSON"))?;
        out::line(&text)?;
    } else {
        out::print(&text(&servers, &files))?;
    }
    let damaged: u64 = servers.iter().map(|ds| ds.scrub.damaged_blocks).sum();
    match damaged {
        0 => Ok(()),
        blocks => Err(failed(format!(
            "{blocks} blocks are damaged and no other copy is good; reads of them fail (EIO). Restore or remove the files above"
        ))),
    }
}

/// The files with damage, as far as the metadata server names them.
fn damaged_files(server: &Server, servers: &[DataServerRow]) -> Vec<DamagedFile> {
    let numbers = servers.iter().flat_map(|ds| ds.scrub.damaged_files.iter());
    let files: BTreeSet<u64> = numbers.copied().collect();
    if files.is_empty() {
        return Vec::new();
    }
    let files = files.into_iter().take(FILE_PATHS_MAX).collect();
    let named: Outcome<_> = ask(server, &Request::FilePaths { files });
    named.unwrap_or_else(|error| {
        // What is known is shown all the same.
        out::say(format_args!("the files are not named: {error}"));
        Vec::new()
    })
}

/// Those of a data server. One that is not named is told by its number.
fn files_of<'f>(
    ds: &'f DataServerRow,
    named: &'f [DamagedFile],
) -> impl Iterator<Item = DamagedFile> + 'f {
    ds.scrub.damaged_files.iter().map(|number| {
        let file = named.iter().find(|file| file.number == *number);
        file.cloned().unwrap_or(DamagedFile {
            number: *number,
            inode: *number,
            path: None,
        })
    })
}

fn servers(server: &Server) -> Outcome<Vec<DataServerRow>> {
    let mds = of_mds(server, "gives the order")?;
    let is_member = |ds: &DataServerRow| ds.state != STATE_EXPELLED;
    Ok(mds.data_servers.into_iter().filter(is_member).collect())
}

/// Shows the progress until each data server that serves has followed the order.
fn wait(server: &Server, order: u64) -> Outcome {
    let seen = watch(server, "objects", |mds| {
        let serving = || mds.data_servers.iter().filter(|ds| ds.is_online());
        if serving().next().is_none() {
            return Err(failed("no data server serves; `ropewalk status` says more"));
        }
        let (followed, waiting): (Vec<_>, Vec<_>) =
            serving().partition(|ds| ds.scrub.order >= order);
        let left = |ds: &&DataServerRow| ds.scrub.objects.saturating_sub(ds.scrub.objects_done);
        let read: u64 = followed.iter().map(|ds| ds.scrub.read_bytes).sum();
        let objects = |ds: &&DataServerRow| ds.objects;
        Ok(Progress {
            left: followed.iter().map(left).sum::<u64>() + waiting.iter().map(objects).sum::<u64>(),
            is_over: waiting.is_empty() && followed.iter().all(|ds| !ds.scrub.running),
            message: format!("({} read)", bytes(read)),
        })
    });
    seen.map(drop)
}

/// How long ago a pass ended.
fn age(scrubbed_at: i64) -> String {
    match (scrubbed_at, now_s().saturating_sub(scrubbed_at)) {
        (0, _) => "never".to_owned(),
        (_, ..120) => "just now".to_owned(),
        (_, seconds @ 120..7200) => format!("{} min ago", seconds / 60),
        (_, seconds @ 7200..172_800) => format!("{} h ago", seconds / 3600),
        (_, seconds) => format!("{} days ago", seconds / 86_400),
    }
}

fn text(servers: &[DataServerRow], named: &[DamagedFile]) -> String {
    let row = |ds: &DataServerRow| {
        let scrub = &ds.scrub;
        let now = match scrub.running {
            true => format!("{} of {}", scrub.objects_done, scrub.objects),
            false => String::new(),
        };
        vec![
            ds.id.to_string(),
            ds.state.clone(),
            age(scrub.scrubbed_at),
            now,
            scrub.blocks_found.to_string(),
            scrub.blocks_mended.to_string(),
            scrub.damaged_blocks.to_string(),
        ]
    };
    let head = [
        ">DS",
        "STATE",
        "SCRUBBED",
        ">OBJECTS NOW",
        ">FOUND",
        ">MENDED",
        ">DAMAGED",
    ];
    let rows: Vec<_> = servers.iter().map(row).collect();
    let mut text = table(&head, &rows);
    for ds in servers {
        for DamagedFile { inode, path, .. } in files_of(ds, named) {
            let file = match path {
                Some(path) => format!("{path} (inode {inode})"),
                None => format!("inode {inode} (`find MOUNT -inum {inode}` names it)"),
            };
            text.push_str(&format!("damaged on data server {}: {file}\n", ds.id));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_told_by_its_path_or_else_by_its_inode() {
        let mut ds = DataServerRow {
            id: 3,
            ..DataServerRow::default()
        };
        ds.scrub.damaged_files = vec![7, 8, 9];
        let named = |number, inode, path: Option<&str>| DamagedFile {
            number,
            inode,
            path: path.map(str::to_owned),
        };
        let named = [named(7, 70, Some("/a/b")), named(8, 8, None)];
        let text = text(&[ds], &named);
        for line in [
            "damaged on data server 3: /a/b (inode 70)",
            "damaged on data server 3: inode 8 (`find MOUNT -inum 8` names it)",
            "damaged on data server 3: inode 9 (`find MOUNT -inum 9` names it)",
        ] {
            assert!(text.lines().any(|l| l == line), "{text}");
        }
    }
}
