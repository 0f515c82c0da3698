//! Plots of values at places that are no numbers: a row of bars for each place, a bar for each line of the chart.

use super::chart::{Chart, Line};
use super::plot::{FONT, HEADROOM, NOTHING, encode, failed, font, look, number, pixels};
use crate::BenchError;
use crate::runner::Spread;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Width of a plot in pixels, room for the names of places, and to the right of the longest bar.
const WIDTH: u32 = 760;
const LEFT: i32 = 110;
const RIGHT: i32 = 70;
/// Height of the title, of a bar, of the room between places, of the axis, and of a line of the legend.
const TITLE: i32 = 46;
const BAR: i32 = 11;
const GAP: i32 = 9;
const AXIS: i32 = 34;
const LEGEND_ROW: i32 = 22;
/// Steps of the axis at most, and what a step may be, times a power of ten.
const STEPS_MAX: f64 = 8.0;
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
const LABEL: i32 = 13;

/// The plot as a text of SVG.
pub(crate) fn svg(chart: &Chart) -> Result<String, BenchError> {
    let mut text = String::new();
    draw(SVGBackend::with_string(&mut text, size(chart)), chart)?;
    Ok(text)
}

/// The plot as a file of PNG.
pub(crate) fn png(chart: &Chart) -> Result<Vec<u8>, BenchError> {
    encode(size(chart), |backend| draw(backend, chart))
}

fn size(chart: &Chart) -> (u32, u32) {
    let height = bottom(chart) + AXIS + LEGEND_ROW * count(chart.lines.len());
    (WIDTH, u32::try_from(height).unwrap_or(WIDTH))
}

fn count(items: usize) -> i32 {
    i32::try_from(items).unwrap_or(i32::MAX)
}

/// Height of the bars of a place.
fn row(chart: &Chart) -> i32 {
    BAR * count(chart.lines.len()) + GAP
}

/// Where bars end.
fn bottom(chart: &Chart) -> i32 {
    TITLE + row(chart) * count(chart.places.len())
}

/// Where values stand.
struct Scale {
    top: f64,
    step: f64,
}

impl Scale {
    fn of(chart: &Chart) -> Self {
        let values = chart.lines.iter().flat_map(|line| &line.points);
        let most = values.map(|(_, spread)| spread.max).fold(0.0, f64::max);
        let top = if most > 0.0 { most * HEADROOM } else { 1.0 };
        let power = 10_f64.powf((top / STEPS_MAX).log10().floor());
        let mut steps = STEPS.iter().map(|step| step * power);
        let step = steps.find(|step| top / step <= STEPS_MAX);
        Self {
            top,
            step: step.unwrap_or(10.0 * power),
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "a plot is some hundred pixels wide"
    )]
    fn at(&self, value: f64) -> i32 {
        let width = f64::from(pixels(WIDTH) - LEFT - RIGHT);
        LEFT + (value / self.top * width).round() as i32
    }
}

fn draw<B: DrawingBackend>(backend: B, chart: &Chart) -> Result<(), BenchError> {
    font()?;
    let area = backend.into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let is_empty = chart.lines.iter().all(|line| line.points.is_empty());
    let title = match is_empty {
        true => format!("{}: {NOTHING}", chart.title),
        false => chart.title.clone(),
    };
    write(&area, &title, (LEFT, 12), 22)?;
    if !is_empty {
        let scale = Scale::of(chart);
        draw_axis(&area, chart, &scale)?;
        for (number, line) in chart.lines.iter().enumerate() {
            draw_bars(&area, chart, &scale, (number, line))?;
        }
    }
    area.present().map_err(failed)
}

fn write<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    text: &str,
    at: (i32, i32),
    size: i32,
) -> Result<(), BenchError> {
    let element = Text::new(text, at, (FONT, size).into_font());
    area.draw(&element).map_err(failed)
}

/// Names of places, and lines at the steps of the axis with their values.
fn draw_axis<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    chart: &Chart,
    scale: &Scale,
) -> Result<(), BenchError> {
    let bottom = bottom(chart);
    let mut value = 0.0;
    while value <= scale.top {
        let x = scale.at(value);
        let line = PathElement::new(vec![(x, TITLE), (x, bottom)], RGBColor(225, 225, 225));
        area.draw(&line).map_err(failed)?;
        write(area, &number(value), (x - 4, bottom + 4), LABEL)?;
        value += scale.step;
    }
    for (place, x) in chart.places.iter().enumerate() {
        let middle = TITLE + row(chart) * count(place) + (row(chart) - GAP) / 2;
        write(area, &x.label, (10, middle - LABEL / 2), LABEL)?;
    }
    Ok(())
}

/// The bars of a line with their spreads and values, and its name in the legend.
fn draw_bars<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    chart: &Chart,
    scale: &Scale,
    (index, line): (usize, &Line),
) -> Result<(), BenchError> {
    let colour = look(index).0;
    let bar = |(left, top): (i32, i32), right: i32| {
        Rectangle::new([(left, top), (right, top + BAR - 2)], colour.filled())
    };
    for (place, Spread { median, min, max }) in &line.points {
        let top = TITLE + row(chart) * count(*place) + BAR * count(index);
        area.draw(&bar((LEFT, top), scale.at(*median).max(LEFT + 1)))
            .map_err(failed)?;
        let middle = top + BAR / 2 - 1;
        let spread = vec![(scale.at(*min), middle), (scale.at(*max), middle)];
        area.draw(&PathElement::new(spread, BLACK))
            .map_err(failed)?;
        let at = (scale.at(*max).max(scale.at(*median)) + 5, top - 1);
        write(area, &figure(*median), at, LABEL - 2)?;
    }
    let top = bottom(chart) + AXIS - 6 + LEGEND_ROW * count(index);
    area.draw(&bar((LEFT, top + 2), LEFT + 26))
        .map_err(failed)?;
    write(area, &line.name, (LEFT + 34, top), 15)
}

/// A value beside its bar: three digits, or all before the point.
fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    //! Axes have few steps, and bars their length.
    use super::*;
    use crate::suite::plan::X;

    fn chart(median: f64) -> Chart {
        let spread = Spread {
            median,
            min: median / 2.0,
            max: median,
        };
        Chart {
            title: "title".to_owned(),
            x_label: String::new(),
            y_label: String::new(),
            places: vec![X::named(0.0, "place")],
            lines: vec![Line {
                name: "line".to_owned(),
                points: vec![(0, spread)],
                beside: Vec::new(),
            }],
        }
    }

    #[test]
    fn steps_are_round_and_few() {
        for (value, step) in [(1.0, 0.2), (7.0, 1.0), (0.03, 0.005), (80.0, 20.0)] {
            let scale = Scale::of(&chart(value));
            assert!(
                (scale.step - step).abs() < step / 1e6,
                "{value}: {}",
                scale.step
            );
            assert!(scale.at(value) < pixels(WIDTH) - RIGHT && scale.at(0.0) == LEFT);
        }
        assert!(Scale::of(&chart(0.0)).step > 0.0);
    }

    #[test]
    fn a_plot_names_places_and_lines() {
        let svg = svg(&chart(2.5)).unwrap();
        for word in ["title", "place", "line", "2.50"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(png(&chart(2.5)).unwrap().starts_with(b"\x89PNG"));
        let mut empty = chart(1.0);
        empty.lines[0].points.clear();
        assert!(super::svg(&empty).unwrap().contains(NOTHING));
    }
}
