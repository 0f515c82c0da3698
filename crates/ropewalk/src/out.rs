//! Lines on standard output and sentences on standard error. A reader that went away (`ropewalk status | head`) ends the output, not the
//! program; output that cannot be written for another reason is a failure.

use crate::failure::{Outcome, cannot};
use std::io::{ErrorKind, Write};

/// Writes `text` and flushes, so that whoever waits for a line sees it at once.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(cannot("write to standard output")(e)),
        _ => Ok(()),
    }
}

/// [`print()`] with a line end.
pub(crate) fn line(text: &str) -> Outcome {
    print(&format!("{text}\n"))
}

/// Says something on standard error.
pub(crate) fn say(text: impl std::fmt::Display) {
    // Nobody is left to be told of a failure; `eprintln!` would panic.
    let _ = writeln!(std::io::stderr(), "ropewalk: {text}");
}

/// Prints a value as JSON.
///
/// # Errors
/// It cannot be written.
pub(crate) fn json(value: &impl serde::Serialize) -> Outcome {
    let text = serde_json::to_string_pretty(value);
    line(&text.map_err(crate::failure::cannot("write JSON"))?)
}
