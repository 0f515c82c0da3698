//! READ, WRITE and COMMIT of the metadata server itself (decision 4), for clients without layouts; and the making of objects.
//!
//! # Ownership
//! One session for each data server, shared by all of this I/O. Handles are signed for the MDS's own client tag.
//!
//! # Failure
//! The write verifier stands for those of all data servers of the file (rule R11). A server that was written to counts as it answered,
//! the others as last seen. So a data server that restarted between WRITE and COMMIT changes it.

use crate::place::striping_of;
use crate::spread::{Expelled, Spread};
use crate::status::status_of;
use bytes::{Bytes, BytesMut};
use cluster::{Cluster, MemberError, all};
use control::{CommitObjectsArgs, Status};
use layout::{DsHandle, Epoch, Extent, Group, Rights, SignedHandle, SigningKey, Striping};
use namespace::Inode;
use nfs4::ops::{PutFhArgs, PutFhRes, ReadArgs, ReadRes, WriteArgsPayload, WriteRes};
use nfs4::{CompoundBuilder, NfsStatus, OpError, StableHow, Stateid, Verifier};
use rpc::AuthSys;
use session_client::{Caller, Outcome, Session, SessionConfig, SessionError};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing_mutex::parkinglot::Mutex;
use transport::{Address, CallId, Connector, Payload, Preference};
use xdr::Opaque;

/// Slots of a session to a data server.
const SLOTS: u32 = 64;
/// Pieces of one I/O that are under way at one time.
const PIECES_MAX: usize = 8;
/// How long one try of a piece waits.
const TRY_MS: u64 = 5_000;
/// How long I/O waits for data servers to be told the rows of their places.
const ROWS_WAIT_MS: u64 = 2_000;
/// How long a piece is tried in all.
const GIVE_UP_MS: u64 = 10_000;

/// How the metadata server reaches data servers for its own I/O.
pub struct PeersConfig {
    /// Connects to data servers.
    pub connector: Arc<dyn Connector>,
    /// Which of their addresses is taken.
    pub transport: Preference,
    /// `co_ownerid` of the metadata server at the data servers.
    pub owner: Vec<u8>,
    /// Its verifier there.
    pub verifier: Verifier,
}

/// How often the data server had moved when its session was made, and the session.
type PeerSession = (u32, Arc<Session>);

