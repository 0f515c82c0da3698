//! `ropewalk layout`: how files are striped, by the extended attribute `ropewalk.layout`.

use super::CliError;
use super::error::Failures;
use super::existing::Walk;
use super::output::Listing;
use super::remote::{Place, Servers};
use super::wanted::{WantedLayout, XATTR};
use bytesize::ByteSize;
use client::{Error, NfsStatus};
use cluster::FILE_WIDTH_MAX;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum LayoutCommand {
    /// Set how new files in a directory, and in new directories below it, are striped; with --existing those that are there too
    Set(SetArgs),
    /// Show how a file is striped, or what applies to new files of a directory
    Get(GetArgs),
}

/// Which servers have files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ServersKind {
    /// Data servers of the cluster.
    Own,
    /// NFSv3 servers of others.
    Nfs3,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// nfs://HOST[:PORT]/DIR, or a path below ROPEWALK_URL
    #[arg(value_name = "DIR", required = true)]
    paths: Vec<OsString>,
    /// Bytes on one data server before the next one's turn: a power of two from 4KiB to 1GiB [default: the server's]
    #[arg(long, value_name = "SIZE")]
    stripe_unit: Option<ByteSize>,
    /// Data servers of a file: at most 58, and no more than there are [default: all of a placement group; one with nfs3]
    #[arg(long, visible_alias = "stripes", value_name = "N", value_parser = stripe_count)]
    stripe_count: Option<u32>,
    /// Largest file whose bytes lie in the metadata store, at most 64KiB; 0 for none [default: the server's]
    #[arg(long, value_name = "SIZE")]
    inline_max: Option<ByteSize>,
    /// Which servers have the files: own, the data servers of the cluster, or nfs3, NFSv3 servers of others. DIR must be empty
    #[arg(long, value_name = "KIND", value_enum, hide_possible_values = true)]
    servers: Option<ServersKind>,
    /// Copies of a file, each at another data server: 1 to 4 [default: the server's]
    #[arg(long, visible_alias = "mirrors", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(cluster::COPIES_MAX)))]
    copies: Option<u32>,
    /// Take the directory's own setting away
    #[arg(long, conflicts_with_all = ["stripe_unit", "stripe_count", "inline_max", "servers", "copies"])]
    unset: bool,
    /// Lay out the files below anew that are there, while they are used; also of one file. Only their owner or root may
    #[arg(long, conflicts_with_all = ["unset", "servers"])]
    existing: bool,
    /// Only say which files would be laid out anew
    #[arg(long, requires = "existing")]
    dry_run: bool,
    /// Print JSON: what was done
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// nfs://HOST[:PORT]/PATH, or a path below ROPEWALK_URL
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(command: &LayoutCommand, servers: &Servers) -> Result<(), CliError> {
    match command {
        LayoutCommand::Set(args) => set(args, servers).await,
        LayoutCommand::Get(args) => get(args, servers).await,
    }
}

async fn set(args: &SetArgs, servers: &Servers) -> Result<(), CliError> {
    let mut words = Vec::new();
    words.extend(args.servers.map(|kind| match kind {
        ServersKind::Own => "servers=own".to_owned(),
        ServersKind::Nfs3 => "servers=nfs3".to_owned(),
    }));
    if let Some(unit) = args.stripe_unit {
        words.push(format!("stripe_unit={}", unit.as_u64()));
    }
    if let Some(count) = args.stripe_count {
        words.push(format!("stripe_count={count}"));
    }
    if let Some(bytes) = args.inline_max {
        words.push(format!("inline_max={}", bytes.as_u64()));
    }
    if let Some(copies) = args.copies {
        words.push(format!("copies={copies}"));
    }
    if words.is_empty() && !args.unset {
        return Err(CliError::usage(
            "say --servers, --stripe-unit, --stripe-count, --inline-max, --copies or --unset",
        ));
    }
    let wanted = WantedLayout {
        text: words.join(" "),
    };
    if args.existing && args.inline_max.is_some() {
        return Err(CliError::usage("--inline-max is for new files only"));
    }
    let value = (!args.unset).then_some(wanted.text.as_bytes());
    let (mut out, mut failures) = (Listing::new(args.json), Failures::default());
    for path in &args.paths {
        let place = servers.place(path).await?;
        if args.existing && (args.dry_run || is_file(&place).await?) {
            let how = (args.dry_run, args.json, &servers.stop);
            let walk = Walk::new(&wanted, how, &mut out, &mut failures);
            match walk.run(&place).await {
                Err(e) if e.is_interruption() => return out.finish().and(Err(e)),
                walked => walked?,
            }
            continue;
        }
        match place.client.set_xattr(place.path(), XATTR, value).await {
            // Unset is what it is to be.
            Err(Error::Status(NfsStatus::NoXattr)) if args.unset => {}
            Err(Error::Status(NfsStatus::Inval)) => return Err(refused(&place, args.servers)),
            Err(Error::Status(NfsStatus::NotEmpty)) => return Err(not_empty(&place)),
            done => done.map_err(CliError::cannot("set the layout of", &place.url))?,
        }
        out.done(|| json!({ "set": place.url.to_string() }))?;
        if args.existing {
            let how = (false, args.json, &servers.stop);
            let walk = Walk::new(&wanted, how, &mut out, &mut failures);
            match walk.run(&place).await {
                Err(e) if e.is_interruption() => return out.finish().and(Err(e)),
                walked => walked?,
            }
        }
    }
    out.finish()?;
    failures.verdict("file")
}

