//! Proxy I/O: READ, WRITE and COMMIT of clients without layouts, carried out on the data servers (design D4); and the making of objects.
//!
//! # Ownership
//! One session for each data server, shared by all proxied I/O. Handles are signed for the MDS's own client tag.
//!
//! # Ordering
//! A WRITE is on the data servers before its size is committed; both before the reply. A truncation of the file waits for
//! proxied I/O under way, and the other way round (the file's gate).
//!
//! # Failure
//! The write verifier stands for those of all data servers of the file (rule R11): each that was written to counts as it
//! answered, the others as last seen, so a data server that restarted between WRITE and COMMIT changes it.

use super::call::{all, call};
use super::ranges::may_be_longer;
use super::sizes::{object_of, striping_of};
use super::space::note_space;
use crate::Mds;
use crate::cx::{self, Asker, Cx, Prepared};
use bytes::{Bytes, BytesMut};
use control::{CommitArgs, Status};
use layout::{DsHandle, Epoch, Extent, Rights, SigningKey};
use namespace::{Inode, SizeCommit};
use nfs4::ops::{PutFhArgs, PutFhRes, ReadArgs, ReadRes, WriteArgsPayload, WriteRes};
use nfs4::{CompoundBuilder, NfsStatus, OpError, StableHow, Stateid, Verifier};
use rpc::AuthSys;
use server::Nfsd;
use session_client::{Caller, Outcome, Session, SessionConfig, SessionError};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, Semaphore};
use tokio::task::JoinSet;
use transport::{Address, Payload};
use xdr::Opaque;

/// Slots of a session to a data server.
const SLOTS: u32 = 64;
/// Pieces of one I/O that are under way at one time.
const PIECES_MAX: usize = 8;
/// How long one try of a piece waits.
const TRY_MS: u64 = 5_000;
/// How long a piece is tried in all.
const GIVE_UP_MS: u64 = 10_000;

/// Proxied I/O on one file.
struct Target {
    inode: Arc<Inode>,
    ids: Vec<u32>,
    handle: [u8; layout::DS_HANDLE_BYTES],
    extents: Vec<Extent>,
}

fn target(
    nfsd: &Nfsd<Mds>,
    key: &SigningKey,
    inode: &Arc<Inode>,
    rights: Rights,
    (offset, len): (u64, u64),
) -> Result<Target, NfsStatus> {
    let mds = nfsd.role();
    let data = mds.data();
    let group = inode.placement.ok_or(NfsStatus::NoSpc)?.group;
    let ids = data.group_servers(group);
    let striping = striping_of(inode, ids.len()).ok_or(NfsStatus::ServerFault)?;
    let handle = DsHandle {
        cluster_id: data.cluster_id,
        file_id: inode.id.0,
        generation: inode.generation,
        mirror: 0,
        rights,
        epoch: Epoch::from_u64(mds.namespace().fencing_epoch(inode)),
        client: data.proxy_tag,
    };
    Ok(Target {
        inode: Arc::clone(inode),
        ids,
        handle: handle.sign(key),
        extents: striping.extents(offset, len).collect(),
    })
}

/// Reads up to `count` bytes: the bytes, and whether the file ends behind them. Holes are zeros.
pub(crate) async fn read(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    offset: u64,
    count: u32,
) -> Result<(Bytes, bool), NfsStatus> {
    let mut asker = Asker::new(&cx.caller.cred);
    let range = (offset, u64::from(count));
    let result = read_as(nfsd, &mut asker, inode, range, 0).await;
    let observed = asker.observed;
    cx.observe(observed.0);
    result
}

/// As [`read`], for work that is no part of a COMPOUND. `seen_end` is what [`super::end_of`] has said: the file does not end before
/// it while there are layouts that it is written under.
pub(super) async fn read_as(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    inode: &Arc<Inode>,
    (offset, count): (u64, u64),
    seen_end: u64,
) -> Result<(Bytes, bool), NfsStatus> {
    let data = nfsd.role().data();
    let (_shared, inode) = enter(nfsd, asker, inode).await?;
    let key = data.signing_key().ok_or(NfsStatus::Delay)?;
    let mut end = inode.size;
    if may_be_longer(nfsd, &inode) {
        end = end.max(seen_end);
    }
    let len = end.saturating_sub(offset).min(count);
    let eof = offset.saturating_add(len) >= end;
    if len == 0 {
        return Ok((Bytes::new(), eof));
    }
    if inode.placement.is_none() {
        let zeros = usize::try_from(len).map_err(|_| NfsStatus::ServerFault)?;
        return Ok((BytesMut::zeroed(zeros).freeze(), eof));
    }
    let target = target(nfsd, &key, &inode, Rights::Read, (offset, len))?;
    let pieces = each(nfsd, &target, |extent| Piece::Read { extent }).await?;
    let total = usize::try_from(len).map_err(|_| NfsStatus::ServerFault)?;
    data.proxied_read_bytes.fetch_add(len, Relaxed);
    if let [only] = &pieces[..]
        && only.bytes.len() == total
    {
        return Ok((only.bytes.clone(), eof));
    }
    let mut out = BytesMut::zeroed(total);
    for piece in pieces {
        let at = usize::try_from(piece.extent.offset - offset).unwrap_or(total);
        let room = out.get_mut(at..).unwrap_or_default();
        let got = piece.bytes.len().min(room.len());
        room[..got].copy_from_slice(&piece.bytes[..got]);
    }
    Ok((out.freeze(), eof))
}

