//! Users and groups by the name service switch of this machine: files, LDAP, whatever nsswitch.conf says.
//!
//! A program that is linked statically, or with musl, sees /etc/passwd and /etc/group only.

use mds::identities::{Directory, GROUPS_MAX, IdKind, NameAnswer, Question};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;
use std::io;

/// The name service switch.
pub(crate) struct NameService;

impl Directory for NameService {
    fn ask(&self, question: &Question) -> io::Result<NameAnswer> {
        let known = match question {
            Question::Groups(uid) => groups(*uid)?.map(|g| NameAnswer::Groups(g.into())),
            Question::Name(IdKind::User, id) => {
                let user = User::from_uid(Uid::from_raw(*id))?;
                user.map(|u| NameAnswer::Name(u.name.into()))
            }
            Question::Name(IdKind::Group, id) => {
                let group = Group::from_gid(Gid::from_raw(*id))?;
                group.map(|g| NameAnswer::Name(g.name.into()))
            }
            Question::Id(IdKind::User, name) => {
                User::from_name(name)?.map(|u| NameAnswer::Id(u.uid.as_raw()))
            }
            Question::Id(IdKind::Group, name) => {
                Group::from_name(name)?.map(|g| NameAnswer::Id(g.gid.as_raw()))
            }
        };
        Ok(known.unwrap_or(NameAnswer::Unknown))
    }
}

fn groups(uid: u32) -> io::Result<Option<Vec<u32>>> {
    let Some(user) = User::from_uid(Uid::from_raw(uid))? else {
        return Ok(None);
    };
    let name = CString::new(user.name)?;
    let mut groups: Vec<u32> = getgrouplist(&name, user.gid)?
        .into_iter()
        .map(Gid::as_raw)
        .collect();
    if groups.len() > GROUPS_MAX {
        tracing::warn!(uid, "more than {GROUPS_MAX} groups: the others are ignored");
        groups.truncate(GROUPS_MAX);
    }
    Ok(Some(groups))
}

/// The user and the group of the package.
pub(crate) const PACKAGE_USER: &str = "ropewalk";

/// The package's user, where this machine has it.
///
/// # Errors
/// The name service gives no answer.
pub(crate) fn package_user() -> nix::Result<Option<User>> {
    User::from_name(PACKAGE_USER)
}

/// A user's name, or its number.
pub(crate) fn user_name(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// The id of a user: a number, or a name of this machine.
///
/// # Errors
/// One sentence: there is no such user.
pub(crate) fn user_id(text: &str) -> Result<u32, String> {
    id(text, IdKind::User, "user")
}

/// The id of a group, likewise.
///
/// # Errors
/// One sentence: there is no such group.
pub(crate) fn group_id(text: &str) -> Result<u32, String> {
    id(text, IdKind::Group, "group")
}

fn id(text: &str, kind: IdKind, what: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    match NameService.ask(&Question::Id(kind, text.into())) {
        Ok(NameAnswer::Id(id)) => Ok(id),
        Ok(_) => Err(format!(
            "this machine knows no {what} {text:?}; write its number"
        )),
        Err(e) => Err(format!("cannot look up the {what} {text:?}: {e}")),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: users and groups of this machine are found both ways.
    //! Method: whatever /etc/passwd and /etc/group hold here, read with our own eyes.
    use super::*;
    use std::collections::BTreeMap;
    use std::fs;

    fn ids(file: &str) -> BTreeMap<String, u32> {
        let text = fs::read_to_string(file).unwrap();
        let entry = |line: &str| {
            let mut words = line.split(':');
            let name = words.next()?.to_owned();
            Some((name, words.nth(1)?.parse().ok()?))
        };
        text.lines().filter_map(entry).collect()
    }

    #[test]
    fn names_and_numbers_lead_to_each_other() {
        let ask = |question| NameService.ask(&question).unwrap();
        for (kind, file) in [(IdKind::User, "/etc/passwd"), (IdKind::Group, "/etc/group")] {
            let all = ids(file);
            assert!(!all.is_empty(), "{file}");
            for (name, id) in all
                .iter()
                .filter(|(_, id)| all.values().filter(|i| i == id).count() == 1)
            {
                assert_eq!(ask(Question::Id(kind, name.clone())), NameAnswer::Id(*id));
                assert_eq!(
                    ask(Question::Name(kind, *id)),
                    NameAnswer::Name(name.as_str().into())
                );
            }
            let nobody = ask(Question::Id(kind, "no such name here".into()));
            assert_eq!(nobody, NameAnswer::Unknown);
        }
        assert_eq!(ask(Question::Groups(3_999_999_999)), NameAnswer::Unknown);
    }

    #[test]
    fn a_user_has_his_own_group_and_those_that_list_him() {
        let groups = fs::read_to_string("/etc/group").unwrap();
        for (user, uid) in ids("/etc/passwd") {
            let NameAnswer::Groups(found) = NameService.ask(&Question::Groups(uid)).unwrap() else {
                panic!("{user} has no groups");
            };
            assert!(!found.is_empty(), "{user}");
            for line in groups.lines() {
                let words: Vec<&str> = line.split(':').collect();
                if words[3].split(',').any(|member| member == user) {
                    assert!(
                        found.contains(&words[2].parse().unwrap()),
                        "{user} in {}",
                        words[0]
                    );
                }
            }
        }
    }
}
