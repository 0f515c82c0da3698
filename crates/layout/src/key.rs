//! The keys that sign data-server handles, and their life (R13).
//!
//! ```text
//!   insert_next --> Next --(activate_next)--> Active --(the next activate_next)--> Valid --(retire_through)--> Retired
//! ```
//! The active key signs. Every live key verifies, and a next key can be everywhere before it signs. Of a retired key
//! only the id is remembered. Ids only rise, and keys retire oldest first. "Every key up to this id is gone" is
//! therefore one number; floors and tombstones are dropped by it. Debug output never shows key bytes.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Bytes of the MAC in a handle: 128 bits.
pub const MAC_BYTES: usize = 16;
/// Bytes of a signing key (a BLAKE3 key).
pub const KEY_BYTES: usize = 32;
/// Most keys that are live at once; a rotation beyond it must wait for a retirement.
pub const KEYS_MAX: u32 = 16;

/// Key material. Its Debug output is redacted and it is overwritten when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyBytes([u8; KEY_BYTES]);

impl KeyBytes {
    /// Takes bytes that must come from the operating system's random source.
    #[must_use]
    pub const fn from_random(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The secret itself: for the durable record, and for the encrypted channel to a data server.
    #[must_use]
    pub const fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl Drop for KeyBytes {
    fn drop(&mut self) {
        // Best effort without unsafe code: black_box keeps the store from being optimised away.
        self.0 = [0; KEY_BYTES];
        std::hint::black_box(&self.0);
    }
}

impl std::fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<secret>")
    }
}

impl Decode<'_> for KeyBytes {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.opaque_fixed().map(Self)
    }
}

impl Encode for KeyBytes {
    fn encode(&self, e: &mut Encoder) {
        e.opaque_fixed(&self.0);
    }
}

xdr::xdr_enum! {
    /// What a live key may do.
    pub enum KeyState {
        /// Signs and verifies. One key at most.
        Active = 1,
        /// Verifies handles that it signed before a rotation.
        Valid = 2,
        /// Will sign once every data server has it. The newest key, if there is one.
        Next = 3,
    }
}

xdr::xdr_struct! {
    /// A live key as it is stored and sent to data servers.
    pub struct KeyRecord {
        /// Names the key in handles. Never reused, rises with each rotation, never 0.
        pub id: u32,
        /// What it may do.
        pub state: KeyState,
        /// The secret.
        pub bytes: KeyBytes,
    }
}

/// A key that signs and verifies handles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    id: u32,
    bytes: KeyBytes,
}

impl SigningKey {
    /// A MAC for other messages between servers of the cluster. They begin with a word that no handle begins with.
    #[must_use]
    pub fn mac_of(&self, message: &[u8]) -> [u8; MAC_BYTES] {
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&self.mac(message).as_bytes()[..MAC_BYTES]);
        mac
    }

    /// Key `id` from random bytes of the caller.
    #[must_use]
    pub const fn new(id: u32, bytes: KeyBytes) -> Self {
        Self { id, bytes }
    }

    /// Names the key in handles.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// The whole keyed hash of `message`; handles carry its first half.
    pub(crate) fn mac(&self, message: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(self.bytes.expose(), message)
    }
}

/// Why a key ring refused a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// The id is not above every id that the ring has seen.
    IdNotAbove(u32),
    /// [`KEYS_MAX`] keys are live: retire one first.
    Full,
    /// The active key signs new handles: rotate before it retires.
    StillActive,
    /// A next key waits to become active already, or none does.
    NotNext,
    /// A set of records is impossible: two active keys, two next ones, or a next one that is not the newest. A repeated
    /// id or a retired id is impossible too.
    Inconsistent,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::IdNotAbove(id) => write!(f, "key id must be above {id}"),
            Self::Full => write!(f, "{KEYS_MAX} keys are live already"),
            Self::StillActive => write!(f, "the active key cannot retire before a rotation"),
            Self::NotNext => write!(f, "one key at a time becomes active"),
            Self::Inconsistent => write!(f, "key records contradict each other"),
        }
    }
}

impl std::error::Error for KeyError {}

/// The live keys of a cluster, by id, and the id through which keys are retired.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyRing {
    /// Ascending by id.
    live: Vec<(SigningKey, KeyState)>,
    retired_through: u32,
}

