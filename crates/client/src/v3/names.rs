//! Names: looking up name by name, making, removing, renaming, linking.

use super::attrs::{metadata, private, public, sattr};
use super::state::{Client3, Inner3};
use crate::names::LINKS_MAX;
use crate::path::{COMPONENTS_MAX, components, split_last};
use crate::{Error, Object, SetAttrs};
use nfs3::{PostOpAttr, Sattr3};
use nfs3_client::{Fh, MadeObject};
use nfs4::{FileHandle, NfsStatus};
use std::collections::VecDeque;

impl Client3 {
    pub(crate) async fn lookup(&self, path: &[u8]) -> Result<Object, Error> {
        self.0.resolve(&components(path)?, true).await
    }

    pub(crate) async fn lookup_link(&self, path: &[u8]) -> Result<Object, Error> {
        self.0.resolve(&components(path)?, false).await
    }

    /// The directory of a path, and the name in it.
    pub(super) async fn parent<'a>(&self, path: &'a [u8]) -> Result<(Fh, &'a [u8]), Error> {
        let (dir, name) = split_last(path)?;
        let dir = self.0.resolve(&dir, true).await?;
        Ok((private(&dir.fh)?, name))
    }

    pub(crate) async fn mkdir(&self, path: &[u8], mode: u32) -> Result<Object, Error> {
        let inner = &self.0;
        let (dir, name) = self.parent(path).await?;
        let attrs = new_attrs(mode)?;
        let made = inner.nfs.mkdir(&inner.caller, &dir, name, attrs);
        let made = inner.wait(made).await?;
        inner.made(made, &dir, name).await
    }

    pub(crate) async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<Object, Error> {
        let inner = &self.0;
        let (dir, name) = self.parent(path).await?;
        let attrs = new_attrs(0o777)?;
        let made = inner.nfs.symlink(&inner.caller, &dir, name, attrs, target);
        let made = inner.wait(made).await?;
        inner.made(made, &dir, name).await
    }

    pub(crate) async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Error> {
        let object = self.lookup_link(path).await?;
        self.0.readlink_of(&private(&object.fh)?).await
    }

    /// REMOVE, or RMDIR where the server says or hints that it is a directory.
    pub(crate) async fn remove(&self, path: &[u8]) -> Result<(), Error> {
        let (dir, name) = self.parent(path).await?;
        self.remove_from(&dir, name).await
    }

    pub(crate) async fn remove_in(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error> {
        self.remove_from(&private(dir)?, name).await
    }

    async fn remove_from(&self, dir: &Fh, name: &[u8]) -> Result<(), Error> {
        let inner = &self.0;
        let removed = inner.wait(inner.nfs.remove(&inner.caller, dir, name)).await;
        let refused = match removed {
            Ok(_) => return Ok(()),
            // What servers answer for a directory: POSIX has the second, RFC 1813 §3.3.12 leaves it open.
            Err(Error::Status(
                s @ (NfsStatus::IsDir | NfsStatus::Perm | NfsStatus::Inval | NfsStatus::Exist),
            )) => s,
            Err(e) => return Err(e),
        };
        if !inner.lookup_in(dir, name).await?.metadata.is_dir() {
            return Err(Error::Status(refused));
        }
        let removed = inner.nfs.rmdir(&inner.caller, dir, name);
        inner.wait(removed).await.map(drop)
    }

    pub(crate) async fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        let inner = &self.0;
        let (from_dir, old_name) = self.parent(from).await?;
        let (to_dir, new_name) = self.parent(to).await?;
        let (from, to) = ((&from_dir, old_name), (&to_dir, new_name));
        let renamed = inner.nfs.rename(&inner.caller, from, to);
        inner.wait(renamed).await.map(drop)
    }

    pub(crate) async fn link(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        let inner = &self.0;
        let fh = private(&self.lookup_link(from).await?.fh)?;
        let (dir, name) = self.parent(to).await?;
        let linked = inner.nfs.link(&inner.caller, &fh, &dir, name);
        inner.wait(linked).await.map(drop)
    }
}

/// Attributes of a new object.
pub(super) fn new_attrs(mode: u32) -> Result<Sattr3, Error> {
    sattr(&SetAttrs {
        mode: Some(mode),
        ..SetAttrs::default()
    })
}

impl Inner3 {
    /// Name by name, following links. An absolute link begins at the root of the server, maybe in another export.
    pub(super) async fn resolve(&self, names: &[&[u8]], follow: bool) -> Result<Object, Error> {
        let mut todo: VecDeque<Vec<u8>> = names.iter().map(|n| n.to_vec()).collect();
        let mut links_count = 0;
        let mut stack = vec![self.start(&mut todo).await?];
        let mut last: Option<Object> = None;
        while let Some(name) = todo.pop_front() {
            if name == b".." {
                if stack.len() > 1 {
                    stack.pop();
                }
                last = None;
                continue;
            }
            let here = stack.last().expect("the root stays");
            let object = self.lookup_in(here, &name).await?;
            let fh = private(&object.fh)?;
            if !object.metadata.is_symlink() || (todo.is_empty() && !follow) {
                stack.push(fh);
                last = Some(object);
                continue;
            }
            links_count += 1;
            if links_count > LINKS_MAX || todo.len() > COMPONENTS_MAX {
                return Err(Error::Status(NfsStatus::Symlink));
            }
            let text = self.readlink_of(&fh).await?;
            for component in components(&text)?.into_iter().rev() {
                todo.push_front(component.to_vec());
            }
            if text.starts_with(b"/") {
                stack = vec![self.start(&mut todo).await?];
            }
            last = None;
        }
        match last {
            Some(object) => Ok(object),
            None => {
                let fh = stack.pop().expect("the root stays");
                self.object(&fh, None).await
            }
        }
    }

    /// What a name of a directory means.
    pub(super) async fn lookup_in(&self, dir: &Fh, name: &[u8]) -> Result<Object, Error> {
        let found = self.wait(self.nfs.lookup(&self.caller, dir, name)).await?;
        self.object(&found.fh, found.attributes).await
    }

    /// An object, whose attributes the server may have told already.
    async fn object(&self, fh: &Fh, told: PostOpAttr) -> Result<Object, Error> {
        let metadata = match told {
            Some(attrs) => metadata(&attrs),
            None => self.metadata_of(fh).await?,
        };
        let fh = public(fh);
        Ok(Object { fh, metadata })
    }

    /// An object that was just made; its handle may have to be asked for.
    pub(super) async fn made(
        &self,
        made: MadeObject,
        dir: &Fh,
        name: &[u8],
    ) -> Result<Object, Error> {
        match made.fh {
            Some(fh) => self.object(&fh, made.attributes).await,
            None => self.lookup_in(dir, name).await,
        }
    }

    async fn readlink_of(&self, fh: &Fh) -> Result<Vec<u8>, Error> {
        self.wait(self.nfs.readlink(&self.caller, fh)).await
    }
}
