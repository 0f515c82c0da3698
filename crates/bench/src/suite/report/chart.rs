//! A figure with its values: what tables and plots are made of.

use crate::runner::{Metric, Spread};
use crate::suite::measure::{Results, Run};
use crate::suite::plan::{Cell, Figure, X};
use crate::suite::published::Published;
use crate::suite::spec::Transport;

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Its name.
    pub(crate) name: String,
    /// Its points: index of the place on the horizontal axis, and the value.
    pub(crate) points: Vec<(usize, Spread)>,
    /// What tables show beside it, and plots do not.
    pub(crate) beside: Vec<Self>,
}

impl Line {
    fn new(name: String) -> Self {
        Self {
            name,
            points: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// It, and what is beside it.
    fn columns(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.beside)
    }

    fn at(&self, place: usize) -> Option<Spread> {
        let point = self.points.iter().find(|(p, _)| *p == place);
        point.map(|(_, spread)| *spread)
    }

    /// Moves its points to new places, and puts them in order.
    fn moved(&mut self, new_place: &[usize]) {
        for (place, _) in &mut self.points {
            *place = new_place[*place];
        }
        self.points.sort_by_key(|(place, _)| *place);
        self.beside
            .iter_mut()
            .for_each(|line| line.moved(new_place));
    }
}

/// A figure with its values. Places on the horizontal axis stand at equal distances, in order.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    /// Above it.
    pub(crate) title: String,
    /// What the horizontal axis shows.
    pub(crate) x_label: String,
    /// What the vertical axis shows.
    pub(crate) y_label: String,
    /// Places on the horizontal axis.
    pub(crate) places: Vec<X>,
    /// Its lines.
    pub(crate) lines: Vec<Line>,
}

/// What a figure shows of a cell.
struct Shown<'a> {
    index: usize,
    cell: &'a Cell,
    phase: &'a str,
}

impl Shown<'_> {
    /// The name of its line.
    fn line(&self, phases_count: usize) -> String {
        match (self.cell.series.as_str(), phases_count) {
            ("", _) => self.phase.to_owned(),
            (series, 1) => series.to_owned(),
            (series, _) => format!("{series}, {}", self.phase),
        }
    }
}

impl Chart {
    /// Of what was measured.
    pub(crate) fn measured(figure: &Figure, results: &Results) -> Self {
        let mut chart = Self::empty(
            figure.title.clone(),
            figure.x_label.to_owned(),
            match figure.share_of {
                Some(series) => format!("percent of the largest value of {series}"),
                None => y_label(figure.metric),
            },
        );
        for shown in shown(figure, results) {
            let name = shown.line(figure.phases.len());
            let value = match figure.share_of {
                Some(series) if series == shown.cell.series => continue,
                Some(series) => results.share(&shown, figure, series),
                None => results.spread(shown.index, shown.phase, figure.metric),
            };
            let Some(value) = value else {
                continue;
            };
            let (place, line) = chart.add(&name, &shown.cell.x, value);
            if let Some(ratio) = results.ratio_to_tcp(&shown, figure.metric) {
                let label = format!("{name}: ratio to tcp");
                named(&mut line.beside, &label).points.push((place, ratio));
            }
            for metric in figure.beside {
                if let Some(spread) = results.spread(shown.index, shown.phase, *metric) {
                    let label = format!("{name}: {}", y_label(*metric));
                    named(&mut line.beside, &label).points.push((place, spread));
                }
            }
        }
        chart.sorted()
    }

    /// Of what was published, as far as values are known; over the same places as `ours`, where both axes are of the same.
    pub(crate) fn published(figure: &Published, ours: &Self) -> Option<Self> {
        if figure.series.is_empty() {
            return None;
        }
        let mut chart = Self::empty(
            figure.shows.clone(),
            figure.x_label.clone(),
            figure.y_label.clone(),
        );
        if ours.x_label == figure.x_label {
            chart.places.clone_from(&ours.places);
        }
        for series in &figure.series {
            for (x, y) in &series.points {
                let spread = Spread {
                    median: *y,
                    min: *y,
                    max: *y,
                };
                let theirs = X::named(*x, &x.to_string());
                let same = |place: &&X| place.value.total_cmp(x).is_eq();
                let place = chart.places.iter().find(same).cloned();
                chart.add(&series.name, &place.unwrap_or(theirs), spread);
            }
        }
        Some(chart.sorted())
    }