impl KeyRing {
    /// A ring without keys: it signs nothing and verifies nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            live: Vec::new(),
            retired_through: 0,
        }
    }

    /// The ring of stored or received records. `retired_through` is the newest retired id, 0 if none.
    ///
    /// # Errors
    /// [`KeyError::Full`] or [`KeyError::Inconsistent`].
    pub fn from_records(records: &[KeyRecord], retired_through: u32) -> Result<Self, KeyError> {
        if records.len() > KEYS_MAX as usize {
            return Err(KeyError::Full);
        }
        let mut live: Vec<_> = records
            .iter()
            .map(|r| (SigningKey::new(r.id, r.bytes.clone()), r.state))
            .collect();
        live.sort_by_key(|(key, _)| key.id);
        let repeated = live.windows(2).any(|pair| pair[0].0.id == pair[1].0.id);
        let retired = live.iter().any(|(key, _)| key.id <= retired_through);
        // Newest first a next key, then the active one, then those that were: anything else lets a rotation go wrong.
        let rank = |state: &KeyState| match state {
            KeyState::Valid => 0,
            KeyState::Active => 1,
            KeyState::Next => 2,
        };
        let misplaced = live.windows(2).any(|pair| {
            let (older, newer) = (rank(&pair[0].1), rank(&pair[1].1));
            older > 0 && older >= newer
        });
        if repeated || retired || misplaced {
            return Err(KeyError::Inconsistent);
        }
        Ok(Self {
            live,
            retired_through,
        })
    }

    /// The live keys as records, ascending by id.
    #[must_use]
    pub fn records(&self) -> Vec<KeyRecord> {
        let record = |(key, state): &(SigningKey, KeyState)| KeyRecord {
            id: key.id,
            state: *state,
            bytes: key.bytes.clone(),
        };
        self.live.iter().map(record).collect()
    }

    /// The newest retired id; every key up to it is gone. 0 if none is.
    #[must_use]
    pub const fn retired_through(&self) -> u32 {
        self.retired_through
    }

    /// The newest id that the ring has seen: what a floor or tombstone set now must outlive.
    #[must_use]
    pub fn newest_id(&self) -> u32 {
        self.live
            .last()
            .map_or(self.retired_through, |(key, _)| key.id)
    }

    /// The key that signs, if there is one.
    #[must_use]
    pub fn active(&self) -> Option<&SigningKey> {
        self.live
            .iter()
            .rev()
            .find(|(_, state)| *state == KeyState::Active)
            .map(|(key, _)| key)
    }

    /// The key that will sign next, if one waits.
    #[must_use]
    pub fn next(&self) -> Option<&SigningKey> {
        let newest = self.live.last();
        newest
            .filter(|(_, state)| *state == KeyState::Next)
            .map(|(key, _)| key)
    }

    /// The live key `id`, if it may verify.
    #[must_use]
    pub fn verifier(&self, id: u32) -> Option<&SigningKey> {
        self.live
            .iter()
            .find(|(key, _)| key.id == id)
            .map(|(key, _)| key)
    }

    /// Whether the ring knew key `id` and it is retired: its handles are old, not forged.
    #[must_use]
    pub const fn is_retired(&self, id: u32) -> bool {
        id != 0 && id <= self.retired_through
    }

    /// Makes `key` the one that verifies from now on, and signs after [`KeyRing::activate_next`].
    ///
    /// # Errors
    /// [`KeyError::NotNext`] while another waits, [`KeyError::IdNotAbove`] or [`KeyError::Full`]; the ring is unchanged.
    pub fn insert_next(&mut self, key: SigningKey) -> Result<(), KeyError> {
        if self.next().is_some() {
            return Err(KeyError::NotNext);
        }
        if key.id <= self.newest_id() {
            return Err(KeyError::IdNotAbove(self.newest_id()));
        }
        if self.live.len() >= KEYS_MAX as usize {
            return Err(KeyError::Full);
        }
        self.live.push((key, KeyState::Next));
        Ok(())
    }

    /// Makes the next key the active one; the key that was active still verifies.
    ///
    /// # Errors
    /// [`KeyError::NotNext`] when none waits.
    pub fn activate_next(&mut self) -> Result<(), KeyError> {
        if self.next().is_none() {
            return Err(KeyError::NotNext);
        }
        for (_, state) in &mut self.live {
            *state = match state {
                KeyState::Next => KeyState::Active,
                KeyState::Active | KeyState::Valid => KeyState::Valid,
            };
        }
        Ok(())
    }

    /// Makes `key` the active one at once: for a ring that nobody has yet.
    ///
    /// # Errors
    /// As [`KeyRing::insert_next`].
    pub fn insert_active(&mut self, key: SigningKey) -> Result<(), KeyError> {
        self.insert_next(key)?;
        self.activate_next()
    }

    /// Forgets every key up to and including `id`. The caller has made sure that every layout minted
    /// under them is returned, recalled or fenced (R13).
    ///
    /// # Errors
    /// [`KeyError::StillActive`]; the ring is unchanged.
    pub fn retire_through(&mut self, id: u32) -> Result<(), KeyError> {
        if self.active().is_some_and(|key| key.id <= id) {
            return Err(KeyError::StillActive);
        }
        // An id that was never made must stay usable.
        let id = id.min(self.newest_id());
        self.live.retain(|(key, _)| key.id > id);
        self.retired_through = self.retired_through.max(id);
        Ok(())
    }
}
