//! Which I/O goes through the MDS because the file is small (`mdsthreshold`, RFC 8881 §5.12.4). For a few KiB,
//! LAYOUTGET and LAYOUTCOMMIT cost more than the hop that they save.
//!
//! The RFC would have a request by layout only when file size and request reach both thresholds that are given. Linux
//! sends one through the MDS only when both are below, and so does this client. Small requests to large files belong to
//! the data servers. The hint moves bytes, and never says what is right: a size that others have changed meanwhile does
//! no harm.

use nfs4::{StableHow, Thresholds};

/// What is known of a file for this choice.
#[derive(Debug, Default)]
pub(crate) struct Small {
    /// The largest size seen: at an OPEN, or as the end of a write.
    size_bytes: u64,
    thresholds: Thresholds,
}

impl Small {
    /// An OPEN answered with this size and these hints.
    pub(crate) fn opened(&mut self, size_bytes: u64, thresholds: Thresholds) {
        self.size_bytes = self.size_bytes.max(size_bytes);
        self.thresholds = thresholds;
    }

    /// The file has at least so many bytes.
    pub(crate) fn grown(&mut self, size_bytes: u64) {
        self.size_bytes = self.size_bytes.max(size_bytes);
    }

    /// The file was cut or extended.
    pub(crate) fn resized(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
    }

    /// How stable to write through the MDS, if the I/O goes there. A write is counted as done.
    ///
    /// The first bytes of an empty file are mostly all of it: written stably they need no COMMIT.
    pub(crate) fn through_mds(&mut self, offset: u64, len: u64, write: bool) -> Option<StableHow> {
        let t = &self.thresholds;
        let stable = match self.size_bytes {
            0 if offset == 0 => StableHow::FileSync,
            _ => StableHow::Unstable,
        };
        let (file_bytes, io_bytes) = if write {
            self.size_bytes = self.size_bytes.max(offset.saturating_add(len));
            (t.write_file_bytes, t.write_io_bytes)
        } else {
            (t.read_file_bytes, t.read_io_bytes)
        };
        let file_is_small = file_bytes.map(|threshold| self.size_bytes < threshold);
        let io_is_small = io_bytes.map(|threshold| len < threshold);
        let is_small = match (file_is_small, io_is_small) {
            (Some(file), Some(io)) => file && io,
            (Some(alone), None) | (None, Some(alone)) => alone,
            (None, None) => false,
        };
        is_small.then_some(stable)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a request goes through the MDS exactly when every threshold of its direction that is given is above it.
    use super::*;

    fn small(size_bytes: u64, thresholds: Thresholds) -> Small {
        let mut small = Small::default();
        small.opened(size_bytes, thresholds);
        small
    }

    #[test]
    fn both_thresholds_must_be_above_a_request() {
        let both = Thresholds {
            write_file_bytes: Some(100),
            write_io_bytes: Some(50),
            ..Thresholds::default()
        };
        for (size, offset, len, through) in [
            (0, 0, 49, true),
            (0, 0, 50, false),
            (99, 0, 1, true),
            (100, 0, 1, false),
            (0, 99, 1, false),
            (0, u64::MAX, 1, false),
        ] {
            let mut small = small(size, both);
            let of_write = small.through_mds(offset, len, true);
            assert_eq!(of_write.is_some(), through, "{size} {offset} {len}");
            let of_read = small.through_mds(offset, len, false);
            assert_eq!(of_read, None, "nothing is said of reads");
        }
    }

    #[test]
    fn one_threshold_counts_alone_and_none_counts_nothing() {
        let file = Thresholds {
            read_file_bytes: Some(100),
            ..Thresholds::default()
        };
        assert!(small(99, file).through_mds(0, 1 << 30, false).is_some());
        assert!(small(100, file).through_mds(0, 1, false).is_none());
        let io = Thresholds {
            read_io_bytes: Some(10),
            ..Thresholds::default()
        };
        assert!(small(1 << 40, io).through_mds(0, 9, false).is_some());
        let none = small(0, Thresholds::default()).through_mds(0, 1, true);
        assert_eq!(none, None);
    }

    #[test]
    fn a_file_that_grows_is_small_no_more_until_it_is_cut() {
        let file = Thresholds {
            write_file_bytes: Some(100),
            ..Thresholds::default()
        };
        let mut small = small(0, file);
        let first = small.through_mds(0, 60, true);
        assert_eq!(first, Some(StableHow::FileSync), "perhaps all of it");
        let again = small.through_mds(0, 60, true);
        assert_eq!(again, Some(StableHow::Unstable));
        assert_eq!(small.through_mds(60, 60, true), None);
        small.opened(0, file);
        let late = small.through_mds(0, 1, true);
        assert_eq!(late, None, "an older size brings nothing back");
        small.resized(10);
        assert!(small.through_mds(0, 1, true).is_some());
    }
}
