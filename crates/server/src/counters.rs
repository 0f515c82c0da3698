//! What the engine counts, for `ropewalk status` and the metrics.

use crate::Latencies;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one [`crate::Nfsd`].
#[derive(Debug)]
pub struct Counters {
    /// COMPOUNDs whose header could be read.
    pub compounds: AtomicU64,
    /// Requests answered from the reply cache.
    pub replays: AtomicU64,
    /// Records that were no RPC call, and COMPOUNDs with a header or an operation that could not be decoded.
    pub malformed: AtomicU64,
    /// Calls refused for their RPC version, credential or address.
    pub refused: AtomicU64,
    /// EXCHANGE_IDs of a client owner that another machine has, too.
    pub name_clashes: AtomicU64,
    /// How long COMPOUNDs take, by the number of the operation that names them. Retries that the reply cache answers are
    /// left out.
    pub latencies: Latencies,
    /// The same of NFSv3, by procedure.
    pub nfs3_latencies: Latencies,
    ops: Box<[AtomicU64]>,
}

/// Procedures of NFSv3 (RFC 1813 §3).
const NFS3_PROCEDURES_COUNT: usize = 22;

impl Default for Counters {
    fn default() -> Self {
        let last = nfs4::OpNum::ALL
            .iter()
            .map(|op| *op as usize)
            .filter(|n| *n < 1024)
            .max();
        let ops_count = last.unwrap_or(0) + 1;
        Self {
            compounds: AtomicU64::new(0),
            replays: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            name_clashes: AtomicU64::new(0),
            latencies: Latencies::new(ops_count),
            nfs3_latencies: Latencies::new(NFS3_PROCEDURES_COUNT),
            ops: (0..ops_count).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn op(&self, op: nfs4::OpNum) {
        if let Some(counter) = self.ops.get(op as usize) {
            Self::add(counter);
        }
    }

    /// Operations executed, by number, those never called left out.
    pub fn by_op(&self) -> impl Iterator<Item = (nfs4::OpNum, u64)> + '_ {
        let count = |op: &nfs4::OpNum| self.ops.get(*op as usize).map_or(0, |c| c.load(Relaxed));
        nfs4::OpNum::ALL
            .iter()
            .map(move |op| (*op, count(op)))
            .filter(|(_, n)| *n > 0)
    }
}