/// Keeps truncations out while the file is worked on, and takes a look at it as it is then.
pub(super) async fn enter(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    inode: &Inode,
) -> Result<(OwnedRwLockReadGuard<()>, Arc<Inode>), NfsStatus> {
    let data = nfsd.role().data();
    super::until_ready(nfsd, inode.id).await?;
    let shared = data.gate(inode.id).read_owned().await;
    data.cutting(inode.id)?;
    data.offloads.lock().stopped(inode.id)?;
    super::ready(nfsd, inode.id)?;
    let inode = asker.ns(nfsd.role(), |ns, op| ns.getattr(op, inode.id))?;
    Ok((shared, inode))
}

/// As [`enter`], for who writes: set-id bits that the write takes off are off, durably, before a data server has its bytes.
pub(super) async fn enter_to_write(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    inode: &Inode,
) -> Result<(OwnedRwLockReadGuard<()>, Arc<Inode>), NfsStatus> {
    let (shared, inode) = enter(nfsd, asker, inode).await?;
    Ok((shared, without_privileges(nfsd, asker, inode).await?))
}

/// Takes the set-id bits off that a write by the asker takes off, durably.
pub(super) async fn without_privileges(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    inode: Arc<Inode>,
) -> Result<Arc<Inode>, NfsStatus> {
    if !inode.has_privileges() {
        return Ok(inode);
    }
    let mds = nfsd.role();
    let inode = asker.ns(mds, |ns, op| ns.drop_privileges(op, inode.id))?;
    mds.durable(asker.observed).await?;
    Ok(inode)
}

/// Writes bytes, at least as stable as asked.
pub(crate) async fn write(
    nfsd: &Nfsd<Mds>,
    cx: &mut Cx<'_>,
    inode: &Arc<Inode>,
    offset: u64,
    stable: StableHow,
    bytes: Bytes,
) -> Result<WriteRes, NfsStatus> {
    let mut asker = Asker::new(&cx.caller.cred);
    let result = write_pieces(nfsd, &mut asker, inode, offset, stable, bytes).await;
    let observed = asker.observed;
    cx.observe(observed.0);
    let written = result?;
    let res = WriteRes {
        count: u32::try_from(written.len).map_err(|_| NfsStatus::Inval)?,
        committed: written.committed,
        write_verifier: verifier(nfsd, &written.ids, &written.seen),
    };
    let kept = Prepared::new(cx, &res, None);
    cx::change_as(nfsd.role(), cx, &kept, |ns, op| {
        ns.commit_size(op, inode.id, written.commit)
    })?;
    note_space(nfsd, inode.id);
    let data = nfsd.role().data();
    data.proxied_written_bytes.fetch_add(written.len, Relaxed);
    Ok(res)
}

/// As [`write`], for work that is no part of a COMPOUND. Returns the write verifiers of the data servers that were written to.
pub(super) async fn write_as(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    inode: &Arc<Inode>,
    offset: u64,
    stable: StableHow,
    bytes: Bytes,
) -> Result<BTreeMap<u32, Verifier>, NfsStatus> {
    let written = write_pieces(nfsd, asker, inode, offset, stable, bytes).await?;
    asker.ns(nfsd.role(), |ns, op| {
        ns.commit_size(op, inode.id, written.commit)
    })?;
    note_space(nfsd, inode.id);
    let data = nfsd.role().data();
    data.proxied_written_bytes.fetch_add(written.len, Relaxed);
    Ok(written.seen)
}

