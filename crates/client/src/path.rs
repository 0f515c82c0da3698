//! Paths as components. A path is bytes; `/` separates, `.` and empty components mean nothing.

use crate::Error;
use nfs4::NAME_BYTES_MAX;

/// Most components of a path, those that symbolic links add included.
pub(crate) const COMPONENTS_MAX: usize = 512;

/// The components of a path; `..` stays one.
pub(crate) fn components(path: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let mut out = Vec::new();
    for component in path.split(|b| *b == b'/') {
        if component.is_empty() || component == b"." {
            continue;
        }
        check_name(component)?;
        out.push(component);
        if out.len() > COMPONENTS_MAX {
            return Err(Error::Path("it has too many components"));
        }
    }
    Ok(out)
}

/// The path of the directory, and the name in it. The root has neither.
pub(crate) fn split_last(path: &[u8]) -> Result<(Vec<&[u8]>, &[u8]), Error> {
    let mut all = components(path)?;
    match all.pop() {
        None => Err(Error::Path("it is the root")),
        Some(b"..") => Err(Error::Path("it ends in ..")),
        Some(name) => Ok((all, name)),
    }
}

fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.len() > NAME_BYTES_MAX as usize {
        return Err(Error::Path("a name is longer than 255 bytes"));
    }
    if name.contains(&0) {
        return Err(Error::Path("a name has a zero byte"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_dot_components_mean_nothing() {
        for (path, want) in [
            ("", &[][..]),
            ("/", &[]),
            ("//a/./b//", &["a", "b"]),
            ("a/../b", &["a", "..", "b"]),
        ] {
            let got = components(path.as_bytes()).unwrap();
            let want: Vec<&[u8]> = want.iter().map(|c| c.as_bytes()).collect();
            assert_eq!(got, want, "{path}");
        }
    }

    #[test]
    fn names_that_cannot_be_sent_are_refused() {
        assert!(components(b"a\0b").is_err());
        assert!(components(&[b'x'; 255]).is_ok());
        assert!(components(&[b'x'; 256]).is_err());
        assert!(components(&b"a/".repeat(COMPONENTS_MAX + 1)).is_err());
        for path in ["", "/", ".", "a/.."] {
            assert!(split_last(path.as_bytes()).is_err(), "{path}");
        }
        let (dir, name) = split_last(b"/a/b/").unwrap();
        assert_eq!((dir, name), (vec![&b"a"[..]], &b"b"[..]));
    }
}
