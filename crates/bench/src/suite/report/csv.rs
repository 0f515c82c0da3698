//! Every phase of every run as a line of comma-separated values (RFC 4180).

use crate::runner::Metric;
use crate::suite::measure::Results;
use std::fmt::Write;

const HEAD: &str =
    "experiment,group,series,x,server,processes,tasks,phase,repeat,requests,bytes,seconds";

pub(crate) fn text(results: &Results) -> String {
    let mut out = HEAD.to_owned();
    for metric in metrics() {
        out.push(',');
        out.push_str(metric.name());
    }
    out.push('\n');
    for run in &results.runs {
        let cell = &results.plan.cells[run.cell];
        for (phase, sample) in &run.phases {
            let words = [
                results.plan.name,
                cell.group,
                &cell.series,
                &cell.x.label,
                &cell.server.text(),
            ];
            for word in words {
                out.push_str(&quoted(word));
                out.push(',');
            }
            write!(
                out,
                "{},{},{},{},{},{},{:.6}",
                cell.workers.processes_count,
                cell.workers.tasks_count,
                quoted(phase),
                run.repeat,
                sample.requests_count,
                sample.payload_bytes,
                sample.elapsed.as_secs_f64(),
            )
            .expect("a string takes all text");
            for metric in metrics() {
                out.push(',');
                let value = metric.of(sample);
                let known = results.knows_server_cpu || !metric.is_of_the_server();
                if known && value.is_finite() {
                    write!(out, "{value:.3}").expect("a string takes all text");
                }
            }
            out.push('\n');
        }
    }
    out
}

fn metrics() -> impl Iterator<Item = Metric> {
    let all = Metric::ALL.into_iter();
    all.filter(|metric| metric.is_of_requests())
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