/// Bytes that are on the data servers, and not yet known to the name space.
struct Written {
    committed: StableHow,
    /// The data servers of the file.
    ids: Vec<u32>,
    /// Write verifiers of those that were written to.
    seen: BTreeMap<u32, Verifier>,
    len: u64,
    commit: SizeCommit,
    /// Keeps truncations out until the size is committed.
    _shared: OwnedRwLockReadGuard<()>,
}

async fn write_pieces(
    nfsd: &Nfsd<Mds>,
    asker: &mut Asker<'_>,
    inode: &Arc<Inode>,
    offset: u64,
    stable: StableHow,
    whole: Bytes,
) -> Result<Written, NfsStatus> {
    let data = nfsd.role().data();
    let (shared, inode) = enter_to_write(nfsd, asker, inode).await?;
    let key = data.signing_key().ok_or(NfsStatus::Delay)?;
    let len = u64::try_from(whole.len()).map_err(|_| NfsStatus::Inval)?;
    let target = target(nfsd, &key, &inode, Rights::ReadWrite, (offset, len))?;
    // The size is the MDS's own and durable with the reply: FILE_SYNC of the data server would only report it back.
    let ds_stable = match stable {
        StableHow::FileSync => StableHow::DataSync,
        other => other,
    };
    let piece = |extent: Extent| {
        let at = usize::try_from(extent.offset - offset).unwrap_or(0);
        let end = at + usize::try_from(extent.len).unwrap_or(0);
        Piece::Write {
            extent,
            stable: ds_stable,
            bytes: whole.slice(at..end),
        }
    };
    let pieces = each(nfsd, &target, piece).await?;
    let mut seen: BTreeMap<u32, Verifier> = BTreeMap::new();
    let mut committed = StableHow::FileSync;
    for piece in &pieces {
        committed = committed.min(piece.committed);
        if *seen.entry(piece.ds).or_insert(piece.verifier) != piece.verifier {
            // The data server restarted between two pieces: no verifier says that. Ask for the whole again.
            return Err(NfsStatus::Delay);
        }
    }
    let commit = SizeCommit {
        new_end: Some(offset + len),
        ..SizeCommit::default()
    };
    let committed = if committed >= ds_stable && stable == StableHow::FileSync {
        StableHow::FileSync
    } else {
        // A size that is durable does not make a promise about data: never more than was asked and given (R2).
        committed.min(stable)
    };
    Ok(Written {
        committed,
        ids: target.ids,
        seen,
        len,
        commit,
        _shared: shared,
    })
}

/// Makes the object of a file on one of its data servers, durably: an NFS WRITE of nothing, over what carries proxied I/O.
pub(super) async fn make_object(
    nfsd: &Nfsd<Mds>,
    inode: &Arc<Inode>,
    ds: u32,
) -> Result<(), NfsStatus> {
    let key = nfsd.role().data().signing_key().ok_or(NfsStatus::Delay)?;
    let target = target(nfsd, &key, inode, Rights::ReadWrite, (0, 0))?;
    let session = session(nfsd, ds)?;
    let nothing = Piece::Write {
        extent: Extent {
            index: 0,
            offset: 0,
            len: 0,
        },
        stable: StableHow::DataSync,
        bytes: Bytes::new(),
    };
    perform(&session, ds, target.handle, nothing)
        .await
        .map(drop)
}

/// Makes what was written to a file durable at all its data servers.
pub(crate) async fn commit(nfsd: &Nfsd<Mds>, inode: &Inode) -> Result<Verifier, NfsStatus> {
    commit_as(nfsd, inode).await.map(|(verifier, _)| verifier)
}

/// As [`commit`]; tells the write verifier of each data server too.
pub(super) async fn commit_as(
    nfsd: &Nfsd<Mds>,
    inode: &Inode,
) -> Result<(Verifier, BTreeMap<u32, Verifier>), NfsStatus> {
    let data = nfsd.role().data();
    let mut seen = BTreeMap::new();
    let Some(placement) = inode.placement else {
        return Ok((verifier(nfsd, &[], &seen), seen));
    };
    let ids = data.group_servers(placement.group);
    let object = object_of(inode);
    if data.servers.lock().members_of(&ids).len() < ids.len() {
        // What an expelled data server was given is lost.
        return Err(NfsStatus::Io);
    }
    let mut tasks = JoinSet::new();
    for ds in &ids {
        let ds = *ds;
        let conn = data.servers.lock().live_conn(ds).ok_or(NfsStatus::Delay)?;
        tasks.spawn(async move {
            let args = CommitArgs {
                objects: vec![object].into(),
            };
            (ds, call(&conn, &args).await)
        });
    }
    while let Some(done) = tasks.join_next().await {
        let (ds, result) = done.map_err(|_| NfsStatus::ServerFault)?;
        let ok = result.map_err(|error| {
            tracing::warn!(ds, %error, "COMMIT");
            NfsStatus::Delay
        })?;
        match ok.statuses.0.first() {
            Some(Status::Ok | Status::NotFound) => {}
            Some(Status::Removed) => return Err(NfsStatus::Stale),
            Some(Status::NoSpace) => return Err(NfsStatus::NoSpc),
            _ => return Err(NfsStatus::Io),
        }
        seen.insert(ds, ok.verifier);
    }
    Ok((verifier(nfsd, &ids, &seen), seen))
}

