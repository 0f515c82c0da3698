//! What the servers counted during a step of the demo, and whether that is what was asked for.

use crate::admin::{Request, SOCKET_NAME};
use crate::failure::{Outcome, failed};
use crate::status::ServerStatus;
use crate::table::bytes as shown;
use crate::up::cluster::ask_async;
use crate::up::plan::Plan;
use std::collections::BTreeMap;

/// Share of the bytes, in percent, that must have gone the way that was asked for.
const CARRIED_PERCENT_MIN: u64 = 95;
/// Most bytes that are copied between the network and the stores, in percent of the bytes: each once, and what is small.
const COPIED_PERCENT_MAX: u64 = 105;
/// What the transport and the stores count as copied.
const COPIED: [&str; 4] = [
    "stream_copied_bytes",
    "rdma_copied_bytes",
    "rdma_file_bytes",
    "store_copied_bytes",
];

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Tcp,
    Rdma,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Rdma => "RDMA",
        })
    }
}

/// What all data servers counted so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Bytes that clients wrote or read.
    client: u64,
    /// Bytes that the metadata server wrote or read for clients.
    proxied: u64,
    /// Bytes of WRITEs fetched by RDMA Read and of READs placed by RDMA Write.
    chunks: u64,
    /// Bytes of READs sent over TCP.
    tcp_payload: u64,
    /// Bytes copied on their way to the stores or from there.
    copied: u64,
}

impl Counts {
    pub(super) async fn ask(plan: &Plan) -> Outcome<Self> {
        let mut sum = Self::default();
        for member in &plan.ds {
            let status = ask_async(member.dir.join(SOCKET_NAME), Request::Status).await?;
            let ServerStatus::Ds(ds) = status else {
                return Err(failed(format!("{} is not a data server", member.name)));
            };
            sum.client += ds.client_written_bytes + ds.client_read_bytes;
            sum.proxied += ds.proxy_read_bytes + ds.proxy_written_bytes;
            sum.chunks += chunks(
                &ds.transport,
                ["rdma_read_chunk_bytes_in", "rdma_write_chunk_bytes_out"],
            );
            sum.tcp_payload += [
                "payload_sendfile_bytes",
                "payload_copy_bytes",
                "payload_memory_bytes",
            ]
            .iter()
            .map(|name| count(&ds.transport, name))
            .sum::<u64>();
            let copied = |name| count(&ds.transport, name) + count(&ds.counters, name);
            sum.copied += COPIED.into_iter().map(copied).sum::<u64>();
        }
        Ok(sum)
    }
}

fn count(counters: &BTreeMap<String, u64>, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or(0)
}

fn chunks(counters: &BTreeMap<String, u64>, names: [&str; 2]) -> u64 {
    names.iter().map(|name| count(counters, name)).sum()
}

/// One direction of a leg.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    way: Way,
    client: u64,
    proxied: u64,
    chunks: u64,
    /// What did not go by chunks: all WRITEs over TCP, and READs by their own counter.
    tcp_payload: u64,
    copied: u64,
}

impl Step {
    pub(super) fn new(way: Way, before: &Counts, after: &Counts) -> Self {
        let client = after.client - before.client;
        let chunks = after.chunks - before.chunks;
        let sent = after.tcp_payload - before.tcp_payload;
        Self {
            way,
            client,
            proxied: after.proxied - before.proxied,
            chunks,
            tcp_payload: sent.max(client.saturating_sub(chunks)),
            copied: after.copied - before.copied,
        }
    }

    /// What is wrong with it, if anything.
    fn fault(&self, size: u64) -> Option<String> {
        let enough = |bytes: u64| bytes >= size / 100 * CARRIED_PERCENT_MIN;
        if !enough(self.client) {
            let carried = shown(self.client);
            return Some(format!(
                "the data servers carried {carried} of {}",
                shown(size)
            ));
        }
        if self.proxied > 0 {
            let proxied = shown(self.proxied);
            return Some(format!("{proxied} went through the metadata server"));
        }
        if self.copied > size / 100 * COPIED_PERCENT_MAX {
            let copied = shown(self.copied);
            return Some(format!("{copied} were copied for {}", shown(size)));
        }
        let (wrong, name) = match self.way {
            Way::Rdma if !enough(self.chunks) => {
                (size - self.chunks.min(size), "other ways than RDMA chunks")
            }
            Way::Rdma => (self.tcp_payload, "TCP"),
            Way::Tcp => (self.chunks, "RDMA"),
        };
        (wrong > 0).then(|| {
            format!(
                "{} of {} took {name} and not {}",
                shown(wrong),
                shown(size),
                self.way
            )
        })
    }

    fn row(&self, what: &str) -> Vec<String> {
        vec![
            format!("{what} over {}", self.way),
            shown(self.client),
            shown(self.chunks),
            shown(self.tcp_payload),
            shown(self.proxied),
            shown(self.copied),
        ]
    }
}

/// In one way, out another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) size: u64,
    /// What was read is what was written.
    pub(super) same: bool,
    pub(super) inward: Step,
    pub(super) outward: Step,
}