async fn is_file(place: &Place) -> Result<bool, CliError> {
    let found = place.client.lookup(place.path()).await;
    let found = found.map_err(CliError::cannot("read", &place.url))?;
    Ok(found.metadata.is_file())
}

/// The server would refuse it too, without a reason.
fn stripe_count(text: &str) -> Result<u32, String> {
    let count: u32 = text.parse().map_err(|_| "no number of data servers")?;
    match count {
        0 => Err("a file needs a data server".to_owned()),
        1..=FILE_WIDTH_MAX => Ok(count),
        _ => Err(format!(
            "a file has at most {FILE_WIDTH_MAX} data servers, since Linux clients take no layout of more than 4096 bytes, \
             and each data server needs a file handle in it"
        )),
    }
}

/// Files do not go from one kind of servers to the other.
fn not_empty(place: &Place) -> CliError {
    CliError::new(format!(
        "{} has entries, and files stay on the kind of servers that they were made on: set it on an empty directory, then copy",
        place.url
    ))
}

fn refused(place: &Place, servers: Option<ServersKind>) -> CliError {
    if servers == Some(ServersKind::Nfs3) {
        return CliError::new(format!(
            "the server refuses this layout for {}: it must be a directory, and there must be as many active NFSv3 servers as stripes \
             times mirrors (`ropewalk ds list` shows them, `ropewalk ds add-nfs3` adds one)",
            place.url
        ));
    }
    CliError::new(format!(
        "the server refuses this layout for {}: it must be a directory, the stripe unit a power of two from 4KiB to 1GiB, \
         the stripe count no more than there are data servers, inline files no longer than 64KiB",
        place.url
    ))
}

async fn get(args: &GetArgs, servers: &Servers) -> Result<(), CliError> {
    let (mut out, mut failures) = (Listing::new(args.json), Failures::default());
    for path in &args.paths {
        failures.note(show(path, servers, &mut out).await)?;
    }
    out.finish()?;
    failures.verdict("path")
}

async fn show(path: &OsStr, servers: &Servers, out: &mut Listing) -> Result<(), CliError> {
    let place = servers.place(path).await?;
    let value = place.client.xattr(place.path(), XATTR).await;
    let value = value.map_err(CliError::cannot("read the layout of", &place.url))?;
    let text = String::from_utf8_lossy(&value).into_owned();
    out.item(
        || format!("{}: {text}", place.url),
        || json_of(&place, &text),
    )
}

/// Numbers as numbers, the kind of servers as text; `all` is null.
fn json_of(place: &Place, text: &str) -> Value {
    let words = text.split_whitespace().filter_map(|w| w.split_once('='));
    let number = |v: &str| v.parse::<u64>().map_or(Value::Null, Value::from);
    let mut object = serde_json::Map::new();
    object.insert("url".into(), place.url.to_string().into());
    object.extend(words.map(|(name, value)| {
        let value = match name {
            "servers" => value.into(),
            _ => number(value),
        };
        (name.to_owned(), value)
    }));
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_count_beyond_the_bound_is_told_the_bound_and_why() {
        assert_eq!(stripe_count("58"), Ok(58));
        let refused = stripe_count("59").unwrap_err();
        assert!(refused.contains("at most 58 data servers"), "{refused}");
        assert!(refused.contains("4096 bytes"), "{refused}");
        for wrong in ["0", "-1", "many"] {
            assert!(stripe_count(wrong).is_err(), "{wrong}");
        }
        // The help names it as a number.
        assert_eq!(FILE_WIDTH_MAX, 58);
    }
}
