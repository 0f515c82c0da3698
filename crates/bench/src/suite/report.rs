//! What a suite writes: a table, on the terminal too. Each experiment also has CSV (every run), JSON (all that is
//! needed to repeat it) and plots. One HTML page has all of them, with the published figures beside ours.

pub(crate) mod bars;
pub(crate) mod chart;
mod csv;
pub(crate) mod html;
mod json;
mod plot;
mod table;
mod transports;

use super::measure::Results;
use crate::BenchError;
use crate::report::Machine;
use chart::Chart;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Name of the page.
pub(crate) const PAGE: &str = "report.html";

/// Makes the folder of the reports, before anything is measured for them.
pub(crate) fn folder(dir: &Path) -> Result<(), BenchError> {
    fs::create_dir_all(dir).map_err(BenchError::io("make the folder of the reports"))
}

/// Writes all reports, and the tables to `out`. `words` are said of all of them together.
pub(crate) fn write(
    results: &[Results],
    machine: &Machine,
    dir: &Path,
    words: &[String],
    out: &mut dyn Write,
) -> Result<(), BenchError> {
    let mut sections = Vec::new();
    for results in results {
        let name = results.plan.name;
        let charts: Vec<Chart> = results
            .plan
            .figures
            .iter()
            .map(|figure| Chart::measured(figure, results))
            .collect();
        let text = table::text(results, &charts, machine);
        out.write_all(text.as_bytes())
            .map_err(BenchError::io("write the table"))?;
        save(&dir.join(format!("{name}.txt")), text.as_bytes())?;
        save(
            &dir.join(format!("{name}.csv")),
            csv::text(results).as_bytes(),
        )?;
        crate::report::write_json(
            &dir.join(format!("{name}.json")),
            &json::value(results, machine),
        )?;
        let mut drawn = Vec::new();
        for (chart, figure) in charts.iter().zip(&results.plan.figures) {
            let svg = plot::svg(chart)?;
            let stem = format!("{name}-{}", figure.id);
            save(&dir.join(format!("{stem}.svg")), svg.as_bytes())?;
            save(&dir.join(format!("{stem}.png")), &plot::png(chart)?)?;
            let published = Chart::published(&figure.published, chart);
            let published = published.as_ref().map(plot::svg).transpose()?;
            drawn.push(html::Drawn {
                chart,
                svg,
                published_svg: published,
                published: &figure.published,
                remark: figure.remark,
            });
        }
        sections.push(html::section(results, &drawn));
    }
    let page = html::page(&sections, machine, words);
    save(&dir.join(PAGE), page.as_bytes())?;
    for word in words {
        writeln!(out, "{word}").map_err(BenchError::io("write the table"))?;
    }
    writeln!(out, "report: {}", dir.join(PAGE).display()).map_err(BenchError::io("write the table"))
}

pub(crate) fn save(path: &Path, bytes: &[u8]) -> Result<(), BenchError> {
    fs::write(path, bytes).map_err(BenchError::io("write a report"))
}

#[cfg(test)]
mod tests {
    //! All forms of known results, against texts that were read by a person.
    use super::*;
    use crate::load::Tally;
    use crate::nfs::providers::Carriers;
    use crate::runner::Metric;
    use crate::suite::job::Work;
    use crate::suite::work::{CreateWork, Workers};

    use crate::suite::measure::{Failed, Run, Used, sample};
    use crate::suite::plan::{Cell, Figure, Own, Plan, Server};
    use crate::suite::published::{Published, PublishedSeries};
    use crate::suite::spec::{Create, Store, Transport};
    use crate::suite::worker_group::Phase;
    use std::time::Duration;

    fn cell(ds_count: u16, series: &str) -> Cell {
        let server = Server::Own(Own {
            ds_count,
            copies: 1,
            store: Store::Memory,
            transport: Transport::Tcp,
            create: Create::Lazy,
            link: None,
            clients: None,
            nfs3: false,
        });
        Cell {
            group: "g",
            x: server.x(),
            series: series.to_owned(),
            server,
            workers: Workers::processes(2),
            work: Work::Create(CreateWork {
                rounds_count: 5,
                limit_ms: None,
            }),
            cold: false,
        }
    }

