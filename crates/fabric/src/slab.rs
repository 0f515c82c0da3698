//! The slabs of all pools of this process, by address.
//!
//! A provider that moves bytes by a device registers memory with it, in few and large pieces. It sees addresses of
//! buffers and of frozen bytes, and finds here the slab that they lie in.

use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Weak};

static SLABS: RwLock<BTreeMap<usize, Arc<Slab>>> = RwLock::new(BTreeMap::new());

/// A user of a slab as a whole, which must undo something before the memory goes.
pub trait SlabUser: Send + Sync {
    /// The slab that begins at this address is about to go. Nobody uses any byte of it.
    fn forget(&self, start: usize);
}

/// Memory that buffers are cut from. It lives as long as anything of it does.
pub struct Slab {
    range: Range<usize>,
    users: Mutex<Vec<Weak<dyn SlabUser>>>,
}

impl std::fmt::Debug for Slab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slab({:#x?})", self.range)
    }
}

/// The slab that this address lies in.
#[must_use]
pub fn slab_at(address: usize) -> Option<Arc<Slab>> {
    let slabs = SLABS.read();
    let (_, slab) = slabs.range(..=address).next_back()?;
    slab.range.contains(&address).then(|| Arc::clone(slab))
}

impl Slab {
    /// Its addresses.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Has `user` told before the memory goes, unless it went first.
    pub fn tell(&self, user: Weak<dyn SlabUser>) {
        let mut users = self.users.lock();
        users.retain(|known| known.strong_count() > 0);
        if !users.iter().any(|known| known.ptr_eq(&user)) {
            users.push(user);
        }
    }
}

/// A slab of a pool, known to [`slab_at`] as long as this lives.
#[derive(Debug)]
pub(crate) struct Listed(Arc<Slab>);

impl Listed {
    pub(crate) fn new(range: Range<usize>) -> Self {
        let slab = Arc::new(Slab {
            range,
            users: Mutex::default(),
        });
        SLABS.write().insert(slab.range.start, Arc::clone(&slab));
        Self(slab)
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.0.range()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        SLABS.write().remove(&self.0.range.start);
        let users = std::mem::take(&mut *self.0.users.lock());
        for user in users.iter().filter_map(Weak::upgrade) {
            user.forget(self.0.range.start);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: every byte of a pool finds its slab, and who used a slab hears of its end once, before the memory goes.
    use super::*;
    use crate::{Pool, PoolConfig};

    #[derive(Default)]
    struct User(Mutex<Vec<usize>>);

    impl SlabUser for User {
        fn forget(&self, start: usize) {
            assert!(slab_at(start).is_none());
            self.0.lock().push(start);
        }
    }

    #[test]
    fn bytes_find_their_slab_until_the_last_of_them_is_gone() {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: 4096,
            slab_bytes: 8192,
            bytes_max: 16_384,
            free_bytes_max: usize::MAX,
        });
        let buffers: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        let user = Arc::new(User::default());
        for buffer in &buffers {
            let start = buffer.as_ptr().addr();
            for address in [start, start + 4095] {
                let slab = slab_at(address).expect("it is in a slab");
                assert!(slab.range().contains(&address));
                let user: Weak<User> = Arc::downgrade(&user);
                slab.tell(user);
            }
        }
        let mut starts: Vec<usize> = pool.slabs().iter().map(|slab| slab.start).collect();
        assert_eq!(starts.len(), 2);
        let kept = buffers.into_iter().next().expect("four").freeze(1..2);
        let inside = kept.as_ptr().addr();
        drop(pool);
        assert!(slab_at(inside).is_some() && user.0.lock().is_empty());
        drop(kept);
        let mut told = user.0.lock().clone();
        told.sort_unstable();
        starts.sort_unstable();
        assert_eq!(told, starts);
    }

    #[test]
    fn a_slab_that_its_pool_gives_up_is_told_of() {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: 4096,
            slab_bytes: 4096,
            bytes_max: 8192,
            free_bytes_max: 0,
        });
        let buffer = pool.take().expect("one");
        let start = buffer.as_ptr().addr();
        let user = Arc::new(User::default());
        let weak: Weak<User> = Arc::downgrade(&user);
        slab_at(start).expect("it is in a slab").tell(weak);
        drop(buffer);
        assert_eq!((&*user.0.lock(), pool.slabs().len()), (&vec![start], 0));
    }

    #[test]
    fn a_slab_that_is_trimmed_is_told_of_when_it_goes() {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: 4096,
            slab_bytes: 4096,
            bytes_max: 8192,
            free_bytes_max: usize::MAX,
        });
        let start = pool.take().expect("one").as_ptr().addr();
        let user = Arc::new(User::default());
        let weak: Weak<User> = Arc::downgrade(&user);
        slab_at(start).expect("it is in a slab").tell(weak);
        let trimmed = pool.trim(crate::Trim {
            quiet_looks: 0,
            kept_bytes: 0,
            slabs_max: 1,
        });
        assert_eq!((trimmed.slabs(), pool.slabs().len()), (1, 0));
        assert!(slab_at(start).is_some() && user.0.lock().is_empty());
        drop(trimmed);
        assert_eq!(*user.0.lock(), [start]);
    }

    #[test]
    fn a_user_that_went_first_is_not_told() {
        let pool = Pool::new(PoolConfig {
            buffer_bytes: 10,
            slab_bytes: 10,
            bytes_max: 10,
            free_bytes_max: 10,
        });
        let buffer = pool.take().expect("one");
        let user = Arc::new(User::default());
        let slab = slab_at(buffer.as_ptr().addr()).expect("it is in a slab");
        let weak: Weak<User> = Arc::downgrade(&user);
        slab.tell(weak);
        drop(user);
        drop((buffer, pool));
        assert!(slab_at(slab.range().start).is_none());
    }
}
