//! What the client counts: where data went, and how often it had to recover.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! stats {
    ($( $(#[$meta:meta])* $name:ident, )*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Stats {
            $( pub(crate) $name: AtomicU64, )*
        }

        /// Counters at one moment.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct StatsSnapshot {
            $( $(#[$meta])* pub $name: u64, )*
        }

        impl Stats {
            pub(crate) fn snapshot(&self) -> StatsSnapshot {
                StatsSnapshot { $( $name: self.$name.load(Relaxed), )* }
            }
        }

        impl StatsSnapshot {
            /// Names and values.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$( (stringify!($name), self.$name), )*]
            }
        }
    };
}

stats! {
    /// Bytes read from data servers.
    ds_read_bytes,
    /// Bytes written to data servers.
    ds_written_bytes,
    /// Bytes read through the MDS.
    mds_read_bytes,
    /// Bytes written through the MDS.
    mds_written_bytes,
    /// LAYOUTGETs that were granted.
    layouts_granted,
    /// LAYOUTGETs that were refused.
    layouts_refused,
    /// Recalls of layouts.
    layouts_recalled,
    /// READs, WRITEs and COMMITs that a data server failed, so that the layout was given up.
    ds_failures,
    /// READs and WRITEs that went through the MDS because data servers failed them.
    mds_fallbacks,
    /// Bytes that were sent again because a server had lost them before their COMMIT.
    resent_bytes,
    /// Sessions that were made anew.
    sessions_recovered,
    /// Opens that were reclaimed or made anew after the server had lost them.
    opens_recovered,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}
