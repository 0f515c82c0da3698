//! A file by which a client machine tells whether it reaches the export that the metadata server uses.
//!
//! Owns its name and what is in it. A cluster has one in each export, by which the metadata server knows its disk again ([`crate::right_place`]). Handles alone would not do: an export of another server may
//! have equal ones.

use crate::foreign::Foreign;
use crate::ids::caller;
use crate::records::ServerState;
use crate::server::Server;
use bytes::Bytes;
use futures_util::future::join_all;
use nfs3::procs::CreateHow;
use nfs3::{Nfs3Status, Sattr3, StableHow};
use nfs3_client::{Fh, Nfs3Client, Nfs3Error};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Anybody may read it.
const MODE: u32 = 0o644;
/// More than a code: a longer file is not ours.
const READ_BYTES: u32 = 64;

/// What the file of an export says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportIdentity {
    /// The cluster, which its name has.
    pub cluster_id: u64,
    /// A random number.
    pub code: u128,
}

impl fmt::Display for ExportIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:032x}", self.cluster_id, self.code)
    }
}

/// The text is no [`ExportIdentity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoIdentity;

impl fmt::Display for NoIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a code is 16 and 32 hexadecimal digits with a - between")
    }
}

impl std::error::Error for NoIdentity {}

impl FromStr for ExportIdentity {
    type Err = NoIdentity;

    fn from_str(text: &str) -> Result<Self, NoIdentity> {
        let (cluster, code) = text.split_once('-').ok_or(NoIdentity)?;
        let is_hex = |text: &str, len| {
            text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !is_hex(cluster, 16) || !is_hex(code, 32) {
            return Err(NoIdentity);
        }
        Ok(Self {
            cluster_id: u64::from_str_radix(cluster, 16).map_err(|_| NoIdentity)?,
            code: u128::from_str_radix(code, 16).map_err(|_| NoIdentity)?,
        })
    }
}

/// What a machine sees of the file of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighting {
    /// The file with the code: it is that export.
    Same,
    /// A file of the cluster with another code.
    OtherCode,
    /// No such file.
    NoFile,
    /// The directory may not be searched, so nothing is known.
    NoSearch,
    /// The file may not be read.
    NoRead,
}

impl ExportIdentity {
    /// The name of the file in the exported directory.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!(".ropewalk-identity-{:016x}", self.cluster_id)
    }

    /// Leaves the file in an export, in place of one that is there. Returns whether there was one. It is stable when this returns.
    ///
    /// # Errors
    /// [`Nfs3Error`] of the server.
    pub async fn leave(&self, nfs: &Nfs3Client, root: &Fh) -> Result<bool, Nfs3Error> {
        let (admin, name) = (caller(0, 0), self.file_name());
        let was_there = match nfs.remove(&admin, root, name.as_bytes()).await {
            Ok(_) => true,
            Err(Nfs3Error::Status(Nfs3Status::NoEnt)) => false,
            Err(error) => return Err(error),
        };
        let how = CreateHow::Guarded(Sattr3 {
            mode: Some(MODE),
            ..Sattr3::default()
        });
        let made = nfs.create(&admin, root, name.as_bytes(), how).await?;
        let fh = match made.fh {
            Some(fh) => fh,
            None => nfs.lookup(&admin, root, name.as_bytes()).await?.fh,
        };
        let text = Bytes::from(format!("{self}\n"));
        nfs.write(&admin, &fh, 0, StableHow::FileSync, &text)
            .await?;
        Ok(was_there)
    }

    /// What the file of a cluster in an export says; `None` without one that is sound.
    ///
    /// # Errors
    /// [`Nfs3Error`] when the server says something else than that there is no such file.
    pub async fn read(
        cluster_id: u64,
        nfs: &Nfs3Client,
        root: &Fh,
    ) -> Result<Option<Self>, Nfs3Error> {
        let (who, code) = (caller(0, 0), 0);
        let name = Self { cluster_id, code }.file_name();
        let found = match nfs.lookup(&who, root, name.as_bytes()).await {
            Ok(found) => found.fh,
            Err(Nfs3Error::Status(Nfs3Status::NoEnt)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let said = nfs.read(&who, &found, 0, READ_BYTES).await?.data;
        let text = std::str::from_utf8(&said).unwrap_or_default();
        let read = text.trim_end().parse::<Self>().ok();
        Ok(read.filter(|read| read.cluster_id == cluster_id))
    }

    /// Looks for the file in an export. Root is asked for, who may be nobody there.
    ///
    /// # Errors
    /// [`Nfs3Error`] when the server says something else than that there is no such file, or no permission.
    pub async fn look(&self, nfs: &Nfs3Client, root: &Fh) -> Result<Sighting, Nfs3Error> {
        let who = caller(0, 0);
        let found = nfs.lookup(&who, root, self.file_name().as_bytes()).await;
        let fh = match found {
            Ok(found) => found.fh,
            Err(Nfs3Error::Status(Nfs3Status::NoEnt)) => return Ok(Sighting::NoFile),
            Err(error) if is_refusal(&error) => return Ok(Sighting::NoSearch),
            Err(error) => return Err(error),
        };
        let said = match nfs.read(&who, &fh, 0, READ_BYTES).await {
            Ok(read) => read.data,
            Err(error) if is_refusal(&error) => return Ok(Sighting::NoRead),
            Err(error) => return Err(error),
        };
        match said[..] == *format!("{self}\n").as_bytes() {
            true => Ok(Sighting::Same),
            false => Ok(Sighting::OtherCode),
        }
    }
}

impl Foreign {
    /// The server that is used and has this file in its export. One that is down is known by its record alone.
    pub async fn server_with(&self, identity: &ExportIdentity) -> Option<u32> {
        let servers = self.all_servers();
        let is_it = |server: &&Arc<Server>| {
            let record = server.record();
            record.state != ServerState::Removed && record.code.0 == Some(identity.code)
        };
        if let Some(server) = servers.iter().find(is_it) {
            return Some(server.id);
        }
        let looks = servers.iter().filter(|s| s.is_up()).map(|server| async {
            let seen = identity.look(&server.nfs, &server.record().root).await;
            matches!(seen, Ok(Sighting::Same)).then_some(server.id)
        });
        join_all(looks).await.into_iter().flatten().next()
    }
}

fn is_refusal(error: &Nfs3Error) -> bool {
    matches!(
        error,
        Nfs3Error::Status(Nfs3Status::Access | Nfs3Status::Perm)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_it_was_written_and_nothing_else_is_one() {
        let identity = ExportIdentity {
            cluster_id: 7,
            code: u128::MAX - 1,
        };
        let text = identity.to_string();
        assert_eq!(text.parse(), Ok(identity));
        let digits = "0".repeat(32);
        for wrong in [
            String::new(),
            "7-1".to_owned(),
            format!("{text}0"),
            format!("000000000000000+-{digits}"),
            format!("0000000000000007 {digits}"),
            format!("0000000000000007-é{}", &digits[2..]),
        ] {
            assert_eq!(wrong.parse::<ExportIdentity>(), Err(NoIdentity), "{wrong}");
        }
    }
}
