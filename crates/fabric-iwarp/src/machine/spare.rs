//! Inboxes that nobody has: a connection has one only while bytes arrive, and most have none.

use std::cell::RefCell;

/// Size of a new inbox.
pub(super) const INBOX_BYTES_MIN: usize = 4 * 1024;
/// Inboxes that a thread keeps.
const SPARES_MAX: usize = 4;

thread_local! {
    static SPARES: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An inbox of [`INBOX_BYTES_MIN`], or none.
pub(super) fn take() -> Vec<u8> {
    SPARES.with_borrow_mut(|spares| spares.pop().unwrap_or_default())
}

/// Keeps an inbox for the next one who takes one, unless it has another size.
pub(super) fn give(inbox: Vec<u8>) {
    SPARES.with_borrow_mut(|spares| {
        if inbox.len() == INBOX_BYTES_MIN && spares.len() < SPARES_MAX {
            spares.push(inbox);
        }
    });
}
