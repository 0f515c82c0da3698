//! A sample, drawn into a buffer.
//!
//! Owns the layout. Pure: may not ask a server, look at a clock or know a terminal.

use super::sample::{OperationRates, Sample, ServerRates};
use crate::busiest::{TopClient, TopDirectory};
use crate::table::bytes;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table, Widget};

/// Rows of servers that are shown; operations and clients are to have room, too.
const SERVERS_SHOWN_MAX: usize = 16;
/// Rows of directories that are shown, and of clients.
const BUSIEST_SHOWN_MAX: usize = 5;

/// Draws everything. What does not fit is cut off.
pub(super) fn draw(sample: &Sample, area: Rect, buffer: &mut Buffer) {
    let servers = sample.servers.len().min(SERVERS_SHOWN_MAX);
    let directories = sample.directories.len().min(BUSIEST_SHOWN_MAX);
    let clients = sample.busiest_clients.len().min(BUSIEST_SHOWN_MAX);
    let height = |rows: usize| Constraint::Length(u16::try_from(rows + 2).unwrap_or(u16::MAX));
    let parts = [
        height(servers),
        Constraint::Min(3),
        height(directories),
        height(clients),
        Constraint::Length(1),
    ];
    let [top, middle, names, low, foot] = Layout::vertical(parts).areas(area);
    let rows = sample.servers.iter().take(servers).map(server);
    let head = ["SERVER", "STATE", "READ", "WRITTEN", "REQUESTS"];
    table(head, [16, 24, 14, 14, 12], rows.collect(), top, buffer);
    let rows = sample.operations.iter().map(operation);
    let head = ["OPERATION", "TRANSPORT", "RATE", "P50", "P99"];
    table(head, [24, 16, 14, 14, 12], rows.collect(), middle, buffer);
    let rows = sample.directories.iter().take(directories).map(directory);
    table(
        ["DIRECTORY", "RATE"],
        [56, 14],
        rows.collect(),
        names,
        buffer,
    );
    let rows = sample.busiest_clients.iter().take(clients).map(client);
    let head = ["CLIENT", "PROTOCOL", "RATE", "READ", "WRITTEN"];
    table(head, [32, 10, 14, 14, 14], rows.collect(), low, buffer);
    Line::from("q: quit").dim().render(foot, buffer);
}

fn table<const N: usize>(
    head: [&str; N],
    widths: [u16; N],
    rows: Vec<Row<'_>>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let widths = widths.map(Constraint::Length);
    let table = Table::new(rows, widths).header(Row::new(head.map(str::to_owned)).bold());
    Widget::render(table, area, buffer);
}

fn server(row: &ServerRates) -> Row<'static> {
    let requests = row
        .requests_per_s
        .map_or_else(|| "-".to_owned(), per_second);
    let cells = [
        row.name.clone(),
        row.state.clone(),
        bytes_per_second(row.read_bytes_per_s),
        bytes_per_second(row.written_bytes_per_s),
        requests,
    ];
    let is_well = matches!(row.state.as_str(), "serving" | "draining");
    let style = if is_well {
        Style::new()
    } else {
        Style::new().fg(Color::Red)
    };
    Row::new(cells).style(style)
}

fn operation(row: &OperationRates) -> Row<'static> {
    Row::new([
        row.operation.clone(),
        row.transport.clone(),
        per_second(row.per_s),
        time(row.p50_us),
        time(row.p99_us),
    ])
}

fn directory(row: &TopDirectory) -> Row<'static> {
    Row::new([row.name(), per_second(row.operations_per_s)])
}

fn client(row: &TopClient) -> Row<'static> {
    Row::new([
        row.name(),
        row.protocol.clone(),
        per_second(row.operations_per_s),
        bytes_per_second(row.read_bytes_per_s),
        bytes_per_second(row.written_bytes_per_s),
    ])
}

fn per_second(rate: f64) -> String {
    format!("{rate:.0}/s")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate for people: never negative, and `as` saturates"
)]
fn bytes_per_second(rate: f64) -> String {
    format!("{}/s", bytes(rate as u64))
}

fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn sample() -> Sample {
        let server = |name: &str, state: &str| ServerRates {
            name: name.to_owned(),
            state: state.to_owned(),
            read_bytes_per_s: 2048.0,
            requests_per_s: (name == "mds").then_some(12.0),
            ..ServerRates::default()
        };
        Sample {
            interval_seconds: 1.0,
            servers: vec![server("mds", "serving"), server("ds 2", "away")],
            operations: vec![OperationRates {
                operation: "Write".to_owned(),
                transport: "rdma".to_owned(),
                per_s: 7.0,
                p50_us: 90,
                p99_us: 1_250,
            }],
            directories: vec![
                TopDirectory {
                    path: Some("/home/bob".to_owned()),
                    operations_per_s: 31.0,
                    ..TopDirectory::default()
                },
                TopDirectory {
                    inode: 77,
                    operations_per_s: 2.0,
                    ..TopDirectory::default()
                },
            ],
            busiest_clients: vec![TopClient {
                owner: "Linux host".to_owned(),
                protocol: "NFSv4.2".to_owned(),
                operations_per_s: 33.0,
                written_bytes_per_s: 4096.0,
                ..TopClient::default()
            }],
            ..Sample::default()
        }
    }

    fn drawn(width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let sample = sample();
        let frame = terminal.draw(|f| draw(&sample, f.area(), f.buffer_mut()));
        frame.unwrap();
        terminal.backend().buffer().clone()
    }

    fn lines(buffer: &Buffer) -> Vec<String> {
        let width = usize::from(buffer.area.width);
        let rows = buffer.content.chunks(width);
        rows.map(|row| row.iter().map(|c| c.symbol()).collect::<String>())
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    }

    #[test]
    fn servers_operations_directories_and_clients_are_drawn_one_under_another() {
        let buffer = drawn(90, 18);
        let lines = lines(&buffer);
        assert_eq!(lines[0], "SERVER STATE READ WRITTEN REQUESTS");
        assert_eq!(lines[1], "mds serving 2.0 KiB/s 0 B/s 12/s");
        assert_eq!(lines[2], "ds 2 away 2.0 KiB/s 0 B/s -");
        assert_eq!(lines[4], "OPERATION TRANSPORT RATE P50 P99");
        assert_eq!(lines[5], "Write rdma 7/s 90 µs 1.2 ms");
        assert!(
            lines.contains(&"Linux host NFSv4.2 33/s 0 B/s 4.0 KiB/s".to_owned()),
            "{lines:?}"
        );
        let at = lines.iter().position(|l| l == "DIRECTORY RATE").unwrap();
        assert_eq!(lines[at + 1..at + 3], ["/home/bob 31/s", "inode 77 2/s"]);
        assert_eq!(lines.last().unwrap(), "q: quit");
        assert_eq!(buffer[(0, 2)].fg, Color::Red);
        assert_ne!(buffer[(0, 1)].fg, Color::Red);
    }

    #[test]
    fn a_small_terminal_cuts_off_and_nothing_else() {
        for (width, height) in [(1, 1), (10, 3), (200, 2)] {
            drawn(width, height);
        }
    }
}
