//! What was measured, as tables for people and as JSON.

use super::place::{Place, Run};
use super::wire::{self, Answer, OfOperation};
use super::work::Work;
use crate::report::{Machine, align, cell, spread_json};
use crate::runner::Spread;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What stands above the table of operations.
pub(super) const OPERATIONS: &str =
    "Requests of all that, and the mean time to their answers as the client's kernel saw it";

/// What stands above the table of what was seen on the wire.
pub(super) const WIRE: &str = "Requests of one more round on the wire, and the time from the last byte of each to the first of its answer";

/// All runs.
pub(super) struct Measured {
    places: Vec<Place>,
    works: Vec<Work>,
    runs: BTreeMap<(usize, Work), Vec<Run>>,
    /// What was measured, in words and for programs, where this program knows.
    words: Vec<String>,
    settings: Value,
    /// Answers by operation of each place, from the wire, where that was recorded.
    wire: Vec<BTreeMap<&'static str, OfOperation>>,
    /// What the client's kernel counted of the same rounds.
    beside_wire: Vec<BTreeMap<String, (u64, f64)>>,
}

/// A place in JSON, as far as [`Measured::from_json`] reads it.
#[derive(Deserialize)]
struct PlaceOfJson {
    #[serde(flatten)]
    place: Place,
    work: BTreeMap<String, WorkOfJson>,
}

#[derive(Deserialize)]
struct WorkOfJson {
    runs: Vec<Run>,
}

impl Measured {
    pub(super) fn new(places: Vec<Place>, works: Vec<Work>) -> Self {
        Self {
            places,
            works,
            runs: BTreeMap::new(),
            words: Vec::new(),
            settings: Value::Null,
            wire: Vec::new(),
            beside_wire: Vec::new(),
        }
    }

    /// What another process has measured, from its [`Self::json`]; the error says what is wrong with it.
    pub(super) fn from_json(json: &Value) -> Result<Self, String> {
        let places = Vec::<PlaceOfJson>::deserialize(&json["places"]).map_err(|e| e.to_string())?;
        let has = |work: &Work| places.iter().any(|p| p.work.contains_key(work.name()));
        let works: Vec<Work> = Work::ALL.into_iter().filter(has).collect();
        let named = places.iter().map(|of| of.place.clone()).collect();
        let mut measured = Self::new(named, works.clone());
        for (index, mut of) in places.into_iter().enumerate() {
            for work in &works {
                let runs = of.work.remove(work.name()).map(|work| work.runs);
                for run in runs.unwrap_or_default() {
                    measured.add(index, *work, run);
                }
            }
        }
        Ok(measured)
    }

    /// Notes what it was that was measured.
    pub(super) fn tell(&mut self, words: &[String], settings: &Value) {
        self.words = words.to_vec();
        self.settings = settings.clone();
    }

    /// Adds what was seen on the wire in rounds beside these. `place_of` tells which place a server's port is of; only requests
    /// that were made while a piece of work was done there count.
    pub(super) fn hear(
        &mut self,
        rounds: &Self,
        answers: &[Answer],
        place_of: impl Fn(u16) -> usize,
    ) {
        let times = |place: usize| -> Vec<(u64, u64)> {
            let runs = rounds.runs.iter().filter(|((of, _), _)| *of == place);
            let mut times: Vec<_> = runs.flat_map(|(_, runs)| runs).map(Run::times_ns).collect();
            times.sort_unstable();
            times
        };
        let wire = |place: usize| {
            let times = times(place);
            let counts = |answer: &&Answer| {
                let after = times.partition_point(|(began, _)| *began <= answer.asked_ns);
                let last = after.checked_sub(1).map(|at| times[at]);
                place_of(answer.server.port()) == place
                    && last.is_some_and(|(_, ended)| answer.asked_ns <= ended)
            };
            wire::by_operation(answers.iter().filter(counts))
        };
        self.wire = (0..self.places.len()).map(wire).collect();
        let counted = 0..rounds.places.len();
        self.beside_wire = counted.map(|place| rounds.operations(place)).collect();
    }

