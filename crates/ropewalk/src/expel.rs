//! `ropewalk expel`: a data server is put out of the cluster for good, after the administrator has read what that means.

use crate::admin::{Request, ask, mds_socket};
use crate::cli::ExpelArgs;
use crate::failure::{Outcome, cannot, failed};
use crate::out;
use crate::status::{DataServerRow, STATE_EXPELLED, ServerStatus};
use crate::table::bytes;
use std::io::BufRead;

/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64;

/// `ropewalk expel`.
pub(crate) fn run(args: &ExpelArgs) -> Outcome {
    let socket = mds_socket(&args.place)?;
    let ServerStatus::Mds(mds) = ask(&socket, &Request::Status)? else {
        return Err(failed(
            "this is the directory of a data server: the metadata server expels",
        ));
    };
    let row = mds.data_servers.iter().find(|row| row.id == args.id);
    let row = row.ok_or_else(|| {
        failed(format!(
            "the cluster has no data server {}; `ropewalk status` lists them",
            args.id
        ))
    })?;
    if row.state == STATE_EXPELLED {
        return Err(failed(format!(
            "data server {} is expelled already",
            row.id
        )));
    }
    if !args.yes {
        eprint!("{}", warning(row));
        confirm()?;
    }
    let order = Request::Expel { ds_id: args.id };
    ask::<()>(&socket, &order)?;
    out::line(&format!("data server {} is expelled", args.id));
    Ok(())
}

fn warning(row: &DataServerRow) -> String {
    format!(
        "Data server {} ({}, {}) holds {} objects, {} of its store are used.\n\
         Expelled, it never comes back, and what it holds is lost to the file system: files with stripes there give \
         I/O errors (EIO) from now on.\n\
         Type yes to expel it: ",
        row.id,
        row.addresses.join(" "),
        row.state,
        row.objects,
        bytes(row.total_bytes.saturating_sub(row.free_bytes)),
    )
}

fn confirm() -> Outcome {
    let mut answer = String::new();
    let stdin = std::io::stdin().lock();
    std::io::Read::take(stdin, ANSWER_BYTES_MAX)
        .read_line(&mut answer)
        .map_err(cannot("read the answer"))?;
    if answer.trim() == "yes" {
        Ok(())
    } else {
        Err(failed(
            "not confirmed, nothing was done (--yes expels without asking)",
        ))
    }
}
