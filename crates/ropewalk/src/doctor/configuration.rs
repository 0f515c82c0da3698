//! Whether a server's configuration can be used, by the code that the server itself uses.

use super::installed::Installed;
use super::row::Row;
use super::server::Running;

const CHECK: &str = "configuration";

/// The file, and the token that it names.
pub(super) fn check(installed: &Installed, running: &Running) -> Vec<Row> {
    let Some(file) = &installed.file else {
        return vec![Row::unknown(
            CHECK,
            "no configuration was found for this directory: name it with --config FILE",
        )];
    };
    if let Some(Err(why)) = &installed.config {
        return vec![Row::failed(
            CHECK,
            why.to_string(),
            format!(
                "mend it, until `ropewalk config check {}` is content",
                file.display()
            ),
        )];
    }
    let valid = Row::ok(CHECK, format!("{} is valid", file.display()));
    [valid]
        .into_iter()
        .chain(token(installed, running))
        .collect()
}

/// A token that cannot be read keeps a server from joining. One that runs has read it, or needs none.
fn token(installed: &Installed, running: &Running) -> Option<Row> {
    let why = installed.ds()?.token().err()?;
    if running.status.is_some() {
        return None;
    }
    Some(Row::warning(
        "join token",
        format!("{why}: a server that has not joined cannot start"),
        "let the server's user read it, or take `join_token_file` away once the server has joined",
    ))
}

#[cfg(test)]
mod tests {
    //! Goal: what is wrong with a file is said as `config check` says it, and a missing token before a server starts.
    use super::*;
    use crate::doctor::row::Verdict;
    use crate::status::ServerStatus;

    #[test]
    fn files_have_their_verdicts() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ds.toml");
        let joined = Running {
            status: Some(ServerStatus::Ds(Box::default())),
            ..Running::default()
        };
        for (text, running, verdicts, says) in [
            (
                "state_dir = '/s'",
                &Running::default(),
                &[Verdict::Ok][..],
                "is valid",
            ),
            (
                "state_dir = ",
                &Running::default(),
                &[Verdict::Failed],
                "line 1",
            ),
            (
                "state_dir = '/s'\nlisetn = []",
                &Running::default(),
                &[Verdict::Failed],
                "did you mean `listen`?",
            ),
            (
                "state_dir = '/s'\njoin_token_file = '/no/such'",
                &Running::default(),
                &[Verdict::Ok, Verdict::Warning],
                "cannot read the join token /no/such",
            ),
            (
                "state_dir = '/s'\njoin_token_file = '/no/such'",
                &joined,
                &[Verdict::Ok],
                "is valid",
            ),
        ] {
            std::fs::write(&file, text).unwrap();
            let rows = check(&Installed::of_file(&file), running);
            let found: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
            assert_eq!(found, verdicts, "{text}");
            assert!(rows.last().unwrap().says.contains(says), "{rows:?}");
        }
    }
}
