//! Opening and making files.

use crate::callbacks::return_delegation;
use crate::client::Client4;
use crate::file::File4;
use crate::metadata::WANTED_AT_OPEN;
use crate::names::{Object, take_handle};
use crate::path::components;
use crate::state::Open;
use crate::{Error, SetAttrs};
use nfs4::ops::{
    CreateHow, Delegation, GetAttrArgs, GetFhArgs, OpenArgs, OpenClaim, OpenHow, OpenRes,
    PutFhArgs, PutFhRes, ReadDelegation, SHARE_ACCESS_READ, SHARE_ACCESS_WRITE, SHARE_DENY_NONE,
    SHARE_WANT_NO_DELEG, WriteDelegation,
};
use nfs4::{ClientId, FileHandle, NfsStatus, StateOwner};
use std::sync::atomic::Ordering::Relaxed;
use xdr::Opaque;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Make it when it does not exist.
    pub create: bool,
    /// Refuse an existing file; with `create`.
    pub exclusive: bool,
    /// Cut it to nothing.
    pub truncate: bool,
    /// Permission bits of a new file.
    pub mode: u32,
}

impl OpenOptions {
    /// An existing file, for reading.
    #[must_use]
    pub const fn read() -> Self {
        Self {
            read: true,
            write: false,
            create: false,
            exclusive: false,
            truncate: false,
            mode: 0o644,
        }
    }

    /// An existing file, for reading and writing.
    #[must_use]
    pub const fn read_write() -> Self {
        Self {
            write: true,
            ..Self::read()
        }
    }

    /// A new or emptied file, for reading and writing.
    #[must_use]
    pub const fn create(mode: u32) -> Self {
        Self {
            write: true,
            create: true,
            truncate: true,
            mode,
            ..Self::read()
        }
    }

    const fn access(self) -> u32 {
        let read = if self.read { SHARE_ACCESS_READ } else { 0 };
        let write = if self.write { SHARE_ACCESS_WRITE } else { 0 };
        read | write
    }
}

impl Client4 {
    /// Opens a file; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn open(
        &self,
        path: impl AsRef<[u8]>,
        options: OpenOptions,
    ) -> Result<File4, Error> {
        let path = path.as_ref();
        if options.access() == 0 {
            return Err(Error::NotOpenFor("anything"));
        }
        let (dir, name) = self.parent(path).await?;
        let opened = match self.open_name(&dir, name, options).await {
            Err(Error::Status(NfsStatus::Symlink)) if !options.exclusive => {
                let target = self.walk(None, &components(path)?, true).await?;
                self.open_claim(&target.fh, OpenHow::NoCreate, OpenClaim::Fh, options)
                    .await
            }
            other => other,
        };
        let (object, open) = opened?;
        let file = File4::new(self.clone(), object.fh, open);
        file.opened(&object.metadata);
        if options.truncate && object.metadata.size > 0 {
            file.set_len(0).await?;
        }
        Ok(file)
    }

    async fn open_name(
        &self,
        dir: &FileHandle,
        name: &[u8],
        options: OpenOptions,
    ) -> Result<(Object, std::sync::Arc<Open>), Error> {
        let attrs = SetAttrs {
            mode: Some(options.mode),
            ..SetAttrs::default()
        };
        let how = match (options.create, options.exclusive) {
            (false, _) => OpenHow::NoCreate,
            (true, false) => OpenHow::Create(CreateHow::Unchecked(attrs.fattr())),
            (true, true) => OpenHow::Create(CreateHow::Guarded(attrs.fattr())),
        };
        self.open_claim(dir, how, OpenClaim::Null(Opaque(name)), options)
            .await
    }

    async fn open_claim(
        &self,
        at: &FileHandle,
        how: OpenHow<'_>,
        claim: OpenClaim<'_>,
        options: OpenOptions,
    ) -> Result<(Object, std::sync::Arc<Open>), Error> {
        let number = self.0.next_owner.fetch_add(1, Relaxed);
        let owner = format!("open {number}").into_bytes();
        let access = options.access();
        let outcome = self
            .0
            .call_making(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&at.0),
                });
                b.push(&OpenArgs {
                    seqid: 0,
                    share_access: access | SHARE_WANT_NO_DELEG,
                    share_deny: SHARE_DENY_NONE,
                    owner: StateOwner {
                        clientid: ClientId::default(),
                        owner: Opaque(&owner),
                    },
                    how: how.clone(),
                    claim,
                });
                b.push(&GetFhArgs {});
                b.push(&GetAttrArgs {
                    attr_request: WANTED_AT_OPEN,
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        let opened = reply.take::<OpenRes>()?;
        let fh = take_handle(&mut reply)?;
        if let Delegation::Read(ReadDelegation { stateid, .. })
        | Delegation::Write(WriteDelegation { stateid, .. }) = opened.delegation
        {
            // It was not asked for.
            return_delegation(&self.0, fh.clone(), stateid);
        }
        let open = Open::new(owner, access, opened.stateid);
        match self.take_metadata(&mut reply, &fh).await {
            Ok(metadata) => Ok((Object { fh, metadata }, open)),
            Err(e) => {
                // Closed in the background.
                drop(File4::new(self.clone(), fh, open));
                Err(e)
            }
        }
    }
}
