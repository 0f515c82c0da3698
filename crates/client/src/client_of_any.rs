//! The client as its users see it: one interface over the versions of NFS.
//!
//! It only chooses; what is done is in the modules of each version.

use crate::client::Client4;
use crate::dir::ReadDir4;
use crate::v3::{Client3, ReadDir3};
use crate::{
    ClientConfig, DirEntry, Error, File, FsStat, Metadata, NfsVersion, Object, OpenOptions,
    SetAttrs, StatsSnapshot, WaitReason,
};
use nfs4::FileHandle;
use session_client::Established;
use std::sync::Arc;
use std::time::Duration;
use transport::{Address, Connector};

/// What NFSv3 lacks.
const XATTRS: &str = "extended attributes, so no layouts";

/// A mounted file system. Cheap to clone; all clones are one client.
#[derive(Debug, Clone)]
pub struct Client(Of);

#[derive(Debug, Clone)]
enum Of {
    V3(Client3),
    V4(Client4),
}

impl Client {
    /// Makes a client of the server at `addresses` (of one server, preferred first), in the version of the configuration.
    ///
    /// NFSv4 makes a session, ends reclaim, and starts a task that renews the lease until the last clone is dropped. NFSv3
    /// only asks whether the server is there.
    ///
    /// # Errors
    /// When the server cannot be reached within [`ClientConfig::give_up`] or refuses.
    pub async fn connect(
        addresses: Vec<Address>,
        connector: Arc<dyn Connector>,
        config: ClientConfig,
    ) -> Result<Self, Error> {
        Ok(Self(match config.version {
            NfsVersion::V3(ports) => {
                Of::V3(Client3::connect(addresses, connector, config, ports).await?)
            }
            NfsVersion::V4 => Of::V4(Client4::connect(addresses, connector, config).await?),
        }))
    }

    /// What was counted so far. All data of NFSv3 count as the MDS's.
    #[must_use]
    pub fn stats(&self) -> StatsSnapshot {
        match &self.0 {
            Of::V3(client) => client.stats(),
            Of::V4(client) => client.stats(),
        }
    }

    /// What the MDS said when the session was made, while it lives. NFSv3 has no sessions.
    #[must_use]
    pub fn established(&self) -> Option<Arc<Established>> {
        match &self.0 {
            Of::V3(_) => None,
            Of::V4(client) => client.established(),
        }
    }

    /// The lease that the MDS grants. NFSv3 has none: zero.
    #[must_use]
    pub fn lease(&self) -> Duration {
        match &self.0 {
            Of::V3(_) => Duration::ZERO,
            Of::V4(client) => client.lease(),
        }
    }

    /// How long the oldest request in progress has waited, and for what.
    #[must_use]
    pub fn longest_wait(&self) -> Option<(Duration, WaitReason)> {
        match &self.0 {
            Of::V3(client) => client.longest_wait(),
            Of::V4(client) => client.longest_wait(),
        }
    }

    /// Ends the client at the servers, after the files that were dropped have been closed. Files that are still open
    /// lose their locks and shares.
    ///
    /// # Errors
    /// None that matter: the servers forget the client after its lease in any case.
    pub async fn close(self) -> Result<(), Error> {
        match self.0 {
            Of::V3(client) => client.close().await,
            Of::V4(client) => client.close().await,
        }
    }

