//! Reports in files: the table, plots of seconds and of ratios, and a page with all of it.
//!
//! May call: the drawing of the suite's reports. What was measured comes from [`super::report`].

use super::report::{Measured, OPERATIONS, WIRE};
use super::work::Work;
use crate::BenchError;
use crate::report::Machine;
use crate::runner::Spread;
use crate::suite::plan::X;
use crate::suite::report::chart::{Chart, Line};
use crate::suite::report::{PAGE, bars, html, save};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

/// How names of files begin.
const NAME: &str = "mount";
/// Above the page's part.
const TITLE: &str = "One person at a mount";

/// Writes all of them, and where they are to `out`.
pub(super) fn write(
    measured: &Measured,
    machine: &Machine,
    dir: &Path,
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    save(
        &dir.join(format!("{NAME}.txt")),
        measured.table(machine).as_bytes(),
    )?;
    let mut svgs = Vec::new();
    for (id, chart) in charts(measured) {
        let (svg, stem) = (bars::svg(&chart)?, format!("{NAME}-{id}"));
        save(&dir.join(format!("{stem}.svg")), svg.as_bytes())?;
        save(&dir.join(format!("{stem}.png")), &bars::png(&chart)?)?;
        svgs.push(svg);
    }
    let page = html::page(&[section(measured, &svgs)], machine, measured.words());
    save(&dir.join(PAGE), page.as_bytes())?;
    writeln!(out, "report: {}", dir.join(PAGE).display()).map_err(BenchError::io("write the table"))
}

/// Seconds, and how much longer it takes elsewhere than in the first place, where there are others.
fn charts(measured: &Measured) -> Vec<(&'static str, Chart)> {
    let seconds = |place, work| Spread::of(measured.seconds(place, work));
    let mut charts = vec![(
        "seconds",
        chart(measured, 0, "Seconds of each piece of work", seconds),
    )];
    if let [first, _, ..] = measured.places() {
        let title = format!("Times as long as with {}", first.name);
        let ratio = |place, work| measured.ratio(place, work);
        charts.push(("ratios", chart(measured, 1, &title, ratio)));
    }
    charts
}

/// A bar for each place from `from` on, at each piece of work.
fn chart(
    measured: &Measured,
    from: usize,
    title: &str,
    value: impl Fn(usize, Work) -> Option<Spread>,
) -> Chart {
    let works = measured.works();
    let line = |(place, of): (usize, &super::Place)| Line {
        name: of.name.clone(),
        points: (0..)
            .zip(works)
            .filter_map(|(at, work)| Some((at, value(place, *work)?)))
            .collect(),
        beside: Vec::new(),
    };
    let places = (0_u32..).zip(works);
    Chart {
        title: title.to_owned(),
        x_label: "work".to_owned(),
        y_label: title.to_owned(),
        places: places
            .map(|(at, work)| X::named(f64::from(at), work.name()))
            .collect(),
        lines: { measured.places().iter().enumerate().skip(from) }
            .map(line)
            .collect(),
    }
}

fn section(measured: &Measured, svgs: &[String]) -> String {
    let mut out = format!("<h2>{TITLE}</h2>\n<div class=\"pair\">\n");
    for svg in svgs {
        let _ = writeln!(out, "<figure>\n{svg}</figure>");
    }
    out.push_str("</div>\n");
    html::table(&mut out, &measured.rows());
    let operations = measured.rows_of_operations();
    if operations.len() > 1 {
        let _ = writeln!(out, "<p>{}</p>", html::escaped(OPERATIONS));
        html::table(&mut out, &operations);
    }
    let wire = measured.rows_of_wire();
    if wire.len() > 1 {
        let _ = writeln!(out, "<p>{}</p>", html::escaped(WIRE));
        html::table(&mut out, &wire);
    }
    out
}

#[cfg(test)]
mod tests {
    //! Goal: every server has a bar at each piece of work, and the page has all tables.
    use super::*;
    use crate::mount::Place;
    use crate::mount::place::Run;
    use std::time::Duration;

    #[test]
    fn plots_and_page_show_each_server() {
        let place = |name: &str| name.parse::<Place>().unwrap();
        let works = vec![Work::Save, Work::Mkdir];
        let mut measured = Measured::new(vec![place("one=/a"), place("o&r=/b")], works);
        for (place, work, millis) in [
            (0, Work::Save, 250),
            (1, Work::Save, 500),
            (0, Work::Mkdir, 9),
        ] {
            let run = Run {
                began_ns: 1,
                elapsed: Duration::from_millis(millis),
                counts: None,
            };
            measured.add(place, work, run);
        }
        let charts = charts(&measured);
        let lines = |n: usize| &charts[n].1.lines;
        assert_eq!((lines(0).len(), lines(1).len()), (2, 1));
        assert_eq!(lines(1)[0].points[0].1.median, 2.0);
        assert_eq!(lines(1)[0].points.len(), 1);
        let dir = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        write(&measured, &Machine::known(), dir.path(), &mut out).unwrap();
        let page = std::fs::read_to_string(dir.path().join(PAGE)).unwrap();
        for part in ["<h2>One person", "mkdir", "o&amp;r, s", "<svg"] {
            assert!(page.contains(part), "{part}");
        }
        for file in ["mount.txt", "mount-seconds.svg", "mount-ratios.png"] {
            assert!(dir.path().join(file).is_file(), "{file}");
        }
    }
}
