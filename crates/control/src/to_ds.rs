//! What the MDS says to a data server, on the connection that the data server opened.
//!
//! Batches are answered item by item, in order; an item's status says nothing of the others. Every
//! call may be repeated: after a lost answer the MDS sends it again.

use layout::{Epoch, Floor, Row};
use nfs4::{NfsTime, Verifier};
use xdr::List;

use crate::answer::{DETAIL_BYTES_MAX, Status};
use crate::types::{KeySet, NetAddr, ObjectRef, PlaceReign, Range, Stripes, Text};

/// Most objects in one STAT, SET_SIZE, COMMIT or REMOVE.
pub const BATCH_MAX: u32 = 256;
/// Most floors in one FENCE: few, because its answer waits for I/O to drain.
pub const FENCE_BATCH_MAX: u32 = 256;
/// Most ranges in one answer of MAP.
pub const MAP_RANGES_MAX: u32 = 1024;
/// Most rows in one ROWS.
pub const ROWS_PAGE_MAX: u32 = 256;
/// Most addresses of another member that a data server is told.
pub const MEMBER_ADDRESSES_MAX: u32 = 4;
/// Most floors in one FLOORS page.
pub const FLOORS_PAGE_MAX: u32 = 1024;

/// One status for each item of a batch.
pub type ItemStatuses = List<Status, BATCH_MAX>;

