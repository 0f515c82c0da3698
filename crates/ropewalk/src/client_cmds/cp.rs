//! `ropewalk cp`: to, from and between servers, many files at once.

use super::copy::{self, End, Shared};
use super::error::CopyError;
use super::remote::{Place, Servers, URL_VARIABLE, Unfinished};
use super::{CliError, output};
use client::{Error, NfsTime, NfsUrl, OpenOptions, SetAttrs};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustix::fs::AtFlags;
use serde_json::json;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

/// Most directories that wait to be copied.
const DIRS_WAITING_MAX: usize = 1 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Sources, then the destination: local paths, nfs://HOST[:PORT]/PATH (?vers=3 for NFSv3), or :PATH below ROPEWALK_URL
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<OsString>,
    /// Copy directories and what is in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Keep permission bits and the time of modification
    #[arg(short, long)]
    preserve: bool,
    /// Files copied at once
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// No progress bar
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON: what was done
    #[arg(long)]
    json: bool,
}

/// A path here or on a server.
#[derive(Debug, Clone)]
enum Spot {
    Local(PathBuf),
    Remote(Place),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Dir,
    Link,
    Other,
}

/// What a copy must know of a file.
#[derive(Debug, Clone, Copy)]
struct Info {
    kind: Kind,
    mode: u32,
    size: u64,
    mtime: NfsTime,
}

type Job<'a> = Pin<Box<dyn Future<Output = Result<(), CliError>> + 'a>>;

/// One command in progress.
struct Run<'a> {
    args: &'a Args,
    shared: &'a Shared,
    unfinished: &'a Unfinished,
    running: FuturesUnordered<Job<'a>>,
    failures_count: u64,
    /// Files and links begun.
    files_count: u64,
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<(), CliError> {
    let Some((to, from)) = args.paths.split_last() else {
        return Err(CliError::usage("cp needs a source and a destination"));
    };
    let to = spot(to, servers).await?;
    let into = to
        .info(true)
        .await
        .ok()
        .flatten()
        .is_some_and(|i| i.kind == Kind::Dir);
    let names_dir = args
        .paths
        .last()
        .is_some_and(|p| p.as_bytes().ends_with(b"/"));
    let copies_dir = args.recursive && from.len() == 1;
    if !into && (from.len() > 1 || (names_dir && !copies_dir)) {
        return Err(CliError::new(format!("{to} is not a directory")));
    }
    let shared = Shared::new(args.quiet);
    let mut run = Run {
        args,
        shared: &shared,
        unfinished: &servers.unfinished,
        running: FuturesUnordered::new(),
        failures_count: 0,
        files_count: 0,
    };
    for path in from {
        let from = spot(path, servers).await?;
        if let (Spot::Local(a), Spot::Local(b)) = (&from, &to) {
            return Err(CliError::usage(format!(
                "{} and {} are both local; one must be nfs://HOST/PATH, or :PATH with {URL_VARIABLE} set",
                a.display(),
                b.display()
            )));
        }
        let target = match (into, from.name()) {
            (true, Some(name)) => to.child(&name),
            _ => to.clone(),
        };
        let done = run.source(from, target).await;
        run.note(done);
    }
    run.wait_until_below(1).await;
    shared.finish();
    if args.json {
        let (files, bytes) = (run.files_count, shared.copied_bytes());
        let done = json!({ "files": files, "bytes": bytes, "failed": run.failures_count });
        output::line(&done.to_string())?;
    }
    match run.failures_count {
        0 => Ok(()),
        1 => Err(CliError::new("1 copy failed")),
        n => Err(CliError::new(format!("{n} copies failed"))),
    }
}

async fn spot(argument: &OsStr, servers: &Servers) -> Result<Spot, CliError> {
    let is_below = argument.as_bytes().starts_with(b":");
    let is_url = argument.to_str().is_some_and(NfsUrl::looks_like_one);
    if !is_below && !is_url {
        return Ok(Spot::Local(PathBuf::from(argument)));
    }
    Ok(Spot::Remote(servers.place(argument).await?))
}

