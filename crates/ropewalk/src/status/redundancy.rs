//! What `ropewalk status` says of copies: places that lack some, how long that takes, failure domains that are not kept.

use super::{MdsStatus, PlaceRow, duration};

use std::fmt::Write as _;

/// How the places of a cluster are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PlacesSummary {
    /// Places that are to have copies.
    pub replicated: u64,
    /// Of those, with fewer copies than they are to have.
    pub under_replicated: u64,
    /// Parts with fewer copies than they are to have; none while that is not known of some place.
    pub lacking_parts: Option<u64>,
    /// Such parts of the places of which it is known.
    pub lacking_parts_min: u64,
    /// Of the places, those with a member that is being filled.
    pub filling: u64,
    /// Of those, with one copy.
    pub on_last_copy: u64,
    /// Places whose primary does not serve.
    pub not_served: u64,
    /// Places with two copies in one failure domain.
    pub sharing_domains: u64,
}

impl PlacesSummary {
    /// The sums over places.
    pub(crate) fn of<'p>(places: impl Iterator<Item = &'p PlaceRow>) -> Self {
        let mut sums = Self {
            lacking_parts: Some(0),
            ..Self::default()
        };
        for place in places {
            let lacks = 1 + place.sync.len() < place.copies as usize;
            sums.replicated += u64::from(place.copies > 1);
            sums.under_replicated += u64::from(lacks);
            if lacks {
                let parts = place.lacking_parts;
                sums.lacking_parts_min += parts.unwrap_or(0);
                let sum = sums.lacking_parts.zip(parts);
                sums.lacking_parts = sum.map(|(sum, parts)| sum.saturating_add(parts));
            }
            sums.filling += u64::from(!place.filling.is_empty());
            sums.on_last_copy += u64::from(place.copies > 1 && place.sync.is_empty());
            sums.not_served += u64::from(!place.served);
            sums.sharing_domains += u64::from(place.shares_domain);
        }
        sums
    }
}

/// Shows `text` in red on a terminal.
pub(super) fn red(text: &str, is_coloured: bool) -> String {
    match is_coloured {
        true => format!("\u{1b}[31m{text}\u{1b}[0m"),
        false => text.to_owned(),
    }
}

/// Whether output goes to a terminal whose user wants colours (https://no-color.org).
pub(crate) fn is_coloured() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_refused && std::io::IsTerminal::is_terminal(&std::io::stdout())
}

/// Copies of stripes: nothing where there are none.
pub(crate) fn show(text: &mut String, mds: &MdsStatus, is_coloured: bool) {
    let sums = PlacesSummary::of(mds.groups.iter().flat_map(|g| &g.places));
    if sums.replicated > 0 && sums.under_replicated == 0 {
        let _ = writeln!(text, "copies: all {} places have theirs", sums.replicated);
    }
    if sums.under_replicated > 0 {
        let left = mds.full_redundancy_seconds.map(duration);
        let at_least = if sums.lacking_parts.is_none() {
            "at least "
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "copies: {} of {} places lack some ({at_least}{} parts), {} are being filled; time to full redundancy: {}",
            sums.under_replicated,
            sums.replicated,
            sums.lacking_parts_min,
            sums.filling,
            left.as_deref().unwrap_or("unknown"),
        );
    }
    if sums.on_last_copy > 0 {
        let last = format!(
            "{} ARE ON THEIR LAST COPY: bring back the data servers that are away",
            sums.on_last_copy
        );
        let _ = writeln!(text, "{}", red(&last, is_coloured));
    }
    if sums.sharing_domains > 0 {
        let place = |group: u32, place: u32| format!("{group}/{place}");
        let all = mds.groups.iter().flat_map(|g| {
            let sharing = g.places.iter().filter(|p| p.shares_domain);
            sharing.map(|p| (g.id, p.place, p.copies))
        });
        let all: Vec<_> = all.collect();
        let shown: Vec<String> = all
            .iter()
            .take(SHOWN_MAX)
            .map(|p| place(p.0, p.1))
            .collect();
        let most = all.iter().map(|p| u64::from(p.2)).max().unwrap_or(0);
        let why = match mds.failure_domains < most {
            true => format!(
                "there are {} for up to {most} copies; `location` in ds.toml names them",
                mds.failure_domains
            ),
            false => "others were away or full when they were chosen".to_owned(),
        };
        let more = if all.len() > SHOWN_MAX { " ..." } else { "" };
        let _ = writeln!(
            text,
            "{} places have copies in one failure domain ({why}): group/place {}{more}",
            sums.sharing_domains,
            shown.join(" "),
        );
    }
    if sums.not_served > 0 {
        let told = format!(
            "{} PLACES ARE NOT SERVED: no data server that has their data is there; their files wait",
            sums.not_served,
        );
        let _ = writeln!(text, "{}", red(&told, is_coloured));
    }
}

