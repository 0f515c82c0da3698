//! What depends on the kind of a layout: its body, its device, and what may come back with it.
//!
//! A tree has one kind: files at data servers of the cluster have files layouts, and those at NFSv3 servers of others flexible
//! files layouts. The operations and the file service know a layout by its stateid and its handle. All that a client of one kind reads
//! beyond that is encoded here.

use crate::Mds;
use crate::cx::Cx;
use foreign::PlacedObject;
use fs::{DeviceFault, ForeignObjects};
use layout::{LayoutKind, SignedHandle};
use namespace::{Inode, Placement};
use nfs4::flex_files::{
    FlexDataServer, FlexDeviceAddr, FlexDeviceVersion, FlexFlags, FlexLayout, FlexLayoutReturn,
    FlexMirror, owner_of_id,
};
use nfs4::layout::{FileLayout, FileLayoutDsAddr, NFL_IO_ADVISE_THRU_MDS, NflUtil};
use nfs4::ops::{DeviceError, LayoutReturnFile};
use nfs4::{DeviceId, FileHandle, NetAddr, NfsStatus, Stateid};
use xdr::List;

/// Spreads neighbouring numbers of files: new files go to groups in turn, so their parity says which server is first.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// How often clients are asked to tell what they did at data servers of flexible files.
const STATS_SECONDS: u32 = 60;

/// The kind that a client names.
pub(crate) fn kind_of(number: u32) -> Result<LayoutKind, NfsStatus> {
    LayoutKind::of(number).ok_or(NfsStatus::UnknownLayoutType)
}

/// The kind of the tree that a file belongs to.
pub(crate) fn kind_of_tree(inode: &Inode) -> LayoutKind {
    match inode.is_foreign() {
        true => LayoutKind::FlexFiles,
        false => LayoutKind::Files,
    }
}

/// A files layout before it has handles.
pub(crate) struct Body {
    util: NflUtil,
    first_index: u32,
    width: usize,
}

impl Body {
    /// For a file that lies at `placement`.
    pub(crate) fn new(mds: &Mds, cx: &Cx<'_>, placement: Placement) -> Result<Self, NfsStatus> {
        let cluster = mds.fs.cluster();
        let width = cluster.width(placement.group);
        if width == 0 {
            return Err(NfsStatus::LayoutUnavailable);
        }
        // No data server takes IO_ADVISE. What NFSv4.1 knows nothing of must not be in its layouts (RFC 7862 §15.5.6).
        let flags = match cx.minor_version {
            0 | 1 => 0,
            _ => NFL_IO_ADVISE_THRU_MDS,
        };
        let util = NflUtil::new(placement.stripe_unit, flags);
        Ok(Self {
            util: util.ok_or(NfsStatus::LayoutUnavailable)?,
            first_index: placement.first_index,
            width: usize::try_from(width).unwrap_or(1),
        })
    }

    /// How long the body is, whatever the handles.
    pub(crate) fn blank(&self) -> Vec<u8> {
        let device_id = DeviceId { bytes: [0; 16] };
        self.encode(device_id, &vec![SignedHandle::BLANK; self.width])
    }

    /// The bytes of `loc_body` with the device that the handles were signed for, and a handle for each place.
    pub(crate) fn encode(&self, device_id: DeviceId, handles: &[SignedHandle]) -> Vec<u8> {
        xdr::encode_to_vec(&FileLayout {
            device_id,
            util: self.util,
            first_stripe_index: self.first_index,
            pattern_offset: 0,
            file_handles: List(
                handles
                    .iter()
                    .map(|h| FileHandle::from(&h.as_bytes()[..]))
                    .collect(),
            ),
        })
    }
}

