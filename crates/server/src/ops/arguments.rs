//! Decoding of arguments, and what several operations read in them.

use nfs4::ops::CallbackSecParms;
use nfs4::{NfsStatus, OpReader};
use state::CallbackSecurity;
use xdr::Decode;

/// Decodes arguments; malformed ones are `BadXdr`.
pub(super) fn args<'r, T: Decode<'r>>(ops: &mut OpReader<'r>) -> Result<T, NfsStatus> {
    ops.args().map_err(|_| NfsStatus::BadXdr)
}

/// A credential for callbacks, unless it is a GSS handle: none exists here.
pub(super) fn usable(offered: &CallbackSecParms<'_>) -> Option<CallbackSecurity> {
    match offered {
        CallbackSecParms::None => Some(CallbackSecurity::None),
        CallbackSecParms::Sys(sys) => Some(CallbackSecurity::Sys {
            machine: sys.machine_name.0.to_vec(),
            uid: sys.uid,
            gid: sys.gid,
            gids: sys.gids.0.clone(),
        }),
        CallbackSecParms::Gss(_) => None,
    }
}