/// The sessions of the metadata server to data servers, made at their first use.
pub struct Peers {
    cluster: Arc<Cluster>,
    config: PeersConfig,
    sessions: Mutex<BTreeMap<u32, PeerSession>>,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

/// A file that the metadata server reads or writes itself.
pub struct Target {
    file: u64,
    ids: Vec<u32>,
    striping: Striping,
    group: Arc<Group>,
    /// By place.
    handles: Vec<SignedHandle>,
}

impl Target {
    /// The handle is signed for the file's `epoch`, which must have been read after `key` was taken.
    ///
    /// # Errors
    /// `NoSpc` for a file without a place.
    pub fn new(
        cluster: &Cluster,
        inode: &Inode,
        rights: Rights,
        epoch: Epoch,
        key: &SigningKey,
    ) -> Result<Self, NfsStatus> {
        let group = inode.placement.ok_or(NfsStatus::NoSpc)?.group;
        let group = cluster.group(group).ok_or(NfsStatus::ServerFault)?;
        let ids = group.primaries();
        let striping = striping_of(inode, ids.len()).ok_or(NfsStatus::ServerFault)?;
        let data = inode.data();
        let handle = DsHandle {
            cluster_id: cluster.id(),
            file_id: data.file.0,
            generation: data.generation,
            place: None,
            rights,
            epoch,
            client: cluster.proxy_tag(),
        };
        let handles = handle.sign_each(&group, striping, key);
        Ok(Self {
            file: inode.id.0,
            ids,
            striping,
            group,
            handles: handles.ok_or(NfsStatus::ServerFault)?,
        })
    }
}

/// Bytes that are on the data servers.
pub struct Written {
    /// The least stability that a data server answered.
    pub committed: StableHow,
    /// Write verifiers of the places that were written to.
    pub seen: BTreeMap<u32, Verifier>,
}

impl Peers {
    /// The sessions of one metadata server.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, config: PeersConfig) -> Self {
        Self {
            cluster,
            config,
            sessions: Mutex::default(),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes read and written since the start.
    pub fn bytes(&self) -> (u64, u64) {
        (
            self.read_bytes.load(Relaxed),
            self.written_bytes.load(Relaxed),
        )
    }

    /// Reads `len` bytes. Holes are zeros.
    ///
    /// # Errors
    /// `Delay` while a data server is away, `Io` when it was expelled, and what data servers answer.
    pub async fn read(&self, target: &Target, offset: u64, len: u64) -> Result<Bytes, NfsStatus> {
        let mut pieces = self
            .each(target, (offset, len), |extent| Piece::Read { extent })
            .await?;
        let total = usize::try_from(len).map_err(|_| NfsStatus::ServerFault)?;
        self.read_bytes.fetch_add(len, Relaxed);
        if let [only] = &pieces[..]
            && only.bytes.len() == total
        {
            return Ok(only.bytes.clone());
        }
        pieces.sort_unstable_by_key(|piece| piece.extent.offset);
        let mut out = BytesMut::with_capacity(total);
        for piece in pieces {
            let at = usize::try_from(piece.extent.offset - offset).unwrap_or(total);
            let room = usize::try_from(piece.extent.len).unwrap_or(total);
            // What the piece before it lacks is a hole.
            out.resize(at.min(total), 0);
            out.extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
        }
        out.resize(total, 0);
        Ok(out.freeze())
    }

    /// Writes bytes, at least as stable as asked.
    ///
    /// # Errors
    /// As [`Peers::read`]; `Delay` when a data server restarted between two pieces.
    pub async fn write(
        &self,
        target: &Target,
        offset: u64,
        stable: StableHow,
        whole: &Bytes,
    ) -> Result<Written, NfsStatus> {
        let len = u64::try_from(whole.len()).map_err(|_| NfsStatus::Inval)?;
        let piece = |extent: Extent| {
            let at = usize::try_from(extent.offset - offset).unwrap_or(0);
            let end = at + usize::try_from(extent.len).unwrap_or(0);
            Piece::Write {
                extent,
                stable,
                bytes: whole.slice(at..end),
            }
        };
        let pieces = self.each(target, (offset, len), piece).await?;
        let mut seen: BTreeMap<u32, Verifier> = BTreeMap::new();
        let mut committed = StableHow::FileSync;
        for piece in &pieces {
            committed = committed.min(piece.committed);
            if *seen.entry(piece.extent.index).or_insert(piece.verifier) != piece.verifier {
                // The data server restarted between two pieces: no verifier says that. Ask for the whole again.
                return Err(NfsStatus::Delay);
            }
        }
        self.written_bytes.fetch_add(len, Relaxed);
        Ok(Written { committed, seen })
    }

    /// Makes the object of a file at one of its places, durably: an NFS WRITE of nothing.
    ///
    /// # Errors
    /// As [`Peers::read`].
    pub async fn make_object(&self, target: &Target, place: usize) -> Result<(), NfsStatus> {
        let ds = *target.ids.get(place).ok_or(NfsStatus::ServerFault)?;
        self.rows_told(target).await?;
        let session = self.session(ds)?;
        let nothing = Piece::Write {
            extent: Extent {
                index: 0,
                offset: 0,
                len: 0,
            },
            stable: StableHow::DataSync,
            bytes: Bytes::new(),
        };
        let made = perform(&session, ds, target.handles[place], nothing).await;
        made.map(drop)
    }

    /// Makes what was written to a file durable at all its data servers. Returns the verifier for all, and that of each
    /// place.
    ///
    /// # Errors
    /// `Delay` while a data server is away; `Io` when one was expelled: what it was given is lost.
    pub async fn commit(
        &self,
        inode: &Inode,
    ) -> Result<(Verifier, BTreeMap<u32, Verifier>), NfsStatus> {
        let mut seen = BTreeMap::new();
        let Some(spread) = Spread::of(&self.cluster, inode, Expelled::Fails)? else {
            return Ok((self.own_verifier(), seen));
        };
        let args = |place| CommitObjectsArgs {
            objects: vec![spread.object(place)].into(),
        };
        for (place, ok) in spread.ask_all(args).await? {
            match ok.statuses.0.first() {
                Some(Status::Ok | Status::NotFound) => {}
                Some(status) => return Err(status_of(*status)),
                None => return Err(NfsStatus::Io),
            }
            self.cluster.note_process(spread.ids()[place], ok.verifier);
            let (index, verifier) = spread.verifier_of(place, ok.verifier);
            seen.insert(index, verifier);
        }
        Ok((self.verifier(Some(spread.group()), &seen), seen))
    }

    /// The write verifier of a file that no data server has.
    pub fn own_verifier(&self) -> Verifier {
        self.verifier(None, &BTreeMap::new())
    }

    /// One write verifier for those of the data servers of a file.
    pub fn write_verifier(&self, target: &Target, seen: &BTreeMap<u32, Verifier>) -> Verifier {
        self.verifier(Some(&target.group), seen)
    }

    /// One verifier for those of all places; remembers what was seen.
    fn verifier(&self, group: Option<&Group>, seen: &BTreeMap<u32, Verifier>) -> Verifier {
        let mut hasher = DefaultHasher::new();
        let known = group.map(|group| self.cluster.note_verifiers(group, seen));
        for verifier in known.unwrap_or_default() {
            hasher.write(&verifier.bytes);
        }
        Verifier {
            bytes: hasher.finish().to_be_bytes(),
        }
    }

    /// Executes a piece for each extent, as [`all`] waits for them; after a failure none begins.
    async fn each(
        &self,
        target: &Target,
        (offset, len): (u64, u64),
        piece: impl Fn(Extent) -> Piece,
    ) -> Result<Vec<Done>, NfsStatus> {
        self.rows_told(target).await?;
        // Nothing has begun before each has its session.
        let mut pieces = Vec::new();
        for extent in target.striping.extents(offset, len) {
            let index = usize::try_from(extent.index).unwrap_or(usize::MAX);
            let ds = *target.ids.get(index).ok_or(NfsStatus::ServerFault)?;
            pieces.push((index, ds, self.session(ds)?, piece(extent)));
        }
        if pieces.len() == 1
            && let Some((index, ds, session, piece)) = pieces.pop()
        {
            // It needs no task of its own, so nobody wakes another thread for it.
            return Ok(vec![
                perform(&session, ds, target.handles[index], piece).await?,
            ]);
        }
        let mut tasks = JoinSet::new();
        let places = Arc::new(Semaphore::new(PIECES_MAX));
        let failure = Arc::new(OnceLock::new());
        let file = target.file;
        for (index, ds, session, piece) in pieces {
            let (handle, places) = (target.handles[index], places.clone());
            let failure = failure.clone();
            tasks.spawn(CallId::carry(async move {
                let place = places.acquire().await;
                let _place = place.map_err(|_| *failure.get().unwrap_or(&NfsStatus::Delay))?;
                let done = perform(&session, ds, handle, piece).await;
                done.inspect_err(|status| {
                    let _first = failure.set(*status);
                    places.close();
                    tracing::debug!(file, %status, "proxied I/O");
                })
            }));
        }
        all(tasks).await
    }

    /// Waits until the data servers of a new group know their places.
    async fn rows_told(&self, target: &Target) -> Result<(), NfsStatus> {
        if self.cluster.are_rows_told(target.group.id)
            || self.cluster.rows_told(target.group.id, ROWS_WAIT_MS).await
        {
            return Ok(());
        }
        Err(NfsStatus::Delay)
    }

    /// The session to a data server that serves; it is made at its first use, and anew when the data server has moved.
    fn session(&self, ds: u32) -> Result<Arc<Session>, NfsStatus> {
        let moves_count = self.cluster.check_for_io(ds).map_err(|why| match why {
            MemberError::Lost => NfsStatus::Io,
            MemberError::Away => NfsStatus::Delay,
        })?;
        let mut sessions = self.sessions.lock();
        if let Some((then, session)) = sessions.get(&ds)
            && *then == moves_count
        {
            return Ok(Arc::clone(session));
        }
        let addresses = self.cluster.addresses(ds);
        let addresses: Vec<Address> = addresses.iter().filter_map(address).collect();
        let identity = AuthSys {
            stamp: 0,
            machine: b"ropewalk-mds".to_vec(),
            uid: 0,
            gid: 0,
            gids: Vec::new(),
        };
        let config = SessionConfig {
            owner: self.config.owner.clone(),
            verifier: self.config.verifier,
            addresses: self.config.transport.order(addresses),
            role_flag: nfs4::ops::EXCHGID_USE_PNFS_DS,
            minor_version: 1,
            caller: Caller::auth_sys(&identity),
            slots: SLOTS,
            connections: 1,
            callbacks: None,
            try_timeout: Duration::from_millis(TRY_MS),
            give_up: Duration::from_millis(GIVE_UP_MS),
        };
        let session = Session::new(Arc::clone(&self.config.connector), config);
        sessions.insert(ds, (moves_count, Arc::clone(&session)));
        Ok(session)
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
    extent: Extent,
    bytes: Bytes,
    committed: StableHow,
    verifier: Verifier,
}

/// An address that the MDS itself can connect to. Within a process names stand for addresses.
fn address(told: &control::NetAddr) -> Option<Address> {
    Address::of_told(told.netid.as_str(), told.uaddr.as_str())
}

/// A stateid that no data server takes for special or for a layout's (RFC 8881 §13.9.1): an open of the MDS itself.
const PROXY_STATEID: Stateid = Stateid {
    seqid: 0,
    other: [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1],
};

async fn perform(
    session: &Session,
    ds: u32,
    handle: SignedHandle,
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
    finish(&piece, &outcome).map_err(|error| {
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

fn build(b: &mut CompoundBuilder, handle: &SignedHandle, piece: &Piece) -> Vec<Payload> {
    b.push(&PutFhArgs {
        object: Opaque(handle.as_bytes().as_slice()),
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

fn finish(piece: &Piece, outcome: &Outcome) -> Result<Done, OpError> {
    let mut reply = outcome.results()?;
    reply.take::<PutFhRes>()?;
    match piece {
        Piece::Read { extent } => {
            let res = reply.take::<ReadRes<'_>>()?;
            let bytes = outcome.record().slice_ref(res.data.0);
            Ok(Done {
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
                extent: *extent,
                bytes: Bytes::new(),
                committed: res.committed,
                verifier: res.write_verifier,
            })
        }
    }
}
