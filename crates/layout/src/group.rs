//! Placement groups as they are stored: places, the members of each, and who is primary.
//!
//! A *place* is one position in the ordered list of a group; width and stripe arithmetic follow from the list and never
//! change. A *row* names the data servers that hold the parts of a place. A *part* is the object of one file at one place.
//!
//! Owns the form of the record and what makes one sound. Who becomes a member or primary is the caller's decision.

use nfs4::DeviceId;
use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, List};

/// Most places in a group: Linux clients take no wider device.
pub const GROUP_WIDTH_MAX: u32 = 256;
/// Most places in a group whose parts have names of their own: a set of them is 64 bits.
pub const PLACES_MAX: u32 = 64;
/// Most copies of a file.
pub const COPIES_MAX: u32 = 4;
/// Most members of a place: its copies, and as many that come for those that go.
pub const MEMBERS_MAX: u32 = 2 * COPIES_MAX;

xdr::xdr_enum! {
    /// What a member has of the parts of its place.
    pub enum MemberState {
        /// Every byte that was ever promised.
        Sync = 1,
        /// New writes, and copies of old ones so far.
        Filling = 2,
        /// What it had when it was left out.
        Stale = 3,
        /// Parts that are of no use any more: it removes them, and is no member then (rule P18).
        Leaving = 4,
    }
}

/// A data server that has the parts of a place, or gets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The data server.
    pub ds: u32,
    /// What it has.
    pub state: MemberState,
    /// Of one that is stale or filling: it was in sync before. It has every part that is settled at a member in sync and
    /// at itself (rule P10).
    pub was_sync: bool,
}

/// Set in the state of a stored [`Member`] that was in sync before.
const WAS_SYNC: u32 = 1 << 8;

impl Member {
    /// A member that was never in sync here, unless it is so now.
    #[must_use]
    pub const fn new(ds: u32, state: MemberState) -> Self {
        Self {
            ds,
            state,
            was_sync: false,
        }
    }
}

impl Encode for Member {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.ds);
        let flag = if self.was_sync { WAS_SYNC } else { 0 };
        e.u32(self.state as u32 | flag);
    }
}

impl<'a> Decode<'a> for Member {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let (ds, offset, state) = (d.u32()?, d.position(), d.u32()?);
        let bad = DecodeError {
            kind: DecodeErrorKind::BadDiscriminant(state),
            offset,
        };
        Ok(Self {
            ds,
            state: MemberState::from_u32(state & !WAS_SYNC).ok_or(bad)?,
            was_sync: state & WAS_SYNC != 0,
        })
    }
}

xdr::xdr_struct! {
    /// What is known of a place (rule P2).
    pub struct Row {
        /// The member that orders all writes. It is [`MemberState::Sync`].
        pub primary: u32,
        /// The version of the group at which this row last changed.
        pub era: u32,
        /// The version of the group at which another data server last became primary (rule P4).
        pub reign: u32,
        /// The members, none twice.
        pub members: List<Member, MEMBERS_MAX>,
    }
}

/// How the objects of a group's files are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupForm {
    /// As versions before places made them: every object has place 0, and handles have version 1. No copies.
    Shared,
    /// One part for each place (rule P1). Handles have version 2.
    Places,
}

/// A placement group.
///
/// Stored as id, version, and the list of data servers. In the form [`GroupForm::Places`] that list is empty, and the
/// number of copies and the rows follow. Earlier programs refuse an empty list, so they do not open such a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Names the group. Never reused.
    pub id: u32,
    /// Part of the device id; 1 for a new group. It rises when a row changes, or the addresses of a member.
    pub version: u32,
    /// How objects are named.
    pub form: GroupForm,
    /// Copies that each place is to have, 1 to [`COPIES_MAX`].
    pub copies: u32,
    /// The places, in stripe order.
    pub rows: Vec<Row>,
}

impl Row {
    /// A row of version `version` with one member.
    #[must_use]
    pub fn single(ds: u32, version: u32) -> Self {
        Self::new(&[ds], version)
    }

    /// A row of version `version` whose members are all in sync, the first one primary.
    ///
    /// # Panics
    /// Without a member.
    #[must_use]
    pub fn new(members: &[u32], version: u32) -> Self {
        let sync = |ds: &u32| Member::new(*ds, MemberState::Sync);
        Self {
            primary: members[0],
            era: version,
            reign: version,
            members: members.iter().map(sync).collect::<Vec<_>>().into(),
        }
    }

    /// A member.
    #[must_use]
    pub fn member(&self, ds: u32) -> Option<&Member> {
        self.members.0.iter().find(|m| m.ds == ds)
    }

    /// The state of a data server here; `None` for one that is no member.
    #[must_use]
    pub fn state_of(&self, ds: u32) -> Option<MemberState> {
        self.member(ds).map(|m| m.state)
    }

    /// Members that are given each change: those in sync and those that are filled.
    pub fn takers(&self) -> impl Iterator<Item = u32> + '_ {
        let members = self.members.0.iter();
        let taking =
            members.filter(|m| matches!(m.state, MemberState::Sync | MemberState::Filling));
        taking.map(|m| m.ds)
    }

    /// Members in a state.
    pub fn in_state(&self, state: MemberState) -> impl Iterator<Item = u32> + '_ {
        let members = self.members.0.iter();
        members.filter(move |m| m.state == state).map(|m| m.ds)
    }

    /// Whether the row can be: a primary in sync, and no member twice.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let mut ids: Vec<u32> = self.members.0.iter().map(|m| m.ds).collect();
        ids.sort_unstable();
        ids.dedup();
        let is_distinct = ids.len() == self.members.0.len();
        is_distinct
            && self.state_of(self.primary) == Some(MemberState::Sync)
            && self.reign <= self.era
    }
}