    fn run(cell: usize, repeat: u16, requests_count: u64) -> Run {
        let mut tally = Tally::new();
        for _ in 0..requests_count {
            tally.add(1000, Duration::from_micros(500));
        }
        let phase = Phase {
            name: "write".to_owned(),
            tally,
            elapsed: Duration::from_secs(1),
            client_cpu: Duration::from_millis(10),
            bypass: None,
        };
        Run {
            cell,
            repeat,
            phases: vec![sample(
                phase,
                Used {
                    server_cpu: Duration::from_millis(20),
                    machine_idle: Some(0.5),
                },
            )],
            bypass: None,
        }
    }

    fn results() -> Results {
        let published = Published {
            source: "A <paper>".to_owned(),
            figure: Some("fig. 1".to_owned()),
            shows: "speed".to_owned(),
            says: Some("it is fast".to_owned()),
            x_label: "data servers".to_owned(),
            y_label: "MB/s".to_owned(),
            series: vec![PublishedSeries {
                name: "theirs".to_owned(),
                points: vec![(2.0, 19.0), (4.0, 30.5)],
            }],
        };
        let figure = Figure {
            id: "f",
            title: "Speed & more".to_owned(),
            group: "g",
            x_label: "data servers",
            metric: Metric::RequestsPerSecond,
            phases: &["write"],
            published,
            beside: &[Metric::CpuIdlePercent],
            remark: Some("A remark."),
            share_of: None,
        };
        let plan = Plan {
            name: "known",
            title: "Known results",
            notes: vec!["A note.".to_owned()],
            cells: vec![cell(1, "one"), cell(2, "one"), cell(2, "two")],
            figures: vec![figure],
        };
        Results {
            plan,
            subject: "clusters".to_owned(),
            carriers: Carriers::default(),
            knows_server_cpu: true,
            runs: vec![run(0, 0, 4), run(1, 0, 8), run(0, 1, 6), run(1, 1, 8)],
            failures: vec![Failed {
                cell: 2,
                why: "it broke".to_owned(),
            }],
            repeats: 2,
        }
    }

    fn machine() -> Machine {
        Machine {
            cpu_model: "A processor".to_owned(),
            cpus_count: 2,
            memory_bytes: 1,
            kernel: "6.1".to_owned(),
            congestion_control: "cubic".to_owned(),
            commit: Some("abc".to_owned()),
            measured_by: None,
            is_optimised: true,
        }
    }

    #[test]
    fn the_table_has_rows_and_series() {
        let results = results();
        let charts = [Chart::measured(&results.plan.figures[0], &results)];
        let text = table::text(&results, &charts, &machine());
        let expected = "\
Known results
clusters; 2 runs; median [smallest largest]
A processor, 2 CPUs, Linux 6.1, TCP cubic, commit abc

Speed & more: requests per second
data servers  one               one: CPU idle, %
1             5.00 [4.00 6.00]  50.0 [50.0 50.0]
2             8.00 [8.00 8.00]  50.0 [50.0 50.0]
A remark.
published: theirs: 19 MB/s at 2 data servers, 30.5 MB/s at 4 data servers
published: A <paper>, fig. 1; it says: it is fast
Transport: tcp, by sockets of the kernel
A note.
not measured: two, 2 (2 data servers, memory, tcp): it broke

";
        assert_eq!(text, expected);
    }