    /// The same for people.
    pub(super) fn words(&self) -> &[String] {
        &self.words
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    pub(super) fn works(&self) -> &[Work] {
        &self.works
    }

    pub(super) fn add(&mut self, place: usize, work: Work, run: Run) {
        self.runs.entry((place, work)).or_default().push(run);
    }

    fn runs(&self, place: usize, work: Work) -> &[Run] {
        self.runs.get(&(place, work)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn seconds(&self, place: usize, work: Work) -> Vec<f64> {
        let runs = self.runs(place, work).iter();
        runs.map(|run| run.elapsed.as_secs_f64()).collect()
    }

    /// How much longer it takes elsewhere than in the first directory, round by round.
    pub(super) fn ratio(&self, place: usize, work: Work) -> Option<Spread> {
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
            "One person at a mount: seconds of each piece of work, median [least most]\n{}\n",
            machine.line()
        );
        for word in &self.words {
            out.push_str(word);
            out.push('\n');
        }
        out.push('\n');
        align(&mut out, &self.rows());
        let operations = self.rows_of_operations();
        if operations.len() > 1 {
            out.push_str(&format!("\n{OPERATIONS}\n\n"));
            align(&mut out, &operations);
        }
        let wire = self.rows_of_wire();
        if wire.len() > 1 {
            out.push_str(&format!("\n{WIRE}\n\n"));
            align(&mut out, &wire);
        }
        out
    }

    /// Seconds, requests and ratios of each piece of work, below what they are called.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
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
        rows
    }

    /// Requests and answers by operation, below what they are called.
    pub(super) fn rows_of_operations(&self) -> Vec<Vec<String>> {
        let all: Vec<_> = (0..self.places.len()).map(|p| self.operations(p)).collect();
        let mut names: Vec<&String> = all.iter().flat_map(BTreeMap::keys).collect();
        names.sort();
        names.dedup();
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
        rows
    }

    /// Requests and answers from the wire by operation, below what they are called.
    pub(super) fn rows_of_wire(&self) -> Vec<Vec<String>> {
        let mut names: Vec<&str> = self.wire.iter().flat_map(|w| w.keys().copied()).collect();
        names.sort_unstable();
        names.dedup();
        let mut head = vec!["operation".to_owned()];
        for place in &self.places {
            head.push(format!("{}, requests", place.name));
            head.extend(["p50 us", "p99 us"].map(str::to_owned));
        }
        let mut rows = vec![head];
        for name in names {
            let mut row = vec![name.to_owned()];
            for of_place in &self.wire {
                let cells = of_place.get(name).map(|of| {
                    let times = [of.p50_us, of.p99_us].map(|us| format!("{us:.0}"));
                    [of.requests_count.to_string()].into_iter().chain(times)
                });
                match cells {
                    Some(cells) => row.extend(cells),
                    None => row.extend(["-"; 3].map(str::to_owned)),
                }
            }
            rows.push(row);
        }
        rows
    }

    pub(super) fn json(&self, machine: &Machine) -> Value {
        let of_work = |place: usize, work: Work| {
            json!({
                "seconds": self.seconds(place, work),
                "runs": self.runs(place, work),
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
            let counted =
                |operations: BTreeMap<String, (u64, f64)>| {
                    let operations = operations.into_iter();
                    Map::from_iter(operations.map(|(name, (count, us))| {
                        (name, json!({ "requests": count, "mean_us": us }))
                    }))
                };
            json!({
                "name": place.name,
                "dir": place.dir,
                "work": Map::from_iter(works),
                "operations": counted(self.operations(index)),
                "operations_of_wire_round": self.beside_wire.get(index).cloned().map(counted),
                "wire": self.wire.get(index).map(|wire| {
                    Map::from_iter(wire.iter().map(|(name, of)| ((*name).to_owned(), of.json())))
                }),
            })
        };
        json!({
            "machine": machine.json(),
            "servers": self.settings,
            "command": std::env::args().collect::<Vec<_>>(),
            "places": self.places.iter().enumerate().map(place).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what a guest measured arrives whole.
    use super::*;
    use crate::mount::counts::{self, Counts};
    use std::net::{Ipv4Addr, SocketAddrV4};
    use std::time::Duration;

    #[test]
    fn what_is_read_back_is_what_was_measured() {
        let place = |name: &str| name.parse::<Place>().unwrap();
        let mut measured = Measured::new(
            vec![place("one=/a"), place("other=/b")],
            vec![Work::Unpack, Work::Save],
        );
        let read = counts::OfOperation {
            requests_count: 3,
            answer_ms: 6,
        };
        for (place, millis) in [(0, 250), (0, 500), (1, 1000)] {
            let run = Run {
                began_ns: 1,
                elapsed: Duration::from_millis(millis),
                counts: (place == 0).then(|| Counts([("READ".to_owned(), read)].into())),
            };
            measured.add(place, Work::Save, run);
        }
        let json = measured.json(&Machine::known());
        let again = Measured::from_json(&json).unwrap();
        assert_eq!(again.rows(), measured.rows());
        assert_eq!(again.rows_of_operations(), measured.rows_of_operations());
        assert_eq!(again.operations(0)["READ"], (6, 2000.0));
        assert_eq!(again.json(&Machine::known())["places"], json["places"]);
        for wrong in [
            json!({}),
            json!({ "places": [{ "name": "x", "dir": "/", "work": 7 }] }),
        ] {
            assert!(Measured::from_json(&wrong).is_err());
        }
    }

    #[test]
    fn only_what_was_asked_during_the_work_of_its_place_counts() {
        let place = |name: &str| name.parse::<Place>().unwrap();
        let places = vec![place("one=/a"), place("other=/b")];
        let mut measured = Measured::new(places, vec![Work::Save]);
        for (place, began_ns) in [(0, 1000), (1, 2000), (0, 5000)] {
            let run = Run {
                began_ns,
                elapsed: Duration::from_nanos(100),
                counts: None,
            };
            measured.add(place, Work::Save, run);
        }
        let answer = |port, asked_ns| Answer {
            server: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            operation: "OPEN",
            asked_ns,
            took_ns: 7000,
        };
        let inside = [answer(1, 1000), answer(1, 5100), answer(2, 2050)];
        let outside = [
            answer(1, 999),
            answer(1, 1101),
            answer(1, 2050),
            answer(2, 5000),
        ];
        let answers = [&inside[..], &outside].concat();
        let mut heard = Measured::new(measured.places.clone(), vec![Work::Save]);
        heard.hear(&measured, &answers, |port| usize::from(port) - 1);
        let measured = heard;
        let rows = measured.rows_of_wire();
        assert_eq!(rows[1], ["OPEN", "2", "7", "7", "1", "7", "7"]);
        let json = measured.json(&Machine::known());
        assert_eq!(json["places"][0]["wire"]["OPEN"]["requests"], 2);
    }
}
