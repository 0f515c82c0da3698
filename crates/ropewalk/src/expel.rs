//! `ropewalk expel` and `ropewalk ds remove`: a data server is put out of the cluster for good, after the administrator has
//! read what that means. One that has the last copy of data needs `--yes-lose-data`, and the files are listed.

use crate::admin::{Request, Server, ask, mds_server};
use crate::cli::ExpelArgs;
use crate::confirm::confirm;
use crate::failure::{Outcome, cannot, failed};
use crate::out;
use crate::status::{DataServerRow, MdsStatus, STATE_EXPELLED, of_mds};
use crate::table::bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What would be lost with a data server.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Loss {
    /// Its id.
    pub ds: u32,
    /// Places of which it has the last copy.
    pub last_copies: u64,
    /// Names of files with stripes there.
    pub files: u64,
    /// Whether all names were looked at.
    pub files_complete: bool,
    /// The first of them.
    pub paths: Vec<String>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Told<'l> {
    #[serde(flatten)]
    loss: &'l Loss,
    done: bool,
}

/// `ropewalk expel`.
pub(crate) fn run(args: &ExpelArgs) -> Outcome {
    let server = mds_server(&args.place)?;
    let mds = status(&server)?;
    let row = member(&mds, args.id)?;
    let loss: Loss = ask(&server, &Request::DsLoss { ds_id: args.id })?;
    let is_lossy = loss.last_copies > 0;
    let is_allowed = args.yes_lose_data || args.yes && !is_lossy;
    if args.json && !is_allowed {
        tell(&loss, false)?;
    }
    if is_lossy {
        if !args.json {
            eprint!("{}", losses(row, &loss));
        }
        if !args.yes_lose_data {
            return Err(refused(&loss));
        }
    } else if !is_allowed {
        if args.json {
            return Err(failed("nothing was done; --yes expels it"));
        }
        eprint!("{}", warning(row));
        confirm("--yes expels without asking")?;
    }
    let order = Request::Expel {
        ds_id: args.id,
        yes_lose_data: args.yes_lose_data,
    };
    give((&server, &order), (&loss, args.json), "expelled")
}

/// `ropewalk ds remove`.
pub(crate) fn remove(server: &Server, id: u32, (yes_lose_data, json): (bool, bool)) -> Outcome {
    let mds = status(server)?;
    let row = member(&mds, id)?;
    let loss: Loss = match row.places {
        0 => Loss {
            ds: id,
            files_complete: true,
            ..Loss::default()
        },
        _ => ask(server, &Request::DsLoss { ds_id: id })?,
    };
    if !json && loss.last_copies > 0 {
        eprint!("{}", losses(row, &loss));
    }
    let order = Request::DsRemove {
        ds_id: id,
        yes_lose_data,
    };
    give((server, &order), (&loss, json), "removed")
}

/// Gives an order that may lose data, and tells that it is done, or with JSON what became of it.
fn give((server, order): (&Server, &Request), (loss, json): (&Loss, bool), what: &str) -> Outcome {
    let done = ask::<()>(server, order);
    if json {
        tell(loss, done.is_ok())?;
        return done;
    }
    done?;
    out::line(&format!("data server {} is {what}", loss.ds))
}

fn status(server: &Server) -> Outcome<MdsStatus> {
    of_mds(server, "expels")
}

fn member(mds: &MdsStatus, id: u32) -> Outcome<&DataServerRow> {
    let row = mds.data_servers.iter().find(|row| row.id == id);
    let row = row.ok_or_else(|| {
        failed(format!(
            "the cluster has no data server {id}; `ropewalk status` lists them"
        ))
    })?;
    match row.state == STATE_EXPELLED {
        true => Err(failed(format!("data server {id} is expelled already"))),
        false => Ok(row),
    }
}

fn tell(loss: &Loss, done: bool) -> Outcome {
    let told = Told { loss, done };
    let text = serde_json::to_string_pretty(&told).map_err(cannot("write JSON"))?;
    out::line(&text)
}

/// The files that would be lost, in words.
fn losses(row: &DataServerRow, loss: &Loss) -> String {
    let mut text = String::new();
    for path in &loss.paths {
        text += &format!("{}\n", path.escape_debug());
    }
    let listed = loss.paths.len() as u64;
    let (files, more) = (loss.files, loss.files.saturating_sub(listed));
    if more > 0 {
        text += &format!("... and {more} more\n");
    }
    let least = if loss.files_complete { "" } else { "at least " };
    text += &format!(
        "Data server {} ({}, {}) has the last copy of {} places, with stripes of {least}{files} files. Without it they give \
         I/O errors (EIO), for good.\n",
        row.id,
        row.addresses.join(" "),
        row.state,
        loss.last_copies,
    );
    text
}

fn refused(loss: &Loss) -> crate::failure::Failure {
    failed(format!(
        "nothing was done: data server {} has the last copy of {} places; bring back the data servers that have others, drain \
         this one, or expel it with --yes-lose-data",
        loss.ds, loss.last_copies,
    ))
}

fn warning(row: &DataServerRow) -> String {
    format!(
        "Data server {} ({}, {}) holds {} objects, {} of its store are used.\n\
         Expelled, it never comes back. All that it holds has a copy in sync at another data server: no file is lost, and \
         the copies are made again where there are enough data servers.\n\
         Type yes to expel it: ",
        row.id,
        row.addresses.join(" "),
        row.state,
        row.objects,
        bytes(row.total_bytes.saturating_sub(row.free_bytes)),
    )
}
