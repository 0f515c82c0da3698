//! The NSM state of a host: a number that tells its lives apart (X/Open XNFS, status monitor protocol).

use nfs4::Verifier;

/// Bits of a state that are compared. Hosts count in a signed word: some begin anew below its sign, others go on.
const BITS: u32 = 0x7fff_ffff;
/// States that are further apart are older ones.
const AHEAD_MAX: u32 = 0x3fff_ffff;

/// A state that a host has told. It is odd while the host is up, and grows with each restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NsmState(u32);

impl NsmState {
    /// The state in NOTIFY.
    #[must_use]
    pub const fn new(state: i32) -> Self {
        Self(state.cast_unsigned())
    }

    /// The state in a LOCK. Only a host that is up can lock, so an even one, such as 0, says that it is not known.
    #[must_use]
    pub const fn of_running(state: i32) -> Option<Self> {
        match state & 1 {
            1 => Some(Self::new(state)),
            _ => None,
        }
    }

    /// Whether it is of a later life than `known`. States may begin anew after the largest.
    #[must_use]
    pub const fn is_newer_than(self, known: Self) -> bool {
        let ahead = self.0.wrapping_sub(known.0) & BITS;
        0 < ahead && ahead <= AHEAD_MAX
    }

    /// As the durable record of a host has it: in the place of the verifier of other clients.
    pub(crate) fn to_verifier(state: Option<Self>) -> Verifier {
        let word = state.map_or(0, |state| u64::from(state.0));
        Verifier {
            bytes: word.to_be_bytes(),
        }
    }

    /// Back from [`NsmState::to_verifier`]; 0 is none.
    pub(crate) fn of_verifier(verifier: Verifier) -> Option<Self> {
        let word = u64::from_be_bytes(verifier.bytes);
        let state = u32::try_from(word).ok().filter(|state| *state != 0);
        state.map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_state_is_newer_also_after_the_largest() {
        for (later, earlier) in [
            (3, 1),
            (4, 3),
            (1, i32::MAX),
            (1, -1),
            (i32::MIN + 1, i32::MAX),
            (1_000_001, 1),
        ] {
            let (later, earlier) = (NsmState::new(later), NsmState::new(earlier));
            assert!(later.is_newer_than(earlier), "{later:?} {earlier:?}");
            assert!(!earlier.is_newer_than(later), "{earlier:?} {later:?}");
            assert!(!later.is_newer_than(later));
        }
    }

    #[test]
    fn a_record_has_the_state_that_was_told() {
        for state in [None, Some(NsmState::new(1)), Some(NsmState::new(-1))] {
            let verifier = NsmState::to_verifier(state);
            assert_eq!(NsmState::of_verifier(verifier), state);
        }
        assert_eq!(NsmState::of_running(0), None);
        assert_eq!(NsmState::of_running(-1), Some(NsmState::new(-1)));
        let other = Verifier { bytes: [7; 8] };
        assert_eq!(NsmState::of_verifier(other), None);
    }
}