impl<'a> Run<'a> {
    fn note(&mut self, done: Result<(), CliError>) {
        if let Err(e) = done {
            self.failures_count += 1;
            self.shared.complain(&e);
        }
    }

    async fn wait_until_below(&mut self, count: usize) {
        while self.running.len() >= count {
            let Some(done) = self.running.next().await else {
                return;
            };
            self.note(done);
        }
    }

    async fn source(&mut self, from: Spot, to: Spot) -> Result<(), CliError> {
        let found = from
            .info(true)
            .await
            .map_err(CliError::cannot("copy", &from))?;
        let Some(info) = found else {
            return Err(CliError::new(format!("{from} does not exist")));
        };
        if info.kind != Kind::Dir {
            self.file(from, to, info).await;
            return Ok(());
        }
        if !self.args.recursive {
            return Err(CliError::new(format!(
                "{from} is a directory; use -r to copy it with all that is in it"
            )));
        }
        if to.is_within(&from) {
            return Err(CliError::new(format!(
                "{from} cannot be copied into itself"
            )));
        }
        self.tree(from, to, info).await
    }

    async fn tree(&mut self, from: Spot, to: Spot, info: Info) -> Result<(), CliError> {
        let mut waiting = vec![(from, to, info)];
        let mut made_dirs = Vec::new();
        while let Some((from, to, info)) = waiting.pop() {
            let made = to.make_dir(info.mode).await;
            if let Err(e) = made.map_err(CliError::cannot("make the directory", &to)) {
                self.note(Err(e));
                continue;
            }
            if self.args.preserve {
                made_dirs.push((to.clone(), info));
            }
            let listed = self.directory(&from, &to, &mut waiting).await;
            let listed = listed.map_err(CliError::cannot("read", &from));
            self.note(listed);
        }
        // Once nothing is written into them any more; a directory was made before those in it.
        if !made_dirs.is_empty() {
            self.wait_until_below(1).await;
        }
        for (to, info) in made_dirs.into_iter().rev() {
            let kept = to.preserve(info).await;
            self.note(kept.map_err(CliError::cannot("keep mode and time of", &to)));
        }
        Ok(())
    }

    async fn directory(
        &mut self,
        from: &Spot,
        to: &Spot,
        waiting: &mut Vec<(Spot, Spot, Info)>,
    ) -> Result<(), CopyError> {
        let mut listing = from.list().await?;
        while let Some(page) = listing.next_page().await? {
            for (name, info) in page {
                let (from, to) = (from.child(&name), to.child(&name));
                match info.kind {
                    Kind::Dir if waiting.len() < DIRS_WAITING_MAX => {
                        waiting.push((from, to, info));
                    }
                    Kind::Dir => self.note(Err(CliError::new(format!(
                        "{from} was left out: too many directories"
                    )))),
                    _ => self.file(from, to, info).await,
                }
            }
        }
        Ok(())
    }

    /// Begins to copy what is no directory.
    async fn file(&mut self, from: Spot, to: Spot, info: Info) {
        self.wait_until_below(usize::from(self.args.jobs)).await;
        self.files_count += 1;
        if info.kind == Kind::File {
            self.shared.expect(info.size);
        }
        let (shared, preserve) = (self.shared, self.args.preserve);
        let unfinished = self.unfinished;
        self.running.push(Box::pin(async move {
            let copied = match info.kind {
                Kind::File => {
                    let name = to.to_string();
                    unfinished.begin(&name);
                    let copied = copy_file(&from, &to, info, shared, preserve).await;
                    unfinished.end(&name);
                    copied
                }
                Kind::Link => copy_link(&from, &to).await,
                Kind::Dir | Kind::Other => {
                    return Err(CliError::new(format!(
                        "{from} was left out: it is neither a file, a directory nor a link"
                    )));
                }
            };
            copied.map_err(CliError::cannot("copy", format_args!("{from} to {to}")))
        }));
    }
}

