//! Machines that call themselves by one client owner, and so end each other's sessions for ever (RFC 8881 §18.35.4).
//!
//! A machine that starts again shows its owner with a verifier that nobody has seen before. When a verifier comes back
//! that another one had replaced, two machines live under one name: cloned ones, or containers with one host name.
//! The protocol leaves the server no way to tell them apart; people can, once they are told.
//!
//! Owns what was seen of late. Decides nothing about clients.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Most owners of which incarnations are remembered; the one that was quiet for longest is forgotten.
const OWNERS_MAX: usize = 4096;
/// Incarnations of one owner that are remembered: machines of one name that are found out.
const LIVES_MAX: usize = 8;
/// Most clashes that are told.
const CLASHES_MAX: usize = 16;
/// A clash is reported once in this time, for each owner.
const REPORT_MS: u64 = 60_000;
/// Clashes of all owners that are reported in that time, at most.
const REPORTS_MAX: usize = CLASHES_MAX;
/// What a Linux client shows once to have the server forget its revoked state; its own verifier comes next.
const PURGE_VERIFIER: [u8; 8] = [0xff; 8];
/// Bytes of an owner that are shown.
const OWNER_SHOWN_BYTES: usize = 128;
/// A clash is told for so long after it was last seen.
const TOLD_MS: u64 = 600_000;

/// Two machines of one client owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameClash {
    /// The client owner, as bytes on the wire.
    pub owner: Vec<u8>,
    /// Where the one that came back is, and where the one is whose state it ended; where that is known. One address
    /// twice means machines that share it.
    pub addresses: [Option<IpAddr>; 2],
    /// When it was last seen, in milliseconds of the caller's clock.
    pub seen_ms: u64,
}

impl NameClash {
    /// The owner for people to read: at most 128 bytes of it, and those that are not printable ASCII escaped.
    #[must_use]
    pub fn owner_text(&self) -> String {
        let shown = &self.owner[..self.owner.len().min(OWNER_SHOWN_BYTES)];
        let more = if shown.len() < self.owner.len() {
            "..."
        } else {
            ""
        };
        format!("{}{more}", shown.escape_ascii())
    }

    fn is_recent(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.seen_ms) < TOLD_MS
    }

    /// Both addresses for people to read.
    #[must_use]
    pub fn address_texts(&self) -> [String; 2] {
        let text = |a: Option<IpAddr>| a.map_or_else(|| "unknown".to_owned(), |a| a.to_string());
        self.addresses.map(text)
    }
}

#[derive(Debug)]
struct Owner {
    /// Verifiers, the present one last, and where each came from.
    lives: VecDeque<([u8; 8], Option<IpAddr>)>,
    seen_ms: u64,
    reported_ms: Option<u64>,
}

/// What was seen of client owners of late.
#[derive(Debug, Default)]
pub struct NameClashes {
    owners: BTreeMap<Vec<u8>, Owner>,
    told: Vec<NameClash>,
    /// When the last reports were made, the oldest first.
    reports_ms: VecDeque<u64>,
}

/// What [`NameClashes::note`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClashSeen {
    /// The clash.
    pub clash: NameClash,
    /// It was not reported within the last minute, and few others were.
    pub is_news: bool,
}

impl NameClashes {
    /// Notes an EXCHANGE_ID that made or confirmed a client. Returns the clash that it is a part of.
    pub fn note(
        &mut self,
        name: &[u8],
        verifier: [u8; 8],
        address: Option<IpAddr>,
        now_ms: u64,
    ) -> Option<ClashSeen> {
        if verifier == PURGE_VERIFIER {
            return None;
        }
        if !self.owners.contains_key(name) {
            self.forget_one();
        }
        let owner = self.owners.entry(name.to_vec()).or_insert_with(|| Owner {
            lives: VecDeque::new(),
            seen_ms: now_ms,
            reported_ms: None,
        });
        owner.seen_ms = now_ms;
        let present = owner.lives.back().copied();
        if present.is_some_and(|(present, _)| present == verifier) {
            return None;
        }
        let earlier = owner.lives.iter().position(|(known, _)| *known == verifier);
        if let Some(at) = earlier {
            owner.lives.remove(at);
        } else if owner.lives.len() == LIVES_MAX {
            owner.lives.pop_front();
        }
        owner.lives.push_back((verifier, address));
        earlier?;
        let is_due = |at: u64| now_ms.saturating_sub(at) >= REPORT_MS;
        let is_quiet = self.reports_ms.len() < REPORTS_MAX
            || self.reports_ms.front().copied().is_none_or(is_due);
        let is_news = is_quiet && owner.reported_ms.is_none_or(is_due);
        if is_news {
            owner.reported_ms = Some(now_ms);
            self.reports_ms.push_back(now_ms);
            if self.reports_ms.len() > REPORTS_MAX {
                self.reports_ms.pop_front();
            }
        }
        let clash = NameClash {
            owner: name.to_vec(),
            addresses: [address, present.and_then(|(_, address)| address)],
            seen_ms: now_ms,
        };
        self.tell(&clash);
        Some(ClashSeen { clash, is_news })
    }

