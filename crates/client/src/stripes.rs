//! From a range of a file to ranges of objects on data servers: the files layout as granted (RFC 8881 §13.3, §13.4).

use crate::device::{Device, Ds};
use crate::layout_kind::Body;
use layout::Striping;
use nfs4::layout::FileLayout;
use nfs4::{FileHandle, IoMode, Stateid};
use std::sync::Arc;

/// A granted part of a layout.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) iomode: IoMode,
    pub(crate) stateid: Stateid,
    device: Arc<Device>,
    striping: Striping,
    pattern_offset: u64,
    is_dense: bool,
    pub(crate) is_commit_thru_mds: bool,
    file_handles: Vec<FileHandle>,
}

/// A range that one data server holds.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) ds: Arc<Ds>,
    pub(crate) fh: FileHandle,
    /// First byte in the file.
    pub(crate) offset: u64,
    /// First byte in the object.
    pub(crate) object_offset: u64,
    pub(crate) len: u64,
}

/// What of `layout4` is outside its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) iomode: IoMode,
    pub(crate) stateid: Stateid,
}

impl Segment {
    /// `None` when the layout cannot be used.
    pub(crate) fn of(
        body: Body,
        grant: Grant,
        device: Arc<Device>,
        mds_fh: &FileHandle,
    ) -> Option<Self> {
        match body {
            Body::Files(body) => Self::of_files(grant, body, device, mds_fh),
        }
    }

    /// Of the files layout. `None` when the pattern is impossible or handles are missing.
    fn of_files(
        grant: Grant,
        body: FileLayout,
        device: Arc<Device>,
        mds_fh: &FileHandle,
    ) -> Option<Self> {
        let stripes_count = device.stripe_indices.len();
        let width = u32::try_from(stripes_count).ok()?;
        let unit = body.util.stripe_unit_bytes();
        let striping = Striping::new(unit, width, body.first_stripe_index).ok()?;
        let is_dense = body.util.is_dense();
        let mut file_handles = body.file_handles.0;
        let handles_count = if is_dense {
            stripes_count
        } else {
            device.servers.len()
        };
        match file_handles.len() {
            0 if !is_dense => file_handles.push(mds_fh.clone()),
            1 => {}
            n if n == handles_count => {}
            _ => return None,
        }
        if is_dense && file_handles.len() != handles_count {
            return None;
        }
        Some(Self {
            offset: grant.offset,
            end: grant.offset.saturating_add(grant.length),
            iomode: grant.iomode,
            stateid: grant.stateid,
            device,
            striping,
            pattern_offset: body.pattern_offset,
            is_dense,
            is_commit_thru_mds: body.util.is_commit_thru_mds(),
            file_handles,
        })
    }

    /// Whether it serves this range and purpose.
    pub(crate) fn covers(&self, offset: u64, end: u64, write: bool) -> bool {
        self.offset <= offset
            && end <= self.end
            && self.pattern_offset <= offset
            && (!write || self.iomode == IoMode::Rw)
    }

    /// Cuts a covered range into parts.
    pub(crate) fn parts(&self, offset: u64, len: u64) -> impl Iterator<Item = Part> + '_ {
        let relative = offset - self.pattern_offset;
        self.striping.extents(relative, len).map(|extent| {
            let stripe = extent.index as usize;
            let server = self.device.stripe_indices[stripe];
            let fh = match self.file_handles.len() {
                1 => 0,
                _ if self.is_dense => stripe,
                _ => server,
            };
            let file_offset = extent.offset + self.pattern_offset;
            Part {
                ds: Arc::clone(&self.device.servers[server]),
                fh: self.file_handles[fh].clone(),
                offset: file_offset,
                object_offset: self.object_offset(extent.offset, file_offset),
                len: extent.len,
            }
        })
    }

    /// Where a byte lies in its object: at the same place when sparse, packed when dense (RFC 8881 §13.4.4).
    fn object_offset(&self, relative: u64, file_offset: u64) -> u64 {
        if !self.is_dense {
            return file_offset;
        }
        let unit = u64::from(self.striping.unit_bytes());
        let row = relative / unit / u64::from(self.striping.width());
        row * unit + relative % unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs4::DeviceId;
    use nfs4::layout::NflUtil;
    use xdr::List;

    fn segment(flags: u32, handles: usize, indices: &[usize], first: u32) -> Option<Segment> {
        let servers = (0..2).map(|_| Ds::for_tests()).collect();
        let device = Device {
            stripe_indices: indices.to_vec(),
            servers,
        };
        let grant = Grant {
            offset: 0,
            length: u64::MAX,
            iomode: IoMode::Rw,
            stateid: Stateid::default(),
        };
        let handle = |i: usize| xdr::OpaqueBuf(vec![u8::try_from(i).unwrap()]);
        let body = FileLayout {
            device_id: DeviceId::default(),
            util: NflUtil::new(64, flags)?,
            first_stripe_index: first,
            pattern_offset: 0,
            file_handles: List((0..handles).map(handle).collect()),
        };
        Segment::of_files(grant, body, Arc::new(device), &xdr::OpaqueBuf(vec![99]))
    }

    fn cut(segment: &Segment, offset: u64, len: u64) -> Vec<(usize, u8, u64, u64, u64)> {
        let server = |ds: &Arc<Ds>| {
            let same = |s: &Arc<Ds>| Arc::ptr_eq(s, ds);
            segment.device.servers.iter().position(same).unwrap()
        };
        let row = |p: Part| (server(&p.ds), p.fh.0[0], p.offset, p.object_offset, p.len);
        segment.parts(offset, len).map(row).collect()
    }

    #[test]
    fn sparse_parts_keep_their_offset_and_share_a_handle() {
        let s = segment(0, 1, &[0, 1], 1).unwrap();
        let want = [(1, 0, 10, 10, 54), (0, 0, 64, 64, 64), (1, 0, 128, 128, 2)];
        assert_eq!(cut(&s, 10, 120), want);
        let of_mds = segment(0, 0, &[0, 1], 0).unwrap();
        assert_eq!(cut(&of_mds, 0, 1), [(0, 99, 0, 0, 1)]);
    }

    #[test]
    fn dense_parts_are_packed_and_have_a_handle_for_each_stripe() {
        let s = segment(nfs4::layout::NFL_DENSE, 3, &[0, 1, 1], 0).unwrap();
        let want = [
            (0, 0, 0, 0, 64),
            (1, 1, 64, 0, 64),
            (1, 2, 128, 0, 64),
            (0, 0, 192, 64, 8),
        ];
        assert_eq!(cut(&s, 0, 200), want);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert!(segment(0, 1, &[], 0).is_none());
        assert!(segment(0, 1, &[0, 1], 2).is_none());
        assert!(segment(0, 5, &[0, 1], 0).is_none());
        assert!(segment(nfs4::layout::NFL_DENSE, 0, &[0, 1], 0).is_none());
    }
}
