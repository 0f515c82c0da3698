//! Whether a server's configuration can be used, by the code that the server itself uses.

use super::installed::{Installed, Unusable};
use super::row::{Row, Verdict};
use super::server::{Running, server_user};
use crate::account::{Account, Wanted};
use crate::status::health::{cert_ends, is_cert_late};
use crate::times::now_s;
use std::path::Path;

/// The name of its first row.
pub(super) const CHECK: &str = "configuration";
const TOKEN: &str = "join token";
const CERTIFICATE: &str = "certificate";

/// The file, and the token that it names.
pub(super) fn check(installed: &Installed, running: &Running) -> Vec<Row> {
    let Some(file) = &installed.file else {
        return vec![Row::unknown(
            CHECK,
            "no configuration was found for this directory: name it with --config FILE",
        )];
    };
    let shown = file.display();
    match &installed.config {
        Some(Err(Unusable::Wrong(why))) => {
            let action = format!("mend it, until `ropewalk config check {shown}` is content");
            return vec![Row::failed(CHECK, why.to_string(), action)];
        }
        Some(Err(Unusable::Late(limit))) => {
            return vec![Row::failed(CHECK, limit.late(), limit.action())];
        }
        Some(Ok(_)) | None => {}
    }
    let user = server_user(installed, running);
    let valid = Row::ok(CHECK, format!("{shown} is valid"));
    let verdict = match running.status {
        // It is a matter of the next start.
        Some(_) => Verdict::Warning,
        None => Verdict::Failed,
    };
    let closed = closed(CHECK, file, user.as_ref());
    let first = closed.map_or(valid, |row| Row { verdict, ..row });
    let token = token(installed, running, user.as_ref());
    let certificate = certificate(installed, user.as_ref(), now_s());
    let rows = [first].into_iter().chain(token);
    rows.chain(certificate).collect()
}

/// A file that the server's user may not read: root, who runs this, may.
fn closed(check: &'static str, file: &Path, user: Option<&Account>) -> Option<Row> {
    let user = user?;
    let closed = user.refused_at(file, Wanted::Read)?;
    let (name, file, at) = (&user.name, file.display(), closed.path.display());
    let (why, action) = match closed.wanted {
        Wanted::Pass => (
            format!(": {at} lets it not through"),
            format!("chmod o+x {at}, or let a group of {name} through"),
        ),
        Wanted::Read | Wanted::All => (
            String::new(),
            format!("chown root:{name} {at}; chmod 0640 {at}"),
        ),
    };
    let says = format!("the server runs as {name}, which may not read {file}{why}");
    Some(Row::failed(check, says, action))
}

/// A token that cannot be read keeps a server from joining. One that runs has read it, or needs none.
fn token(installed: &Installed, running: &Running, user: Option<&Account>) -> Option<Row> {
    if running.status.is_some() {
        return None;
    }
    let ds = installed.ds()?;
    let Err(why) = ds.token() else {
        // A server that has joined starts without it.
        let row = closed(TOKEN, ds.join_token_file.as_deref()?, user)?;
        return Some(Row {
            verdict: Verdict::Warning,
            ..row
        });
    };
    Some(Row::warning(
        TOKEN,
        format!("{why}: a server that has not joined cannot start"),
        "let the server's user read it, or take `join_token_file` away once the server has joined",
    ))
}

/// The operator's certificate of the API. Files that are wrong keep the server from starting, and from a reload.
fn certificate(installed: &Installed, user: Option<&Account>, now_s: i64) -> Option<Row> {
    let mds = installed.mds()?;
    for file in [&mds.admin_cert, &mds.admin_key].into_iter().flatten() {
        if let Some(row) = closed(CERTIFICATE, file, user) {
            return Some(row);
        }
    }
    let left_s = match mds.own_cert() {
        Ok(own) => own?.not_after_s().saturating_sub(now_s),
        Err(why) => {
            let action = "name a certificate and its key, both PEM; the server's user owns the key, mode 600";
            return Some(Row::failed(CERTIFICATE, why, action));
        }
    };
    let says = format!("that of `admin_cert` {}", cert_ends(left_s));
    let action = "put a new one in its place, then run `ropewalk reload`";
    Some(match is_cert_late(left_s) {
        true => Row::warning(CERTIFICATE, says, action),
        false => Row::ok(CERTIFICATE, says),
    })
}

#[cfg(test)]
mod tests {
    //! Goal: what is wrong with a file is said as `config check` says it, and a missing token before a server starts.
    use super::*;
    use crate::status::ServerStatus;
    use crate::status::health::CERT_DAYS_MIN;
    use std::os::unix::fs::PermissionsExt;

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

    #[test]
    fn a_file_that_the_servers_user_may_not_read_is_named_although_root_can() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mds.toml");
        std::fs::write(&file, "state_dir = '/s'").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let user = |uid| Account {
            name: "ropewalk".to_owned(),
            uid,
            groups: vec![uid],
        };
        let row = closed(CHECK, &file, Some(&user(3_999_999_999))).unwrap();
        assert_eq!(row.verdict, Verdict::Failed);
        assert!(row.says.contains("runs as ropewalk"), "{row:?}");
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(closed(CHECK, &file, Some(&user(own))), None);
        assert_eq!(closed(CHECK, &file, None), None);
    }

    #[test]
    fn a_certificate_that_ends_soon_or_cannot_be_used_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (cert, key) = (path("cert"), path("key"));
        let made = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&key, made.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut params = rcgen::CertificateParams::new(["mds.example.org".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        std::fs::write(&cert, params.self_signed(&made).unwrap().pem()).unwrap();
        let (cert, key) = (cert.display(), key.display());
        let text = format!("state_dir = '/s'\nadmin_cert = '{cert}'\nadmin_key = '{key}'");
        std::fs::write(path("mds.toml"), text).unwrap();
        let installed = Installed::of_file(&path("mds.toml"));
        let row = |now_s| certificate(&installed, None, now_s).expect("a row");
        const END_S: i64 = 1_893_456_000;
        const DAYS_S: i64 = CERT_DAYS_MIN * 24 * 3600;
        for (now_s, verdict, says) in [
            (END_S - DAYS_S, Verdict::Ok, "expires in 14 d"),
            (END_S - DAYS_S + 1, Verdict::Warning, "expires in 13 d"),
            (END_S + 1, Verdict::Warning, "has expired"),
        ] {
            let row = row(now_s);
            assert_eq!(row.verdict, verdict, "{row:?}");
            assert!(row.says.contains(says), "{row:?}");
        }
        std::fs::remove_file(path("key")).unwrap();
        let row = row(END_S);
        assert_eq!(row.verdict, Verdict::Failed);
        assert!(
            row.says.starts_with("`admin_cert`, `admin_key`: "),
            "{row:?}"
        );
    }
}
