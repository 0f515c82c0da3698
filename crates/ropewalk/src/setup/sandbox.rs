//! What the units of systemd hide from the servers: a state directory there would be another one, or none.
//!
//! Owns the list of places. `packaging/systemd` has the units.

use std::path::{Path, PathBuf};

/// Places, and the setting of the units that hides each.
const HIDDEN: [(&str, &str); 5] = [
    ("/home", "ProtectHome"),
    ("/root", "ProtectHome"),
    ("/run/user", "ProtectHome"),
    ("/tmp", "PrivateTmp"),
    ("/var/tmp", "PrivateTmp"),
];

/// The place that hides a path from the units, and the setting that does it.
pub(super) fn hidden_by(path: &Path) -> Option<(&'static str, &'static str)> {
    let real = real(path);
    HIDDEN
        .into_iter()
        .find(|(place, _)| path.starts_with(place) || real.starts_with(place))
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let found = path
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    match found {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the list is what the units say.
    use super::*;

    #[test]
    fn places_are_hidden_as_the_units_say() {
        for (path, setting) in [
            ("/home/me/state", Some("ProtectHome")),
            ("/root/state", Some("ProtectHome")),
            ("/run/user/7", Some("ProtectHome")),
            ("/var/tmp/x", Some("PrivateTmp")),
            ("/tmp", Some("PrivateTmp")),
            ("/homes/x", None),
            ("/var/lib/ropewalk/mds", None),
            ("/srv/disk", None),
        ] {
            assert_eq!(
                hidden_by(Path::new(path)).map(|(_, by)| by),
                setting,
                "{path}"
            );
        }
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
        for unit in ["ropewalk-mds.service", "ropewalk-ds.service"] {
            let text = std::fs::read_to_string(units.join(unit)).unwrap();
            for (_, setting) in HIDDEN {
                let line = format!("{setting}=yes");
                assert!(text.lines().any(|l| l == line), "{unit}: {line}");
            }
        }
    }

    #[test]
    fn a_path_is_judged_without_links_also_where_it_is_yet_to_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/proc", &link).unwrap();
        assert_eq!(real(&link.join("new/state")), Path::new("/proc/new/state"));
        assert_eq!(real(Path::new("/no/such")), Path::new("/no/such"));
    }
}
