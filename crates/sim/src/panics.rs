//! Panics of any task of a run: the runtime would hide those of tasks that nobody joins.
//!
//! A run is one thread, so a hook that counts by thread tells whose they are.

use std::cell::RefCell;
use std::sync::Once;

/// Panics kept of one run.
const PANICS_MAX: usize = 10;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

static INSTALLED: Once = Once::new();

/// Begins to count on this thread.
pub(crate) fn watch() {
    INSTALLED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            SEEN.with_borrow_mut(|seen| {
                if seen.len() < PANICS_MAX {
                    seen.push(info.to_string().replace('\n', " "));
                }
            });
            before(info);
        }));
    });
    SEEN.with_borrow_mut(Vec::clear);
}

/// The panics of this thread since then.
pub(crate) fn seen() -> Vec<String> {
    SEEN.with_borrow_mut(std::mem::take)
}
