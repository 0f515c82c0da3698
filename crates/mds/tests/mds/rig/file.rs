//! What a pNFS client does with one file.

use super::{Client, after_putfh};
use nfs4::attr::{self, Attrs};
use nfs4::layout::{FileLayout, LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF};
use nfs4::ops::{
    AllocateArgs, AllocateRes, CloseArgs, CloseRes, CreateHow, DelegationType, GetFhArgs, GetFhRes,
    LayoutCommitArgs, LayoutCommitRes, LayoutGetArgs, LayoutGetRes, LayoutReturn, LayoutReturnArgs,
    LayoutReturnFile, LayoutReturnRes, LayoutUpdate, OpenArgs, OpenClaim, OpenHow, OpenRes,
    RemoveArgs, RemoveRes, SHARE_ACCESS_BOTH, SHARE_WANT_NO_DELEG,
};
use nfs4::{ClientId, Fattr, FileHandle, IoMode, NfsStatus, OpError, StateOwner, Stateid};
use std::time::Duration;
use xdr::Opaque;

/// A file that a client has open.
pub struct File<'c> {
    pub client: &'c Client,
    pub name: String,
    pub fh: FileHandle,
    pub open: Stateid,
}

/// A layout as granted.
#[derive(Debug, Clone)]
pub struct Granted {
    pub stateid: Stateid,
    pub body: FileLayout,
}

/// Asks again while the server says so.
pub async fn patiently<T, F: Future<Output = Result<T, NfsStatus>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, NfsStatus> {
    for _ in 0..600 {
        match ask().await {
            Err(
                NfsStatus::Delay
                | NfsStatus::LayoutTryLater
                | NfsStatus::RecallConflict
                | NfsStatus::ReturnConflict
                | NfsStatus::Grace,
            ) => tokio::time::sleep(Duration::from_millis(200)).await,
            done => return done,
        }
    }
    panic!("still told to wait after two minutes");
}

fn status(e: &OpError) -> NfsStatus {
    e.status().unwrap_or_else(|| panic!("{e}"))
}

impl<'c> File<'c> {
    /// Creates (or opens) a file in the root for reading and writing.
    pub async fn create(client: &'c Client, name: &str) -> Self {
        let root = client.lookup(&[]).await.unwrap();
        let opened = patiently(|| Self::try_open(client, &root, name)).await;
        let (open, fh) = opened.unwrap();
        Self {
            client,
            name: name.to_owned(),
            fh,
            open,
        }
    }

    pub async fn try_open(
        client: &Client,
        root: &FileHandle,
        name: &str,
    ) -> Result<(Stateid, FileHandle), NfsStatus> {
        let attrs = Fattr::new(&Attrs {
            mode: Some(0o644),
            ..Attrs::default()
        });
        let how = OpenHow::Create(CreateHow::Unchecked(attrs));
        Self::try_open_as(client, root, name, how, SHARE_ACCESS_BOTH).await
    }

    /// Opens a file as O_TRUNC does.
    pub async fn try_open_emptied(
        client: &Client,
        dir: &FileHandle,
        name: &str,
    ) -> Result<(), NfsStatus> {
        let attrs = Fattr::new(&Attrs {
            size: Some(0),
            ..Attrs::default()
        });
        let how = OpenHow::Create(CreateHow::Unchecked(attrs));
        let opened = Self::try_open_as(client, dir, name, how, SHARE_ACCESS_BOTH).await;
        opened.map(drop)
    }

    /// Opens a file of the root that exists.
    pub async fn open(client: &'c Client, name: &str, access: u32) -> Result<Self, NfsStatus> {
        let root = client.lookup(&[]).await.unwrap();
        let opened =
            patiently(|| Self::try_open_as(client, &root, name, OpenHow::NoCreate, access)).await;
        opened.map(|(open, fh)| Self {
            client,
            name: name.to_owned(),
            fh,
            open,
        })
    }

    async fn try_open_as(
        client: &Client,
        root: &FileHandle,
        name: &str,
        how: OpenHow<'_>,
        share_access: u32,
    ) -> Result<(Stateid, FileHandle), NfsStatus> {
        let owner = format!("owner {share_access}");
        // These tests are about other things than delegations.
        let share_access = share_access | SHARE_WANT_NO_DELEG;
        let done = client
            .on(root, |b| {
                b.push(&OpenArgs {
                    seqid: 0,
                    share_access,
                    share_deny: 0,
                    owner: StateOwner {
                        clientid: ClientId::default(),
                        owner: Opaque(owner.as_bytes()),
                    },
                    how: how.clone(),
                    claim: OpenClaim::Null(Opaque(name.as_bytes())),
                });
                b.push(&GetFhArgs {});
            })
            .await;
        let mut reply = after_putfh(&done);
        let opened = reply.take::<OpenRes>().map_err(|e| status(&e))?;
        let fh = reply.take::<GetFhRes<'_>>().map_err(|e| status(&e))?;
        Ok((opened.stateid, FileHandle::from(fh.object.0)))
    }

    /// Says to the next run of the server that `client`, whose file this is, had it open for reading and writing.
    pub async fn reclaimed_by(&self, client: &Client) -> Result<Stateid, NfsStatus> {
        let owner = format!("owner {SHARE_ACCESS_BOTH}");
        let done = client
            .on(&self.fh, |b| {
                b.push(&OpenArgs {
                    seqid: 0,
                    share_access: SHARE_ACCESS_BOTH | SHARE_WANT_NO_DELEG,
                    share_deny: 0,
                    owner: StateOwner {
                        clientid: ClientId::default(),
                        owner: Opaque(owner.as_bytes()),
                    },
                    how: OpenHow::NoCreate,
                    claim: OpenClaim::Previous(DelegationType::None),
                });
            })
            .await;
        let opened = after_putfh(&done).take::<OpenRes>();
        opened.map(|res| res.stateid).map_err(|e| status(&e))
    }

