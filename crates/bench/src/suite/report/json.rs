//! All results of an experiment as JSON, with what is needed to repeat it.

use crate::report::{Machine, spread_json};
use crate::runner::Metric;
use crate::suite::measure::Results;
use serde_json::{Map, Value, json};

pub(crate) fn value(results: &Results, machine: &Machine) -> Value {
    let cells = results.plan.cells.iter().enumerate();
    json!({
        "experiment": results.plan.name,
        "title": results.plan.title,
        "subject": results.subject,
        "machine": machine.json(),
        "command": std::env::args().collect::<Vec<_>>(),
        "repeats": results.repeats,
        "notes": results.plan.notes,
        "figures": results.plan.figures.iter().map(|figure| json!({
            "id": figure.id,
            "title": figure.title,
            "group": figure.group,
            "metric": figure.metric.name(),
            "phases": figure.phases,
            "remark": figure.remark,
            "published": figure.published,
        })).collect::<Vec<_>>(),
        "cells": cells.map(|(index, cell)| json!({
            "cell": cell,
            "transport_provider": results.provider(cell.server),
            "failed": results.failures.iter().find(|f| f.cell == index).map(|f| &f.why),
            "phases": phases(results, index),
            "runs": runs(results, index),
        })).collect::<Vec<_>>(),
    })
}

/// Median and spread of every metric that is known, by phase.
fn phases(results: &Results, cell: usize) -> Value {
    let first = results.runs.iter().find(|run| run.cell == cell);
    let phases = first.map_or(&[][..], |run| &run.phases);
    let metrics = |phase: &str| {
        let known = known_metrics(results);
        let spread = |m: Metric| spread_json(results.spread(cell, phase, m));
        known
            .map(|metric| (metric.name().to_owned(), spread(metric)))
            .collect::<Map<_, _>>()
    };
    let by_phase = phases
        .iter()
        .map(|(phase, _)| (phase.clone(), Value::Object(metrics(phase))));
    Value::Object(by_phase.collect())
}

fn runs(results: &Results, cell: usize) -> Vec<Value> {
    let runs = results.runs.iter().filter(|run| run.cell == cell);
    runs.map(|run| {
        let phases = run.phases.iter().map(|(phase, sample)| {
            let mut values: Map<String, Value> = known_metrics(results)
                .map(|metric| (metric.name().to_owned(), json!(metric.of(sample))))
                .collect();
            values.insert("requests_count".to_owned(), json!(sample.requests_count));
            values.insert("payload_bytes".to_owned(), json!(sample.payload_bytes));
            values.insert("seconds".to_owned(), json!(sample.elapsed.as_secs_f64()));
            (phase.clone(), Value::Object(values))
        });
        json!({
            "repeat": run.repeat,
            "page_cache_left_out": run.bypass,
            "phases": Value::Object(phases.collect()),
        })
    })
    .collect()
}

fn known_metrics(results: &Results) -> impl Iterator<Item = Metric> {
    let knows = results.knows_server_cpu;
    Metric::ALL
        .into_iter()
        .filter(move |metric| metric.is_of_requests() && (knows || !metric.is_of_the_server()))
}
