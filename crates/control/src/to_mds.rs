//! What a data server says to the MDS.
//!
//! JOIN comes once in the life of a data server, on a connection without a client certificate. HELLO
//! is the first call on every other connection; SIZE and WROTE are refused before it.

use layout::{ClientTag, Epoch};
use nfs4::NfsTime;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, List, OpaqueBuf};

use crate::to_ds::{BATCH_MAX, PlaceRow, ROWS_PAGE_MAX};
use crate::types::{
    ADDRESSES_MAX, Capacity, Counters, KeySet, LOCATION_BYTES_MAX, NetAddr, PlaceReign,
    StoreIdentity, Text, VersionRange,
};

/// Longest public key in bytes (an uncompressed P-256 point has 65).
pub const PUBLIC_KEY_BYTES_MAX: u32 = 256;
/// Longest certificate in bytes, DER.
pub const CERTIFICATE_BYTES_MAX: u32 = 4096;
/// Most fillings of which a HEARTBEAT tells.
pub const FILLINGS_MAX: u32 = 16;
/// Most places of which a HEARTBEAT says that the disk behind them fails.
pub const FAILING_MAX: u32 = 64;
/// Most damaged files of which a HEARTBEAT tells.
pub const DAMAGED_FILES_MAX: u32 = 64;
/// Most members of which a HEARTBEAT tells how far they are behind.
pub const LAGS_MAX: u32 = 64;
/// Most places of which a HEARTBEAT tells how many parts lack a copy.
pub const LACKING_MAX: u32 = 512;
/// Most placement groups of which HELLO tells: as many as there may be.
pub const GROUP_VERSIONS_MAX: u32 = 4096;
/// Bytes of the secret in a join token.
pub const JOIN_SECRET_BYTES: usize = 16;

/// The secret of a join token. Its Debug output is redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinSecret(pub [u8; JOIN_SECRET_BYTES]);

impl std::fmt::Debug for JoinSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl Decode<'_> for JoinSecret {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.opaque_fixed().map(Self)
    }
}

impl Encode for JoinSecret {
    fn encode(&self, e: &mut Encoder) {
        e.opaque_fixed(&self.0);
    }
}