    /// The inode number, which data servers know it by.
    pub fn id(&self) -> u64 {
        let bytes: [u8; 8] = self.fh.0[12..20].try_into().unwrap();
        u64::from_be_bytes(bytes)
    }

    pub async fn try_layout(&self, iomode: IoMode) -> Result<Granted, NfsStatus> {
        // As Linux asks, whatever the file.
        self.try_layout_within(iomode, 4096).await
    }

    /// With room for a result of so many bytes.
    pub async fn try_layout_within(
        &self,
        iomode: IoMode,
        maxcount: u32,
    ) -> Result<Granted, NfsStatus> {
        let done = self
            .client
            .on(&self.fh, |b| {
                b.push(&LayoutGetArgs {
                    signal_layout_avail: false,
                    layout_type: LAYOUT_NFSV4_1_FILES,
                    iomode,
                    offset: 0,
                    length: LENGTH_TO_EOF,
                    minlength: 4096,
                    stateid: self.open,
                    maxcount,
                });
            })
            .await;
        let mut reply = after_putfh(&done);
        match reply.take::<LayoutGetRes<'_>>().map_err(|e| status(&e))? {
            LayoutGetRes::Ok(granted) => {
                assert!(granted.return_on_close);
                let layout = &granted.layouts.0[0];
                assert_eq!((layout.offset, layout.length), (0, LENGTH_TO_EOF));
                let body = xdr::decode_all(layout.body.0).unwrap();
                Ok(Granted {
                    stateid: granted.stateid,
                    body,
                })
            }
            LayoutGetRes::TryLater { .. } => Err(NfsStatus::LayoutTryLater),
        }
    }

    pub async fn layout(&self, iomode: IoMode) -> Granted {
        patiently(|| self.try_layout(iomode)).await.unwrap()
    }

    pub async fn layout_commit(&self, stateid: Stateid, end: u64) -> Result<(), NfsStatus> {
        let done = self
            .client
            .on(&self.fh, |b| {
                b.push(&LayoutCommitArgs {
                    offset: 0,
                    length: LENGTH_TO_EOF,
                    reclaim: false,
                    stateid,
                    last_write_offset: Some(end - 1),
                    time_modify: None,
                    layout_update: LayoutUpdate {
                        layout_type: LAYOUT_NFSV4_1_FILES,
                        body: Opaque(b""),
                    },
                });
            })
            .await;
        let mut reply = after_putfh(&done);
        reply
            .take::<LayoutCommitRes>()
            .map(drop)
            .map_err(|e| status(&e))
    }

    pub async fn layout_return(&self, stateid: Stateid) -> Result<Option<Stateid>, NfsStatus> {
        let done = self
            .client
            .on(&self.fh, |b| {
                b.push(&LayoutReturnArgs {
                    reclaim: false,
                    layout_type: LAYOUT_NFSV4_1_FILES,
                    iomode: IoMode::Any,
                    what: LayoutReturn::File(LayoutReturnFile {
                        offset: 0,
                        length: LENGTH_TO_EOF,
                        stateid,
                        body: Opaque(b""),
                    }),
                });
            })
            .await;
        let mut reply = after_putfh(&done);
        reply
            .take::<LayoutReturnRes>()
            .map(|r| r.stateid)
            .map_err(|e| status(&e))
    }

    /// Size and change attribute.
    pub async fn try_attrs(&self) -> Result<(u64, u64), NfsStatus> {
        let wanted = [attr::SIZE, attr::CHANGE];
        let attrs = self.client.attrs(&self.fh, &wanted).await?;
        Ok((attrs.size.unwrap(), attrs.change.unwrap()))
    }

    pub async fn try_set(&self, attrs: &Attrs) -> Result<(), NfsStatus> {
        let set = self.client.set_attrs(&self.fh, self.open, attrs);
        set.await.map(drop)
    }

    pub async fn try_allocate(&self, offset: u64, length: u64) -> Result<(), NfsStatus> {
        let done = self
            .client
            .on(&self.fh, |b| {
                b.push(&AllocateArgs {
                    stateid: self.open,
                    offset,
                    length,
                });
            })
            .await;
        let allocated = after_putfh(&done).take::<AllocateRes>();
        allocated.map(drop).map_err(|e| status(&e))
    }

    pub async fn try_truncate(&self, size: u64) -> Result<(), NfsStatus> {
        self.try_set(&Attrs {
            size: Some(size),
            ..Attrs::default()
        })
        .await
    }

    pub async fn close(&self) {
        let done = self
            .client
            .on(&self.fh, |b| {
                b.push(&CloseArgs {
                    seqid: 0,
                    open_stateid: self.open,
                });
            })
            .await;
        after_putfh(&done).take::<CloseRes>().unwrap();
    }

    pub async fn remove(&self) {
        let root = self.client.lookup(&[]).await.unwrap();
        let done = self
            .client
            .on(&root, |b| {
                b.push(&RemoveArgs {
                    target: Opaque(self.name.as_bytes()),
                });
            })
            .await;
        after_putfh(&done).take::<RemoveRes>().unwrap();
    }
}
