//! A locked table with a lock-free summary: most requests learn "nothing here" without the mutex.
//!
//! # Ordering
//! The summary is stored before the mutex is released. Code that learned in any way of a change under the mutex sees
//! the summary of that change.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use tracing_mutex::parkinglot::{Mutex, MutexGuard};

/// A table that can say in a few bits what it holds, at once.
pub trait Facts {
    /// The bits, whose meaning is the table's.
    fn facts(&self) -> u8;
}

/// The one bit of a table of which only emptiness matters.
pub(crate) const SOME: u8 = 1;

/// A table, its mutex, and its facts beside it.
#[derive(Debug)]
pub(crate) struct Hinted<T> {
    table: Mutex<T>,
    facts: AtomicU8,
}

impl<T: Facts> Hinted<T> {
    pub(crate) fn new(table: T) -> Self {
        Self {
            facts: AtomicU8::new(table.facts()),
            table: Mutex::new(table),
        }
    }

    /// Whether any of these bits is set.
    pub(crate) fn has(&self, facts: u8) -> bool {
        self.facts.load(Ordering::Acquire) & facts != 0
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        Guard {
            table: self.table.lock(),
            facts: &self.facts,
        }
    }
}

impl<T: Facts + Default> Default for Hinted<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// The mutex of a [`Hinted`] is held.
#[derive(Debug)]
pub struct Guard<'a, T: Facts> {
    table: MutexGuard<'a, T>,
    facts: &'a AtomicU8,
}

impl<T: Facts> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.table
    }
}

impl<T: Facts> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.table
    }
}

impl<T: Facts> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        let facts = self.table.facts();
        // As a rule nothing has changed, and all processors keep their copy.
        if self.facts.load(Ordering::Relaxed) != facts {
            self.facts.store(facts, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Facts for Vec<u32> {
        fn facts(&self) -> u8 {
            if self.is_empty() { 0 } else { SOME }
        }
    }

    #[test]
    fn what_a_table_holds_is_known_as_soon_as_it_is_given_back() {
        let hinted = Hinted::new(vec![1]);
        assert!(hinted.has(SOME));
        hinted.lock().clear();
        assert!(!hinted.has(SOME));
        let mut held = hinted.lock();
        held.push(2);
        assert_eq!(*held, [2]);
        drop(held);
        assert!(hinted.has(SOME));
        assert!(!hinted.has(SOME << 1));
    }
}