    /// The attributes of what a handle names.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn metadata_of(&self, fh: &FileHandle) -> Result<Metadata, Error> {
        match &self.0 {
            Of::V3(client) => client.metadata_of(fh).await,
            Of::V4(client) => client.metadata_of(fh).await,
        }
    }

    /// The attributes of a path; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Metadata, Error> {
        Ok(self.lookup(path).await?.metadata)
    }

    /// Sets attributes of a path; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set_attrs(&self, path: impl AsRef<[u8]>, attrs: &SetAttrs) -> Result<(), Error> {
        match &self.0 {
            Of::V3(client) => client.set_attrs(path.as_ref(), attrs).await,
            Of::V4(client) => client.set_attrs(path, attrs).await,
        }
    }

    /// Sets attributes of what a handle names, wherever its name has gone meanwhile.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn set_attrs_of(&self, fh: &FileHandle, attrs: &SetAttrs) -> Result<(), Error> {
        match &self.0 {
            Of::V3(client) => client.set_attrs_of(fh, attrs).await,
            Of::V4(client) => client.set_attrs_of(fh, attrs).await,
        }
    }

    /// Room of the file system at the root.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn statfs(&self) -> Result<FsStat, Error> {
        match &self.0 {
            Of::V3(client) => client.statfs().await,
            Of::V4(client) => client.statfs().await,
        }
    }

    /// What a path names; symbolic links are followed, the last one too.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn lookup(&self, path: impl AsRef<[u8]>) -> Result<Object, Error> {
        match &self.0 {
            Of::V3(client) => client.lookup(path.as_ref()).await,
            Of::V4(client) => client.lookup(path).await,
        }
    }

    /// What a path names; a symbolic link at its end is the answer.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn lookup_link(&self, path: impl AsRef<[u8]>) -> Result<Object, Error> {
        match &self.0 {
            Of::V3(client) => client.lookup_link(path.as_ref()).await,
            Of::V4(client) => client.lookup_link(path).await,
        }
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn mkdir(&self, path: impl AsRef<[u8]>, mode: u32) -> Result<Object, Error> {
        match &self.0 {
            Of::V3(client) => client.mkdir(path.as_ref(), mode).await,
            Of::V4(client) => client.mkdir(path, mode).await,
        }
    }

    /// Makes a symbolic link at `path` with the text `target`.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn symlink(
        &self,
        target: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
    ) -> Result<Object, Error> {
        match &self.0 {
            Of::V3(client) => client.symlink(target.as_ref(), path.as_ref()).await,
            Of::V4(client) => client.symlink(target, path).await,
        }
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn readlink(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        match &self.0 {
            Of::V3(client) => client.readlink(path.as_ref()).await,
            Of::V4(client) => client.readlink(path).await,
        }
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        match &self.0 {
            Of::V3(client) => client.remove(path.as_ref()).await,
            Of::V4(client) => client.remove(path).await,
        }
    }

    /// Removes a file or an empty directory by its name in the directory of a handle, wherever that has gone meanwhile.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn remove_in(&self, dir: &FileHandle, name: impl AsRef<[u8]>) -> Result<(), Error> {
        match &self.0 {
            Of::V3(client) => client.remove_in(dir, name.as_ref()).await,
            Of::V4(client) => client.remove_in(dir, name.as_ref()).await,
        }
    }

    /// Renames; what the new name meant before is replaced, as rename(2) does.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        match &self.0 {
            Of::V3(client) => client.rename(from.as_ref(), to.as_ref()).await,
            Of::V4(client) => client.rename(from, to).await,
        }
    }

    /// Gives what `from` names one more name; a symbolic link is linked itself.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn link(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        match &self.0 {
            Of::V3(client) => client.link(from.as_ref(), to.as_ref()).await,
            Of::V4(client) => client.link(from, to).await,
        }
    }

    /// The value of an extended attribute; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`]; [`Error::NotInV3`] with NFSv3.
    pub async fn xattr(&self, path: impl AsRef<[u8]>, name: &[u8]) -> Result<Vec<u8>, Error> {
        match &self.0 {
            Of::V3(_) => Err(Error::NotInV3(XATTRS)),
            Of::V4(client) => client.xattr(path, name).await,
        }
    }

    /// Sets an extended attribute, or with no value removes it; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`]; [`Error::NotInV3`] with NFSv3.
    pub async fn set_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        match &self.0 {
            Of::V3(_) => Err(Error::NotInV3(XATTRS)),
            Of::V4(client) => client.set_xattr(path, name, value).await,
        }
    }

    /// Opens a file; symbolic links are followed. With NFSv3 only a read or write shows whether the user may.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn open(&self, path: impl AsRef<[u8]>, options: OpenOptions) -> Result<File, Error> {
        Ok(match &self.0 {
            Of::V3(client) => File::of_v3(client.open(path.as_ref(), options).await?),
            Of::V4(client) => File::of_v4(client.open(path, options).await?),
        })
    }

    /// Reads a directory; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<ReadDir, Error> {
        let object = self.lookup(path).await?;
        Ok(self.read_dir_of(object.fh))
    }

    /// Reads the directory of a handle.
    #[must_use]
    pub fn read_dir_of(&self, fh: FileHandle) -> ReadDir {
        ReadDir(match &self.0 {
            Of::V3(client) => DirOf::V3(client.read_dir_of(fh)),
            Of::V4(client) => DirOf::V4(client.read_dir_of(fh)),
        })
    }
}

/// A directory being read. Names that come or go meanwhile may be seen or not; others are seen once.
#[derive(Debug)]
pub struct ReadDir(DirOf);

#[derive(Debug)]
enum DirOf {
    V3(ReadDir3),
    V4(ReadDir4),
}

impl ReadDir {
    /// Has each entry told with its handle: what is done by that is done to the object that was seen, whatever its name means
    /// by then.
    #[must_use]
    pub fn with_handles(self) -> Self {
        Self(match self.0 {
            DirOf::V4(dir) => DirOf::V4(dir.with_handles()),
            // READDIRPLUS brings them in any case.
            of_v3 @ DirOf::V3(_) => of_v3,
        })
    }

    /// The next entries; `None` after the last. A page is never empty.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<DirEntry>>, Error> {
        match &mut self.0 {
            DirOf::V3(dir) => dir.next_page().await,
            DirOf::V4(dir) => dir.next_page().await,
        }
    }

    /// All entries that are left.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn rest(mut self) -> Result<Vec<DirEntry>, Error> {
        let mut all = Vec::new();
        while let Some(page) = self.next_page().await? {
            all.extend(page);
        }
        Ok(all)
    }
}
