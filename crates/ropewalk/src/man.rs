//! `ropewalk man`: manual pages made from the command line's own description.

use crate::cli::Cli;
use crate::failure::{Outcome, cannot};
use crate::out;
use clap::CommandFactory;
use std::path::Path;

/// Prints the page of the program, or writes the pages of all commands into `dir`.
pub(crate) fn run(dir: Option<&Path>) -> Outcome {
    if let Some(dir) = dir {
        let what = format!("write manual pages into {}", dir.display());
        std::fs::create_dir_all(dir).map_err(cannot(&what))?;
        return clap_mangen::generate_to(Cli::command(), dir).map_err(cannot(&what));
    }
    let mut page = Vec::new();
    let made = clap_mangen::Man::new(Cli::command()).render(&mut page);
    made.map_err(cannot("make the manual page"))?;
    out::print(&String::from_utf8_lossy(&page))
}
