//! Asks on the terminal whether something is to be done.

use crate::failure::{Outcome, cannot, failed};
use std::io::BufRead;

/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64;

/// Asks whether it is to be done; `how` says how it is done unasked.
///
/// # Errors
/// The answer is not `yes`.
pub(crate) fn confirm(how: &str) -> Outcome {
    let mut answer = String::new();
    let stdin = std::io::stdin().lock();
    std::io::Read::take(stdin, ANSWER_BYTES_MAX)
        .read_line(&mut answer)
        .map_err(cannot("read the answer"))?;
    if answer.trim() == "yes" {
        Ok(())
    } else {
        Err(failed(format!("not confirmed, nothing was done ({how})")))
    }
}