async fn copy_file(
    from: &Spot,
    to: &Spot,
    info: Info,
    shared: &Shared,
    preserve: bool,
) -> Result<(), CopyError> {
    if from.is_same_file(to).await? {
        return Err(io::Error::other("they are the same file").into());
    }
    let source = from.open().await?;
    let sink = to.create(info.mode).await?;
    let copied = copy::copy(&source, &sink, info.size, shared).await;
    let (read, written) = (source.close().await, sink.close().await);
    let count = copied?;
    read?;
    written?;
    if count < info.size {
        return Err(io::Error::other(format!(
            "the source became shorter while it was copied: {count} of {} bytes",
            info.size
        ))
        .into());
    }
    if preserve {
        to.preserve(info).await?;
    }
    Ok(())
}

async fn copy_link(from: &Spot, to: &Spot) -> Result<(), CopyError> {
    let text = match from {
        Spot::Local(path) => fs::read_link(path)?.as_os_str().as_bytes().to_vec(),
        Spot::Remote(place) => place.client.readlink(place.path()).await?,
    };
    match to {
        Spot::Local(path) => std::os::unix::fs::symlink(OsStr::from_bytes(&text), path)?,
        Spot::Remote(place) => drop(place.client.symlink(text, place.path()).await?),
    }
    Ok(())
}

impl Display for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Remote(place) => write!(f, "{}", place.url),
        }
    }
}

