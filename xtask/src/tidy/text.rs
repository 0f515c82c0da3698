//! Rules on lines of text: white space, characters, words, clocks.

use std::ops::RangeInclusive;

/// Characters beyond ASCII that our texts use: signs, and one letter for tests of UTF-8.
const CHARACTERS: &str = "§–—…×≤≥≈±µ·²é";
/// Arrows, frames and shapes of diagrams.
const DIAGRAMS: [RangeInclusive<char>; 2] = ['\u{2190}'..='\u{21ff}', '\u{2500}'..='\u{25ff}'];

/// What must not be committed, and why. The words are cut in two so that this file passes.
const PHRASES: [(&str, &str); 12] = [
    (concat!("todo", "!("), "finish it or leave it out"),
    (
        concat!("unimplemented", "!("),
        "answer with an error instead",
    ),
    (concat!("dbg", "!("), "use tracing"),
    (concat!("TO", "DO"), "open an issue"),
    (concat!("FIX", "ME"), "fix it or open an issue"),
    (concat!("XX", "X"), "say what is meant"),
    (concat!("HA", "CK"), "say what is meant and why"),
    (concat!("DEB", "UG:"), "left over from debugging"),
    (concat!("eprintln!(\"", "here"), "left over from debugging"),
    (concat!("<<<", "<<<<"), "an unresolved merge"),
    (concat!(">>>", ">>>>"), "an unresolved merge"),
    (concat!("/root/", ".cargo"), "a path of one machine"),
];

/// Absolute folders of one machine; only as the start of a path.
const MACHINE_FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/tmp/", "bash_jobs")];

/// What cores may not call, and what they take instead.
const CLOCKS: [(&str, &str); 8] = [
    ("tokio::time", "take `now` as an argument"),
    ("Instant::now", "take `now` in milliseconds as an argument"),
    ("SystemTime::now", "take the wall time as an argument"),
    ("thread::sleep", "return the time to wait for"),
    ("getrandom", "take random bytes as an argument"),
    ("thread_rng", "take a seeded generator as an argument"),
    ("rand::rng", "take a seeded generator as an argument"),
    ("RandomState", "take a seed, or use an ordered map"),
];

/// White space, characters and phrases of any text.
pub(super) fn lines(path: &str, file: &str, problems: &mut Vec<String>) {
    // Not `lines()`, which would hide a carriage return.
    for (index, line) in file.split('\n').enumerate() {
        let place = format!("{path}:{}", index + 1);
        if line.contains('\t') && !path.ends_with("Makefile") && !path.ends_with(".patch") {
            problems.push(format!("{place}: a tab"));
        }
        if line.ends_with([' ', '\r']) {
            problems.push(format!("{place}: white space at the end of the line"));
        }
        let known = |c| CHARACTERS.contains(c) || DIAGRAMS.iter().any(|range| range.contains(&c));
        let strange = |c: &char| !c.is_ascii() && !known(*c);
        if let Some(c) = line.chars().find(strange) {
            problems.push(format!(
                "{place}: the character {c:?} (U+{:04X})",
                u32::from(c)
            ));
        }
        for (phrase, advice) in PHRASES.iter().filter(|(phrase, _)| has_word(line, phrase)) {
            problems.push(format!("{place}: {phrase} ({advice})"));
        }
        for folder in MACHINE_FOLDERS.iter().filter(|f| starts_path(line, f)) {
            problems.push(format!("{place}: {folder} (a path of one machine)"));
        }
    }
    if !file.is_empty() && !file.ends_with('\n') {
        problems.push(format!("{path}: no line feed at the end of the file"));
    }
    if file.ends_with("\n\n") {
        problems.push(format!("{path}: an empty line at the end of the file"));
    }
}

/// Every module opens with a comment on what it owns.
pub(super) fn module(path: &str, file: &str, problems: &mut Vec<String>) {
    if !file.starts_with("//! ") {
        problems.push(format!(
            "{path}:1: a module opens with `//!` and what it owns"
        ));
    }
}

/// Clocks and randomness in code that takes them as arguments. Comments may speak of them.
pub(super) fn clocks(path: &str, file: &str, problems: &mut Vec<String>) {
    for (index, line) in file.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for (call, instead) in CLOCKS.iter().filter(|(call, _)| has_word(code, call)) {
            let number = index + 1;
            problems.push(format!("{path}:{number}: {call} ({instead})"));
        }
    }
}

/// Whether `phrase` stands in the line without a letter or digit before it or, when the phrase
/// ends in one, after it.
fn has_word(line: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(phrase).any(|(at, _)| {
        let open_before = line[..at].ends_with(is_word);
        let open_after = line[at + phrase.len()..].starts_with(is_word);
        !open_before && (!phrase.ends_with(is_word) || !open_after)
    })
}

fn starts_path(line: &str, folder: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "_-.}/".contains(c);
    line.match_indices(folder)
        .any(|(at, _)| !line[..at].ends_with(inside))
}

#[cfg(test)]
mod tests {
    //! Each rule on the smallest text that breaks it, and on its nearest innocent neighbour.
    use super::*;

    fn problems(file: &str) -> usize {
        let mut problems = Vec::new();
        lines("a.md", file, &mut problems);
        problems.len()
    }

    #[test]
    fn white_space_is_checked() {
        assert_eq!(problems("a b\n"), 0);
        assert_eq!(problems(""), 0);
        for bad in ["a\tb\n", "a \n", "a\r\n", "a", "a\n\n"] {
            assert_eq!(problems(bad), 1, "{bad:?}");
        }
    }

    #[test]
    fn only_known_characters_pass() {
        assert_eq!(problems("RFC 8881 §18.43 ≤ 2 µs → ok\n"), 0);
        assert_eq!(problems("a\u{a0}b\n"), 1);
        assert_eq!(problems("\u{201c}a\u{201d}\n"), 1);
    }

    #[test]
    fn every_phrase_is_found_and_its_neighbours_are_not() {
        for (phrase, _) in PHRASES {
            assert_eq!(problems(&format!("x; {phrase}\n")), 1, "{phrase}");
        }
        assert_eq!(problems(concat!("my_", "todo", "!(x)\n")), 0);
        assert_eq!(problems(concat!("XX", "XX\n")), 0);
    }

    #[test]
    fn machine_folders_are_told_from_parts_of_other_paths() {
        let folder = MACHINE_FOLDERS[0];
        assert_eq!(problems(&format!("see {folder}notes\n")), 1);
        assert_eq!(problems(&format!("\"{folder}notes\"\n")), 1);
        assert_eq!(problems(&format!("/srv{folder}notes\n")), 0);
        assert_eq!(problems(&format!("nfs://host{folder}notes\n")), 0);
    }

    #[test]
    fn modules_open_with_their_purpose() {
        let mut problems = Vec::new();
        module("a.rs", "//! Text.\n", &mut problems);
        assert!(problems.is_empty());
        module("a.rs", "// Text.\n", &mut problems);
        module("a.rs", "use x;\n", &mut problems);
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn comments_may_name_a_clock() {
        let mut problems = Vec::new();
        clocks("a.rs", "// not Instant::now\nlet x = now;\n", &mut problems);
        assert!(problems.is_empty());
        for (call, _) in CLOCKS {
            clocks("a.rs", &format!("let x = {call}();\n"), &mut problems);
        }
        assert_eq!(problems.len(), CLOCKS.len());
    }
}