/// Places in a failure domain that are named.
const SHOWN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::GroupRow;

    fn shown(places: Vec<PlaceRow>, change: impl FnOnce(&mut MdsStatus), red: bool) -> String {
        let group = GroupRow {
            id: 7,
            places,
            ..GroupRow::default()
        };
        let mut mds = MdsStatus {
            groups: vec![group],
            ..MdsStatus::default()
        };
        change(&mut mds);
        let mut text = String::new();
        show(&mut text, &mds, red);
        text
    }

    fn place(sync: &[u32]) -> PlaceRow {
        PlaceRow {
            copies: 2,
            primary: 1,
            served: true,
            sync: sync.to_vec(),
            ..PlaceRow::default()
        }
    }

    #[test]
    fn a_last_copy_is_red_on_a_terminal_alone_and_the_time_left_is_told_or_unknown() {
        let plain = shown(vec![place(&[])], |_| {}, false);
        assert!(
            plain.contains("time to full redundancy: unknown"),
            "{plain}"
        );
        assert!(plain.contains("1 ARE ON THEIR LAST COPY") && !plain.contains('\u{1b}'));
        let told = shown(
            vec![place(&[])],
            |mds| mds.full_redundancy_seconds = Some(90),
            true,
        );
        assert!(told.contains("\u{1b}[31m1 ARE ON"), "{told}");
        assert!(!told.contains("unknown"), "{told}");
        assert_eq!(
            shown(vec![place(&[2])], |_| {}, true),
            "copies: all 1 places have theirs\n"
        );
    }

    #[test]
    fn parts_that_lack_a_copy_are_counted_at_places_that_lack_one() {
        let with = |parts: Option<u64>, sync: &[u32]| PlaceRow {
            lacking_parts: parts,
            ..place(sync)
        };
        let places = [with(Some(3), &[]), with(Some(4), &[]), with(Some(0), &[2])];
        assert_eq!(PlacesSummary::of(places.iter()).lacking_parts, Some(7));
        let text = shown(places.to_vec(), |_| {}, false);
        assert!(text.contains("2 of 3 places lack some (7 parts)"), "{text}");
        let places = [with(Some(3), &[]), with(None, &[])];
        assert_eq!(PlacesSummary::of(places.iter()).lacking_parts, None);
        let text = shown(places.to_vec(), |_| {}, false);
        assert!(text.contains("lack some (at least 3 parts)"), "{text}");
    }

    #[test]
    fn failure_domains_that_are_not_kept_are_told_with_places_and_reason() {
        let sharing = PlaceRow {
            place: 3,
            shares_domain: true,
            ..place(&[2])
        };
        let few = shown(vec![sharing.clone()], |mds| mds.failure_domains = 1, false);
        assert!(few.contains("there are 1 for up to 2 copies"), "{few}");
        assert!(few.contains("7/3"), "{few}");
        let enough = shown(vec![sharing], |mds| mds.failure_domains = 4, false);
        assert!(enough.contains("away or full"), "{enough}");
    }
}