xdr::xdr_struct! {
    /// JOIN: makes the caller a data server of the cluster.
    pub struct JoinArgs {
        /// What the caller speaks.
        pub versions: VersionRange,
        /// From the token; used up by a JOIN that is answered.
        pub secret: JoinSecret,
        /// The caller's public key (a P-256 point, SEC 1 uncompressed). Its private half stays there.
        pub public_key: OpaqueBuf<PUBLIC_KEY_BYTES_MAX>,
        /// The caller's store; it must be empty.
        pub store: StoreIdentity,
        /// Where clients reach it.
        pub addresses: List<NetAddr, ADDRESSES_MAX>,
        /// Room in its store.
        pub capacity: Capacity,
    }

    /// Who the data server is from now on.
    pub struct JoinOk {
        /// The cluster.
        pub cluster_id: u64,
        /// The data server's id, never reused.
        pub ds_id: u32,
        /// Its certificate (DER), signed by the cluster's CA.
        pub certificate: OpaqueBuf<CERTIFICATE_BYTES_MAX>,
        /// The CA's certificate (DER).
        pub ca_certificate: OpaqueBuf<CERTIFICATE_BYTES_MAX>,
    }

    /// HELLO: a data server reports for duty on a new connection.
    pub struct HelloArgs {
        /// What the caller speaks.
        pub versions: VersionRange,
        /// The cluster that it joined.
        pub cluster_id: u64,
        /// Its id there; must be that of its certificate.
        pub ds_id: u32,
        /// Its store as it is now.
        pub store: StoreIdentity,
        /// Random, new with each start of the process: tells a new connection from a new process (R11).
        pub boot_nonce: [u8; 16],
        /// Where clients reach it now.
        pub addresses: List<NetAddr, ADDRESSES_MAX>,
        /// Room in its store.
        pub capacity: Capacity,
        /// Its failure domain: what may be lost together has one name. Empty: it is one by itself.
        pub location: Text<LOCATION_BYTES_MAX>,
        /// The newest version that it was told of each placement group (rule P21).
        pub groups: List<GroupVersion, GROUP_VERSIONS_MAX>,
    }

    /// A version of a placement group.
    #[derive(Copy)]
    pub struct GroupVersion {
        /// The group.
        pub group: u32,
        /// Its version.
        pub version: u32,
    }

    /// What a data server needs to serve.
    pub struct HelloOk {
        /// The version of the control program from now on.
        pub version: u32,
        /// The cluster-wide floor, to be made durable before anything is served.
        pub cluster_floor: Epoch,
        /// The data server's lease in milliseconds, counted from when it sent HELLO.
        pub lease_ms: u32,
        /// How often it sends HEARTBEAT, in milliseconds.
        pub heartbeat_ms: u32,
        /// The keys that verify handles.
        pub keys: KeySet,
        /// The client tag of the MDS itself: its I/O is counted as proxied.
        pub proxy_client: ClientTag,
        /// Whether FLOORS pages follow. Until the last one is acknowledged no layout I/O is served (R6).
        pub floors_pending: bool,
    }

    /// How far a member is filled.
    #[derive(Copy)]
    pub struct FillProgress {
        /// The placement group.
        pub group: u32,
        /// The place in it.
        pub place: u32,
        /// The member.
        pub ds_id: u32,
        /// Parts of the place when it was begun.
        pub parts: u64,
        /// Parts that were compared.
        pub parts_done: u64,
        /// Bytes that the member lacked and was sent.
        pub bytes_sent: u64,
    }

    /// Parts of a place that lack a copy.
    #[derive(Copy)]
    pub struct PlaceParts {
        /// The placement group.
        pub group: u32,
        /// The place in it.
        pub place: u32,
        /// The parts: all until a member is filled, then those that were not compared yet.
        pub parts: u64,
    }

    /// How far a member is behind what the caller passes on to it.
    #[derive(Copy, Default)]
    pub struct MemberLag {
        /// The member.
        pub ds_id: u32,
        /// Bytes of items that it has not acknowledged.
        pub queued_bytes: u64,
        /// These items.
        pub queued_items: u64,
        /// How long the oldest of them waits, in milliseconds; 0 for none.
        pub oldest_ms: u32,
        /// Mean time of its last syncs in microseconds, the way there and back included; 0 when there was none lately.
        pub sync_us: u32,
    }

    /// How far a data server is with comparing what lies on its disk with sums.
    #[derive(Default)]
    pub struct ScrubState {
        /// Whether a pass goes on.
        pub is_running: bool,
        /// The order that the last pass followed; 0 for none.
        pub order: u64,
        /// Objects of the store when the pass began.
        pub objects: u64,
        /// Of these were looked at.
        pub objects_done: u64,
        /// Bytes that the pass has read.
        pub bytes_read: u64,
        /// When the last pass ended, in seconds of its wall clock; 0 when that is not known.
        pub scrubbed_at: i64,
        /// Blocks that were found damaged since it was started.
        pub blocks_found: u64,
        /// Of these were mended.
        pub blocks_mended: u64,
        /// Blocks that are damaged.
        pub damaged_blocks: u64,
        /// Some of the files that these belong to.
        pub damaged_files: List<u64, DAMAGED_FILES_MAX>,
    }

    /// HEARTBEAT: renews the data server's lease.
    #[derive(Default)]
    pub struct HeartbeatArgs {
        /// Room in its store.
        pub capacity: Capacity,
        /// What it counted since it started.
        pub counters: Counters,
        /// How full its fullest table of floors is, in percent: only retired keys empty them (R13).
        pub floors_fill_percent: u32,
        /// As in [`StoreIdentity`].
        pub changes: u64,
        /// Members that it fills.
        pub fillings: List<FillProgress, FILLINGS_MAX>,
        /// What it knows of its disk.
        pub scrub: ScrubState,
        /// Places of which it is primary and that another member is to take over, because its disk has failed.
        pub failing: List<PlaceReign, FAILING_MAX>,
        /// Mean time of its own last syncs in microseconds; 0 when there was none lately.
        pub sync_us: u32,
        /// How far members are behind, those first that are so most.
        pub lags: List<MemberLag, LAGS_MAX>,
        /// Parts that lack a copy, at places of which the caller is primary and has counted them.
        pub lacking: List<PlaceParts, LACKING_MAX>,
    }

    /// The renewed lease.
    #[derive(Copy)]
    pub struct HeartbeatOk {
        /// The lease in milliseconds, counted from when the HEARTBEAT was sent.
        pub lease_ms: u32,
        /// The cluster-wide floor.
        pub cluster_floor: Epoch,
        /// Changes of the store that the MDS knows of and will not forget.
        pub changes: u64,
        /// The newest order to scrub at once; 0 for none. Orders rise, also over a restart of the MDS.
        pub scrub_order: u64,
        /// Bytes per second that its fillings may send in all; 0 for no limit.
        pub fill_bytes_per_s: u64,
    }

    /// SIZE: how long is the file? Asked by a READ past the end of its object (R8).
    #[derive(Copy)]
    pub struct SizeArgs {
        /// The file.
        pub file_id: u64,
        /// Its generation.
        pub generation: u32,
    }

    /// The file's size now.
    #[derive(Copy)]
    pub struct SizeOk {
        /// Size in bytes.
        pub size_bytes: u64,
        /// How long the answer may be reused, in milliseconds.
        pub cache_ms: u32,
    }

    /// OUT: the caller, primary of these places, has lost a member (rule P11). Answered when nobody counts on the
    /// member any more, durably.
    pub struct OutArgs {
        /// The member.
        pub ds_id: u32,
        /// The places.
        pub places: List<PlaceReign, ROWS_PAGE_MAX>,
    }

    /// FILLED: a member of a place has every byte of it, and every promise waits for it (rule P15). Answered when the
    /// member is in sync, durably.
    #[derive(Copy)]
    pub struct FilledArgs {
        /// The member.
        pub ds_id: u32,
        /// The place.
        pub place: PlaceReign,
        /// The era in which it was filled: a later one begins anew.
        pub era: u32,
    }

    /// LEFT: the caller, which leaves a place, has removed all its parts there (rule P18). Answered when it is no member
    /// any more, durably.
    #[derive(Copy)]
    pub struct LeftArgs {
        /// The placement group.
        pub group: u32,
        /// The place in it.
        pub place: u32,
    }

    /// STOPPING: the caller is about to stop (rule P14). Answered when it is primary of no place that another member in
    /// sync can take over, or when the time is up.
    #[derive(Copy)]
    pub struct StoppingArgs {
        /// How long it waits, in milliseconds.
        pub wait_ms: u32,
    }

    /// The rows of places as they are now, durably. One of which the caller is no member any more is left out.
    pub struct RowsTold {
        /// The rows.
        pub rows: List<PlaceRow, ROWS_PAGE_MAX>,
    }

    /// WROTE: stable WRITEs are about to be answered FILE_SYNC. Answered when the MDS has taken in size, mtime and change of
    /// each (R2): durably, or so that a restart takes them from the data servers (R21).
    pub struct WroteArgs {
        /// The writes.
        pub items: List<WroteItem, BATCH_MAX>,
    }

    /// A stable WRITE.
    #[derive(Copy)]
    pub struct WroteItem {
        /// The file.
        pub file_id: u64,
        /// Its generation.
        pub generation: u32,
        /// First byte after what was written.
        pub end_offset: u64,
        /// When, by the data server's clock.
        pub time: NfsTime,
        /// Bytes of storage that the object has taken since the MDS last heard of it; without them the MDS asks.
        pub taken_bytes: Option<u64>,
    }
}
