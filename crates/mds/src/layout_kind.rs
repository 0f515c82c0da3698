//! What depends on the kind of a layout: its body, its device, and what may come back with it.
//!
//! The operations and the file service know a layout by its stateid and its handle. All that a client of one kind reads
//! beyond that is encoded here.

use crate::Mds;
use crate::cx::Cx;
use layout::{LayoutKind, SignedHandle};
use namespace::Placement;
use nfs4::layout::{FileLayout, FileLayoutDsAddr, NFL_IO_ADVISE_THRU_MDS, NflUtil};
use nfs4::{DeviceId, FileHandle, NfsStatus};
use xdr::List;

/// The kind that a client names.
pub(crate) fn kind_of(number: u32) -> Result<LayoutKind, NfsStatus> {
    LayoutKind::of(number).ok_or(NfsStatus::UnknownLayoutType)
}

/// A layout before it has handles.
pub(crate) struct Body {
    kind: LayoutKind,
    util: NflUtil,
    first_index: u32,
    width: usize,
}

impl Body {
    /// For a file that lies at `placement`.
    pub(crate) fn new(
        mds: &Mds,
        cx: &Cx<'_>,
        kind: LayoutKind,
        placement: Placement,
    ) -> Result<Self, NfsStatus> {
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
            kind,
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
        match self.kind {
            LayoutKind::Files => xdr::encode_to_vec(&FileLayout {
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
            }),
        }
    }
}

/// The bytes of `da_addr_body`, as a client on the connection of `cx` is told; `None` for an unknown device.
pub(crate) fn device(mds: &Mds, cx: &Cx<'_>, kind: LayoutKind, id: DeviceId) -> Option<Vec<u8>> {
    let (group, addresses) = mds.fs.cluster().device(id, cx.conn.kind())?;
    Some(match kind {
        LayoutKind::Files => xdr::encode_to_vec(&FileLayoutDsAddr {
            stripe_indices: List((0..group.width()).collect()),
            multipath_ds_list: List(addresses.into_iter().map(List).collect()),
        }),
    })
}

/// Takes what a client says with a layout that it returns. The files layout has nothing to say.
pub(crate) fn accept_return(kind: LayoutKind, _body: &[u8]) -> Result<(), NfsStatus> {
    match kind {
        LayoutKind::Files => Ok(()),
    }
}
