//! Opening and making files. NFSv3 has no OPEN: this finds or makes the file, and the server judges each READ and WRITE.

use super::file::File3;
use super::names::new_attrs;
use super::state::{Client3, Inner3};
use crate::path::components;
use crate::{Error, Object, OpenOptions};
use nfs3::procs::CreateHow;
use nfs3::{Nfs3Status, Sattr3, SetTime3};
use nfs3_client::{Fh, Nfs3Error};
use nfs4::{FileType, NfsStatus};
use std::sync::atomic::Ordering::Relaxed;

impl Client3 {
    pub(crate) async fn open(&self, path: &[u8], options: OpenOptions) -> Result<File3, Error> {
        if !options.read && !options.write {
            return Err(Error::NotOpenFor("anything"));
        }
        let object = match options.create {
            true => self.made_or_found(path, options).await?,
            false => self.lookup(path).await?,
        };
        match object.metadata.file_type {
            FileType::Reg => {}
            FileType::Dir => return Err(Error::Status(NfsStatus::IsDir)),
            _ => return Err(Error::Status(NfsStatus::WrongType)),
        }
        let file = File3::new(&self.0, object.fh, options)?;
        if options.truncate && object.metadata.size > 0 {
            file.set_len(0).await?;
        }
        Ok(file)
    }

    async fn made_or_found(&self, path: &[u8], options: OpenOptions) -> Result<Object, Error> {
        let (dir, name) = self.parent(path).await?;
        if options.exclusive {
            return self.0.make_exclusive(&dir, name, options.mode).await;
        }
        let how = CreateHow::Unchecked(new_attrs(options.mode)?);
        let made = self.0.nfs.create(&self.0.caller, &dir, name, how);
        match self.0.wait(made).await {
            Ok(made) => self.0.made(made, &dir, name).await,
            // What is there is no file: a symbolic link, whose target is meant, or a directory.
            Err(Error::Status(NfsStatus::Exist | NfsStatus::IsDir | NfsStatus::Inval)) => {
                self.0.resolve(&components(path)?, true).await
            }
            Err(e) => Err(e),
        }
    }
}

impl Inner3 {
    /// A file that was not there. The verifier makes a repeated call find the file of the first one.
    async fn make_exclusive(&self, dir: &Fh, name: &[u8], mode: u32) -> Result<Object, Error> {
        let verifier = self.next_verifier.fetch_add(1, Relaxed).to_be_bytes();
        let exclusive = CreateHow::Exclusive(verifier);
        let _waiting = self.waits.enter(crate::WaitReason::Server);
        let made = self.nfs.create(&self.caller, dir, name, exclusive).await;
        let made = match made {
            Err(Nfs3Error::Status(Nfs3Status::NotSupp)) => {
                let guarded = CreateHow::Guarded(new_attrs(mode)?);
                let made = self.nfs.create(&self.caller, dir, name, guarded).await?;
                return self.made(made, dir, name).await;
            }
            made => made?,
        };
        let fh = match made.fh {
            Some(fh) => fh,
            None => self.nfs.lookup(&self.caller, dir, name).await?.fh,
        };
        // The file has no attributes yet, and the server may keep the verifier in its times (RFC 1813 §3.3.8).
        let attrs = Sattr3 {
            mode: Some(mode),
            atime: SetTime3::ServerTime,
            mtime: SetTime3::ServerTime,
            ..Sattr3::default()
        };
        self.nfs.setattr(&self.caller, &fh, &attrs, None).await?;
        let attributes = self.nfs.getattr(&self.caller, &fh).await?;
        Ok(Object {
            fh: super::attrs::public(&fh),
            metadata: super::attrs::metadata(&attributes),
        })
    }
}
