//! Stateids: how they are made, and the rules for their `seqid` (RFC 8881 §8.2, §12.5.5.2.1.4).
//!
//! `other` is `boot` (4 bytes), the kind (1 byte) and a counter (7 bytes), all big-endian. None is ever used twice, not even after a
//! restart. The tables own what a stateid means. Here is only its form, the special values, and the current stateid of a COMPOUND.

use nfs4::{NfsStatus, OTHER_BYTES, Stateid};

/// `stateid4.other`: names a state.
pub type Other = [u8; OTHER_BYTES];

/// Largest value of the counter in `other`.
const COUNTER_MAX: u64 = (1 << 56) - 1;

/// What a stateid names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum StateKind {
    /// An open.
    Open = 1,
    /// The byte-range locks of one owner on one file.
    Lock = 2,
    /// The layouts of one client on one file.
    Layout = 3,
    /// A delegation.
    Delegation = 4,
    /// A copy that goes on after its COPY was answered (RFC 7862 §4.8). The file service has their table.
    Copy = 5,
}

impl StateKind {
    /// The kind that `other` claims.
    #[must_use]
    pub fn of(other: &Other) -> Option<Self> {
        match other[4] {
            1 => Some(Self::Open),
            2 => Some(Self::Lock),
            3 => Some(Self::Layout),
            4 => Some(Self::Delegation),
            5 => Some(Self::Copy),
            _ => None,
        }
    }
}

/// Makes `other` values.
#[derive(Debug)]
pub struct StateidSource {
    boot: u32,
    counter: u64,
}

impl StateidSource {
    /// `boot` was never used before by this server.
    #[must_use]
    pub fn new(boot: u32) -> Self {
        Self { boot, counter: 0 }
    }

    /// Whether a name is of this run of the server.
    pub(crate) fn is_of_this_boot(&self, other: &Other) -> bool {
        other[..4] == self.boot.to_be_bytes()
    }

    /// A new name.
    ///
    /// # Panics
    /// After 2^56 names: at a million a second that is two thousand years.
    pub fn next(&mut self, kind: StateKind) -> Other {
        assert!(
            self.counter < COUNTER_MAX,
            "56 bits of stateids are used up"
        );
        self.counter += 1;
        let mut other = [0; OTHER_BYTES];
        other[..4].copy_from_slice(&self.boot.to_be_bytes());
        other[4] = kind as u8;
        other[5..].copy_from_slice(&self.counter.to_be_bytes()[1..]);
        other
    }
}

/// An open of this boot that nobody has: what a client is told of an open that was lost with its server.
#[must_use]
pub fn lost_open(boot: u32) -> Stateid {
    let mut other = [0; OTHER_BYTES];
    other[..4].copy_from_slice(&boot.to_be_bytes());
    other[4] = StateKind::Open as u8;
    Stateid { seqid: 1, other }
}

/// The seqid after `seqid`: zero is skipped, because it means "the most recent".
#[must_use]
pub fn next_seqid(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}

/// Steps from `given` forward to `current` in the ring of 1 to 2^32 - 1; `None` when `given` lies
/// ahead (within half the ring).
fn steps_behind(given: u32, current: u32) -> Option<u32> {
    const RING: u64 = u32::MAX as u64;
    let steps = (u64::from(current) + RING - u64::from(given)) % RING;
    u32::try_from(steps).ok().filter(|_| steps <= RING / 2)
}

/// Judges the seqid of an open, lock or delegation stateid (RFC 8881 §8.2.4).
///
/// # Errors
/// `OldStateid`, or `BadStateid` for one that is yet to come.
pub fn check_seqid(given: u32, current: u32) -> Result<(), NfsStatus> {
    if given == 0 || given == current {
        return Ok(());
    }
    match steps_behind(given, current) {
        Some(_) => Err(NfsStatus::OldStateid),
        None => Err(NfsStatus::BadStateid),
    }
}

/// Judges the seqid of a layout stateid: up to `window` steps behind is the parallelism that the
/// protocol allows (RFC 8881 §12.5.5.2.1.4).
///
/// # Errors
/// `BadStateid` for zero or one that is yet to come, `OldStateid` beyond the window.
pub fn check_layout_seqid(given: u32, current: u32, window: u32) -> Result<(), NfsStatus> {
    if given == 0 {
        return Err(NfsStatus::BadStateid);
    }
    match steps_behind(given, current) {
        Some(steps) if steps <= window => Ok(()),
        Some(_) => Err(NfsStatus::OldStateid),
        None => Err(NfsStatus::BadStateid),
    }
}