xdr::xdr_struct! {
    /// STAT: what is known of objects.
    pub struct StatArgs {
        /// The objects.
        pub objects: List<ObjectRef, BATCH_MAX>,
    }

    /// What a data server knows of an object.
    #[derive(Copy)]
    pub struct StatItem {
        /// [`Status::NotFound`] when it was never written; the rest is zero unless [`Status::Ok`].
        pub status: Status,
        /// Size in bytes, data that are not durable yet included.
        pub size_bytes: u64,
        /// Highest size that the index has durably (R9). More than the size: the object is lost or cut short.
        pub durable_bytes: u64,
        /// Bytes that it takes in the store.
        pub space_bytes: u64,
        /// When it was last written, by the data server's clock.
        pub modified: NfsTime,
    }

    /// Answer of STAT.
    pub struct StatOk {
        /// One for each object asked for.
        pub items: List<StatItem, BATCH_MAX>,
    }

    /// An object and its new end.
    #[derive(Copy)]
    pub struct SetSizeItem {
        /// The object.
        pub object: ObjectRef,
        /// What lies beyond is dropped, reserved storage too. One that is shorter keeps its bytes, and may be made as long.
        pub size_bytes: u64,
        /// The file's new floor for all, raised durably before anything is dropped (R3).
        pub floor: Epoch,
        /// Newest key that could have signed below that floor.
        pub through_key: u32,
    }

    /// SET_SIZE: cuts objects. Answered when durable.
    pub struct SetSizeArgs {
        /// The objects.
        pub items: List<SetSizeItem, BATCH_MAX>,
    }

    /// COMMIT: makes what was written to objects durable.
    pub struct CommitObjectsArgs {
        /// The objects.
        pub objects: List<ObjectRef, BATCH_MAX>,
    }

    /// Answer of COMMIT.
    pub struct CommitOk {
        /// The write verifier of the data server: another one than before means lost writes (R11).
        pub verifier: Verifier,
        /// One for each object.
        pub statuses: ItemStatuses,
    }

    /// A file to remove, all its places on this data server.
    #[derive(Copy)]
    pub struct RemoveItem {
        /// The file.
        pub file_id: u64,
        /// Lowest generation that is still good: objects below it go, and none below it is made again.
        pub generation: u32,
        /// The file's new floor for all.
        pub floor: Epoch,
        /// Places at which the data server may have objects of the file without knowing it: bit n is place n.
        pub places: u64,
        /// Newest key that could have signed what is refused from now on.
        pub through_key: u32,
    }

    /// REMOVE: removes files. Answered when tombstones are durable; the bytes may be freed later (R4).
    pub struct RemoveObjectsArgs {
        /// The files.
        pub items: List<RemoveItem, BATCH_MAX>,
    }

    /// FENCE: raises floors. Answered when they are durable and no I/O that they forbid is still going
    /// on (R6). All of them or, with [`Status::TableFull`], none.
    pub struct FenceArgs {
        /// The floors.
        pub floors: List<Floor, FENCE_BATCH_MAX>,
    }

    /// KEYS: all live keys; they replace those that the data server has (R13). Answered when in use.
    pub struct KeysArgs {
        /// The keys.
        pub keys: KeySet,
    }

    /// FLOORS: one page of the floors that this data server missed, announced by HELLO. Answered when durable.
    pub struct FloorsArgs {
        /// Number of the page, from 0; a gap is refused.
        pub page: u32,
        /// Whether no page follows: layout I/O is served from the answer on.
        pub last: bool,
        /// The floors.
        pub floors: List<Floor, FLOORS_PAGE_MAX>,
    }

    /// The row of a place of which the data server is a member.
    pub struct PlaceRow {
        /// The placement group.
        pub group: u32,
        /// The place in it.
        pub place: u32,
        /// Places of the group.
        pub width: u32,
        /// Version of the group.
        pub version: u32,
        /// The members of the place, which hold its parts.
        pub row: Row,
        /// With fewer members in sync nothing is changed and nothing promised (rule P20); 0 and 1 are the same.
        pub copies_min: u32,
    }

    /// Where a data server is reached by others.
    pub struct MemberAddresses {
        /// The data server.
        pub ds_id: u32,
        /// Its addresses, as clients are told them.
        pub addresses: List<NetAddr, MEMBER_ADDRESSES_MAX>,
    }

    /// ROWS: places of which the data server is a member (rules P2, P3). They hold for this connection; one that it
    /// was told before is replaced. Answered when their versions are durable.
    pub struct RowsArgs {
        /// The rows, durable at the MDS.
        pub rows: List<PlaceRow, ROWS_PAGE_MAX>,
        /// Where the other members of these places are reached.
        pub members: List<MemberAddresses, ROWS_PAGE_MAX>,
    }

    /// Answer of ROWS.
    pub struct RowsOk {
        /// Groups of which the data server knows a newer version: their rows were not taken (rule P21).
        pub newer: List<u32, ROWS_PAGE_MAX>,
    }

    /// YIELD: the data server, primary of these places, lets go of them (rule P14). Answered when it takes no more
    /// changes for them, and the other members in sync have applied all that it took. It stays so until ROWS names
    /// another reign, or it says HELLO again.
    pub struct YieldArgs {
        /// The places.
        pub places: List<PlaceReign, ROWS_PAGE_MAX>,
    }

    /// EXPEL: the data server is out of the cluster. It stops to serve and does not come back by itself.
    pub struct ExpelArgs {
        /// Why, for its log.
        pub reason: Text<DETAIL_BYTES_MAX>,
    }

    /// SHUTDOWN: the data server stops cleanly.
    #[derive(Copy)]
    pub struct ShutdownArgs {
        /// How long I/O that is going on may take, in milliseconds.
        pub drain_ms: u32,
    }

    /// MAP: where an object has data, looked for in the stripes of the data server alone.
    #[derive(Copy)]
    pub struct MapArgs {
        /// The object.
        pub object: ObjectRef,
        /// Stripes that count.
        pub stripes: Stripes,
        /// Where to look.
        pub range: Range,
        /// Most ranges that are wanted; at least one is given.
        pub ranges_max: u32,
    }

    /// Answer of MAP.
    pub struct MapOk {
        /// Size of the object in bytes, 0 when it was never written. Behind it is a hole.
        pub size_bytes: u64,
        /// Ascending. Each begins in an own stripe, and all own bytes in it are data; those between two are holes, at least one.
        pub ranges: List<Range, MAP_RANGES_MAX>,
        /// Nothing is said of bytes from here on.
        pub through: u64,
    }

    /// PUNCH: makes a hole of a range of an object, of other stripes too, where it has nothing. Its size stays.
    #[derive(Copy)]
    pub struct PunchArgs {
        /// The object. One that was never written is a hole already.
        pub object: ObjectRef,
        /// Where.
        pub range: Range,
        /// Whether it is durable before the answer; otherwise COMMIT makes it so.
        pub durable: bool,
    }

    /// Answer of PUNCH.
    #[derive(Copy)]
    pub struct PunchOk {
        /// The write verifier of the data server (R11), of before.
        pub verifier: Verifier,
    }

    /// RESERVE: takes storage for a range of an object, in the stripes of the data server alone, and makes that durable. The
    /// size of the object stays.
    #[derive(Copy)]
    pub struct ReserveArgs {
        /// The object; it is made when it does not exist.
        pub object: ObjectRef,
        /// Stripes that count.
        pub stripes: Stripes,
        /// Where.
        pub range: Range,
    }

    /// Answer of RESERVE.
    #[derive(Copy)]
    pub struct ReserveOk {
        /// Done up to here; the rest is to be asked for again.
        pub through: u64,
    }

    /// CLONE: a range of an object becomes what a range of another is, by sharing storage, durably. Foreign stripes between are holes in both.
    /// With a length of 0 nothing is done, but to tell whether it can be.
    #[derive(Copy)]
    pub struct CloneObjectArgs {
        /// Whose bytes they are. One that was never written is a hole.
        pub src: ObjectRef,
        /// First byte of it.
        pub src_offset: u64,
        /// The object that changes; it is made when it does not exist.
        pub dst: ObjectRef,
        /// Where.
        pub range: Range,
    }
}