/// One verifier for those of many data servers; remembers what was seen.
fn verifier(nfsd: &Nfsd<Mds>, ids: &[u32], seen: &BTreeMap<u32, Verifier>) -> Verifier {
    let mut servers = nfsd.role().data().servers.lock();
    let mut hasher = DefaultHasher::new();
    for ds in ids {
        let Some(server) = servers.map.get_mut(ds) else {
            continue;
        };
        if let Some(verifier) = seen.get(ds) {
            server.verifier = Some(*verifier);
        }
        hasher.write_u32(*ds);
        hasher.write(&server.verifier.unwrap_or_default().bytes);
    }
    Verifier {
        bytes: hasher.finish().to_be_bytes(),
    }
}

/// I/O on one data server.
#[derive(Clone)]
enum Piece {
    Read {
        extent: Extent,
    },
    Write {
        extent: Extent,
        stable: StableHow,
        bytes: Bytes,
    },
}

/// Its result. What does not belong to its kind is empty.
struct Done {
    ds: u32,
    extent: Extent,
    bytes: Bytes,
    committed: StableHow,
    verifier: Verifier,
}

/// Executes a piece for each extent, as [`all`] waits for them; behind a failure none begins.
async fn each(
    nfsd: &Nfsd<Mds>,
    target: &Target,
    piece: impl Fn(Extent) -> Piece,
) -> Result<Vec<Done>, NfsStatus> {
    let mut tasks = JoinSet::new();
    let places = Arc::new(Semaphore::new(PIECES_MAX));
    let failure = Arc::new(OnceLock::new());
    let file = target.inode.id.0;
    // Nothing has begun before each has its session.
    let mut pieces = Vec::with_capacity(target.extents.len());
    for extent in &target.extents {
        let index = usize::try_from(extent.index).unwrap_or(usize::MAX);
        let ds = *target.ids.get(index).ok_or(NfsStatus::ServerFault)?;
        pieces.push((ds, session(nfsd, ds)?, piece(*extent)));
    }
    for (ds, session, piece) in pieces {
        let (handle, places, failure) = (target.handle, places.clone(), failure.clone());
        tasks.spawn(async move {
            let place = places.acquire().await;
            let _place = place.map_err(|_| *failure.get().unwrap_or(&NfsStatus::Delay))?;
            let done = perform(&session, ds, handle, piece).await;
            done.inspect_err(|status| {
                let _first = failure.set(*status);
                places.close();
                tracing::debug!(file, %status, "proxied I/O");
            })
        });
    }
    all(tasks).await
}

/// The session to a data server that serves; it is made at its first use.
fn session(nfsd: &Nfsd<Mds>, ds: u32) -> Result<Arc<Session>, NfsStatus> {
    let data = nfsd.role().data();
    let mut servers = data.servers.lock();
    let server = servers.map.get_mut(&ds).ok_or(NfsStatus::Io)?;
    if !server.is_member() {
        return Err(NfsStatus::Io);
    }
    if !server.is_live(tokio::time::Instant::now()) {
        return Err(NfsStatus::Delay);
    }
    if let Some(session) = &server.session {
        return Ok(Arc::clone(session));
    }
    let addresses: Vec<Address> = server
        .record
        .addresses
        .0
        .iter()
        .filter_map(address)
        .collect();
    let addresses = data.proxy_transport.order(addresses);
    let identity = AuthSys {
        stamp: 0,
        machine: b"ropewalk-mds".to_vec(),
        uid: 0,
        gid: 0,
        gids: Vec::new(),
    };
    let config = SessionConfig {
        owner: data.proxy_owner.clone(),
        verifier: data.proxy_verifier,
        addresses,
        role_flag: nfs4::ops::EXCHGID_USE_PNFS_DS,
        minor_version: 1,
        caller: Caller::auth_sys(&identity),
        slots: SLOTS,
        connections: 1,
        callbacks: None,
        try_timeout: Duration::from_millis(TRY_MS),
        give_up: Duration::from_millis(GIVE_UP_MS),
    };
    let session = Session::new(Arc::clone(&data.connector), config);
    server.session = Some(Arc::clone(&session));
    Ok(session)
}

