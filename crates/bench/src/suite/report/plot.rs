//! Plots, as SVG and as PNG. The font comes with the program, so that a plot is the same on every machine.

use super::chart::{Chart, Line};
use crate::BenchError;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::register_font;
use std::sync::OnceLock;

/// Size of a plot in pixels, without its legend.
const PLOT: (u32, u32) = (760, 440);
/// Height of a line of the legend, room around it, and length of the piece of a line in it.
const LEGEND_ROW: u32 = 22;
const LEGEND_MARGIN: u32 = 14;
const LEGEND_SAMPLE: i32 = 26;
/// Names of more characters stand below each other.
const NAME_SHORT: usize = 38;
/// Lines that a legend has room for; no figure has as many.
const LINES_MAX: u32 = 64;
/// More places on the horizontal axis have small labels.
const PLACES_FEW: usize = 9;
/// Lengths of dashes and of gaps between them.
const DASH: (i32, i32) = (7, 4);
/// The name that plots use for the font; in a page it is whatever font the reader's machine has for it.
pub(super) const FONT: &str = "sans-serif";
/// Colours that people with any kind of colour vision tell apart.
static COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(148, 103, 0),
    RGBColor(90, 90, 90),
    RGBColor(0, 0, 0),
];
/// Room above the largest value.
pub(super) const HEADROOM: f64 = 1.1;
/// What is shown instead of a plot without lines.
pub(super) const NOTHING: &str = "nothing was measured";

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

/// What is drawn on so many pixels, as a file of PNG.
pub(super) fn encode(
    (width, height): (u32, u32),
    draw: impl FnOnce(BitMapBackend<'_>) -> Result<(), BenchError>,
) -> Result<Vec<u8>, BenchError> {
    let mut pixels = vec![0; width as usize * height as usize * 3];
    draw(BitMapBackend::with_buffer(&mut pixels, (width, height)))?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

pub(super) fn failed(why: impl std::fmt::Display) -> BenchError {
    BenchError::Report(why.to_string())
}

pub(super) fn font() -> Result<(), BenchError> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let font = epaint_default_fonts::UBUNTU_LIGHT;
        register_font(FONT, FontStyle::Normal, font).is_ok()
    });
    match done {
        true => Ok(()),
        false => Err(failed("the font cannot be read")),
    }
}

fn draw<B: DrawingBackend>(backend: B, chart: &Chart) -> Result<(), BenchError> {
    font()?;
    let area = backend.into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    if chart.lines.is_empty() {
        let text = format!("{}: {NOTHING}", chart.title);
        let element = Text::new(text, (20, 20), (FONT, 18).into_font());
        area.draw(&element).map_err(failed)?;
    } else {
        let (plot, legend) = area.split_vertically(PLOT.1);
        draw_lines(&plot, chart)?;
        draw_legend(&legend, chart)?;
    }
    area.present().map_err(failed)
}

fn draw_lines<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    chart: &Chart,
) -> Result<(), BenchError> {
    let values = chart.lines.iter().flat_map(|line| &line.points);
    let top = values.map(|(_, spread)| spread.max).fold(0.0, f64::max);
    let top = if top > 0.0 { top * HEADROOM } else { 1.0 };
    let places_count = chart.places.len();
    let label_size = if places_count > PLACES_FEW { 12 } else { 15 };
    // A place to the left and one to the right stay empty.
    let places = -1..place(places_count);
    let mut drawing = ChartBuilder::on(area)
        .caption(&chart.title, (FONT, 22))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(78)
        .build_cartesian_2d(places, 0.0..top)
        .map_err(failed)?;
    drawing
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_labels(places_count + 2)
        .y_labels(8)
        .x_label_formatter(&|x| label(chart, *x))
        .y_label_formatter(&|y| number(*y))
        .x_desc(&chart.x_label)
        .y_desc(&chart.y_label)
        .x_label_style((FONT, label_size))
        .y_label_style((FONT, 15))
        .axis_desc_style((FONT, 16))
        .draw()
        .map_err(failed)?;
    for (index, line) in chart.lines.iter().enumerate() {
        let (colour, is_dashed) = look(index);
        let points = points(line);
        let path: Vec<(i32, f64)> = points.iter().map(|p| (p.0, p.2)).collect();
        let style = colour.stroke_width(2);
        if is_dashed {
            let dashes = DashedLineSeries::new(path, DASH.0, DASH.1, style);
            drawing.draw_series(dashes).map_err(failed)?;
        } else {
            let whole = LineSeries::new(path, style);
            drawing.draw_series(whole).map_err(failed)?;
        }
        let bar = |p: &(i32, f64, f64, f64)| {
            ErrorBar::new_vertical(p.0, p.1, p.2, p.3, colour.filled(), 8)
        };
        drawing
            .draw_series(points.iter().map(bar))
            .map_err(failed)?;
    }
    Ok(())
}

