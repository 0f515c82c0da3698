//! Flexible files layouts (RFC 8435): who may use which objects at foreign servers.
//!
//! # Ordering
//! The objects have the ids of the file's epoch before the holder is entered. If the epoch has risen by then, nothing is granted. So
//! a fence that comes later sees the holder, and one that came before has taken the ids away. That all objects were made is noted
//! durably before a client may write to them.
//!
//! # Failure
//! A mirror that cannot be reached is left out of a layout for reading. Before a layout for writing it is marked as bad.
//!
//! May call: `layouts` for what all layout types share, `foreign`, `bad_mirrors`.

use crate::actor::Actor;
use crate::bad_mirrors;
use crate::foreign_files::{file_at, good_mirrors, note_objects};
use crate::fs::Fs;
use crate::layouts::{GrantRequest, hold};
use foreign::{FarError, FileAt, Ids, PlacedObject};
use layout::LayoutKind;
use namespace::Inode;
use nfs4::{NfsStatus, Stateid};
use state::{IoMode, LayoutWanted};
use std::sync::Arc;

/// How often objects are asked for: once for each mirror that may fail, and once more.
const TRIES_MAX: u32 = foreign::MIRRORS_MAX + 1;

/// The objects of a file at foreign servers.
pub struct ForeignObjects {
    /// Those of each mirror that counts, by stripe.
    pub mirrors: Vec<Vec<PlacedObject>>,
    /// User and group that they belong to.
    pub ids: Ids,
    /// Bytes of a stripe unit.
    pub stripe_unit: u32,
    /// The file that a layout may be granted for, as it was when they were asked for.
    pub inode: Arc<Inode>,
    /// The mirrors that count are all there: none was left out that could not be reached.
    pub is_whole: bool,
}

/// The objects of a file that a layout of this mode would name, made where they are missing.
///
/// # Errors
/// `LayoutUnavailable` for a file that is not at foreign servers, and for one whose bytes are lost; `LayoutTryLater` while servers are away.
pub async fn foreign_objects(
    fs: &Arc<Fs>,
    inode: &Arc<Inode>,
    mode: IoMode,
) -> Result<ForeignObjects, NfsStatus> {
    let mut inode = Arc::clone(inode);
    let mut unreachable = 0;
    for _ in 0..TRIES_MAX {
        let at = file_at(fs, &inode).ok_or(NfsStatus::LayoutUnavailable)?;
        let at = FileAt {
            bad_mirrors: at.bad_mirrors | unreachable,
            ..at
        };
        let failed = match fs.foreign.handles(&at).await {
            Ok(mirrors) if mirrors.is_empty() => return Err(NfsStatus::LayoutTryLater),
            Ok(mirrors) => {
                return Ok(ForeignObjects {
                    mirrors,
                    ids: at.ids(),
                    stripe_unit: at.stripe_unit,
                    inode,
                    is_whole: unreachable == 0,
                });
            }
            // Through this server a client hears of what is lost.
            Err(error) if error.status == NfsStatus::Io && is_last(fs, &at, &error) => {
                return Err(NfsStatus::LayoutUnavailable);
            }
            Err(error) => {
                tracing::debug!(file = inode.id.0, %error, "objects for a layout");
                error.failed_mirrors
            }
        };
        match mode {
            _ if failed == 0 => return Err(NfsStatus::LayoutTryLater),
            IoMode::Read => unreachable |= failed,
            IoMode::ReadWrite => {
                let lost = bad_mirrors::lose(fs, inode.id, failed).await;
                lost.map_err(|_| NfsStatus::LayoutTryLater)?;
                inode = Actor::root().ns(fs, |ns, op| ns.getattr(op, inode.id))?;
            }
        }
    }
    Err(NfsStatus::LayoutTryLater)
}

/// Whether no mirror is left that counts and has not failed.
fn is_last(fs: &Fs, at: &FileAt, error: &FarError) -> bool {
    let group = fs.foreign.group(at.group);
    group.is_none_or(|group| good_mirrors(&group, at) & !error.failed_mirrors == 0)
}

/// Grants the current client a flexible files layout of the whole file, by the objects that were asked for.
///
/// # Errors
/// `LayoutTryLater` when the file has changed since; those of a stateid.
pub fn grant_foreign(
    fs: &Arc<Fs>,
    actor: &mut Actor,
    objects: &ForeignObjects,
    request: &GrantRequest,
) -> Result<Stateid, NfsStatus> {
    let inode = &objects.inode;
    // The client may write to them as soon as it has the reply. An empty file that is read has nothing to lose.
    if objects.is_whole && (request.mode == IoMode::ReadWrite || inode.size > 0) {
        let at = file_at(fs, inode).ok_or(NfsStatus::LayoutUnavailable)?;
        let noted = note_objects(fs, actor, inode.id, &at);
        noted.map_err(|_| NfsStatus::LayoutTryLater)?;
    }
    let enter = |client| {
        let mut state = fs.state();
        let want = LayoutWanted {
            mode: request.mode,
            may_read: request.may_read,
            return_on_close: true,
        };
        let stateid = state.layout_get(request.stateid, client, inode.id.0, want)?;
        let kind = LayoutKind::FlexFiles.number();
        state.layouts.is_of_type(&stateid.other, kind);
        Ok(((), stateid))
    };
    let held = hold(fs, actor, inode, request, enter);
    held.map(|((), stateid, _)| stateid)
}
