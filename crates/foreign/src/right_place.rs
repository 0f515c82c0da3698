//! Whether the export of a server is still the one that was added: its disk may be gone, and another one be in its place.
//!
//! # Ordering
//! Each pulse looks. So does a call that finds no directory or no object where there was one, before it makes anything of that.
//!
//! # Failure
//! A server with another disk counts as down, with words: it is not called, gets no files, and what is lost is not known. The pulse
//! goes on looking.

use crate::dirs::cluster_name;
use crate::fail::Fail;
use crate::foreign::Foreign;
use crate::identity::{ExportIdentity, Sighting};
use crate::records::{self, ExportCode, ServerRecord};
use crate::server::{CALL_GIVE_UP, Server};
use nfs3::Nfs3Status;
use nfs3_client::{Nfs3Client, Nfs3Error, RpcError};
use std::sync::atomic::Ordering::{AcqRel, Release};

impl Server {
    /// Why the export is not the one that was added; `None` where it is. Without a code the directory of the cluster must do.
    ///
    /// # Errors
    /// [`Nfs3Error`] when that cannot be told.
    pub(crate) async fn wrong_place(&self, nfs: &Nfs3Client) -> Result<Option<String>, Nfs3Error> {
        let (record, who) = (self.record(), &self.root_caller);
        let name = cluster_name(self.cluster_id);
        let missing = |what: &str| {
            let what = format!("another disk or directory is in its place: {what}");
            Ok(Some(what))
        };
        match nfs.lookup(who, &record.root, &name).await {
            Ok(_) => {}
            Err(Nfs3Error::Status(Nfs3Status::NoEnt)) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                return missing(&format!("there is no {name}"));
            }
            Err(error) => return Err(error),
        }
        let Some(code) = record.code.0 else {
            return Ok(None);
        };
        let identity = ExportIdentity {
            cluster_id: self.cluster_id,
            code,
        };
        let file = identity.file_name();
        match identity.look(nfs, &record.root).await? {
            Sighting::Same => Ok(None),
            Sighting::OtherCode => missing(&format!("{file} has another code")),
            Sighting::NoFile => missing(&format!("there is no {file}")),
            Sighting::NoSearch | Sighting::NoRead => {
                Ok(Some(format!("root may not read {file} there")))
            }
        }
    }

    /// Sees that the export is the one that was added. Otherwise the server is down when this returns.
    ///
    /// # Errors
    /// [`Fail::Down`], also when it does not answer; what it answers.
    pub(crate) async fn see_place(&self) -> Result<(), Fail> {
        let seen = tokio::time::timeout(CALL_GIVE_UP, self.wrong_place(&self.nfs)).await;
        match seen.unwrap_or(Err(RpcError::TimedOut.into())) {
            Ok(None) => Ok(()),
            Ok(Some(why)) => {
                self.went_down(&why);
                Err(Fail::Down)
            }
            Err(error @ Nfs3Error::Rpc(RpcError::Unreachable(_) | RpcError::TimedOut)) => {
                self.went_down(&error.to_string());
                Err(Fail::Down)
            }
            Err(error) => Err(Fail::Call(error)),
        }
    }
}

impl Foreign {
    /// Takes over the code in the export of a server that an earlier program has added. It is asked once in this process.
    pub(crate) async fn learn_code(&self, server: &Server) {
        let is_known = server.record().code.0.is_some() || !server.is_up();
        if is_known || server.is_code_asked.swap(true, AcqRel) {
            return;
        }
        let root = server.record().root.clone();
        let read = ExportIdentity::read(self.config.cluster_id, &server.pulse, &root).await;
        match read {
            Ok(Some(identity)) => {
                let _one = self.adding.lock().await;
                let record = ServerRecord {
                    code: ExportCode(Some(identity.code)),
                    ..ServerRecord::clone(&server.record())
                };
                match records::put_server(&*self.config.store, &record) {
                    Ok(_) => server.set_record(record),
                    Err(error) => tracing::error!(%error, server = server.id, "code of an export"),
                }
            }
            Ok(None) => {}
            // With the next pulse.
            Err(_) => server.is_code_asked.store(false, Release),
        }
    }
}
