//! `CB_LAYOUTRECALL` (RFC 8881 §20.3).

use crate::{CbOpNum, FhRef, FsId, IoMode, Stateid};

xdr::xdr_struct! {
    /// `layoutrecall_file4`.
    #[derive(Copy)]
    pub struct LayoutRecallFile<'a> {
        /// The file.
        pub fh: FhRef<'a>,
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// The layout; its seqid orders the recall among grants.
        pub stateid: Stateid,
    }

    /// Arguments of `CB_LAYOUTRECALL`.
    #[derive(Copy)]
    pub struct CbLayoutRecallArgs<'a> {
        /// Layout type.
        pub layout_type: u32,
        /// Which layouts.
        pub iomode: IoMode,
        /// Whether the client should not write back through the old layout.
        pub changed: bool,
        /// How much.
        pub what: LayoutRecall<'a>,
    }

    /// Result of `CB_LAYOUTRECALL`.
    #[derive(Copy)]
    pub struct CbLayoutRecallRes {}
}

xdr::xdr_union! {
    /// `layoutrecall4`.
    #[derive(Copy)]
    pub union LayoutRecall<'a> {
        /// A range of a file.
        File(file: LayoutRecallFile<'a>) = 1,
        /// Everything in a file system.
        Fsid(fsid: FsId) = 2,
        /// Everything.
        All = 3,
    }
}

operations! { CbOpNum::LayoutRecall: CbLayoutRecallArgs<'_> => CbLayoutRecallRes; }