    #[test]
    fn csv_has_a_line_for_each_run_and_phase() {
        let expected = "\
experiment,group,series,x,server,processes,tasks,phase,repeat,requests,bytes,seconds,requests_per_s,mb_per_s,mean_us,p50_us,p99_us,server_cpu_us_per_request,client_cpu_us_per_request,server_cpu_s_per_gb,cpu_idle_percent,bytes_per_request
known,g,one,1,\"1 data server, memory, tcp\",2,1,write,0,4,4000,1.000000,4.000,0.004,500.096,500.223,500.223,5000.000,2500.000,5000.000,50.000,1000.000
";
        let text = csv::text(&results());
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn json_has_what_is_needed_to_repeat() {
        let value = json::value(&results(), &machine());
        assert_eq!(value["machine"]["commit"], "abc");
        assert_eq!(value["repeats"], 2);
        let cell = &value["cells"][0];
        assert_eq!(cell["cell"]["server"]["own"]["ds_count"], 1);
        assert_eq!(cell["transport_provider"], "sockets of the kernel");
        assert_eq!(cell["cell"]["work"]["create"]["rounds_count"], 5);
        assert_eq!(cell["phases"]["write"]["requests_per_s"]["median"], 5.0);
        assert_eq!(cell["runs"].as_array().unwrap().len(), 2);
        assert_eq!(value["cells"][2]["failed"], "it broke");
        let figure = &value["figures"][0];
        assert_eq!(figure["metric"], "requests_per_s");
        assert_eq!(figure["published"]["series"][0]["points"][0][1], 19.0);
    }

    #[test]
    fn what_is_over_rdma_has_its_ratio_to_tcp() {
        let mut results = results();
        let mut rdma = cell(2, "one, rdma");
        rdma.server = rdma.server.over(Transport::Rdma);
        results.plan.cells[2] = rdma;
        results.failures.clear();
        results.runs.extend([run(2, 0, 4), run(2, 1, 12)]);
        let chart = Chart::measured(&results.plan.figures[0], &results);
        let ratio = &chart.lines[1].beside[0];
        assert_eq!(ratio.name, "one, rdma: ratio to tcp");
        let (place, spread) = ratio.points[0];
        // 4 to 8, and 12 to 8.
        assert_eq!((place, spread.min, spread.max), (1, 0.5, 1.5));
        assert!(
            chart.lines[0]
                .beside
                .iter()
                .all(|l| !l.name.contains("ratio"))
        );
    }

    #[test]
    fn the_published_figure_has_our_places_and_its_own() {
        let results = results();
        let figure = &results.plan.figures[0];
        let ours = Chart::measured(figure, &results);
        let theirs = Chart::published(&figure.published, &ours).unwrap();
        let places: Vec<&str> = theirs.places.iter().map(|x| x.label.as_str()).collect();
        assert_eq!(places, ["1", "2", "4"]);
        let points: Vec<_> = theirs.lines[0]
            .points
            .iter()
            .map(|p| (p.0, p.1.median))
            .collect();
        assert_eq!(points, [(1, 19.0), (2, 30.5)]);
        let mut by_clients = figure.published.clone();
        by_clients.x_label = "clients".to_owned();
        let theirs = Chart::published(&by_clients, &ours).unwrap();
        assert_eq!(theirs.places.len(), 2);
    }

    #[test]
    fn everything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        let words = ["Something < all is left out".to_owned()];
        write(&[results()], &machine(), dir.path(), &words, &mut out).unwrap();
        let svg = fs::read_to_string(dir.path().join("known-f.svg")).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("Speed &amp; more"));
        let png = fs::read(dir.path().join("known-f.png")).unwrap();
        assert_eq!(&png[1..4], b"PNG");
        let page = fs::read_to_string(dir.path().join(PAGE)).unwrap();
        // Both figures are in it, nothing of it is elsewhere, and names are escaped.
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("A &lt;paper&gt;") && !page.contains("<paper>"));
        for outside in ["src=", "href=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("not measured: two, 2") && page.contains("A remark."));
        assert!(page.contains("<p>Something &lt; all is left out</p>"));
        for file in ["known.txt", "known.csv", "known.json"] {
            assert!(dir.path().join(file).is_file());
        }
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\nSomething < all is left out\n") && text.contains("report.html"));
    }

    #[test]
    fn plots_need_no_data_and_no_fonts_of_the_system() {
        let mut results = results();
        results.runs.clear();
        let chart = Chart::measured(&results.plan.figures[0], &results);
        assert!(chart.lines.is_empty());
        assert!(plot::svg(&chart).unwrap().contains("nothing was measured"));
        assert!(plot::png(&chart).is_ok());
    }
}