impl Spot {
    fn child(&self, name: &[u8]) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.join(OsStr::from_bytes(name))),
            Self::Remote(place) => Self::Remote(place.child(name)),
        }
    }

    /// The last name; `None` for a root and for `..`, whose content is copied.
    fn name(&self) -> Option<Vec<u8>> {
        let name = match self {
            Self::Local(path) => path.file_name()?.as_bytes().to_vec(),
            Self::Remote(place) => place.name().to_vec(),
        };
        (!matches!(name.as_slice(), b"" | b"." | b"..")).then_some(name)
    }

    /// Whether it lies in `dir`, or is it, as far as names tell.
    fn is_within(&self, dir: &Self) -> bool {
        let (Self::Remote(a), Self::Remote(b)) = (self, dir) else {
            return false;
        };
        let same_server = a.url.server() == b.url.server();
        let path = |p: &Place| PathBuf::from(OsStr::from_bytes(p.path()));
        same_server && path(a).starts_with(path(b))
    }

    async fn is_same_file(&self, other: &Self) -> Result<bool, CopyError> {
        let (Self::Remote(a), Self::Remote(b)) = (self, other) else {
            return Ok(false);
        };
        if a.url.server() != b.url.server() {
            return Ok(false);
        }
        match b.client.lookup(b.path()).await {
            Ok(there) => Ok(a.client.lookup(a.path()).await?.fh == there.fh),
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// `None` when it does not exist.
    async fn info(&self, follow: bool) -> Result<Option<Info>, CopyError> {
        let found = match self {
            Self::Local(path) if follow => fs::metadata(path).map(|m| local_info(&m)),
            Self::Local(path) => fs::symlink_metadata(path).map(|m| local_info(&m)),
            Self::Remote(place) => {
                let found = match follow {
                    true => place.client.lookup(place.path()).await,
                    false => place.client.lookup_link(place.path()).await,
                };
                return match found {
                    Ok(object) => Ok(Some(remote_info(&object.metadata))),
                    Err(e) if e.is_not_found() => Ok(None),
                    Err(e) => Err(e.into()),
                };
            }
        };
        match found {
            Ok(info) => Ok(Some(info)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    async fn list(&self) -> Result<Listing, CopyError> {
        Ok(match self {
            Self::Local(path) => Listing::Local(fs::read_dir(path)?),
            Self::Remote(place) => Listing::Remote(place.client.read_dir(place.path()).await?),
        })
    }

    /// Makes a directory, or takes one that is there.
    async fn make_dir(&self, mode: u32) -> Result<(), CopyError> {
        // What is copied must be writable meanwhile.
        let mode = (mode & 0o777) | 0o700;
        let made = match self {
            Self::Local(path) => fs::create_dir(path).map_err(CopyError::from),
            Self::Remote(place) => {
                let made = place.client.mkdir(place.path(), mode).await;
                made.map(drop).map_err(CopyError::from)
            }
        };
        match made {
            Ok(()) => Ok(()),
            Err(e) => match self.info(true).await {
                Ok(Some(info)) if info.kind == Kind::Dir => Ok(()),
                _ => Err(e),
            },
        }
    }

    async fn open(&self) -> Result<End, CopyError> {
        Ok(match self {
            Self::Local(path) => End::Local(Arc::new(fs::File::open(path)?)),
            Self::Remote(place) => {
                let options = OpenOptions::read();
                End::Remote(place.client.open(place.path(), options).await?)
            }
        })
    }

    /// A new or emptied file.
    async fn create(&self, mode: u32) -> Result<End, CopyError> {
        let mode = mode & 0o777;
        Ok(match self {
            Self::Local(path) => End::Local(Arc::new(create_local(path, mode)?)),
            Self::Remote(place) => {
                let options = OpenOptions::create(mode);
                End::Remote(place.client.open(place.path(), options).await?)
            }
        })
    }

    async fn preserve(&self, info: Info) -> Result<(), CopyError> {
        match self {
            Self::Local(path) => {
                let time = rustix::fs::Timespec {
                    tv_sec: info.mtime.seconds,
                    tv_nsec: info.mtime.nanoseconds.min(999_999_999).into(),
                };
                let times = rustix::fs::Timestamps {
                    last_access: rustix::fs::Timespec {
                        tv_sec: 0,
                        tv_nsec: rustix::fs::UTIME_OMIT,
                    },
                    last_modification: time,
                };
                rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty())
                    .map_err(io::Error::from)?;
                Ok(fs::set_permissions(
                    path,
                    fs::Permissions::from_mode(info.mode & 0o7777),
                )?)
            }
            Self::Remote(place) => {
                let attrs = SetAttrs {
                    mode: Some(info.mode & 0o7777),
                    mtime: Some(info.mtime),
                    ..SetAttrs::default()
                };
                Ok(place.client.set_attrs(place.path(), &attrs).await?)
            }
        }
    }
}

fn create_local(path: &Path, mode: u32) -> io::Result<fs::File> {
    let mut options = fs::File::options();
    options.write(true).create(true).truncate(true).mode(mode);
    options.open(path)
}

fn local_info(m: &fs::Metadata) -> Info {
    let kind = match m.file_type() {
        t if t.is_file() => Kind::File,
        t if t.is_dir() => Kind::Dir,
        t if t.is_symlink() => Kind::Link,
        _ => Kind::Other,
    };
    Info {
        kind,
        mode: m.mode() & 0o7777,
        size: m.len(),
        mtime: NfsTime {
            seconds: m.mtime(),
            nanoseconds: u32::try_from(m.mtime_nsec()).unwrap_or(0),
        },
    }
}

fn remote_info(m: &client::Metadata) -> Info {
    let kind = if m.is_file() {
        Kind::File
    } else if m.is_dir() {
        Kind::Dir
    } else if m.is_symlink() {
        Kind::Link
    } else {
        Kind::Other
    };
    Info {
        kind,
        mode: m.mode,
        size: m.size,
        mtime: m.mtime,
    }
}

/// A directory being read.
enum Listing {
    Local(fs::ReadDir),
    Remote(client::ReadDir),
}

/// Local entries handed out at once.
const PAGE_ENTRIES: usize = 256;

impl Listing {
    async fn next_page(&mut self) -> Result<Option<Vec<(Vec<u8>, Info)>>, CopyError> {
        match self {
            Self::Local(dir) => {
                let mut page = Vec::new();
                for entry in dir.take(PAGE_ENTRIES) {
                    let entry = entry?;
                    let info = local_info(&entry.metadata()?);
                    page.push((entry.file_name().as_bytes().to_vec(), info));
                }
                Ok((!page.is_empty()).then_some(page))
            }
            Self::Remote(dir) => {
                let page = dir
                    .next_page()
                    .await
                    .map_err(|e: Error| CopyError::from(e))?;
                let item = |e: client::DirEntry| {
                    let info = remote_info(&e.metadata);
                    (e.name, info)
                };
                Ok(page.map(|p| p.into_iter().map(item).collect()))
            }
        }
    }
}
