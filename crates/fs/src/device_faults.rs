//! What clients say of data servers (RFC 7862 §15.6, RFC 8435 §9.1): which of it costs a mirror, and which a look.
//!
//! May call: `bad_mirrors`, `mirror_looks`.

use crate::actor::Actor;
use crate::bad_mirrors;
use crate::foreign_files::{file_at, good_mirrors};
use crate::fs::Fs;
use crate::mirror_looks::{self, Suspect};
use foreign::ForeignGroup;
use namespace::Inode;
use nfs4::{NfsStatus, OpNum, Stateid};
use std::sync::Arc;

/// An error that a client met at a data server (`device_error4`, RFC 7862 §15.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFault {
    /// The device.
    pub device: nfs4::DeviceId,
    /// Status, as sent.
    pub status: u32,
    /// Operation, as sent.
    pub opnum: u32,
    /// First byte of what it was about.
    pub offset: u64,
    /// Bytes, as sent; all ones is to the end of the file.
    pub length: u64,
}

/// A client with a layout met errors at data servers (LAYOUTERROR, LAYOUTRETURN). Mirrors that a write under a layout for writing has
/// failed at do not count any more, soon. Until then no layout is granted. What else a client says of a mirror is only a reason to
/// look at it ([`crate::mirror_looks`]).
///
/// # Errors
/// Those of a stateid that is no layout of the client on the file.
pub fn note_device_faults(
    fs: &Arc<Fs>,
    actor: &Actor,
    inode: &Inode,
    stateid: Stateid,
    faults: &[DeviceFault],
) -> Result<(), NfsStatus> {
    let client = actor.client()?;
    let Some(at) = file_at(fs, inode) else {
        return Ok(());
    };
    let held = fs.state().layouts.held_by(client, inode.id.0);
    let Some((other, is_writer)) = held else {
        return Err(NfsStatus::BadStateid);
    };
    if other != stateid.other {
        return Err(NfsStatus::BadStateid);
    }
    let Some(group) = fs.foreign.group(at.group) else {
        return Ok(());
    };
    let good = good_mirrors(&group, &at);
    let (mut lacking, mut faulty) = (0, None::<Suspect>);
    for fault in faults.iter().filter(|fault| is_fault(fault)) {
        let mirrors = mirrors_on(fs, &group, fault) & good;
        match is_writer && is_write(fault) {
            true => lacking |= mirrors,
            false if mirrors != 0 => {
                let suspect = faulty.get_or_insert(Suspect {
                    mirrors: 0,
                    offset: fault.offset,
                    length: fault.length,
                });
                suspect.mirrors |= mirrors;
            }
            false => {}
        }
    }
    if lacking != 0 {
        bad_mirrors::begin(fs, inode.id, lacking);
    } else if let Some(suspect) = faulty {
        mirror_looks::look(fs, inode.id, suspect);
    }
    Ok(())
}

/// Whether an operation leaves a write missing at its data server when it fails.
fn is_write(fault: &DeviceFault) -> bool {
    [OpNum::Write as u32, OpNum::Commit as u32].contains(&fault.opnum)
}

/// Whether a READ, WRITE or COMMIT has failed by a fault of the data server. A refusal by ids is the work of a fence, and a full server
/// is told to the application.
fn is_fault(fault: &DeviceFault) -> bool {
    let is_told = [
        NfsStatus::Ok,
        NfsStatus::Access,
        NfsStatus::Perm,
        NfsStatus::NoSpc,
        NfsStatus::DQuot,
        NfsStatus::FBig,
        NfsStatus::Delay,
    ];
    let is_io = is_write(fault) || fault.opnum == OpNum::Read as u32;
    is_io && !is_told.iter().any(|status| *status as u32 == fault.status)
}

/// The mirrors that have something on the server of a device.
fn mirrors_on(fs: &Fs, group: &ForeignGroup, fault: &DeviceFault) -> u32 {
    let Some(server) = fs.foreign.server_of(fault.device) else {
        return 0;
    };
    bad_mirrors::mirrors_at(group, server)
}