/// Whether `given` was issued after `floor`.
pub(crate) fn is_after(given: u32, floor: u32) -> bool {
    given != floor && steps_behind(floor, given).is_some()
}

/// The current stateid of a COMPOUND (RFC 8881 §16.2.3.1.2). An operation that returns a stateid sets
/// it, one that sets the current file handle clears it, SAVEFH and RESTOREFH copy it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CurrentStateid(Option<Stateid>);

impl CurrentStateid {
    /// An operation returned `stateid`.
    pub fn set(&mut self, stateid: Stateid) {
        self.0 = Some(stateid);
    }

    /// The current file handle changed otherwise.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// Replaces the special value "current stateid" by the current one; other values pass.
    ///
    /// # Errors
    /// `BadStateid` if there is none, or for an undefined special value.
    pub fn resolve(self, given: Stateid) -> Result<Stateid, NfsStatus> {
        let resolved = if given == Stateid::CURRENT {
            self.0.ok_or(NfsStatus::BadStateid)?
        } else {
            given
        };
        let defined = !resolved.is_special()
            || resolved == Stateid::ANONYMOUS
            || resolved == Stateid::READ_BYPASS;
        if defined {
            Ok(resolved)
        } else {
            Err(NfsStatus::BadStateid)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_boot_kind_and_counter() {
        let mut source = StateidSource::new(0x0102_0304);
        let a = source.next(StateKind::Layout);
        assert_eq!(a, [1, 2, 3, 4, 3, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(StateKind::of(&a), Some(StateKind::Layout));
        assert_ne!(source.next(StateKind::Layout), a);
        assert_eq!(StateKind::of(&[9; OTHER_BYTES]), None);
    }

    #[test]
    fn seqids_of_states() {
        let (ok, old, bad) = (
            Ok(()),
            Err(NfsStatus::OldStateid),
            Err(NfsStatus::BadStateid),
        );
        for (given, current, want) in [
            (0, 5, ok),
            (5, 5, ok),
            (4, 5, old),
            (1, 5, old),
            (6, 5, bad),
            (u32::MAX, 1, old),
            (1, u32::MAX, bad),
            (u32::MAX, 5, old),
        ] {
            assert_eq!(check_seqid(given, current), want, "{given} at {current}");
        }
        assert_eq!(next_seqid(1), 2);
        assert_eq!(next_seqid(u32::MAX), 1);
    }

    #[test]
    fn seqids_of_layouts_have_a_window() {
        let (ok, old, bad) = (
            Ok(()),
            Err(NfsStatus::OldStateid),
            Err(NfsStatus::BadStateid),
        );
        for (given, current, want) in [
            (0, 5, bad),
            (5, 5, ok),
            (3, 5, ok),
            (2, 5, old),
            (6, 5, bad),
            (u32::MAX, 2, ok),
            (u32::MAX - 1, 2, old),
        ] {
            assert_eq!(
                check_layout_seqid(given, current, 2),
                want,
                "{given} at {current}"
            );
        }
        assert!(is_after(6, 5) && !is_after(5, 5) && !is_after(4, 5));
        assert!(is_after(1, u32::MAX) && !is_after(u32::MAX, 1));
    }

    #[test]
    fn the_current_stateid_stands_in() {
        let mine = Stateid {
            seqid: 3,
            other: [5; OTHER_BYTES],
        };
        let mut current = CurrentStateid::default();
        assert_eq!(
            current.resolve(Stateid::CURRENT),
            Err(NfsStatus::BadStateid)
        );
        current.set(mine);
        assert_eq!(current.resolve(Stateid::CURRENT), Ok(mine));
        for special in [Stateid::ANONYMOUS, Stateid::READ_BYPASS] {
            assert_eq!(current.resolve(special), Ok(special));
        }
        let odd = Stateid {
            seqid: 7,
            other: [0; OTHER_BYTES],
        };
        for undefined in [Stateid::INVALID, odd] {
            assert_eq!(current.resolve(undefined), Err(NfsStatus::BadStateid));
        }
        // CLOSE leaves the invalid stateid behind.
        current.set(Stateid::INVALID);
        assert_eq!(
            current.resolve(Stateid::CURRENT),
            Err(NfsStatus::BadStateid)
        );
        current.clear();
        assert_eq!(
            current.resolve(Stateid::CURRENT),
            Err(NfsStatus::BadStateid)
        );
    }
}
