//! Where the bytes of a file lie and who may touch them. It has stripe arithmetic, placement groups, signed data-server
//! handles, fencing epochs, and the floors that a data server checks them against.
//!
//! The crate is sans-IO: keys are made from random bytes of the caller, nothing reads a clock, and
//! persistence is records in and out. The MDS signs and places; a data server verifies and fences;
//! clients use only [`Striping`].
//!
//! Entry points: [`Striping`], [`PlacementTable`], [`KeyRing`] with [`DsHandle`], [`MdsHandle`], [`Floors`].
#![forbid(unsafe_code)]

mod epoch;
mod fence;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod group;
mod handle;
mod key;
mod kind;
mod mds_handle;
mod placement;
mod stripe;

pub use epoch::Epoch;
pub use fence::{
    Applied, CLIENT_FLOORS_MAX, FILE_FLOORS_MAX, Floor, FloorKey, Floors, FloorsLimits,
    HandleRefusal, TOMBSTONES_MAX, TableFull,
};
pub use group::{
    COPIES_MAX, DeviceName, GROUP_WIDTH_MAX, Group, GroupForm, MEMBERS_MAX, Member, MemberState,
    PLACES_MAX, Row,
};
pub use handle::{
    CLIENT_TAG_BYTES, ClientTag, DS_HANDLE_BYTES, DsHandle, HandleError, HandlePlace, Rights,
    SignedHandle, place_verifier,
};
pub use key::{
    KEY_BYTES, KEYS_MAX, KeyBytes, KeyError, KeyRecord, KeyRing, KeyState, MAC_BYTES, SigningKey,
};
pub use kind::LayoutKind;
pub use mds_handle::{MDS_HANDLE_BYTES, MdsHandle, MdsHandleError, MdsHandleKind};
pub use placement::{GROUPS_MAX, Placed, PlacementError, PlacementTable};
pub use stripe::{Extent, Extents, Striping, StripingError, UNIT_STEP_BYTES};

#[cfg(test)]
mod tests;
