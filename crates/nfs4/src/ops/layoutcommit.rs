//! LAYOUTCOMMIT (RFC 8881 §18.42).

use xdr::Opaque;

use crate::{NfsTime, OpNum, Stateid, layout::LAYOUT_BODY_BYTES_MAX};

xdr::xdr_struct! {
    /// `layoutupdate4`.
    #[derive(Copy)]
    pub struct LayoutUpdate<'a> {
        /// Layout type.
        pub layout_type: u32,
        /// Meaning depends on the type; empty for files (RFC 8881 §13.7).
        pub body: Opaque<'a, LAYOUT_BODY_BYTES_MAX>,
    }

    /// Arguments of LAYOUTCOMMIT.
    #[derive(Copy)]
    pub struct LayoutCommitArgs<'a> {
        /// First byte written.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// Whether the server restarted in between.
        pub reclaim: bool,
        /// The layout.
        pub stateid: Stateid,
        /// Offset of the last byte written (not the size), if it may have extended the file.
        pub last_write_offset: Option<u64>,
        /// Time of the last write, if the client wants it set.
        pub time_modify: Option<NfsTime>,
        /// What the layout type wants to be told.
        pub layout_update: LayoutUpdate<'a>,
    }

    /// Result of LAYOUTCOMMIT.
    #[derive(Copy)]
    pub struct LayoutCommitRes {
        /// New size of the file in bytes, if it changed.
        pub new_size: Option<u64>,
    }
}

operations! { OpNum::LayoutCommit: LayoutCommitArgs<'_> => LayoutCommitRes; }
