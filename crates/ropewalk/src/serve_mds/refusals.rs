//! Why an order is not done, by kind: what is not there, what the state of things forbids, and what failed here.

use crate::admin::Refusal;
use ::cluster::{AccessError, AdminError};

/// Of an order about the cluster.
pub(super) fn of_cluster(error: AdminError) -> Refusal {
    let text = error.to_string();
    match error {
        AdminError::UnknownServer => Refusal::NotFound(text),
        AdminError::Store(_) => Refusal::Failed(text),
        AdminError::TooManyTokens
        | AdminError::TooFew { .. }
        | AdminError::Fixed { .. }
        | AdminError::NoSubstitute
        | AdminError::HasPlaces { .. }
        | AdminError::LastCopies { .. }
        | AdminError::Away { .. }
        | AdminError::Key(_)
        | AdminError::KeysBusy => Refusal::Refused(text),
    }
}

/// Of an order about access tokens.
pub(super) fn of_access(error: AccessError) -> Refusal {
    let text = error.to_string();
    match error {
        AccessError::Unknown | AccessError::Expired => Refusal::NotFound(text),
        AccessError::Full => Refusal::Refused(text),
        AccessError::Store(_) => Refusal::Failed(text),
    }
}

/// Of what failed in this process.
pub(super) fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal::Failed(error.to_string())
}