impl Group {
    /// A new group whose places have these members, the primary first.
    ///
    /// # Panics
    /// With a place without members.
    #[must_use]
    pub fn new(id: u32, places: &[Vec<u32>]) -> Self {
        let copies = places.iter().map(Vec::len).max().unwrap_or(1);
        Self {
            id,
            version: 1,
            form: GroupForm::Places,
            copies: u32::try_from(copies).unwrap_or(COPIES_MAX),
            rows: places.iter().map(|members| Row::new(members, 1)).collect(),
        }
    }

    /// A new group of places with one copy, one data server for each.
    #[must_use]
    pub fn single(id: u32, servers: &[u32]) -> Self {
        let places: Vec<Vec<u32>> = servers.iter().map(|ds| vec![*ds]).collect();
        Self::new(id, &places)
    }

    /// A group as versions before places stored it.
    #[must_use]
    pub fn shared(id: u32, version: u32, servers: &[u32]) -> Self {
        Self {
            id,
            version,
            form: GroupForm::Shared,
            copies: 1,
            rows: servers.iter().map(|ds| Row::single(*ds, 1)).collect(),
        }
    }

    /// Places of the group.
    #[must_use]
    pub fn width(&self) -> u32 {
        u32::try_from(self.rows.len()).expect("a group has at most 256 places")
    }

    /// The primaries, by place.
    #[must_use]
    pub fn primaries(&self) -> Vec<u32> {
        self.rows.iter().map(|row| row.primary).collect()
    }

    /// Whether a data server is a member of any place.
    #[must_use]
    pub fn is_member(&self, ds: u32) -> bool {
        self.rows.iter().any(|row| row.state_of(ds).is_some())
    }

    /// All members of all places, ascending.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        let members = self.rows.iter().flat_map(|row| &row.members.0);
        let mut ids: Vec<u32> = members.map(|m| m.ds).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The place in the name of the object at `index`.
    #[must_use]
    pub fn object_place(&self, index: u32) -> u8 {
        match self.form {
            GroupForm::Shared => 0,
            GroupForm::Places => u8::try_from(index).expect("a group has at most 256 places"),
        }
    }

    /// The places of which a data server is a member, as they are in the names of objects: bit n is place n.
    #[must_use]
    pub fn object_places(&self, ds: u32) -> u64 {
        let own = (0..).zip(&self.rows);
        let own = own.filter(|(_, row)| row.state_of(ds).is_some());
        own.fold(0, |places, (index, _)| {
            places | 1 << self.object_place(index)
        })
    }

    /// The version at which a row last changed.
    #[must_use]
    pub fn rows_version(&self) -> u32 {
        self.rows.iter().map(|row| row.era).max().unwrap_or(0)
    }

    /// Whether the group can be: places within bounds and sound rows. Without places, no data server twice.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let width_max = match self.form {
            GroupForm::Shared => GROUP_WIDTH_MAX,
            GroupForm::Places => PLACES_MAX,
        };
        let is_distinct = self.form == GroupForm::Places || self.members().len() == self.rows.len();
        (1..=width_max as usize).contains(&self.rows.len())
            && is_distinct
            && (1..=COPIES_MAX).contains(&self.copies)
            && self
                .rows
                .iter()
                .all(|r| r.is_sound() && r.era <= self.version)
    }

    /// The device id of the group in a cluster.
    #[must_use]
    pub fn device_id(&self, cluster_id: u64) -> DeviceId {
        let name = DeviceName {
            cluster_id,
            group: self.id,
            version: self.version,
        };
        name.to_device_id()
    }
}

impl Encode for Group {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.id);
        e.u32(self.version);
        match self.form {
            GroupForm::Shared => {
                List::<u32, GROUP_WIDTH_MAX>::from(self.primaries()).encode(e);
            }
            GroupForm::Places => {
                e.u32(0);
                e.u32(self.copies);
                List::<Row, GROUP_WIDTH_MAX>::from(self.rows.clone()).encode(e);
            }
        }
    }
}

impl<'a> Decode<'a> for Group {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let offset = d.position();
        let (id, version) = (d.u32()?, d.u32()?);
        let servers = List::<u32, GROUP_WIDTH_MAX>::decode(d)?;
        let group = if servers.0.is_empty() {
            Self {
                id,
                version,
                form: GroupForm::Places,
                copies: d.u32()?,
                rows: List::<Row, GROUP_WIDTH_MAX>::decode(d)?.0,
            }
        } else {
            Self::shared(id, version, &servers.0)
        };
        if group.is_sound() {
            return Ok(group);
        }
        let kind = DecodeErrorKind::Invalid("a group has sound rows");
        Err(DecodeError { kind, offset })
    }
}

/// What a device id says: cluster id, group id and version, big-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceName {
    /// The cluster that made it.
    pub cluster_id: u64,
    /// The placement group.
    pub group: u32,
    /// The group's version.
    pub version: u32,
}

impl DeviceName {
    /// The 16 bytes that clients see.
    #[must_use]
    pub fn to_device_id(self) -> DeviceId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.cluster_id.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.group.to_be_bytes());
        bytes[12..].copy_from_slice(&self.version.to_be_bytes());
        DeviceId { bytes }
    }

    /// What a client's 16 bytes say. Any bytes say something; [`crate::PlacementTable::by_device`] knows if it exists.
    #[must_use]
    pub fn from_device_id(id: DeviceId) -> Self {
        let value = u128::from_be_bytes(id.bytes);
        #[allow(clippy::cast_possible_truncation, reason = "each field is cut out")]
        Self {
            cluster_id: (value >> 64) as u64,
            group: (value >> 32) as u32,
            version: value as u32,
        }
    }
}
