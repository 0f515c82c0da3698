//! Goal: a metadata server does over the wire what RFC 8881, RFC 7862 and the rules of docs/rules.md say; each module says which part.
//! Method: one metadata server over the memory transport; data servers are doubles, or real ones where a module needs them.
//! One program: the rig is compiled and linked once.

mod access;
mod acls;
mod atimes;
mod callbacks;
mod cancel;
mod clone;
mod copy;
mod courtesy;
mod delegated_times;
mod delegations;
mod file_size;
mod follow;
mod identities;
mod keys;
mod layouts;
mod lies;
mod locks;
mod lookups;
mod marks;
mod minor_0;
mod names;
mod notsupp;
mod old_stores;
mod persist;
mod placement;
mod proxy;
mod ranges;
mod rdma;
mod recalls;
mod recovery;
mod replicas;
mod restripe;
mod restripe_crash;
mod restripe_fails;
mod rig;
mod scrub;
mod slow_disk;
mod space;
mod stores;
mod troubled_copies;
mod written_before;
mod xattrs;
