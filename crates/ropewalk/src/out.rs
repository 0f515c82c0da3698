//! Lines on standard output and sentences on standard error. A reader that went away (`ropewalk status | head`)
//! or a full disk behind them ends the output, not the program.

use std::io::Write;

/// Writes `text` and flushes, so that whoever waits for a line sees it at once.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // The only failure is a reader that is gone; there is nobody left to tell.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// [`print()`] with a line end.
pub(crate) fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// Says something on standard error.
pub(crate) fn say(text: impl std::fmt::Display) {
    // Nobody is left to be told of a failure; `eprintln!` would panic.
    let _ = writeln!(std::io::stderr(), "ropewalk: {text}");
}
