//! Standard output of client commands: lines, and a list of JSON objects that begins before its end is known.

use super::error::CliError;
use indicatif::ProgressBar;
use serde_json::Value;
use std::io::Write;

/// Prints a line.
pub(crate) fn line(text: &str) -> Result<(), CliError> {
    write(format_args!("{text}\n"))
}

/// Prints while the bar is away, if there is one.
pub(crate) fn beside<T>(bar: Option<&ProgressBar>, print: impl FnOnce() -> T) -> T {
    match bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

fn write(text: std::fmt::Arguments<'_>) -> Result<(), CliError> {
    let written = std::io::stdout().lock().write_fmt(text);
    written.map_err(|e| CliError::output(&e))
}

/// Prints what a command says about files: lines for people, or one JSON array.
#[derive(Debug)]
pub(crate) struct Listing {
    json: bool,
    count: u64,
}

impl Listing {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, count: 0 }
    }

    /// One item.
    pub(crate) fn item(
        &mut self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> Value,
    ) -> Result<(), CliError> {
        if !self.json {
            return line(&text());
        }
        let before = if self.count == 0 { "[\n" } else { ",\n" };
        self.count += 1;
        write(format_args!("{before}{}", json()))
    }

    /// An item of JSON; people are told nothing.
    pub(crate) fn done(&mut self, json: impl FnOnce() -> Value) -> Result<(), CliError> {
        match self.json {
            true => self.item(String::new, json),
            false => Ok(()),
        }
    }

    /// A line between items that JSON does not need.
    pub(crate) fn heading(&mut self, text: &str) -> Result<(), CliError> {
        if self.json { Ok(()) } else { line(text) }
    }

    /// Ends the output.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        match (self.json, self.count) {
            (false, _) => Ok(()),
            (true, 0) => line("[]"),
            (true, _) => line("\n]"),
        }
    }
}
