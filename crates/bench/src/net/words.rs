//! What a tool said before it failed.

/// Most of the tools' words in an error.
const WORDS_MAX: usize = 400;

/// The end of what a tool said, for an error.
pub(super) fn last_words(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(words);
    let text: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let text = text.join("; ");
    let start = text
        .char_indices()
        .rev()
        .nth(WORDS_MAX)
        .map_or(0, |(at, _)| at);
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_at_their_beginning() {
        assert_eq!(last_words(b"\n one \n\ntwo\n"), "one; two");
        let long = "\u{e4}".repeat(1000);
        assert!(last_words(long.as_bytes()).chars().count() <= WORDS_MAX + 1);
    }
}