impl Leg {
    pub(super) fn rows(&self) -> [Vec<String>; 2] {
        [self.inward.row("in"), self.outward.row("out")]
    }

    pub(super) fn judge(&self) -> Outcome {
        if !self.same {
            return Err(failed("demo failed: what was read is not what was written"));
        }
        let fault = self.inward.fault(self.size);
        match fault.or_else(|| self.outward.fault(self.size)) {
            None => Ok(()),
            Some(fault) => Err(failed(format!("demo failed: {fault}"))),
        }
    }
}

/// What the metadata server wrote and read for a client without a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proxied {
    size: u64,
    same: bool,
    /// Bytes that its data servers fetched from it and placed at it.
    chunks: u64,
    fallbacks: u64,
}

impl Proxied {
    pub(super) fn new(
        size: u64,
        same: bool,
        before: &BTreeMap<String, u64>,
        after: &BTreeMap<String, u64>,
    ) -> Self {
        let moved = |c| {
            chunks(
                c,
                ["rdma_read_chunk_bytes_out", "rdma_write_chunk_bytes_in"],
            )
        };
        Self {
            size,
            same,
            chunks: moved(after) - moved(before),
            fallbacks: count(after, "rdma_fallbacks"),
        }
    }

    pub(super) fn rows(&self) -> [Vec<String>; 1] {
        let both = self.size * 2;
        [vec![
            "by the MDS over RDMA".to_owned(),
            shown(both),
            shown(self.chunks),
            shown(both.saturating_sub(self.chunks)),
            shown(both),
            "-".to_owned(),
        ]]
    }

    pub(super) fn judge(&self) -> Outcome {
        if !self.same {
            return Err(failed(
                "demo failed: what was read through the metadata server is not what was written",
            ));
        }
        if self.fallbacks > 0 || self.chunks < self.size * 2 / 100 * CARRIED_PERCENT_MIN {
            return Err(failed(format!(
                "demo failed: of {} the metadata server moved {} over RDMA, and fell back to TCP {} times",
                shown(self.size * 2),
                shown(self.chunks),
                self.fallbacks
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the demo fails whenever it should.
    use super::*;

    fn step(way: Way) -> Step {
        let (chunks, tcp_payload) = match way {
            Way::Rdma => (950, 0),
            Way::Tcp => (0, 1000),
        };
        Step {
            way,
            client: 1000,
            proxied: 0,
            chunks,
            tcp_payload,
            copied: 1000,
        }
    }

    fn leg() -> Leg {
        Leg {
            size: 1000,
            same: true,
            inward: step(Way::Rdma),
            outward: step(Way::Tcp),
        }
    }

    #[test]
    fn only_data_that_went_the_way_asked_for_pass() {
        assert_eq!(leg().judge(), Ok(()));
        let mut bad = vec![Leg {
            same: false,
            ..leg()
        }];
        for wrong in [
            Step {
                client: 949,
                ..step(Way::Rdma)
            },
            Step {
                proxied: 1,
                ..step(Way::Rdma)
            },
            Step {
                chunks: 949,
                ..step(Way::Rdma)
            },
            Step {
                tcp_payload: 1,
                ..step(Way::Rdma)
            },
            Step {
                chunks: 1,
                ..step(Way::Tcp)
            },
            Step {
                copied: 1051,
                ..step(Way::Tcp)
            },
        ] {
            bad.push(Leg {
                inward: wrong.clone(),
                ..leg()
            });
            bad.push(Leg {
                outward: wrong,
                ..leg()
            });
        }
        for bad in bad {
            assert!(bad.judge().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_step_counts_what_came_since() {
        let before = Counts {
            client: 5,
            proxied: 1,
            chunks: 2,
            tcp_payload: 3,
            copied: 4,
        };
        let after = Counts {
            client: 1005,
            proxied: 1,
            chunks: 902,
            tcp_payload: 3,
            copied: 1004,
        };
        let step = Step::new(Way::Rdma, &before, &after);
        assert_eq!(
            (step.client, step.chunks, step.tcp_payload),
            (1000, 900, 100)
        );
        assert_eq!((step.proxied, step.copied), (0, 1000));
    }

    #[test]
    fn the_metadata_server_must_have_used_rdma() {
        let counters = |bytes: u64, fallbacks: u64| {
            BTreeMap::from([
                ("rdma_read_chunk_bytes_out".to_owned(), bytes),
                ("rdma_write_chunk_bytes_in".to_owned(), bytes),
                ("rdma_fallbacks".to_owned(), fallbacks),
            ])
        };
        let none = counters(0, 0);
        let judged = |same, after| Proxied::new(1000, same, &none, &after).judge();
        assert_eq!(judged(true, counters(1000, 0)), Ok(()));
        assert!(judged(false, counters(1000, 0)).is_err());
        assert!(judged(true, counters(900, 0)).is_err());
        assert!(judged(true, counters(1000, 1)).is_err());
    }
}
