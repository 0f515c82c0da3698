//! The layout that files are to have, and the words of the attribute that says it.

/// The attribute; `user.ropewalk.layout` on a kernel mount.
pub(super) const XATTR: &[u8] = b"ropewalk.layout";

/// What files are to have, as the words of the attribute.
pub(super) struct WantedLayout {
    pub(super) text: String,
}

impl WantedLayout {
    /// Whether a file with this layout has all of it. One in the metadata store has no stripes.
    pub(super) fn is_met_by(&self, text: &str) -> bool {
        if word(text, "inline").is_some() {
            return true;
        }
        let mut words = self
            .text
            .split_whitespace()
            .filter_map(|w| w.split_once('='));
        words.all(|(name, value)| match name {
            "copies" => word(text, "copies").unwrap_or("1") == value,
            name => word(text, name) == Some(value),
        })
    }
}

/// The value of a word of a layout.
pub(super) fn word<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut words = text.split_whitespace().filter_map(|w| w.split_once('='));
    words
        .find(|(word, _)| *word == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_met_when_all_that_is_named_is_as_it_is_to_be() {
        let met = |wanted: &str, text| {
            let text_of = wanted.to_owned();
            WantedLayout { text: text_of }.is_met_by(text)
        };
        let file = "stripe_unit=65536 stripe_count=3";
        assert!(met("copies=1", file) && met("stripe_unit=65536 copies=1", file));
        assert!(!met("copies=2", file) && !met("stripe_count=2", file));
        assert!(met("copies=2", "stripe_unit=65536 stripe_count=3 copies=2"));
        assert!(met("copies=2", "inline=77"));
    }
}