/// Below the plot, where it covers no line.
fn draw_legend<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    chart: &Chart,
) -> Result<(), BenchError> {
    let columns = columns_count(chart);
    let width = PLOT.0 / columns;
    for (index, line) in (0_u32..).zip(&chart.lines) {
        let (colour, is_dashed) = look(index as usize);
        let style = colour.stroke_width(2);
        let left = pixels(index % columns * width + LEGEND_MARGIN);
        let top = pixels(index / columns * LEGEND_ROW);
        let middle = top + pixels(LEGEND_ROW / 2);
        let sample = vec![(left, middle), (left + LEGEND_SAMPLE, middle)];
        if is_dashed {
            let dashes = DashedPathElement::new(sample, DASH.0, DASH.1, style);
            area.draw(&dashes).map_err(failed)?;
        } else {
            let whole = PathElement::new(sample, style);
            area.draw(&whole).map_err(failed)?;
        }
        let at = (left + LEGEND_SAMPLE + 8, top + 2);
        let name = Text::new(line.name.as_str(), at, (FONT, 15).into_font());
        area.draw(&name).map_err(failed)?;
    }
    Ok(())
}

/// Colour of a line, and whether it is dashed: as another one has the colour already.
pub(super) fn look(index: usize) -> (RGBColor, bool) {
    (
        COLOURS[index % COLOURS.len()],
        index / COLOURS.len() % 2 == 1,
    )
}

/// Names beside each other in the legend.
fn columns_count(chart: &Chart) -> u32 {
    let names = chart.lines.iter().map(|line| line.name.chars().count());
    if names.max().unwrap_or(0) <= NAME_SHORT {
        2
    } else {
        1
    }
}

/// Size of the plot with its legend.
fn size(chart: &Chart) -> (u32, u32) {
    let lines_count = u32::try_from(chart.lines.len()).unwrap_or(u32::MAX);
    let rows = lines_count.min(LINES_MAX).div_ceil(columns_count(chart));
    let legend = if rows == 0 {
        0
    } else {
        rows * LEGEND_ROW + LEGEND_MARGIN
    };
    (PLOT.0, PLOT.1 + legend)
}

pub(super) fn pixels(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Place, smallest, median and largest value of each point.
fn points(line: &Line) -> Vec<(i32, f64, f64, f64)> {
    let points = line.points.iter();
    points
        .map(|(n, spread)| (place(*n), spread.min, spread.median, spread.max))
        .collect()
}

fn place(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}

/// The label of a place; beside the places there is none.
fn label(chart: &Chart, x: i32) -> String {
    let index = usize::try_from(x).ok();
    let place = index.and_then(|index| chart.places.get(index));
    place.map_or_else(String::new, |x| x.label.clone())
}

/// A number on an axis: short, with as many digits as steps need.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 10_000.0 => format!("{:.0} k", value / 1000.0),
        v if v >= 10.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    //! What stands on axes and in legends.
    use super::*;

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 0.25, 5.0, 2.5, 15.0, 9999.0, 20_000.0].map(number);
        assert_eq!(numbers, ["0", "0.25", "5", "2.5", "15", "9999", "20 k"]);
    }

    #[test]
    fn no_two_lines_look_the_same() {
        let looks: Vec<_> = (0..2 * COLOURS.len()).map(look).collect();
        for (n, a) in looks.iter().enumerate() {
            assert!(looks[..n].iter().all(|b| a != b), "{n}");
        }
    }
}
