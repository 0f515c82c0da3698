//! A figure with its values: what tables and plots are made of.

use crate::runner::{Metric, Spread};
use crate::suite::measure::Results;
use crate::suite::plan::{Figure, X};
use crate::suite::published::Published;

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Its name.
    pub(crate) name: String,
    /// Its points: index of the place on the horizontal axis, and the value.
    pub(crate) points: Vec<(usize, Spread)>,
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

impl Chart {
    /// Of what was measured.
    pub(crate) fn measured(figure: &Figure, results: &Results) -> Self {
        let cells = results.plan.cells.iter().enumerate();
        let ours = cells.filter(|(_, cell)| cell.group == figure.group);
        let mut chart = Self::empty(
            figure.title.clone(),
            figure.x_label.to_owned(),
            y_label(figure.metric),
        );
        for (index, cell) in ours {
            for phase in figure.phases {
                if let Some(spread) = results.spread(index, phase, figure.metric) {
                    let name = match (cell.series.as_str(), figure.phases.len()) {
                        ("", _) => (*phase).to_owned(),
                        (series, 1) => series.to_owned(),
                        (series, _) => format!("{series}, {phase}"),
                    };
                    chart.add(&name, &cell.x, spread);
                }
            }
        }
        chart.sorted()
    }

    /// Of what was published, as far as values are known.
    pub(crate) fn published(figure: &Published) -> Option<Self> {
        if figure.series.is_empty() {
            return None;
        }
        let mut chart = Self::empty(
            figure.shows.clone(),
            figure.x_label.clone(),
            figure.y_label.clone(),
        );
        for series in &figure.series {
            for (x, y) in &series.points {
                let spread = Spread {
                    median: *y,
                    min: *y,
                    max: *y,
                };
                chart.add(&series.name, &X::named(*x, &x.to_string()), spread);
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

    fn add(&mut self, name: &str, x: &X, spread: Spread) {
        let place = self.places.iter().position(|p| p == x);
        let place = place.unwrap_or_else(|| {
            self.places.push(x.clone());
            self.places.len() - 1
        });
        match self.lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((place, spread)),
            None => self.lines.push(Line {
                name: name.to_owned(),
                points: vec![(place, spread)],
            }),
        }
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
        for line in &mut self.lines {
            for (place, _) in &mut line.points {
                *place = new_place[*place];
            }
            line.points.sort_by_key(|(place, _)| *place);
        }
        self
    }

    /// The chart as rows of a table, its header first; `show` makes cells.
    pub(crate) fn rows(&self, show: impl Fn(Option<Spread>) -> String) -> Vec<Vec<String>> {
        let mut header = vec![self.x_label.clone()];
        header.extend(self.lines.iter().map(|line| line.name.clone()));
        let mut rows = vec![header];
        for (place, x) in self.places.iter().enumerate() {
            let value = |line: &Line| {
                let point = line.points.iter().find(|(p, _)| *p == place);
                show(point.map(|(_, spread)| *spread))
            };
            let mut row = vec![x.label.clone()];
            row.extend(self.lines.iter().map(value));
            rows.push(row);
        }
        rows
    }
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
        Metric::BytesPerRequest => "bytes for each",
    }
    .to_owned()
}
