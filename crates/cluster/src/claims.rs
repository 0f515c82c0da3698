//! What data servers say of places (OUT, FILLED), compared with the rows.
//!
//! A server that is late says something of an older reign or era: it is told the row, and nothing changes. What no server
//! can come to believe by being late is refused and logged: its index, its program or its machine is broken.
//!
//! Owns that verdict. Reads the rows; changes none.

use crate::groups::Groups;
use control::{FilledArgs, OutArgs, PlaceReign, Refusal, Status};
use layout::{MemberState, Row};

/// How something that was said compares with the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Holds,
    /// It was so once.
    Late,
    False(&'static str),
}

/// Whether the caller is primary of the place in the reign that it names.
fn reigns(row: Option<&Row>, caller: u32, place: &PlaceReign) -> Claim {
    match row {
        None => Claim::False("there is no such place"),
        Some(row) if row.reign > place.reign => Claim::Late,
        Some(row) if row.reign < place.reign => Claim::False("that reign has not begun"),
        Some(row) if row.primary != caller => {
            Claim::False("another data server is primary in that reign")
        }
        Some(_) => Claim::Holds,
    }
}

/// Whether a member of the place was being filled in the era that is named.
fn was_filled(row: Option<&Row>, caller: u32, args: &FilledArgs) -> Claim {
    let state = row.and_then(|row| row.state_of(args.ds_id));
    match (reigns(row, caller, &args.place), row) {
        (Claim::Holds, Some(row)) if row.era > args.era => Claim::Late,
        (Claim::Holds, Some(row)) if row.era < args.era => Claim::False("that era has not begun"),
        (Claim::Holds, _) if state != Some(MemberState::Filling) => {
            Claim::False("the member is not being filled")
        }
        (claim, _) => claim,
    }
}

fn row<'a>(groups: &'a Groups, place: &PlaceReign) -> Option<&'a Row> {
    let group = groups.placement().group(place.group)?;
    group.rows.get(place.place as usize)
}

/// Logs what is false and refuses it.
fn verdict(
    claim: Claim,
    said: &'static str,
    caller: u32,
    place: &PlaceReign,
) -> Result<(), Refusal> {
    let Claim::False(why) = claim else {
        return Ok(());
    };
    tracing::warn!(
        ds = caller,
        group = place.group,
        place = place.place,
        reign = place.reign,
        "{said} refused, a data server says what cannot be: {why}"
    );
    Err(Refusal::new(Status::NotPrimary, why))
}

/// Refuses an OUT that no data server can have come to by being late.
pub(crate) fn check_out(groups: &Groups, caller: u32, args: &OutArgs) -> Result<(), Refusal> {
    for place in &args.places.0 {
        let claim = match reigns(row(groups, place), caller, place) {
            Claim::Holds if args.ds_id == caller => Claim::False("it leaves out itself"),
            claim => claim,
        };
        verdict(claim, "OUT", caller, place)?;
    }
    Ok(())
}

/// As [`check_out`], for FILLED.
pub(crate) fn check_filled(groups: &Groups, caller: u32, args: &FilledArgs) -> Result<(), Refusal> {
    let claim = was_filled(row(groups, &args.place), caller, args);
    verdict(claim, "FILLED", caller, &args.place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Member;

    /// Data server 1 is primary since version 5, 2 is in sync, 3 is filled since version 7.
    fn place() -> Row {
        let member = |(ds, state)| Member::new(ds, state);
        let members = [
            (1, MemberState::Sync),
            (2, MemberState::Sync),
            (3, MemberState::Filling),
        ];
        Row {
            primary: 1,
            era: 7,
            reign: 5,
            members: members.map(member).to_vec().into(),
        }
    }

    fn at(reign: u32) -> PlaceReign {
        PlaceReign {
            group: 1,
            place: 0,
            reign,
        }
    }

    #[test]
    fn only_the_primary_of_a_reign_holds_it() {
        let row = place();
        assert_eq!(reigns(Some(&row), 1, &at(5)), Claim::Holds);
        for caller in [1, 2, 9] {
            assert_eq!(reigns(Some(&row), caller, &at(4)), Claim::Late);
        }
        for (row, caller, reign) in [(Some(&row), 2, 5), (Some(&row), 1, 6), (None, 1, 5)] {
            let claim = reigns(row, caller, &at(reign));
            assert!(matches!(claim, Claim::False(_)), "{caller} {reign}");
        }
    }

    #[test]
    fn only_a_member_that_is_being_filled_is_filled() {
        let row = place();
        let said = |caller, ds_id, reign, era| {
            let place = at(reign);
            let args = FilledArgs { ds_id, place, era };
            was_filled(Some(&row), caller, &args)
        };
        assert_eq!(said(1, 3, 5, 7), Claim::Holds);
        assert_eq!(said(1, 3, 5, 6), Claim::Late);
        assert_eq!(said(1, 2, 4, 7), Claim::Late);
        for (caller, ds_id, reign, era) in [(1, 2, 5, 7), (1, 9, 5, 7), (1, 3, 5, 8), (2, 3, 5, 7)]
        {
            let claim = said(caller, ds_id, reign, era);
            assert!(
                matches!(claim, Claim::False(_)),
                "{caller} {ds_id} {reign} {era}"
            );
        }
    }
}
