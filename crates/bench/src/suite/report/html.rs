//! The page: one file without anything from elsewhere, in which each published figure stands beside ours.

use super::chart::Chart;
use super::table::{failures, rows};
use super::transports::transports;
use crate::report::Machine;
use crate::suite::measure::Results;
use crate::suite::published::Published;
use std::fmt::Write;

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:1600px;margin:2em auto;padding:0 1em;color:#222}\
h2{border-top:1px solid #ccc;padding-top:1em}\
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1em;align-items:start}\
@media(max-width:900px){.pair{grid-template-columns:1fr}}\
figure{margin:0;border:1px solid #ddd;padding:.5em}figcaption{font-weight:bold}\
svg{width:100%;height:auto}\
table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ddd;padding:.2em .6em;text-align:right}\
.none{color:#666;padding:4em 1em;text-align:center}.warning{color:#a00;font-weight:bold}";

/// A figure with its plots.
pub(crate) struct Drawn<'a> {
    pub(crate) chart: &'a Chart,
    pub(crate) svg: String,
    pub(crate) published_svg: Option<String>,
    pub(crate) published: &'a Published,
    pub(crate) remark: Option<&'a str>,
}

/// One experiment of the page.
pub(crate) fn section(results: &Results, figures: &[Drawn<'_>]) -> String {
    let mut out = String::new();
    write_section(&mut out, results, figures).expect("a string takes all text");
    out
}

fn write_section(out: &mut String, results: &Results, figures: &[Drawn<'_>]) -> std::fmt::Result {
    writeln!(out, "<h2>{}</h2>", escaped(results.plan.title))?;
    writeln!(
        out,
        "<p>{}. {}</p>",
        escaped(&results.subject),
        match results.repeats {
            1 => "One run of each point.".to_owned(),
            n => format!(
                "{n} runs of each point; values are medians, bars reach from the smallest to the largest."
            ),
        }
    )?;
    writeln!(out, "<p>{}</p>", escaped(&transports(results)))?;
    for note in &results.plan.notes {
        writeln!(out, "<p>{}</p>", escaped(note))?;
    }
    for failure in failures(results) {
        writeln!(out, "<p class=\"warning\">{}</p>", escaped(&failure))?;
    }
    for figure in figures {
        write_figure(out, results, figure)?;
    }
    Ok(())
}

fn write_figure(out: &mut String, results: &Results, figure: &Drawn<'_>) -> std::fmt::Result {
    let reference = escaped(&figure.published.reference());
    writeln!(
        out,
        "<h3>{}</h3>\n<div class=\"pair\">",
        escaped(&figure.chart.title)
    )?;
    writeln!(out, "<figure><figcaption>Published</figcaption>")?;
    match &figure.published_svg {
        Some(svg) => {
            writeln!(out, "{svg}")?;
            for line in figure.published.values() {
                writeln!(out, "<p>{}</p>", escaped(&line))?;
            }
            writeln!(out, "<p>{reference}</p>")?;
        }
        None => writeln!(
            out,
            "<p class=\"none\">{reference}<br>({})</p>",
            escaped(&figure.published.shows)
        )?,
    }
    writeln!(
        out,
        "</figure>\n<figure><figcaption>Measured here</figcaption>\n{}</figure>\n</div>",
        figure.svg
    )?;
    if let Some(remark) = figure.remark {
        writeln!(out, "<p>{}</p>", escaped(remark))?;
    }
    writeln!(out, "<p>{}</p>", escaped(&figure.chart.y_label))?;
    table(out, &rows(results, figure.chart));
    Ok(())
}

/// A table; its first row is its head.
pub(crate) fn table(out: &mut String, rows: &[Vec<String>]) {
    out.push_str("<table>\n");
    for (number, row) in rows.iter().enumerate() {
        let tag = if number == 0 { "th" } else { "td" };
        out.push_str("<tr>");
        for text in row {
            out.push_str(&format!("<{tag}>{}</{tag}>", escaped(text)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

/// The whole page.
pub(crate) fn page(sections: &[String], machine: &Machine, words: &[String]) -> String {
    let warning = match machine.is_optimised {
        true => "",
        false => "<p class=\"warning\">Built without optimisation: not to be published.</p>\n",
    };
    let command: Vec<String> = std::env::args().collect();
    let words = words
        .iter()
        .map(|word| format!("<p>{}</p>\n", escaped(word)));
    let words: String = words.collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Ropewalk benchmarks</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>Ropewalk benchmarks</h1>\n<p>{}</p>\n<p><code>{}</code></p>\n{warning}{words}{}</body>\n</html>\n",
        escaped(&machine.facts()),
        escaped(&command.join(" ")),
        sections.concat(),
    )
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
