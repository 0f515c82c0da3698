//! LAYOUTRETURN (RFC 8881 §18.44).

use xdr::Opaque;

use crate::{IoMode, OpNum, Stateid, layout::LAYOUT_BODY_BYTES_MAX};

xdr::xdr_struct! {
    /// `layoutreturn_file4`.
    #[derive(Copy)]
    pub struct LayoutReturnFile<'a> {
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
        /// Meaning depends on the type; empty for files (RFC 8881 §13.8).
        pub body: Opaque<'a, LAYOUT_BODY_BYTES_MAX>,
    }

    /// Arguments of LAYOUTRETURN.
    #[derive(Copy)]
    pub struct LayoutReturnArgs<'a> {
        /// Whether the layout is from before a restart of the server.
        pub reclaim: bool,
        /// Layout type.
        pub layout_type: u32,
        /// Which layouts.
        pub iomode: IoMode,
        /// How much.
        pub what: LayoutReturn<'a>,
    }

    /// Result of LAYOUTRETURN.
    #[derive(Copy)]
    pub struct LayoutReturnRes {
        /// What remains of the file's layouts; `None` when nothing does.
        pub stateid: Option<Stateid>,
    }
}

xdr::xdr_union! {
    /// `layoutreturn4`.
    #[derive(Copy)]
    pub union LayoutReturn<'a> {
        /// A range of the current file.
        File(file: LayoutReturnFile<'a>) = 1,
        /// Everything in the current file system.
        Fsid = 2,
        /// Everything.
        All = 3,
    }
}

operations! { OpNum::LayoutReturn: LayoutReturnArgs<'_> => LayoutReturnRes; }
