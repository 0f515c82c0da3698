//! The form of results: what was done, or a status with the body of a failure.

use crate::status::status3;
use nfs3::{Nfs3Status, Res};
use nfs4::NfsStatus;

/// A result whose failure has a body.
pub(crate) fn res<O, F>(result: Result<O, NfsStatus>, fail: F) -> Res<O, F> {
    match result {
        Ok(ok) => Res::Ok(ok),
        Err(status) => failed(status, fail),
    }
}

/// A failure.
pub(crate) fn failed<O, F>(status: NfsStatus, fail: F) -> Res<O, F> {
    match status3(status) {
        // A failure is never told as a success.
        Nfs3Status::Ok => Res::Fail(Nfs3Status::ServerFault, fail),
        status => Res::Fail(status, fail),
    }
}
