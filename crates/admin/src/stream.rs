//! The event stream that pages follow: a sample of the state each second, and what the server tells (WHATWG HTML §9.2).
//!
//! # Ordering
//! A reader that is slow misses samples; it never makes anybody wait. Events come once each, in order. A reader that names the last
//! event that it has seen gets those that followed. What is gone meanwhile is told as `missed`.
//!
//! # Failure
//! A reader that takes nothing for [`READER_MAX`] loses its place, and its connection as any other that takes nothing. What waits for it is
//! at most [`PIECES_WAITING`] pieces. The stream of a token that is revoked ends.

use crate::desk::Desk;
use crate::events::{EventPage, now_ms};
use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body_util::channel::{Channel, Sender};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Where a reader names the event that it has seen last.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Time from one sample to the next.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// A comment is sent as often, so that a dead connection is noticed.
const COMMENT_EVERY: Duration = Duration::from_secs(15);
/// How long a reader may take for one piece.
pub(crate) const READER_MAX: Duration = Duration::from_secs(30);
/// Events in one piece.
const EVENTS_IN_PIECE: usize = 64;
/// Pieces that wait for a reader.
const PIECES_WAITING: usize = 2;

/// Takes a sample each second while somebody follows, until the task is dropped. Needs a runtime.
pub async fn run_samples(desk: Arc<dyn Desk>) {
    let mut ticks = interval(SAMPLE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let newest = &desk.samples().newest;
        if newest.receiver_count() == 0 {
            continue;
        }
        let Ok(mut data) = desk.sample() else {
            continue;
        };
        data["at_ms"] = now_ms().into();
        newest.send_replace(piece("sample", &data.to_string()));
    }
}

fn piece(event: &str, data: &str) -> Bytes {
    // JSON has no bare line break, so that one data line has all.
    format!("event: {event}\ndata: {data}\n\n").into()
}

/// The events of a page. Ids let a reader go on where a stream has ended.
fn pieces(page: &EventPage) -> Bytes {
    let missed = page.missed.then(|| piece("missed", "{}"));
    let logged = page.events.iter().filter_map(|event| {
        let text = serde_json::to_string(event).ok()?;
        let id = event.id;
        Some(format!("id: {id}\nevent: log\ndata: {text}\n\n").into())
    });
    missed.into_iter().chain(logged).flatten().collect()
}

/// The event that a reader says it has seen last (WHATWG HTML §9.2.4). What is no id of ours is before all that there is.
pub(crate) fn last_seen(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(LAST_EVENT_ID)?;
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    Some(id.unwrap_or(u64::MAX))
}

/// The body of one stream, with the events after `last_seen`. It ends when `is_welcome` says no.
pub(crate) fn body(
    desk: Arc<dyn Desk>,
    place: OwnedSemaphorePermit,
    last_seen: Option<u64>,
    is_welcome: impl Fn() -> bool + Send + 'static,
) -> Channel<Bytes, Infallible> {
    let (sender, body) = Channel::new(PIECES_WAITING);
    tokio::spawn(async move {
        let _place = place;
        feed(&*desk, sender, last_seen, is_welcome).await;
    });
    body
}

/// The body of no stream: what HEAD is answered with.
pub(crate) fn no_body() -> Channel<Bytes, Infallible> {
    Channel::new(1).1
}

async fn feed(
    desk: &dyn Desk,
    mut sender: Sender<Bytes, Infallible>,
    last_seen: Option<u64>,
    is_welcome: impl Fn() -> bool,
) {
    let mut samples = desk.samples().newest.subscribe();
    let mut events = desk.events().follow();
    let mut comments = interval(COMMENT_EVERY);
    let newest = *events.borrow_and_update();
    let mut told = last_seen.unwrap_or(newest);
    if told != newest {
        events.mark_changed();
    }
    loop {
        let piece = tokio::select! {
            changed = samples.changed() => match changed {
                Ok(()) => samples.borrow_and_update().clone(),
                Err(_) => return,
            },
            changed = events.changed() => match changed {
                Ok(()) => {
                    let newest = *events.borrow_and_update();
                    let page = desk.events().page(told, EVENTS_IN_PIECE);
                    if page.next.is_some() {
                        events.mark_changed();
                    }
                    told = page.events.last().map_or(newest, |e| e.id);
                    pieces(&page)
                }
                Err(_) => return,
            },
            _ = comments.tick() => Bytes::from_static(b":\n\n"),
        };
        if !is_welcome() {
            return;
        }
        match timeout(READER_MAX, sender.send_data(piece)).await {
            Ok(Ok(())) => {}
            _ => return,
        }
    }
}
