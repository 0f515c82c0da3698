//! Modification times: what somebody set stands until data are changed later, and no longer, whenever the change is
//! reported (POSIX futimens). RFC 8881 §12.5.4.1 leaves it to the server.
//!
//! It is judged at the end, when all reports have come in. Only what certainly came before or after counts, as in [`super::data`].

use super::Findings;
use super::data::{Change, File, NEVER, SetTime, What};
use std::collections::BTreeMap;

/// Adds what does not fit to the findings.
pub(crate) fn check(files: &BTreeMap<u64, File>, findings: &Findings) {
    for (id, file) in files {
        let Some(second) = file.final_second else {
            continue;
        };
        // Somebody set it by name, and had another file of this name open.
        let others = files.iter().filter(|(other, _)| *other != id);
        let mut others = others.flat_map(|(_, file)| &file.times);
        if others.any(|set| set.second == second) {
            continue;
        }
        if let Err(text) = judge(file, second) {
            findings.add(format!("file {id}: {text}"));
        }
    }
}

fn judge(file: &File, second: i64) -> Result<(), String> {
    if let Some(shown) = file.times.iter().find(|set| set.second == second) {
        let is_later_write = |c: &&Change| {
            matches!(c.what, What::Write(..)) && c.acked != NEVER && c.start > shown.end
        };
        if let Some(write) = file.changes.iter().find(is_later_write) {
            return Err(format!(
                "the modification time set by {shown:?} stands, though {write:?} came later"
            ));
        }
        let is_later = |set: &&SetTime| set.end != NEVER && set.start > shown.end;
        return match file.times.iter().find(is_later) {
            Some(set) => Err(format!(
                "the modification time is of {shown:?}, not {set:?}"
            )),
            None => Ok(()),
        };
    }
    let is_last = |set: &&SetTime| {
        set.end != NEVER
            && file
                .changes
                .iter()
                .all(|c| c.acked.max(c.last_done) < set.start)
    };
    match file.times.iter().find(is_last) {
        Some(set) => Err(format!(
            "the modification time is {second}, though nothing was changed after {set:?}"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a time that was set stands exactly until a later change.
    use super::*;

    const NOW: i64 = 1_000_000;

    fn set(second: i64, start: u64, end: Option<u64>) -> SetTime {
        SetTime {
            second,
            start: (start, 0),
            end: end.map_or(NEVER, |at| (at, 0)),
        }
    }

    fn write(start: u64, acked: Option<u64>) -> Change {
        Change {
            who: "w".into(),
            start: (start, 0),
            returned: (start + 1, 0),
            last_done: crate::check::data::ALWAYS,
            acked: acked.map_or(NEVER, |at| (at, 0)),
            what: What::Write(0, 1, 1),
        }
    }

    #[test]
    fn a_time_stands_until_a_later_change() {
        let sure = set(7, 10, Some(20));
        for (times, changes, second, fits) in [
            (vec![sure], vec![], 7, true),
            (vec![sure], vec![], NOW, false),
            (vec![sure], vec![write(1, Some(9))], 7, true),
            (vec![sure], vec![write(1, Some(9))], NOW, false),
            // What is acknowledged during or after it may come later.
            (vec![sure], vec![write(1, Some(15))], NOW, true),
            (vec![sure], vec![write(1, None)], NOW, true),
            (vec![sure], vec![write(15, Some(25))], 7, true),
            (vec![sure], vec![write(21, Some(25))], NOW, true),
            (vec![sure], vec![write(21, Some(25))], 7, false),
            (vec![sure], vec![write(21, None)], 7, true),
            // Two of them.
            (vec![sure, set(8, 21, Some(30))], vec![], 8, true),
            (vec![sure, set(8, 21, Some(30))], vec![], 7, false),
            (vec![sure, set(8, 15, Some(30))], vec![], 7, true),
            // One that may not have happened.
            (vec![set(7, 10, None)], vec![], NOW, true),
            (vec![set(7, 10, None)], vec![], 7, true),
        ] {
            let file = File {
                times: times.clone(),
                changes: changes.clone(),
                ..File::default()
            };
            let judged = judge(&file, second);
            assert_eq!(
                judged.is_ok(),
                fits,
                "{times:?} {changes:?} {second}: {judged:?}"
            );
        }
    }
}
