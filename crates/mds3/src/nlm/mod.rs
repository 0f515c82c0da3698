//! NLM version 4 at the metadata server (RFC 1813 Appendix II): locks of NFSv3 clients, on the same files as those of NFSv4. And NSM,
//! by which hosts say that they have restarted.
//!
//! A host is named by its address and by the name that it gives itself. Both must be the same for what it locks and unlocks.
//!
//! # Ordering
//! A waiting request is granted in the lock table first. Then `granted` tells the host. A host that cannot be told keeps the lock: it
//! asks again by itself, and is told then.
//!
//! # Failure
//! The server remembers hosts that hold locks, and tells them after a restart (`restart`), so that they reclaim in the grace period.
//! A host that dies and never restarts keeps its locks, since NLM has no lease. An administrator ends that.
//!
//! May call: `fs`, and `mds` for who a caller is. May not call: procedures of NFSv3.

mod cancel;
mod cx;
mod datagrams;
mod free_all;
mod granted;
mod held;
mod host;
mod host_calls;
mod lock;
mod nsm;
mod program;
mod restart;
mod share;
mod test;
mod unlock;

pub use datagrams::DATAGRAM_BYTES_MAX;
pub use held::{HostHeld, describe_host, free_host, hosts_held};
pub use nsm::Nsm;
pub use program::Nlm;
