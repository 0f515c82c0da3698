//! `ropewalk top`: what servers do now, second by second.
//!
//! Owns the terminal while it runs, and gives it back. May ask servers. Rates are made in `sample`, and drawn in
//! `draw`, by functions that know neither a clock nor a terminal.

mod draw;
mod sample;

use crate::admin::{MdsPlace, Request, Server, ask};
use crate::busiest::TopPage;
use crate::clients::ClientPage;
use crate::failure::{Outcome, cannot, failed};
use crate::status::{ask_all, servers_of};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use sample::{Reading, Sample, rates};
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);

/// `ropewalk top`.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    place: MdsPlace,
    /// Print the rates of each second as a line of JSON; needs no terminal
    #[arg(long)]
    json: bool,
    /// With --json: end after so many lines
    #[arg(long, value_name = "N", requires = "json")]
    count: Option<u64>,
}

/// `ropewalk top`.
pub(crate) fn run(args: &TopArgs) -> Outcome {
    let servers = servers_of(&args.place)?;
    if args.json {
        return print(&servers, args.count);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(failed(
            "there is no terminal to draw on; `ropewalk top --json` prints a line each second",
        ));
    }
    let mut terminal = ratatui::try_init().map_err(cannot("prepare the terminal"))?;
    let shown = show(&servers, &mut terminal);
    ratatui::restore();
    shown
}

fn read(servers: &[Server]) -> (Instant, Reading) {
    let told = ask_all(servers);
    let is_mds = |server: &&Server| {
        let status = told.get(&crate::status::name_of(server));
        matches!(status, Some(Ok(crate::status::ServerStatus::Mds(_))))
    };
    let mds = servers.iter().find(is_mds);
    let reading = Reading {
        clients: mds.map(clients_of).unwrap_or_default(),
        busiest: mds.map(busiest_of).unwrap_or_default(),
        servers: told,
    };
    (Instant::now(), reading)
}

/// The first page of clients. A server of an earlier version has none.
fn clients_of(server: &Server) -> ClientPage {
    ask(
        server,
        &Request::ClientList {
            after: None,
            limit: None,
        },
    )
    .unwrap_or_default()
}

/// The busiest of the last half minute to minute. A server of an earlier version has none.
fn busiest_of(server: &Server) -> TopPage {
    ask(server, &Request::Top { limit: None }).unwrap_or_default()
}

fn between(before: &(Instant, Reading), after: &(Instant, Reading)) -> Sample {
    rates(&before.1, &after.1, after.0.duration_since(before.0))
}

fn print(servers: &[Server], count: Option<u64>) -> Outcome {
    let mut before = read(servers);
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        std::thread::sleep(INTERVAL);
        let after = read(servers);
        let line = serde_json::to_string(&between(&before, &after));
        let line = line.map_err(cannot("write JSON"))?;
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{line}").and_then(|()| out.flush()) {
            // The reader has enough.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(cannot("write to standard output"))?,
        }
        before = after;
        left -= 1;
    }
    Ok(())
}

fn show(servers: &[Server], terminal: &mut ratatui::DefaultTerminal) -> Outcome {
    let mut before = read(servers);
    let mut sample = between(&before, &before);
    loop {
        let drawn = terminal.draw(|frame| draw::draw(&sample, frame.area(), frame.buffer_mut()));
        drawn.map_err(cannot("draw"))?;
        if asks_to_end(before.0 + INTERVAL).map_err(cannot("read the keyboard"))? {
            return Ok(());
        }
        if before.0.elapsed() < INTERVAL {
            // The size changed.
            continue;
        }
        let after = read(servers);
        sample = between(&before, &after);
        before = after;
    }
}

/// Waits for a key until then. Whether it is one that ends the program.
fn asks_to_end(until: Instant) -> std::io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(false);
        }
        match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Press => {
                let is_interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(true);
                }
            }
            Event::Resize(..) => return Ok(false),
            _ => {}
        }
    }
}
