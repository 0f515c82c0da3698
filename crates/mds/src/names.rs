//! Names and directories as they are on the wire.

use nfs4::NfsStatus;

/// A component name for the name space. A name longer than a component is `NameTooLong` there.
pub(crate) fn name<'a>(name: nfs4::Name<'a>) -> Result<&'a [u8], NfsStatus> {
    match name.0 {
        [] => Err(NfsStatus::Inval),
        bytes => Ok(bytes),
    }
}

/// `change_info4` of a directory.
pub(crate) fn cinfo(dir: namespace::ChangeInfo) -> nfs4::ChangeInfo {
    nfs4::ChangeInfo {
        atomic: true,
        before: dir.before,
        after: dir.after,
    }
}
