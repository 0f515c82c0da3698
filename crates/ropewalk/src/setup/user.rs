//! Users: the one that a server runs as, and the one that may write to a new tree.
//!
//! May call the name service of this machine.

use crate::failure::{Outcome, cannot};
use crate::nss::{PACKAGE_USER, package_user, user_name};
use nix::unistd::{Group, Uid, User};
use rustix::process::{getegid, geteuid};

/// The user that a server will run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerUser {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) name: String,
}

impl ServerUser {
    /// The package's user when root runs setup; otherwise the user that runs it.
    ///
    /// # Errors
    /// The name service gives no answer.
    pub(super) fn find() -> Outcome<Self> {
        let package = match geteuid().is_root() {
            true => package_user().map_err(cannot("ask for the user ropewalk"))?,
            false => None,
        };
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        Ok(match package {
            Some(user) => Self {
                uid: user.uid.as_raw(),
                gid: user.gid.as_raw(),
                name: user.name,
            },
            None => Self {
                uid,
                gid,
                name: user_name(uid),
            },
        })
    }
}

/// The group of the package, where it exists.
pub(super) fn package_group() -> Option<u32> {
    let group = Group::from_name(PACKAGE_USER).ok().flatten();
    group.map(|group| group.gid.as_raw())
}

/// The owner of a root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A name of this machine, `UID:GID`, or the number of a user of this machine.
pub(super) fn parse_owner(text: &str) -> Result<Owner, String> {
    let owner = match text.split_once(':') {
        Some((uid, gid)) => {
            let refuse =
                |_| format!("`{text}` is no owner: write a name, or UID:GID as in 1000:1000");
            let (uid, gid) = (uid.parse().map_err(refuse)?, gid.parse().map_err(refuse)?);
            Owner { uid, gid }
        }
        None => {
            let found = match text.parse::<u32>() {
                Ok(uid) => User::from_uid(Uid::from_raw(uid)),
                Err(_) => User::from_name(text),
            };
            let user = found.map_err(|e| format!("cannot ask for the user {text}: {e}"))?;
            let unknown =
                || format!("this machine has no user `{text}`: write UID:GID as in 1000:1000");
            let user = user.ok_or_else(unknown)?;
            let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
            Owner { uid, gid }
        }
    };
    match owner.uid {
        0 => Err(
            "clients' root becomes nobody, so root could not write: name another user".to_owned(),
        ),
        _ => Ok(owner),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: an owner is a user who can write.
    use super::*;

    #[test]
    fn owners_are_names_or_numbers_and_never_root() {
        for (text, owner) in [
            ("1000:100", Some((1000, 100))),
            ("0:0", None),
            ("root", None),
            ("0", None),
            ("1000:", None),
            (":1", None),
            ("-1:1", None),
            ("no such user here", None),
            ("3999999999", None),
            ("", None),
        ] {
            let read = parse_owner(text).ok().map(|o| (o.uid, o.gid));
            assert_eq!(read, owner, "{text}");
        }
        let nobody = User::from_name("nobody").unwrap().unwrap();
        assert_eq!(parse_owner("nobody").unwrap().uid, nobody.uid.as_raw());
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(3_999_999_999), "3999999999");
    }
}
