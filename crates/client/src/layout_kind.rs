//! What depends on the kind of a layout: which one is asked for, how its body is read, and that of its devices.
//!
//! `stripes` makes segments of bodies. Everything else of this client knows a layout by its stateid and its segments.

use crate::error::Error;
use layout::LayoutKind;
use nfs4::layout::{FileLayout, FileLayoutDsAddr};
use nfs4::{DeviceId, NetAddr};

/// The kind that this client asks for.
pub(crate) const KIND: LayoutKind = LayoutKind::Files;

/// The body of a granted layout.
#[derive(Debug)]
pub(crate) enum Body {
    /// `nfsv4_1_file_layout4` (RFC 8881 §13.3).
    Files(FileLayout),
}

impl Body {
    /// Reads `loc_body`. `None` for a kind that was not asked for.
    pub(crate) fn decode(number: u32, bytes: &[u8]) -> Result<Option<Self>, Error> {
        let malformed = |_| Error::Malformed("body of a layout");
        match LayoutKind::of(number) {
            Some(LayoutKind::Files) => {
                let body = xdr::decode_all(bytes).map_err(malformed)?;
                Ok(Some(Self::Files(body)))
            }
            Some(LayoutKind::FlexFiles) | None => Ok(None),
        }
    }

    /// The device that the layout lies on.
    pub(crate) fn device_id(&self) -> DeviceId {
        match self {
            Self::Files(body) => body.device_id,
        }
    }
}

/// What GETDEVICEINFO says of a device.
#[derive(Debug)]
pub(crate) struct DeviceBody {
    /// The addresses of each data server.
    pub(crate) servers: Vec<Vec<NetAddr>>,
    /// For each stripe, which of them has it.
    pub(crate) stripe_indices: Vec<usize>,
}

impl DeviceBody {
    /// Reads `da_addr_body` of a device of `kind`.
    pub(crate) fn decode(kind: LayoutKind, bytes: &[u8]) -> Result<Self, Error> {
        match kind {
            LayoutKind::Files => {
                let addr: FileLayoutDsAddr =
                    xdr::decode_all(bytes).map_err(|_| Error::Malformed("address of a device"))?;
                let lists = addr.multipath_ds_list.0.into_iter();
                let indices = addr.stripe_indices.0.into_iter();
                Ok(Self {
                    servers: lists.map(|list| list.0).collect(),
                    stripe_indices: indices.map(|i| i as usize).collect(),
                })
            }
            LayoutKind::FlexFiles => Err(Error::Malformed(
                "a device of a kind that was not asked for",
            )),
        }
    }
}
