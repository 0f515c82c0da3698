//! Keys that no configuration has: which one was meant.
//!
//! Owns the distance between words. Knows no key: the parser's message names those that are allowed.

/// Longest key that is compared; the work grows with the square.
const KEY_BYTES_MAX: usize = 64;

/// The parser's message about an unknown key, with the key that was probably meant in place of all that there are. `None` for
/// another message.
pub(super) fn suggestion(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field ")?;
    let mut words = rest.split('`').skip(1).step_by(2);
    let wrong = words.next()?;
    let nearest = words
        .map(|known| (distance(wrong, known), known))
        .filter(|(steps, known)| *steps <= steps_max(wrong, known))
        .min();
    Some(match nearest {
        Some((_, known)) => format!("unknown key `{wrong}`; did you mean `{known}`?"),
        None => format!(
            "unknown key `{wrong}`; docs/operate/configuration.md has all keys of ropewalk {}, and a newer release may know more",
            env!("CARGO_PKG_VERSION")
        ),
    })
}

/// A third of the letters may be wrong.
fn steps_max(wrong: &str, known: &str) -> usize {
    wrong.len().max(known.len()).div_ceil(3)
}

/// Letters to insert, delete, replace or swap with their neighbour (optimal string alignment).
fn distance(one: &str, other: &str) -> usize {
    let (a, b) = (one.as_bytes(), other.as_bytes());
    if a.len().max(b.len()) > KEY_BYTES_MAX {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let replaced = rows[i - 1][j - 1] + differs;
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            let is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if is_swap {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_suggested_and_none_that_is_far() {
        for (wrong, meant) in [
            ("stripe_units", Some("stripe_unit")),
            ("lisetn", Some("listen")),
            ("lease-seconds", Some("lease_seconds")),
            ("colour", None),
            ("", None),
        ] {
            let message = format!(
                "unknown field `{wrong}`, expected one of `listen`, `lease_seconds`, `stripe_unit`"
            );
            let said = suggestion(&message).unwrap();
            let expected = match meant {
                Some(key) => format!("did you mean `{key}`?"),
                None => format!(
                    "all keys of ropewalk {}, and a newer release",
                    env!("CARGO_PKG_VERSION")
                ),
            };
            assert!(said.contains(&expected), "{said}");
        }
        let one = suggestion("unknown field `poool`, expected `pool`").unwrap();
        assert!(one.ends_with("did you mean `pool`?"), "{one}");
        assert_eq!(suggestion("invalid type: string"), None);
    }

    #[test]
    fn distances_are_those_of_edits_and_swaps() {
        for (one, other, steps) in [("", "abc", 3), ("abc", "acb", 1), ("abc", "abd", 1)] {
            assert_eq!(distance(one, other), steps);
            assert_eq!(distance(other, one), steps);
        }
        assert_eq!(distance(&"x".repeat(65), "x"), usize::MAX);
    }
}
