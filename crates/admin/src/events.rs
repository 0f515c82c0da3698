//! What a server has told lately, for pages that show it: the newest lines of its log, in memory.
//!
//! # Ordering
//! Ids have no gaps while a server runs, and begin above those of its earlier starts. So who names the last id that it has seen is told
//! what followed, or that something is gone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tracing_mutex::parkinglot::Mutex;

/// Target of all lines `audit:`. Whoever filters the log lets them through, whatever its level is.
pub const AUDIT_TARGET: &str = "ropewalk::audit";
/// Most events that are kept; the oldest go first.
pub const EVENTS_MAX: usize = 512;
/// Longest text of an event in bytes; the rest is cut off.
const TEXT_BYTES_MAX: usize = 1024;

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something that is to be expected.
    Info,
    /// Something that somebody should look at.
    Warn,
    /// Something that failed.
    Error,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number: one above that of the event before. The first follows the time of the server's start, in microseconds since 1970.
    pub id: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// How much it matters.
    pub level: Level,
    /// What has happened.
    pub text: String,
}

/// Events after an id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    /// Oldest first.
    pub events: Vec<Event>,
    /// Ask with `after` = this for those that follow; without it there are none yet.
    pub next: Option<u64>,
    /// Whether events between `after` and these are gone: there were too many, or the server has begun anew.
    #[serde(default)]
    pub missed: bool,
}

/// The newest events of a server.
#[derive(Debug)]
pub struct Events {
    kept: Mutex<Kept>,
    newest: watch::Sender<u64>,
}

#[derive(Debug)]
struct Kept {
    events: VecDeque<Event>,
    newest: u64,
}

impl Default for Events {
    fn default() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let us = since.map_or(0, |since| since.as_micros());
        Self::after(u64::try_from(us).unwrap_or(0))
    }
}

impl Events {
    /// The id of the first event follows this one.
    fn after(newest: u64) -> Self {
        let events = VecDeque::new();
        Self {
            kept: Mutex::new(Kept { events, newest }),
            newest: watch::Sender::new(newest),
        }
    }

    /// Keeps an event.
    pub fn record(&self, level: Level, mut text: String) {
        if text.len() > TEXT_BYTES_MAX {
            let fits = |at: &usize| text.is_char_boundary(*at);
            let end = (0..=TEXT_BYTES_MAX).rev().find(fits).unwrap_or(0);
            text.truncate(end);
        }
        let mut kept = self.kept.lock();
        kept.newest += 1;
        let id = kept.newest;
        if kept.events.len() == EVENTS_MAX {
            kept.events.pop_front();
        }
        kept.events.push_back(Event {
            id,
            at_ms: now_ms(),
            level,
            text,
        });
        drop(kept);
        self.newest.send_replace(id);
    }

    /// At most `limit` events with ids above `after`; 0 is before all. All that are kept follow an id that was never given.
    #[must_use]
    pub fn page(&self, after: u64, limit: usize) -> EventPage {
        let kept = self.kept.lock();
        let oldest = kept.events.front().map_or(kept.newest + 1, |e| e.id);
        let is_known = (oldest - 1..=kept.newest).contains(&after);
        let missed = !is_known && after != 0;
        let after = if after > kept.newest { 0 } else { after };
        let mut later = kept.events.iter().filter(|e| e.id > after);
        let events: Vec<Event> = later.by_ref().take(limit).cloned().collect();
        let has_more = later.next().is_some();
        let last = events.last().map(|e| e.id);
        EventPage {
            next: last.filter(|_| has_more),
            events,
            missed,
        }
    }

    /// Tells the id of the newest event, each time that there is one.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.map_or(0, |since| since.as_millis());
    u64::try_from(ms).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! Goal: the newest events are there in bounded memory, and a page says whether more follow.
    use super::*;

    #[test]
    fn the_oldest_go_and_pages_follow_each_other() {
        let events = Events::after(0);
        assert_eq!(events.page(0, 10), EventPage::default());
        for n in 0..EVENTS_MAX + 3 {
            events.record(Level::Info, format!("event {n}"));
        }
        let first = events.page(0, 2);
        assert_eq!(first.events[0].text, "event 3");
        assert_eq!(first.next, Some(5));
        let rest = events.page(5, EVENTS_MAX);
        assert_eq!((rest.events.len(), rest.next), (EVENTS_MAX - 2, None));
        events.record(Level::Error, "\u{fc}".repeat(TEXT_BYTES_MAX));
        let last = &events.page(rest.events.last().unwrap().id, 9).events[0];
        assert_eq!(last.text.len(), TEXT_BYTES_MAX);
        assert!(last.text.chars().all(|c| c == '\u{fc}'));
    }

    #[test]
    fn who_was_there_before_a_restart_is_told_that_something_is_gone() {
        let before = Events::default();
        before.record(Level::Info, "one".to_owned());
        let seen = before.page(0, 9).events[0].id;
        let ids = |page: EventPage| -> (Vec<u64>, bool) {
            (page.events.iter().map(|e| e.id).collect(), page.missed)
        };
        // A server needs far more than a microsecond for each event.
        let start = seen + 1_000_000;
        let events = Events::after(start);
        assert_eq!(ids(events.page(seen, 9)), (vec![], true));
        assert_eq!(ids(events.page(start, 9)), (vec![], false));
        for n in 0..3 {
            events.record(Level::Info, format!("event {n}"));
        }
        let all = vec![start + 1, start + 2, start + 3];
        for (after, ids_after, missed) in [
            (0, &all[..], false),
            (1, &all, true),
            (seen, &all, true),
            (start - 1, &all, true),
            (start, &all, false),
            (start + 1, &all[1..], false),
            (start + 3, &[], false),
            // A clock that went back: the id is of another start.
            (start + 4, &all, true),
            (u64::MAX, &all, true),
        ] {
            let page = events.page(after, 9);
            assert_eq!(ids(page), (ids_after.to_vec(), missed), "{after}");
        }
        for n in 0..EVENTS_MAX {
            events.record(Level::Info, format!("event {n}"));
        }
        assert!(!events.page(start + 3, 9).missed);
        assert!(events.page(start + 2, 9).missed);
    }
}