    /// Clashes of the last ten minutes, the newest first.
    #[must_use]
    pub fn recent(&self, now_ms: u64) -> Vec<NameClash> {
        let told = self.told.iter();
        told.filter(|c| c.is_recent(now_ms)).cloned().collect()
    }

    /// Whether more than one machine has shown this owner within the last ten minutes.
    #[must_use]
    pub fn is_shared(&self, name: &[u8], now_ms: u64) -> bool {
        let mut told = self.told.iter();
        told.any(|c| c.owner == name && c.is_recent(now_ms))
    }

    fn tell(&mut self, clash: &NameClash) {
        self.told.retain(|told| told.owner != clash.owner);
        self.told.truncate(CLASHES_MAX - 1);
        self.told.insert(0, clash.clone());
    }

    fn forget_one(&mut self) {
        if self.owners.len() < OWNERS_MAX {
            return;
        }
        let quiet = self.owners.iter().min_by_key(|(_, owner)| owner.seen_ms);
        if let Some(name) = quiet.map(|(name, _)| name.clone()) {
            self.owners.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    /// Whether each EXCHANGE_ID of one owner, (verifier, last byte of the address), is a part of a clash.
    fn clashes(series: &[(u8, u8)]) -> Vec<bool> {
        let mut seen = NameClashes::default();
        let note = |(verifier, from): &(u8, u8)| {
            let noted = seen.note(b"Linux NFSv4.1 host", [*verifier; 8], address(*from), 0);
            noted.is_some()
        };
        series.iter().map(note).collect()
    }

    #[test]
    fn only_a_verifier_that_comes_back_is_a_clash() {
        for (series, clash) in [
            // A machine that starts again and again.
            (&[(1, 1), (2, 1), (3, 1)][..], &[false; 3][..]),
            // Trunking, and connections that were lost.
            (&[(1, 1), (1, 2), (1, 1)], &[false; 3]),
            // Two machines, the second of which comes later.
            (
                &[(1, 1), (2, 2), (1, 1), (2, 2)],
                &[false, false, true, true],
            ),
            // Two containers of one address.
            (&[(1, 1), (2, 1), (1, 1)], &[false, false, true]),
            // One machine, whose state was revoked.
            (&[(1, 1), (0xff, 1), (1, 1)], &[false; 3]),
            // Three machines, and one that started again meanwhile.
            (
                &[(1, 1), (2, 2), (3, 3), (1, 1), (4, 2), (3, 3)],
                &[false, false, false, true, false, true],
            ),
        ] {
            assert_eq!(clashes(series), clash, "{series:?}");
        }
    }

    #[test]
    fn a_clash_names_both_and_is_news_once_a_minute() {
        let mut seen = NameClashes::default();
        let _first = seen.note(b"o", [1; 8], address(1), 0);
        let _second = seen.note(b"o", [2; 8], address(2), 10);
        let back = seen.note(b"o", [1; 8], address(1), 20).expect("a clash");
        assert_eq!(
            (back.clash.addresses, back.is_news),
            ([address(1), address(2)], true)
        );
        let again = seen.note(b"o", [2; 8], address(2), 30).expect("a clash");
        assert_eq!(
            (again.clash.addresses, again.is_news),
            ([address(2), address(1)], false)
        );
        let later = seen
            .note(b"o", [1; 8], address(1), 20 + REPORT_MS)
            .expect("a clash");
        assert!(later.is_news);
        let told = seen.recent(20 + REPORT_MS);
        assert_eq!(told, [later.clash]);
        assert!(seen.is_shared(b"o", 20 + REPORT_MS) && !seen.is_shared(b"other", 0));
        assert!(seen.recent(20 + REPORT_MS + TOLD_MS).is_empty());
        assert!(!seen.is_shared(b"o", 20 + REPORT_MS + TOLD_MS));
    }

    #[test]
    fn a_clash_is_shown_in_one_line() {
        let clash = NameClash {
            owner: [b"a\n\"\xff".as_slice(), &[b'x'; 200]].concat(),
            addresses: [address(1), None],
            seen_ms: 0,
        };
        let text = clash.owner_text();
        assert!(
            text.starts_with(r#"a\n\"\xffx"#) && text.ends_with("x..."),
            "{text}"
        );
        assert!(text.len() < 2 * OWNER_SHOWN_BYTES);
        assert_eq!(clash.address_texts(), ["192.0.2.1", "unknown"]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut seen = NameClashes::default();
        let mut news = 0;
        for n in 0..2 * OWNERS_MAX {
            let name = n.to_be_bytes();
            for verifier in [1, 2, 1] {
                let clash = seen.note(&name, [verifier; 8], None, n as u64);
                news += usize::from(clash.is_some_and(|clash| clash.is_news));
            }
        }
        assert_eq!(
            (seen.owners.len(), seen.told.len()),
            (OWNERS_MAX, CLASHES_MAX)
        );
        assert_eq!(news, REPORTS_MAX, "within the first minute");
        for verifier in 0..=255 {
            let _life = seen.note(b"o", [verifier; 8], None, u64::MAX);
        }
        assert_eq!(seen.owners[&b"o"[..]].lives.len(), LIVES_MAX);
    }
}
