//! Reading directories, page by page: READDIRPLUS, or READDIR and LOOKUP at servers without it.

use super::attrs::{metadata, private, public};
use super::state::{Client3, Inner3};
use crate::dir::PAGE_BYTES;
use crate::{DirEntry, Error};
use nfs3::{CookieVerf, Nfs3Status};
use nfs3_client::{DirEntry3, DirPage3, Fh, Nfs3Error};
use nfs4::FileHandle;

/// A directory being read.
#[derive(Debug)]
pub(crate) struct ReadDir3 {
    client: Client3,
    fh: FileHandle,
    cookie: u64,
    cookieverf: CookieVerf,
    eof: bool,
    /// The server has no READDIRPLUS.
    is_plain: bool,
}

impl Client3 {
    pub(crate) fn read_dir_of(&self, fh: FileHandle) -> ReadDir3 {
        ReadDir3 {
            client: self.clone(),
            fh,
            cookie: 0,
            cookieverf: CookieVerf::default(),
            eof: false,
            is_plain: false,
        }
    }
}

impl ReadDir3 {
    /// The next entries; `None` after the last. A page is never empty.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<DirEntry>>, Error> {
        let dir = private(&self.fh)?;
        while !self.eof {
            let page = self.ask(&dir).await?;
            let Some(last) = page.entries.last() else {
                if page.eof {
                    break;
                }
                return Err(Error::Malformed("READDIR without entries"));
            };
            self.cookie = last.cookie;
            (self.cookieverf, self.eof) = (page.cookieverf, page.eof);
            let mut entries = Vec::with_capacity(page.entries.len());
            for entry in page.entries {
                entries.extend(self.client.0.entry(&dir, entry).await?);
            }
            if !entries.is_empty() {
                return Ok(Some(entries));
            }
        }
        self.eof = true;
        Ok(None)
    }

    async fn ask(&mut self, dir: &Fh) -> Result<DirPage3, Error> {
        let inner = &self.client.0;
        let bytes = PAGE_BYTES.min(inner.read_bytes_max());
        let (cookie, verf) = (self.cookie, self.cookieverf);
        let _waiting = inner.waits.enter(crate::WaitReason::Server);
        if !self.is_plain {
            let asked = inner
                .nfs
                .readdirplus(&inner.caller, dir, cookie, verf, bytes);
            match asked.await {
                Err(Nfs3Error::Status(Nfs3Status::NotSupp)) if cookie == 0 => self.is_plain = true,
                answered => return Ok(answered?),
            }
        }
        let asked = inner.nfs.readdir(&inner.caller, dir, cookie, verf, bytes);
        Ok(asked.await?)
    }
}

impl Inner3 {
    /// An entry as the interface has it; `None` for the directory itself, its parent, and a name that has just gone.
    async fn entry(&self, dir: &Fh, entry: DirEntry3) -> Result<Option<DirEntry>, Error> {
        let name = entry.name;
        if name == b"." || name == b".." {
            return Ok(None);
        }
        // The names come from the server: one that would lead elsewhere is no name.
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(Error::Malformed("a name of READDIR"));
        }
        let (metadata, fh) = match (entry.attributes, entry.fh) {
            (Some(attrs), fh) => (metadata(&attrs), fh.as_ref().map(public)),
            (None, _) => match self.lookup_in(dir, &name).await {
                Err(e) if e.is_not_found() => return Ok(None),
                found => {
                    let found = found?;
                    (found.metadata, Some(found.fh))
                }
            },
        };
        Ok(Some(DirEntry { name, metadata, fh }))
    }
}
