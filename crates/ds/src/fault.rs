//! What an operation on an object came to, when not success, and how the two protocols say it.

use control::Status;
use meta::MetaError;
use nfs4::NfsStatus;
use objects::ObjectError;
use redo::RedoError;

/// What an operation on an object came to, when not success.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The index has it and the store does not, or not all of it (R9).
    Lost,
    /// The store's failure.
    Object(ObjectError),
    /// The index's failure.
    Index(MetaError),
    /// The redo log's failure.
    Redo(RedoError),
    /// The bytes on the disk do not fit their sums, and no other member has better ones.
    Damaged,
    /// An earlier sync failed while the redo log held records of the object (see [`crate::redo_table`]).
    InDoubt,
    /// This server is not primary of the place, or not in the reign in which it began.
    NotPrimary,
    /// Other members of the place have not said in time that they have it, and the MDS has not left them out.
    Members,
    /// Durable, but too far ahead of what the MDS knows of the store to be acknowledged.
    Unannounced,
}

impl From<MetaError> for Fault {
    fn from(e: MetaError) -> Self {
        Self::Index(e)
    }
}

impl Fault {
    /// Whether the disk of this server has failed.
    pub(crate) const fn is_of_disk(&self) -> bool {
        match self {
            Self::Object(error) => matches!(error, ObjectError::Io(_)),
            Self::Index(error) => !matches!(error, MetaError::NoSpace | MetaError::TooLarge),
            Self::Redo(_) | Self::InDoubt => true,
            Self::Lost | Self::Damaged | Self::NotPrimary | Self::Members | Self::Unannounced => {
                false
            }
        }
    }

    pub(crate) fn nfs_status(&self) -> NfsStatus {
        match self {
            Self::Object(ObjectError::NoSpace) | Self::Index(MetaError::NoSpace) => {
                NfsStatus::NoSpc
            }
            Self::Object(ObjectError::TooLarge) => NfsStatus::FBig,
            Self::Object(ObjectError::Unsupported) => NfsStatus::NotSupp,
            Self::NotPrimary => NfsStatus::PnfsNoLayout,
            Self::Object(ObjectError::Busy) | Self::Unannounced | Self::Members => NfsStatus::Delay,
            Self::Lost
            | Self::Damaged
            | Self::InDoubt
            | Self::Object(_)
            | Self::Index(_)
            | Self::Redo(_) => NfsStatus::Io,
        }
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Object(ObjectError::NoSpace) | Self::Index(MetaError::NoSpace) => Status::NoSpace,
            Self::Object(ObjectError::TooLarge) => Status::TooLarge,
            Self::Object(ObjectError::Unsupported) => Status::Unsupported,
            Self::NotPrimary => Status::NotPrimary,
            Self::Object(ObjectError::Busy) | Self::Unannounced | Self::Members => Status::TryLater,
            Self::Lost
            | Self::Damaged
            | Self::InDoubt
            | Self::Object(_)
            | Self::Index(_)
            | Self::Redo(_) => Status::Io,
        }
    }
}

/// As the control program says it.
pub(crate) fn status_of(error: &MetaError) -> Status {
    match error {
        MetaError::NoSpace => Status::NoSpace,
        _ => Status::Io,
    }
}