    fn empty(title: String, x_label: String, y_label: String) -> Self {
        Self {
            title,
            x_label,
            y_label,
            places: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Another point; returns its place and its line.
    fn add(&mut self, name: &str, x: &X, spread: Spread) -> (usize, &mut Line) {
        let place = self.places.iter().position(|p| p == x);
        let place = place.unwrap_or_else(|| {
            self.places.push(x.clone());
            self.places.len() - 1
        });
        let line = named(&mut self.lines, name);
        line.points.push((place, spread));
        (place, line)
    }

    /// Places in the order of their values, whatever the order in which they were added.
    fn sorted(mut self) -> Self {
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by(|a, b| self.places[*a].value.total_cmp(&self.places[*b].value));
        let mut new_place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            new_place[*old] = new;
        }
        self.places = order.iter().map(|old| self.places[*old].clone()).collect();
        self.lines
            .iter_mut()
            .for_each(|line| line.moved(&new_place));
        self
    }

    /// The chart as rows of a table, its header first; `show` makes cells.
    pub(crate) fn rows(&self, show: impl Fn(Option<Spread>) -> String) -> Vec<Vec<String>> {
        let columns = || self.lines.iter().flat_map(Line::columns);
        let mut header = vec![self.x_label.clone()];
        header.extend(columns().map(|line| line.name.clone()));
        let mut rows = vec![header];
        for (place, x) in self.places.iter().enumerate() {
            let mut row = vec![x.label.clone()];
            row.extend(columns().map(|line| show(line.at(place))));
            rows.push(row);
        }
        rows
    }
}

/// The line of that name, new where there is none.
fn named<'a>(lines: &'a mut Vec<Line>, name: &str) -> &'a mut Line {
    let at = lines.iter().position(|line| line.name == name);
    let at = at.unwrap_or_else(|| {
        lines.push(Line::new(name.to_owned()));
        lines.len() - 1
    });
    &mut lines[at]
}

/// Cells and phases of a figure, in the order of the plan.
fn shown<'a>(figure: &'a Figure, results: &'a Results) -> impl Iterator<Item = Shown<'a>> {
    let cells = results.plan.cells.iter().enumerate();
    let ours = cells.filter(|(_, cell)| cell.group == figure.group);
    ours.flat_map(|(index, cell)| {
        let phases = figure.phases.iter();
        phases.map(move |phase| Shown { index, cell, phase })
    })
}

impl Results {
    /// The spread of a metric of one phase over the runs of a cell.
    pub(crate) fn spread(&self, cell: usize, phase: &str, metric: Metric) -> Option<Spread> {
        let runs = self.runs.iter().filter(|run| run.cell == cell);
        let phases = runs.flat_map(|run| &run.phases);
        Spread::of(
            phases
                .filter(|(name, _)| name == phase)
                .map(|(_, sample)| metric.of(sample)),
        )
    }

    /// A cell's percentage of the largest value that a series of its group has in the same repeat and phase.
    fn share(&self, shown: &Shown<'_>, figure: &Figure, series: &str) -> Option<Spread> {
        let value = |run: &Run| run.value(shown.phase, figure.metric);
        let is_whole = |run: &&Run| {
            let cell = &self.plan.cells[run.cell];
            cell.group == figure.group && cell.series == series
        };
        let whole = |repeat: u16| {
            let runs = self.runs.iter().filter(is_whole);
            let values = runs.filter(|run| run.repeat == repeat).map(value);
            values.fold(f64::NAN, f64::max)
        };
        let own = self.runs.iter().filter(|run| run.cell == shown.index);
        Spread::of(own.map(|run| 100.0 * value(run) / whole(run.repeat)))
    }
}

impl Results {
    /// What a cell over RDMA has to the one over TCP that does the same, in the same repeat and phase.
    fn ratio_to_tcp(&self, shown: &Shown<'_>, metric: Metric) -> Option<Spread> {
        let cell = shown.cell;
        if cell.server.transport() != Some(Transport::Rdma) {
            return None;
        }
        let server = cell.server.over(Transport::Tcp);
        let is_beside =
            |other: &Cell| other.server == server && other.is_like(cell) && other.work == cell.work;
        let tcp = self.plan.cells.iter().position(is_beside)?;
        let runs_of = |cell: usize| self.runs.iter().filter(move |run| run.cell == cell);
        let value = |run: &Run| run.value(shown.phase, metric);
        Spread::of(runs_of(shown.index).map(|run| {
            let mut beside = runs_of(tcp).filter(|other| other.repeat == run.repeat);
            value(run) / beside.next().map_or(f64::NAN, value)
        }))
    }
}

impl Run {
    /// A metric of a phase; not a number where there was no such phase.
    fn value(&self, phase: &str, metric: Metric) -> f64 {
        let mut phases = self.phases.iter();
        let found = phases.find(|(name, _)| name == phase);
        found.map_or(f64::NAN, |(_, sample)| metric.of(sample))
    }
}

fn y_label(metric: Metric) -> String {
    match metric {
        Metric::RequestsPerSecond => "requests per second",
        Metric::MegabytesPerSecond => "MB/s",
        Metric::LatencyMeanUs => "mean latency, µs",
        Metric::LatencyP50Us => "median latency, µs",
        Metric::LatencyP99Us => "99th percentile of latency, µs",
        Metric::CpuUsPerRequest => "CPU of servers for a request, µs",
        Metric::ClientCpuUsPerRequest => "CPU of clients for a request, µs",
        Metric::CpuSecondsPerGigabyte => "CPU of servers for a GB, s",
        Metric::CpuIdlePercent => "CPU idle, %",
        Metric::BytesPerRequest => "bytes for each",
        Metric::RssBytesPerSession => "resident bytes for each session",
        Metric::LongestSeconds => "longest wait, s",
    }
    .to_owned()
}