/// An address that the MDS itself can connect to. Within a process names stand for addresses.
fn address(address: &control::NetAddr) -> Option<Address> {
    if address.netid.as_str() == "memory" {
        return Some(Address::Memory(address.uaddr.as_str().to_owned()));
    }
    let parsed = address.parse().ok()?;
    match parsed.netid {
        rpc::Netid::Tcp | rpc::Netid::Tcp6 => Some(Address::Tcp(parsed.address)),
        rpc::Netid::Rdma | rpc::Netid::Rdma6 => Some(Address::Rdma(parsed.address)),
    }
}

/// A stateid that no data server takes for special or for a layout's (RFC 8881 §13.9.1): an open of the MDS itself.
const PROXY_STATEID: Stateid = Stateid {
    seqid: 0,
    other: [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1],
};

async fn perform(
    session: &Session,
    ds: u32,
    handle: [u8; layout::DS_HANDLE_BYTES],
    piece: Piece,
) -> Result<Done, NfsStatus> {
    let caller = session.config().caller.clone();
    let build = {
        let piece = piece.clone();
        move |b: &mut CompoundBuilder| build(b, &handle, &piece)
    };
    let mut tries = 0;
    let outcome = loop {
        tries += 1;
        let result = match session.establish().await {
            Ok(_) => session.compound(&caller, &build).await,
            Err(e) => Err(e),
        };
        match result {
            Ok(outcome) => break outcome,
            // The data server restarted: what it had not committed is told by its verifier, so asking again is safe.
            Err(SessionError::Lost) if tries < 3 => {}
            Err(error) => {
                tracing::warn!(ds, %error, "proxied I/O");
                return Err(NfsStatus::Delay);
            }
        }
    };
    finish(ds, &piece, &outcome).map_err(|error| {
        let status = error.status();
        if status.is_none_or(|s| s == NfsStatus::BadHandle || s == NfsStatus::BadStateid) {
            tracing::error!(ds, %error, "proxied I/O");
        }
        match status {
            // The handle was signed just before a fence or a truncation, or its key has retired meanwhile.
            Some(NfsStatus::PnfsNoLayout | NfsStatus::Delay) => NfsStatus::Delay,
            Some(status @ (NfsStatus::Stale | NfsStatus::NoSpc | NfsStatus::FBig)) => status,
            _ => NfsStatus::Io,
        }
    })
}

fn build(
    b: &mut CompoundBuilder,
    handle: &[u8; layout::DS_HANDLE_BYTES],
    piece: &Piece,
) -> Vec<Payload> {
    b.push(&PutFhArgs {
        object: Opaque(handle),
    });
    match piece {
        Piece::Read { extent } => {
            b.push(&ReadArgs {
                stateid: PROXY_STATEID,
                offset: extent.offset,
                count: u32::try_from(extent.len).unwrap_or(u32::MAX),
            });
            Vec::new()
        }
        Piece::Write {
            extent,
            stable,
            bytes,
        } => {
            b.push(&WriteArgsPayload {
                stateid: PROXY_STATEID,
                offset: extent.offset,
                stable: *stable,
                len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            });
            vec![Payload::Bytes(bytes.clone())]
        }
    }
}

fn finish(ds: u32, piece: &Piece, outcome: &Outcome) -> Result<Done, OpError> {
    let mut reply = outcome.results()?;
    reply.take::<PutFhRes>()?;
    match piece {
        Piece::Read { extent } => {
            let res = reply.take::<ReadRes<'_>>()?;
            let bytes = outcome.record().slice_ref(res.data.0);
            Ok(Done {
                ds,
                extent: *extent,
                bytes,
                committed: StableHow::FileSync,
                verifier: Verifier::default(),
            })
        }
        Piece::Write { extent, bytes, .. } => {
            let res = reply.take::<WriteRes>()?;
            if usize::try_from(res.count).ok() != Some(bytes.len()) {
                // A short write: the client must send all of it again.
                return Err(OpError::Status {
                    op: None,
                    status: NfsStatus::Delay,
                });
            }
            Ok(Done {
                ds,
                extent: *extent,
                bytes: Bytes::new(),
                committed: res.committed,
                verifier: res.write_verifier,
            })
        }
    }
}
