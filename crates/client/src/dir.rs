//! Reading directories, page by page.

use crate::client::Client4;
use crate::metadata::{WANTED, WANTED_WITH_HANDLE};
use crate::{Error, Metadata};
use nfs4::ops::{PutFhArgs, PutFhRes, ReadDirArgs, ReadDirRes};
use nfs4::{Bitmap, FileHandle, Verifier};
use xdr::Opaque;

/// Bytes of one page.
pub(crate) const PAGE_BYTES: u32 = 128 << 10;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its attributes; of a symbolic link, the link's own.
    pub metadata: Metadata,
    /// Its handle; none unless [`ReadDir::with_handles`](crate::ReadDir::with_handles) asked for it and the server told it.
    pub fh: Option<FileHandle>,
}

/// A directory being read by NFSv4. Names that come or go meanwhile may be seen or not; others are seen once.
#[derive(Debug)]
pub(crate) struct ReadDir4 {
    client: Client4,
    fh: FileHandle,
    cookie: u64,
    verifier: Verifier,
    eof: bool,
    /// Attributes of each entry.
    wanted: Bitmap,
}

impl ReadDir4 {
    /// Asks for the handles of entries, too.
    pub(crate) fn with_handles(self) -> Self {
        Self {
            wanted: WANTED_WITH_HANDLE,
            ..self
        }
    }

    /// The next entries; `None` after the last. A page is never empty.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<DirEntry>>, Error> {
        while !self.eof {
            let page = self.page().await?;
            if !page.is_empty() {
                return Ok(Some(page));
            }
            if !self.eof {
                return Err(Error::Malformed("READDIR without entries"));
            }
        }
        Ok(None)
    }

    async fn page(&mut self) -> Result<Vec<DirEntry>, Error> {
        let room = self.client.0.read_bytes_max();
        let args = ReadDirArgs {
            cookie: self.cookie,
            cookie_verifier: self.verifier,
            dircount: PAGE_BYTES.min(room),
            maxcount: PAGE_BYTES.min(room),
            attr_request: self.wanted,
        };
        let outcome = self
            .client
            .0
            .call(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&self.fh.0),
                });
                b.push(&args);
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        let res = reply.take::<ReadDirRes<'_>>()?;
        self.verifier = res.cookie_verifier;
        self.eof = res.eof;
        let mut page = Vec::with_capacity(res.entries.len());
        for entry in &res.entries {
            self.cookie = entry.cookie;
            // The names come from the server: one that would lead elsewhere is no name.
            let name = entry.name.0;
            if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
                return Err(Error::Malformed("a name of READDIR"));
            }
            let (metadata, fh) = Metadata::decode_with_handle(&entry.attrs)?;
            page.push(DirEntry {
                name: name.to_vec(),
                metadata,
                fh,
            });
        }
        Ok(page)
    }
}

impl Client4 {
    /// Reads the directory of a handle.
    #[must_use]
    pub(crate) fn read_dir_of(&self, fh: FileHandle) -> ReadDir4 {
        ReadDir4 {
            client: self.clone(),
            fh,
            cookie: 0,
            verifier: Verifier::default(),
            eof: false,
            wanted: WANTED,
        }
    }
}
