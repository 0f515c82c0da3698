//! LAYOUTGET (RFC 8881 §18.43).

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, List};

use crate::{
    IoMode, NfsStatus, OpBody, OpNum, OpRes, Stateid,
    layout::{LAYOUTS_MAX, Layout},
};

xdr::xdr_struct! {
    /// Arguments of LAYOUTGET.
    #[derive(Copy)]
    pub struct LayoutGetArgs {
        /// Whether to tell the client when a refused layout becomes available.
        pub signal_layout_avail: bool,
        /// Wanted layout type.
        pub layout_type: u32,
        /// What it is for; `Any` is to be answered `NFS4ERR_BADIOMODE`.
        pub iomode: IoMode,
        /// First byte.
        pub offset: u64,
        /// Wanted bytes; all ones is to the end of the file.
        pub length: u64,
        /// Bytes below which a layout is of no use.
        pub minlength: u64,
        /// An open, lock or delegation, or the layout so far.
        pub stateid: Stateid,
        /// Most bytes of `LAYOUTGET4resok` that the client takes.
        pub maxcount: u32,
    }

    /// Layouts as granted.
    pub struct LayoutsGranted<'a> {
        /// Whether the client must return them at its last close.
        pub return_on_close: bool,
        /// The layouts of this client and file from now on.
        pub stateid: Stateid,
        /// The segments.
        pub layouts: List<Layout<'a>, LAYOUTS_MAX>,
    }
}

/// Result of LAYOUTGET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutGetRes<'a> {
    /// Granted.
    Ok(LayoutsGranted<'a>),
    /// `NFS4ERR_LAYOUTTRYLATER`.
    TryLater {
        /// Whether the server will signal when it can.
        will_signal: bool,
    },
}

impl Encode for LayoutGetRes<'_> {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Ok(granted) => granted.encode(e),
            Self::TryLater { will_signal } => e.bool(*will_signal),
        }
    }
}

operations! { @args OpNum::LayoutGet: LayoutGetArgs; }

impl OpBody for LayoutGetRes<'_> {
    type Num = OpNum;
    const OP: OpNum = OpNum::LayoutGet;

    fn status(&self) -> NfsStatus {
        match self {
            Self::Ok(_) => NfsStatus::Ok,
            Self::TryLater { .. } => NfsStatus::LayoutTryLater,
        }
    }
}

impl<'a> OpRes<'a> for LayoutGetRes<'a> {
    fn decode_res(status: NfsStatus, d: &mut Decoder<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(match status {
            NfsStatus::Ok => Some(Self::Ok(LayoutsGranted::decode(d)?)),
            NfsStatus::LayoutTryLater => Some(Self::TryLater {
                will_signal: d.bool()?,
            }),
            _ => None,
        })
    }
}
