//! What a server has told lately, for pages that show it: the newest lines of its log, in memory.

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

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
    /// Its number since the server's start, from 1.
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
}

/// The newest events of a server.
#[derive(Debug)]
pub struct Events {
    kept: Mutex<Kept>,
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Event>,
    newest: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            newest: watch::Sender::new(0),
        }
    }
}

impl Events {
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

    /// At most `limit` events with ids above `after`.
    #[must_use]
    pub fn page(&self, after: u64, limit: usize) -> EventPage {
        let kept = self.kept.lock();
        let mut later = kept.events.iter().filter(|e| e.id > after);
        let events: Vec<Event> = later.by_ref().take(limit).cloned().collect();
        let has_more = later.next().is_some();
        let last = events.last().map(|e| e.id);
        EventPage {
            next: last.filter(|_| has_more),
            events,
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
        let events = Events::default();
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
}
