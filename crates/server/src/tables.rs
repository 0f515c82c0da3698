//! What the engine must know of operations by their number.

use nfs4::OpNum;

/// Bytes of the largest result that only says how an operation failed: number, status, and the empty
/// bitmap of SETATTR. Kept free after each result, so that the next failure always fits.
pub(crate) const ERROR_RESULT_BYTES: usize = 12;
/// More bytes than the result of any operation with effects takes (that of EXCHANGE_ID is the longest). Operations such
/// as LAYOUTGET are apart: they ask [`crate::Compound::room`] themselves.
const EFFECT_RESULT_BYTES: usize = 256;
/// Bytes of the result of GETFH.
const GETFH_RESULT_BYTES: usize = 12 + nfs4::FH_BYTES_MAX as usize;

/// Operations that the engine executes itself, wherever they stand.
pub(crate) fn is_engine_op(op: OpNum) -> bool {
    matches!(
        op,
        OpNum::Sequence
            | OpNum::ExchangeId
            | OpNum::CreateSession
            | OpNum::DestroySession
            | OpNum::DestroyClientId
            | OpNum::BindConnToSession
            | OpNum::BackchannelCtl
            | OpNum::ReclaimComplete
            | OpNum::SetSsv
            | OpNum::PutFh
            | OpNum::PutRootFh
            | OpNum::PutPubFh
            | OpNum::GetFh
            | OpNum::SaveFh
            | OpNum::RestoreFh
    )
}

/// Bytes that must be free in the reply before an operation is executed. An operation that only looks may be executed and its
/// result then be found too big. One that changes anything may not, and one that also makes a new handle current needs room for
/// the GETFH after it (RFC 8881 §2.10.6.4).
pub(crate) fn effect_bytes(op: OpNum) -> usize {
    match op {
        OpNum::Open | OpNum::Create => {
            EFFECT_RESULT_BYTES + GETFH_RESULT_BYTES + ERROR_RESULT_BYTES
        }
        op if is_read_only(op) => 0,
        _ => EFFECT_RESULT_BYTES + ERROR_RESULT_BYTES,
    }
}

/// Operations that neither change anything nor need a client's state, nor move data: what may be executed again in a session of
/// an earlier run.
pub(crate) fn reads_names_only(op: OpNum) -> bool {
    matches!(
        op,
        OpNum::Access
            | OpNum::GetAttr
            | OpNum::GetFh
            | OpNum::GetXattr
            | OpNum::ListXattrs
            | OpNum::Lookup
            | OpNum::LookupP
            | OpNum::NVerify
            | OpNum::PutFh
            | OpNum::PutPubFh
            | OpNum::PutRootFh
            | OpNum::ReadDir
            | OpNum::ReadLink
            | OpNum::RestoreFh
            | OpNum::SaveFh
            | OpNum::SecInfo
            | OpNum::SecInfoNoName
            | OpNum::Verify
    )
}

pub(crate) fn is_read_only(op: OpNum) -> bool {
    reads_names_only(op)
        || matches!(
            op,
            OpNum::LockT
                | OpNum::Read
                | OpNum::Sequence
                | OpNum::GetDeviceInfo
                | OpNum::GetDeviceList
                | OpNum::TestStateid
                | OpNum::IoAdvise
                | OpNum::LayoutError
                | OpNum::LayoutStats
                | OpNum::OffloadStatus
                | OpNum::ReadPlus
                | OpNum::Seek
        )
}
