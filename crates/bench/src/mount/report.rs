//! What was measured, as tables for people and as JSON.

use super::place::{Place, Run};
use super::work::Work;
use crate::report::{Machine, align, cell, spread_json};
use crate::runner::Spread;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// All runs.
pub(super) struct Measured {
    places: Vec<Place>,
    works: Vec<Work>,
    runs: BTreeMap<(usize, Work), Vec<Run>>,
}

impl Measured {
    pub(super) fn new(places: Vec<Place>, works: Vec<Work>) -> Self {
        Self {
            places,
            works,
            runs: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, place: usize, work: Work, run: Run) {
        self.runs.entry((place, work)).or_default().push(run);
    }

    fn runs(&self, place: usize, work: Work) -> &[Run] {
        self.runs.get(&(place, work)).map_or(&[], Vec::as_slice)
    }

    fn seconds(&self, place: usize, work: Work) -> Vec<f64> {
        let runs = self.runs(place, work).iter();
        runs.map(|run| run.elapsed.as_secs_f64()).collect()
    }

    /// How much longer it takes elsewhere than in the first directory, round by round.
    fn ratio(&self, place: usize, work: Work) -> Option<Spread> {
        let (first, other) = (self.seconds(0, work), self.seconds(place, work));
        Spread::of(first.iter().zip(&other).map(|(first, other)| other / first))
    }

    /// Requests of a piece of work, the median; of a mount that counts them.
    fn requests(&self, place: usize, work: Work) -> Option<Spread> {
        let counted = self.runs(place, work).iter();
        let counts = counted.filter_map(|run| run.counts.as_ref());
        #[allow(clippy::cast_precision_loss, reason = "a table shows three digits")]
        Spread::of(counts.map(|counts| counts.requests_count() as f64))
    }

    /// Requests and mean answer in microseconds of each operation, of all work of a directory.
    fn operations(&self, place: usize) -> BTreeMap<String, (u64, f64)> {
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for work in &self.works {
            for counts in self
                .runs(place, *work)
                .iter()
                .filter_map(|r| r.counts.as_ref())
            {
                for (name, of) in &counts.0 {
                    let sum = sums.entry(name.clone()).or_default();
                    sum.0 += of.requests_count;
                    sum.1 += of.answer_ms;
                }
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "a table shows three digits")]
        let mean_us = |(count, ms): (u64, u64)| (count, ms as f64 * 1000.0 / count.max(1) as f64);
        sums.into_iter()
            .map(|(name, sum)| (name, mean_us(sum)))
            .collect()
    }

    pub(super) fn table(&self, machine: &Machine) -> String {
        let mut out = format!(
            "One person at a mount: seconds of each piece of work, median [least most]\n{}\n\n",
            machine.line()
        );
        let mut head = vec!["work".to_owned()];
        for (index, place) in self.places.iter().enumerate() {
            head.push(format!("{}, s", place.name));
            head.push("requests".to_owned());
            if index > 0 {
                head.push(format!("to {}", self.places[0].name));
            }
        }
        let mut rows = vec![head];
        for work in &self.works {
            let mut row = vec![work.name().to_owned()];
            for index in 0..self.places.len() {
                row.push(cell(Spread::of(self.seconds(index, *work))));
                let requests = self.requests(index, *work);
                row.push(requests.map_or_else(|| "-".to_owned(), |s| format!("{:.0}", s.median)));
                if index > 0 {
                    row.push(cell(self.ratio(index, *work)));
                }
            }
            rows.push(row);
        }
        align(&mut out, &rows);
        self.table_of_operations(&mut out);
        out
    }

    fn table_of_operations(&self, out: &mut String) {
        let all: Vec<_> = (0..self.places.len()).map(|p| self.operations(p)).collect();
        let mut names: Vec<&String> = all.iter().flat_map(BTreeMap::keys).collect();
        names.sort();
        names.dedup();
        if names.is_empty() {
            return;
        }
        out.push_str("\nRequests of all that, and the mean time to their answers as the client's kernel saw it\n\n");
        let mut head = vec!["operation".to_owned()];
        for place in &self.places {
            head.push(format!("{}, requests", place.name));
            head.push("us".to_owned());
        }
        let mut rows = vec![head];
        for name in names {
            let mut row = vec![name.clone()];
            for of_place in &all {
                let cells = of_place
                    .get(name)
                    .map(|(count, us)| (count.to_string(), format!("{us:.0}")));
                let (count, us) = cells.unwrap_or_else(|| ("-".to_owned(), "-".to_owned()));
                row.extend([count, us]);
            }
            rows.push(row);
        }
        align(out, &rows);
    }

    pub(super) fn json(&self, machine: &Machine) -> Value {
        let of_work = |place: usize, work: Work| {
            json!({
                "seconds": self.seconds(place, work),
                "median": spread_json(Spread::of(self.seconds(place, work))),
                "ratio_to_first": spread_json(self.ratio(place, work)),
                "requests": spread_json(self.requests(place, work)),
            })
        };
        let place = |(index, place): (usize, &Place)| {
            let works = self
                .works
                .iter()
                .map(|work| (work.name().to_owned(), of_work(index, *work)));
            let operations = self
                .operations(index)
                .into_iter()
                .map(|(name, (count, us))| (name, json!({ "requests": count, "mean_us": us })));
            json!({
                "name": place.name,
                "dir": place.dir,
                "work": Map::from_iter(works),
                "operations": Map::from_iter(operations),
            })
        };
        json!({
            "machine": machine.json(),
            "command": std::env::args().collect::<Vec<_>>(),
            "places": self.places.iter().enumerate().map(place).collect::<Vec<_>>(),
        })
    }
}
