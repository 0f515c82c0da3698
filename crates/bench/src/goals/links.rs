//! Data servers behind links with a cap: eight against one, and one stream against the line.

use super::table::{Denominator, Shape};
use super::trial::{Ground, Stage, Trial};
use super::{Planning, Row};
use crate::BenchError;
use crate::net::{self, Link, MTU_DEFAULT, Rate};
use crate::runner::Metric;
use crate::suite::environment::Environment;
use crate::suite::work::Access;

use crate::suite::single_cell::SingleCell;

const LINK: Link = link(500_000_000);
const RECORD_BYTES: u32 = 32 << 10;

/// A link of this rate.
pub(super) const fn link(bits_per_s: u64) -> Link {
    Link {
        rate: Rate { bits_per_s },
        mtu_bytes: MTU_DEFAULT,
    }
}

/// Whether links can be made here; says what is missing.
pub(super) fn can_be_made() -> bool {
    match net::need() {
        Ok(()) => true,
        Err(e) => {
            eprintln!("{e}: nothing is measured over them");
            false
        }
    }
}

pub(super) fn trials(planning: &Planning<'_>) -> Vec<Trial> {
    if !planning.has_links {
        return Vec::new();
    }
    let shapes = planning.table.shapes(Row::Link);
    shapes.iter().filter_map(trial).collect()
}

fn trial(shape: &Shape) -> Option<Trial> {
    let access = match shape.operation.as_str() {
        "write over 500 Mbit/s links" => Access::Write,
        "read over 500 Mbit/s links" => Access::Read,
        _ => return None,
    };
    let record_bytes = shape.size_bytes.unwrap_or(RECORD_BYTES);
    let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
    let streams = |ds_count| {
        move |stage: &Stage<'_>| {
            let environment = environment(stage)?;
            let servers = (ds_count, LINK);
            Ok(SingleCell::streams(
                environment,
                servers,
                access,
                record_bytes,
            ))
        }
    };
    let base = if shape.data_servers > 1 {
        (Denominator::OneDataServer, trial.add(streams(1)))
    } else {
        let line = move |stage: &Stage<'_>| {
            let environment = environment(stage)?;
            Ok(SingleCell::line(environment, LINK, access))
        };
        (Denominator::Line, trial.add(line))
    };
    let ours = trial.add(streams(shape.data_servers));
    trial.claim(shape, ours, base, Metric::MegabytesPerSecond);
    Some(trial)
}

pub(super) fn environment(stage: &Stage<'_>) -> Result<Environment, BenchError> {
    Environment::of(stage.program(), stage.dir(), stage.dir(), &stage.launcher())
}
