//! The tables on the terminal: one for each figure, a row for each place on its horizontal axis, a column for each line.

use super::chart::Chart;
use super::transports::transports;
use crate::report::{Machine, align, cell, single};
use crate::suite::measure::Results;
use std::fmt::Write;

pub(crate) fn text(results: &Results, charts: &[Chart], machine: &Machine) -> String {
    let mut out = String::new();
    write_text(&mut out, results, charts, machine).expect("a string takes all text");
    out
}

fn write_text(
    out: &mut String,
    results: &Results,
    charts: &[Chart],
    machine: &Machine,
) -> std::fmt::Result {
    let runs = match results.repeats {
        1 => "one run".to_owned(),
        n => format!("{n} runs; median [smallest largest]"),
    };
    writeln!(out, "{}", results.plan.title)?;
    writeln!(out, "{}; {runs}", results.subject)?;
    writeln!(out, "{}", machine.line())?;
    for (chart, figure) in charts.iter().zip(&results.plan.figures) {
        writeln!(out, "\n{}: {}", chart.title, chart.y_label)?;
        align(out, &rows(results, chart));
        if let Some(remark) = figure.remark {
            writeln!(out, "{remark}")?;
        }
        for line in figure.published.values() {
            writeln!(out, "published: {line}")?;
        }
        writeln!(out, "published: {}", figure.published.reference())?;
    }
    writeln!(out, "{}", transports(results))?;
    for note in &results.plan.notes {
        writeln!(out, "{note}")?;
    }
    for line in failures(results) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)
}

/// The rows of a figure's table: medians with their spread, where there is one.
pub(crate) fn rows(results: &Results, chart: &Chart) -> Vec<Vec<String>> {
    chart.rows(if results.repeats == 1 { single } else { cell })
}

/// A sentence for each cell that could not be measured.
pub(crate) fn failures(results: &Results) -> Vec<String> {
    let text = |cell: usize| results.plan.cells[cell].text();
    let failures = results.failures.iter();
    failures
        .map(|failed| format!("not measured: {}: {}", text(failed.cell), failed.why))
        .collect()
}