/// The layout of a file at foreign servers: the bytes of `loc_body` (RFC 8435 §5.1).
pub(crate) fn flex_body(objects: &ForeignObjects, is_writer: bool) -> Vec<u8> {
    let uid = match is_writer {
        true => objects.ids.uid,
        false => foreign::READER_UID,
    };
    let count = objects.mirrors.len();
    // Readers of different files begin at different mirrors.
    let spread = objects.inode.id.0.wrapping_mul(SPREAD) >> 32;
    let turn = usize::try_from(spread).unwrap_or(0);
    let data_server = |index: usize, object: &PlacedObject| FlexDataServer {
        device_id: object.device,
        efficiency: u32::try_from((index + turn) % count.max(1)).unwrap_or(0),
        stateid: Stateid::ANONYMOUS,
        file_handles: List(vec![FileHandle::from(&object.fh.0[..])]),
        user: owner_of_id(uid),
        group: owner_of_id(objects.ids.gid),
    };
    let mirror = |(index, stripes): (usize, &Vec<PlacedObject>)| FlexMirror {
        data_servers: List(stripes.iter().map(|o| data_server(index, o)).collect()),
    };
    let width = objects.mirrors.first().map_or(0, Vec::len);
    xdr::encode_to_vec(&FlexLayout {
        stripe_unit_bytes: match width {
            0 | 1 => 0,
            _ => objects.stripe_unit.into(),
        },
        mirrors: List(objects.mirrors.iter().enumerate().map(mirror).collect()),
        flags: FlexFlags(0),
        stats_collect_hint_seconds: STATS_SECONDS,
    })
}

/// The bytes of `da_addr_body`, as a client on the connection of `cx` is told; `None` for an unknown device.
pub(crate) fn device(mds: &Mds, cx: &Cx<'_>, kind: LayoutKind, id: DeviceId) -> Option<Vec<u8>> {
    match kind {
        LayoutKind::Files => {
            let (group, addresses) = mds.fs.cluster().device(id, cx.conn.kind())?;
            Some(xdr::encode_to_vec(&FileLayoutDsAddr {
                stripe_indices: List((0..group.width()).collect()),
                multipath_ds_list: List(addresses.into_iter().map(List).collect()),
            }))
        }
        LayoutKind::FlexFiles => {
            let device = mds.fs.foreign().device(id)?;
            let address = |a: &control::NetAddr| NetAddr {
                netid: a.netid.as_str().as_bytes().into(),
                uaddr: a.uaddr.as_str().as_bytes().into(),
            };
            Some(xdr::encode_to_vec(&FlexDeviceAddr {
                net_addrs: List(device.addresses.iter().map(address).collect()),
                versions: List(vec![FlexDeviceVersion {
                    version: 3,
                    minor_version: 0,
                    rsize_bytes: device.read_bytes_max,
                    wsize_bytes: device.write_bytes_max,
                    tightly_coupled: false,
                }]),
            }))
        }
    }
}

/// Takes what a client says with a layout that it returns. The files layout has nothing to say.
///
/// # Errors
/// `BadXdr`.
pub(crate) fn accept_return(
    mds: &Mds,
    cx: &Cx<'_>,
    kind: LayoutKind,
    (inode, file): (&Inode, &LayoutReturnFile<'_>),
) -> Result<(), NfsStatus> {
    if kind == LayoutKind::Files || file.body.0.is_empty() {
        return Ok(());
    }
    let said: FlexLayoutReturn = xdr::decode_all(file.body.0).map_err(|_| NfsStatus::BadXdr)?;
    let io_errors = said.io_errors.0.iter();
    let errors = io_errors.flat_map(|e| {
        e.errors
            .0
            .iter()
            .map(|one| fault(one, (e.offset, e.length)))
    });
    let faults: Vec<DeviceFault> = errors.collect();
    if !faults.is_empty() {
        let stateid = cx.resolve(file.stateid)?;
        // A layout that was taken away meanwhile has nothing to tell.
        let _gone = fs::note_device_faults(&mds.fs, &cx.actor, inode, stateid, &faults);
    }
    Ok(())
}

/// An error in a range of bytes, as the file service takes it.
pub(crate) fn fault(error: &DeviceError, (offset, length): (u64, u64)) -> DeviceFault {
    DeviceFault {
        device: error.device_id,
        status: error.status,
        opnum: error.opnum,
        offset,
        length,
    }
}
