//! Names: looking up, making, removing, renaming, linking.

use crate::client::Client4;
use crate::metadata::WANTED;
use crate::path::{COMPONENTS_MAX, components, split_last};
use crate::retry::is_busy;
use crate::{Error, Metadata, SetAttrs};
use nfs4::ops::{
    CreateArgs, CreateRes, CreateType, GetAttrArgs, GetAttrRes, GetFhArgs, GetFhRes, LinkArgs,
    LinkRes, LookupArgs, LookupRes, PutFhArgs, PutFhRes, PutRootFhArgs, PutRootFhRes, ReadLinkArgs,
    ReadLinkRes, RemoveArgs, RemoveRes, RenameArgs, RenameRes, SaveFhArgs, SaveFhRes,
};
use nfs4::{CompoundReply, FileHandle, NfsStatus};
use std::collections::VecDeque;
use xdr::Opaque;

/// Most symbolic links of one path (Linux follows 40).
pub(crate) const LINKS_MAX: u32 = 40;
/// Names looked up in one request; the session's limit of operations is above it.
const LOOKUPS_MAX: usize = 16;

/// Something that a name led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its handle.
    pub fh: FileHandle,
    /// Its attributes.
    pub metadata: Metadata,
}

impl Client4 {
    /// What a path names; symbolic links are followed, the last one too.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn lookup(&self, path: impl AsRef<[u8]>) -> Result<Object, Error> {
        self.resolve(&components(path.as_ref())?, true).await
    }

    /// What a path names; a symbolic link at its end is the answer.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn lookup_link(&self, path: impl AsRef<[u8]>) -> Result<Object, Error> {
        self.resolve(&components(path.as_ref())?, false).await
    }

    /// The directory of a path, and the name in it.
    pub(crate) async fn parent<'a>(&self, path: &'a [u8]) -> Result<(FileHandle, &'a [u8]), Error> {
        let (dir, name) = split_last(path)?;
        Ok((self.resolve(&dir, true).await?.fh, name))
    }

    async fn resolve(&self, names: &[&[u8]], follow: bool) -> Result<Object, Error> {
        if names.contains(&&b".."[..]) {
            return self.walk(None, names, follow).await;
        }
        let mut at: Option<FileHandle> = None;
        let mut rest = names;
        loop {
            let (now, later) = rest.split_at(rest.len().min(LOOKUPS_MAX));
            let object = match self.lookup_many(at.as_ref(), now).await {
                // Some name is a symbolic link (RFC 8881 §18.13.4), or we shall see that it is none.
                Err(Error::Status(NfsStatus::Symlink | NfsStatus::NotDir)) => {
                    return self.walk(None, names, follow).await;
                }
                other => other?,
            };
            if later.is_empty() {
                if follow && object.metadata.is_symlink() {
                    return self.walk(None, names, follow).await;
                }
                return Ok(object);
            }
            (at, rest) = (Some(object.fh), later);
        }
    }

    /// Name by name, following links.
    pub(crate) async fn walk(
        &self,
        start: Option<FileHandle>,
        names: &[&[u8]],
        follow: bool,
    ) -> Result<Object, Error> {
        let mut todo: VecDeque<Vec<u8>> = names.iter().map(|n| n.to_vec()).collect();
        let root = self.lookup_many(start.as_ref(), &[]).await?;
        let (mut stack, mut links_count) = (vec![root], 0);
        while let Some(name) = todo.pop_front() {
            if name == b".." {
                if stack.len() > 1 {
                    stack.pop();
                }
                continue;
            }
            let here = stack.last().expect("the root stays");
            let object = self.lookup_many(Some(&here.fh), &[&name]).await?;
            if !object.metadata.is_symlink() || (todo.is_empty() && !follow) {
                stack.push(object);
                continue;
            }
            links_count += 1;
            if links_count > LINKS_MAX || todo.len() > COMPONENTS_MAX {
                return Err(Error::Status(NfsStatus::Symlink));
            }
            let text = self.readlink_of(&object.fh).await?;
            if text.starts_with(b"/") {
                stack.truncate(1);
            }
            for component in components(&text)?.into_iter().rev() {
                todo.push_front(component.to_vec());
            }
        }
        Ok(stack.pop().expect("the root stays"))
    }

    /// One request: from a handle or the root over some names.
    async fn lookup_many(
        &self,
        from: Option<&FileHandle>,
        names: &[&[u8]],
    ) -> Result<Object, Error> {
        let outcome = self
            .0
            .call(&|b| {
                match from {
                    Some(fh) => b.push(&PutFhArgs {
                        object: Opaque(&fh.0),
                    }),
                    None => b.push(&PutRootFhArgs {}),
                };
                for name in names {
                    b.push(&LookupArgs { name: Opaque(name) });
                }
                b.push(&GetFhArgs {});
                b.push(&GetAttrArgs {
                    attr_request: WANTED,
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        match from {
            Some(_) => drop(reply.take::<PutFhRes>()?),
            None => drop(reply.take::<PutRootFhRes>()?),
        }
        for _ in names {
            reply.take::<LookupRes>()?;
        }
        take_object(&mut reply)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn mkdir(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<Object, Error> {
        self.create(path.as_ref(), CreateType::Dir, mode).await
    }

    /// Makes a symbolic link at `path` with the text `target`.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn symlink(
        &self,
        target: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
    ) -> Result<Object, Error> {
        let text = CreateType::Lnk(Opaque(target.as_ref()));
        self.create(path.as_ref(), text, 0o777).await
    }

    async fn create(
        &self,
        path: &[u8],
        object_type: CreateType<'_>,
        mode: u32,
    ) -> Result<Object, Error> {
        let (dir, name) = self.parent(path).await?;
        let attrs = SetAttrs {
            mode: Some(mode),
            ..SetAttrs::default()
        };
        let outcome = self
            .0
            .call_making(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&dir.0),
                });
                b.push(&CreateArgs {
                    object_type,
                    name: Opaque(name),
                    attrs: attrs.fattr(),
                });
                b.push(&GetFhArgs {});
                b.push(&GetAttrArgs {
                    attr_request: WANTED,
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<CreateRes>()?;
        let fh = take_handle(&mut reply)?;
        let metadata = self.take_metadata(&mut reply, &fh).await?;
        Ok(Object { fh, metadata })
    }

    /// GETATTR after an operation that has made or opened `fh`. When the server is not ready to tell, it is asked again.
    pub(crate) async fn take_metadata(
        &self,
        reply: &mut CompoundReply<'_>,
        fh: &FileHandle,
    ) -> Result<Metadata, Error> {
        match reply.take::<GetAttrRes<'_>>() {
            Ok(got) => Metadata::decode(&got.attributes),
            Err(e) if e.status().is_some_and(is_busy) => self.metadata_of(fh).await,
            Err(e) => Err(e.into()),
        }
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn readlink(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        let object = self.lookup_link(path).await?;
        self.readlink_of(&object.fh).await
    }

    async fn readlink_of(&self, fh: &FileHandle) -> Result<Vec<u8>, Error> {
        let outcome = self
            .0
            .call(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&fh.0),
                });
                b.push(&ReadLinkArgs {});
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        Ok(reply.take::<ReadLinkRes<'_>>()?.link.0.to_vec())
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let (dir, name) = self.parent(path.as_ref()).await?;
        self.remove_in(&dir, name).await
    }

    /// Removes a name of the directory of a handle.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn remove_in(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let outcome = self
            .0
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&dir.0),
                });
                b.push(&RemoveArgs {
                    target: Opaque(name),
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<RemoveRes>()?;
        Ok(())
    }

    /// Renames; what the new name meant before is replaced, as rename(2) does.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn rename(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let (from_dir, old_name) = self.parent(from.as_ref()).await?;
        let (to_dir, new_name) = self.parent(to.as_ref()).await?;
        let outcome = self
            .0
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&from_dir.0),
                });
                b.push(&SaveFhArgs {});
                b.push(&PutFhArgs {
                    object: Opaque(&to_dir.0),
                });
                b.push(&RenameArgs {
                    old_name: Opaque(old_name),
                    new_name: Opaque(new_name),
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<SaveFhRes>()?;
        reply.take::<PutFhRes>()?;
        reply.take::<RenameRes>()?;
        Ok(())
    }

    /// Gives what `from` names one more name; a symbolic link is linked itself.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn link(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let object = self.lookup_link(from).await?;
        let (dir, name) = self.parent(to.as_ref()).await?;
        let outcome = self
            .0
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&object.fh.0),
                });
                b.push(&SaveFhArgs {});
                b.push(&PutFhArgs {
                    object: Opaque(&dir.0),
                });
                b.push(&LinkArgs {
                    new_name: Opaque(name),
                });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        reply.take::<SaveFhRes>()?;
        reply.take::<PutFhRes>()?;
        reply.take::<LinkRes>()?;
        Ok(())
    }
}

/// GETFH and GETATTR.
pub(crate) fn take_object(reply: &mut CompoundReply<'_>) -> Result<Object, Error> {
    let fh = take_handle(reply)?;
    let got = reply.take::<GetAttrRes<'_>>()?;
    Ok(Object {
        fh,
        metadata: Metadata::decode(&got.attributes)?,
    })
}

/// GETFH.
pub(crate) fn take_handle(reply: &mut CompoundReply<'_>) -> Result<FileHandle, Error> {
    let fh = reply.take::<GetFhRes<'_>>()?.object.0.to_vec();
    Ok(xdr::OpaqueBuf(fh))
}
