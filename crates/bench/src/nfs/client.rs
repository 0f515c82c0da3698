//! What the subjects ask of a cluster beside what they measure: sessions, files, where files lie, close.
//!
//! It is a small pNFS client over `session-client` (RFC 8881 §12, §13): OPEN, LAYOUTGET, GETDEVICEINFO, WRITE to
//! the data servers, LAYOUTCOMMIT, LAYOUTRETURN, CLOSE. It has no recovery: a measurement with failures in it is none.

use crate::BenchError;
use crate::load::REQUEST_TIMEOUT;
use crate::nfs::server::Server;
use bytes::Bytes;
use layout::Striping;
use nfs4::layout::{FileLayout, FileLayoutDsAddr, LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF};
use nfs4::ops::{
    CloseArgs, CloseRes, CreateHow, DeviceInfo, EXCHGID_USE_PNFS_DS, GetDeviceInfoArgs,
    GetDeviceInfoRes, GetFhArgs, GetFhRes, LayoutCommitArgs, LayoutCommitRes, LayoutGetArgs,
    LayoutGetRes, LayoutReturn, LayoutReturnArgs, LayoutReturnFile, LayoutReturnRes, LayoutUpdate,
    OpenArgs, OpenClaim, OpenHow, OpenRes, PutFhArgs, PutFhRes, PutRootFhArgs, PutRootFhRes,
    ReclaimCompleteArgs, ReclaimCompleteRes, RemoveArgs, RemoveRes, SHARE_ACCESS_BOTH,
    SHARE_DENY_NONE, SHARE_WANT_NO_DELEG, WriteArgsPayload, WriteRes,
};
use nfs4::{
    Attrs, Bitmap, ClientId, CompoundBuilder, CompoundReply, DeviceId, Fattr, FileHandle, IoMode,
    OpError, StableHow, StateOwner, Stateid, Verifier,
};
use rpc::{AuthSys, UniversalAddress};
use session_client::{Caller, NoCallbacks, Outcome, Session, SessionConfig};
use std::sync::Arc;
use transport::{Connector, Payload};
use xdr::Opaque;

/// NFSv4.2.
pub(crate) const MINOR_VERSION: u32 = 2;
/// Most bytes of a layout or a device address.
const LAYOUT_BYTES_MAX: u32 = 64 * 1024;
/// Mode of new files.
const FILE_MODE: u32 = 0o644;

/// Who a client is: the same at the metadata server and at all data servers (RFC 8881 §13.1).
#[derive(Debug, Clone)]
pub struct Owner {
    /// `co_ownerid`.
    pub id: Vec<u8>,
    /// `co_verifier`.
    pub verifier: Verifier,
}

impl Owner {
    /// A client of this process. Clusters live for one run, so its name need not differ from that of earlier runs.
    #[must_use]
    pub fn new() -> Self {
        Self {
            id: format!("ropewalk-bench {}", std::process::id()).into_bytes(),
            verifier: Verifier {
                bytes: *b"measured",
            },
        }
    }

    /// One of several clients of this process.
    #[must_use]
    pub fn numbered(number: usize) -> Self {
        let mut owner = Self::new();
        owner.id.extend(format!(" {number}").into_bytes());
        owner
    }

    /// Who calls are made as.
    #[must_use]
    pub fn identity(&self) -> AuthSys {
        AuthSys {
            stamp: 0,
            machine: b"ropewalk-bench".to_vec(),
            uid: 0,
            gid: 0,
            gids: Vec::new(),
        }
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

/// A session to one server.
pub struct Peer {
    session: Arc<Session>,
    caller: Caller,
    server: Server,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

/// An open file.
#[derive(Debug, Clone)]
pub struct OpenFile {
    /// Its handle at the metadata server.
    pub handle: FileHandle,
    /// The open.
    pub stateid: Stateid,
}

/// Where an open file lies.
#[derive(Debug, Clone)]
pub struct FileMap {
    /// The layout.
    pub stateid: Stateid,
    /// Its handles, by stripe index.
    pub handles: Vec<FileHandle>,
    /// How it is cut.
    pub striping: Striping,
    /// Its data servers, by stripe index.
    pub servers: Arc<Vec<Server>>,
    /// The device that they make up.
    pub device_id: DeviceId,
}

impl Peer {
    /// A session to the metadata server, with a back channel, ready for opens.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn mds(server: &Server, owner: &Owner, slots: u32) -> Result<Self, BenchError> {
        Self::mds_by(server.connector(), server, owner, slots).await
    }

    /// The same with what connects to it.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub(crate) async fn mds_by(
        connector: Arc<dyn Connector>,
        server: &Server,
        owner: &Owner,
        slots: u32,
    ) -> Result<Self, BenchError> {
        let peer = Self::connect_by(connector, server, owner, slots, 0).await?;
        let done = peer
            .run(|b| {
                b.push(&ReclaimCompleteArgs { one_fs: false });
            })
            .await?;
        let doing = "say that nothing is reclaimed";
        let mut reply = done.results().map_err(BenchError::nfs(doing))?;
        reply
            .take::<ReclaimCompleteRes>()
            .map_err(BenchError::nfs(doing))?;
        Ok(peer)
    }

    /// A session to a data server.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn ds(server: &Server, owner: &Owner, slots: u32) -> Result<Self, BenchError> {
        Self::connect(server, owner, slots, EXCHGID_USE_PNFS_DS).await
    }

    /// A session to a server in the role of `role_flag`.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn connect(
        server: &Server,
        owner: &Owner,
        slots: u32,
        role_flag: u32,
    ) -> Result<Self, BenchError> {
        Self::connect_by(server.connector(), server, owner, slots, role_flag).await
    }

    async fn connect_by(
        connector: Arc<dyn Connector>,
        server: &Server,
        owner: &Owner,
        slots: u32,
        role_flag: u32,
    ) -> Result<Self, BenchError> {
        let caller = Caller::auth_sys(&owner.identity());
        let config = SessionConfig {
            owner: owner.id.clone(),
            verifier: owner.verifier,
            addresses: vec![server.address()],
            role_flag,
            minor_version: MINOR_VERSION,
            caller: caller.clone(),
            slots,
            connections: 1,
            callbacks: (role_flag == 0).then(|| Arc::new(NoCallbacks) as _),
            try_timeout: REQUEST_TIMEOUT,
            give_up: REQUEST_TIMEOUT,
        };
        let session = Session::new(connector, config);
        session
            .establish()
            .await
            .map_err(BenchError::nfs("make a session"))?;
        Ok(Self {
            session,
            caller,
            server: server.clone(),
        })
    }

    /// Sends operations without payload.
    ///
    /// # Errors
    /// [`BenchError::Nfs`] when there is no reply; failures of the operations are in it.
    pub async fn run(
        &self,
        build: impl Fn(&mut CompoundBuilder) + Send + Sync,
    ) -> Result<Outcome, BenchError> {
        let build = |b: &mut CompoundBuilder| {
            build(b);
            Vec::new()
        };
        let sent = self.session.compound(&self.caller, &build).await;
        sent.map_err(BenchError::nfs("make a request"))
    }

    /// Renews the lease: SEQUENCE alone.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub(crate) async fn renew(&self) -> Result<(), BenchError> {
        let renewed = self.session.renew().await.map(drop);
        renewed.map_err(BenchError::nfs("renew a lease"))
    }

    /// Ends the session.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn end(&self) -> Result<(), BenchError> {
        let ended = self.session.destroy().await;
        ended.map_err(BenchError::nfs("end a session"))
    }

    /// The handle of the root.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn root(&self) -> Result<FileHandle, BenchError> {
        let done = self
            .run(|b| {
                b.push(&PutRootFhArgs {}).push(&GetFhArgs {});
            })
            .await?;
        let handle = || {
            let mut reply = done.results()?;
            reply.take::<PutRootFhRes>()?;
            Ok(FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0))
        };
        handle().map_err(BenchError::nfs::<nfs4::OpError>("find the root"))
    }

    /// Creates a file that must not exist, and opens it for reading and writing.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn create(
        &self,
        parent: &FileHandle,
        name: &str,
        opener: &[u8],
    ) -> Result<OpenFile, BenchError> {
        self.create_as(parent, name, opener, guarded()).await
    }

    /// Opens a file as `how` says, for reading and writing.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub(crate) async fn create_as(
        &self,
        parent: &FileHandle,
        name: &str,
        opener: &[u8],
        how: OpenHow<'static>,
    ) -> Result<OpenFile, BenchError> {
        let done = self
            .run(|b| push_open(b, parent, name, opener, how.clone()))
            .await?;
        let file = done.results().and_then(|mut reply| take_open(&mut reply));
        file.map_err(BenchError::nfs("create a file"))
    }

    /// Where the whole file lies, for reading and writing. `known` saves the question after a device that was met before.
    ///
    /// # Errors
    /// [`BenchError::Nfs`], also for a layout that this client does not understand.
    pub async fn map(
        &self,
        file: &OpenFile,
        known: Option<&FileMap>,
    ) -> Result<FileMap, BenchError> {
        let done = self
            .run(|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&file.handle.0),
                });
                b.push(&LayoutGetArgs {
                    signal_layout_avail: false,
                    layout_type: LAYOUT_NFSV4_1_FILES,
                    iomode: IoMode::Rw,
                    offset: 0,
                    length: LENGTH_TO_EOF,
                    minlength: 0,
                    stateid: file.stateid,
                    maxcount: LAYOUT_BYTES_MAX,
                });
            })
            .await?;
        let doing = "get a layout";
        let fail = BenchError::nfs::<nfs4::OpError>(doing);
        let mut reply = done.results().map_err(&fail)?;
        reply.take::<PutFhRes>().map_err(&fail)?;
        let granted = match reply.take::<LayoutGetRes<'_>>().map_err(&fail)? {
            LayoutGetRes::Ok(granted) => granted,
            LayoutGetRes::TryLater { .. } => return Err(unusable("the server says: later")),
        };
        let segment = granted
            .layouts
            .0
            .first()
            .ok_or_else(|| unusable("no segment"))?;
        let body: FileLayout = xdr::decode_all(segment.body.0).map_err(BenchError::nfs(doing))?;
        let servers = match known.filter(|map| map.device_id == body.device_id) {
            Some(map) => Arc::clone(&map.servers),
            None => Arc::new(self.device(body.device_id).await?),
        };
        let handles = match &body.file_handles.0[..] {
            [] => return Err(unusable("no handle")),
            [one] => vec![one.clone(); servers.len()],
            each if each.len() == servers.len() => each.to_vec(),
            _ => return Err(unusable("other handles than data servers")),
        };
        let width = u32::try_from(servers.len()).unwrap_or(0);
        let unit = body.util.stripe_unit_bytes();
        let striping = Striping::new(unit, width, body.first_stripe_index);
        let usable = segment.offset == 0 && segment.length == LENGTH_TO_EOF;
        if !usable || body.util.is_dense() || body.pattern_offset != 0 {
            return Err(unusable("not the whole file, or not sparse"));
        }
        Ok(FileMap {
            stateid: granted.stateid,
            handles,
            striping: striping.map_err(BenchError::nfs(doing))?,
            servers,
            device_id: body.device_id,
        })
    }

    /// The data server of each stripe, over the transport of this session.
    async fn device(&self, device_id: DeviceId) -> Result<Vec<Server>, BenchError> {
        let done = self
            .run(|b| {
                b.push(&GetDeviceInfoArgs {
                    device_id,
                    layout_type: LAYOUT_NFSV4_1_FILES,
                    maxcount: LAYOUT_BYTES_MAX,
                    notify_types: Bitmap::EMPTY,
                });
            })
            .await?;
        let doing = "find the data servers";
        let mut reply = done.results().map_err(BenchError::nfs(doing))?;
        let info: DeviceInfo<'_> = match reply.take().map_err(BenchError::nfs(doing))? {
            GetDeviceInfoRes::Ok(info) => info,
            GetDeviceInfoRes::TooSmall { .. } => return Err(unusable("a large device")),
        };
        let body: FileLayoutDsAddr =
            xdr::decode_all(info.device_addr.body.0).map_err(BenchError::nfs(doing))?;
        let address = |index: &u32| {
            let paths = &body.multipath_ds_list.0[*index as usize].0;
            paths
                .iter()
                .filter_map(|path| UniversalAddress::parse(&path.netid.0, &path.uaddr.0).ok())
                .find_map(|told| self.server.other(&told))
                .ok_or_else(|| unusable("a data server without such an address"))
        };
        body.stripe_indices.0.iter().map(address).collect()
    }

    /// Writes to the file of a handle: a data server's, or the metadata server's own.
    ///
    /// # Errors
    /// [`BenchError::Nfs`], also when not all was written as stable as asked.
    pub async fn write(
        &self,
        handle: &FileHandle,
        stateid: Stateid,
        offset: u64,
        data: Bytes,
        stable: StableHow,
    ) -> Result<(), BenchError> {
        let len = u32::try_from(data.len()).map_err(BenchError::nfs("write"))?;
        let build = |b: &mut CompoundBuilder| {
            b.push(&PutFhArgs {
                object: Opaque(&handle.0),
            });
            b.push(&WriteArgsPayload {
                stateid,
                offset,
                stable,
                len,
            });
            vec![Payload::Bytes(data.clone())]
        };
        let sent = self.session.compound(&self.caller, &build).await;
        let done = sent.map_err(BenchError::nfs("write"))?;
        let written = || {
            let mut reply = done.results()?;
            reply.take::<PutFhRes>()?;
            reply.take::<WriteRes>()
        };
        let written = written().map_err(BenchError::nfs::<nfs4::OpError>("write"))?;
        if written.count != len || (written.committed as u32) < stable as u32 {
            return Err(BenchError::nfs("write")("less was written than asked"));
        }
        Ok(())
    }

    /// Ends the use of a file that was written up to `end_offset`: LAYOUTCOMMIT, then LAYOUTRETURN and CLOSE.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn commit_and_close(
        &self,
        file: &OpenFile,
        map: &FileMap,
        end_offset: u64,
    ) -> Result<(), BenchError> {
        self.commit(file, map, end_offset).await?;
        self.return_and_close(file, LAYOUT_NFSV4_1_FILES, map.stateid)
            .await
    }

    /// LAYOUTRETURN of the whole file, by the layout type and the stateid of its layout, and CLOSE.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub(crate) async fn return_and_close(
        &self,
        file: &OpenFile,
        layout_type: u32,
        layout: Stateid,
    ) -> Result<(), BenchError> {
        let done = self
            .run(|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&file.handle.0),
                });
                b.push(&LayoutReturnArgs {
                    reclaim: false,
                    layout_type,
                    iomode: IoMode::Any,
                    what: LayoutReturn::File(LayoutReturnFile {
                        offset: 0,
                        length: LENGTH_TO_EOF,
                        stateid: layout,
                        body: Opaque(&[]),
                    }),
                });
                push_close(b, file.stateid);
            })
            .await?;
        let closed = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            reply.take::<LayoutReturnRes>()?;
            reply.take::<CloseRes>()
        };
        let mut reply = done.results().map_err(BenchError::nfs("close a file"))?;
        closed(&mut reply).map_err(BenchError::nfs::<nfs4::OpError>("close a file"))?;
        Ok(())
    }

    /// LAYOUTCOMMIT of all up to `end_offset`.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn commit(
        &self,
        file: &OpenFile,
        map: &FileMap,
        end_offset: u64,
    ) -> Result<(), BenchError> {
        let done = self
            .run(|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&file.handle.0),
                });
                b.push(&LayoutCommitArgs {
                    offset: 0,
                    length: end_offset,
                    reclaim: false,
                    stateid: map.stateid,
                    last_write_offset: end_offset.checked_sub(1),
                    time_modify: None,
                    layout_update: LayoutUpdate {
                        layout_type: LAYOUT_NFSV4_1_FILES,
                        body: Opaque(&[]),
                    },
                });
            })
            .await?;
        let committed = || {
            let mut reply = done.results()?;
            reply.take::<PutFhRes>()?;
            reply.take::<LayoutCommitRes>()
        };
        committed().map_err(BenchError::nfs::<nfs4::OpError>("commit a layout"))?;
        Ok(())
    }

    /// REMOVE.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn remove(&self, parent: &FileHandle, name: &str) -> Result<(), BenchError> {
        let done = self
            .run(|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&parent.0),
                });
                b.push(&RemoveArgs {
                    target: Opaque(name.as_bytes()),
                });
            })
            .await?;
        let removed = || {
            let mut reply = done.results()?;
            reply.take::<PutFhRes>()?;
            reply.take::<RemoveRes>()
        };
        removed().map_err(BenchError::nfs::<nfs4::OpError>("remove a file"))?;
        Ok(())
    }

    /// CLOSE alone.
    ///
    /// # Errors
    /// [`BenchError::Nfs`].
    pub async fn close(&self, file: &OpenFile) -> Result<(), BenchError> {
        let done = self
            .run(|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&file.handle.0),
                });
                push_close(b, file.stateid);
            })
            .await?;
        let closed = || {
            let mut reply = done.results()?;
            reply.take::<PutFhRes>()?;
            reply.take::<CloseRes>()
        };
        closed().map_err(BenchError::nfs::<nfs4::OpError>("close a file"))?;
        Ok(())
    }
}

/// Creates a file that must not exist.
pub(crate) fn guarded() -> OpenHow<'static> {
    OpenHow::Create(CreateHow::Guarded(new_file()))
}

/// Creates a file unless it is there: nfs-ganesha may make one and answer DELAY all the same.
pub(crate) fn unchecked() -> OpenHow<'static> {
    OpenHow::Create(CreateHow::Unchecked(new_file()))
}

fn new_file() -> Fattr<'static> {
    Fattr::new(&Attrs {
        mode: Some(FILE_MODE),
        ..Attrs::default()
    })
}

/// PUTFH, OPEN for reading and writing, GETFH.
pub(crate) fn push_open(
    b: &mut CompoundBuilder,
    parent: &FileHandle,
    name: &str,
    opener: &[u8],
    how: OpenHow<'_>,
) {
    b.push(&PutFhArgs {
        object: Opaque(&parent.0),
    });
    b.push(&OpenArgs {
        seqid: 0,
        // A client without callbacks could not give one back.
        share_access: SHARE_ACCESS_BOTH | SHARE_WANT_NO_DELEG,
        share_deny: SHARE_DENY_NONE,
        owner: StateOwner {
            clientid: ClientId::default(),
            owner: Opaque(opener),
        },
        how,
        claim: OpenClaim::Null(Opaque(name.as_bytes())),
    });
    b.push(&GetFhArgs {});
}

/// What [`push_open`] asked for.
pub(crate) fn take_open(reply: &mut CompoundReply<'_>) -> Result<OpenFile, OpError> {
    reply.take::<PutFhRes>()?;
    let stateid = reply.take::<OpenRes>()?.stateid;
    let handle = FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0);
    Ok(OpenFile { handle, stateid })
}

pub(crate) fn push_close(b: &mut CompoundBuilder, open_stateid: Stateid) {
    b.push(&CloseArgs {
        seqid: 0,
        open_stateid,
    });
}

/// An open's stateid as a data server takes it: that one cannot know which sequence id is the newest (RFC 8881 §13.9.1).
#[must_use]
pub fn at_ds(open: Stateid) -> Stateid {
    Stateid { seqid: 0, ..open }
}

fn unusable(why: &str) -> BenchError {
    BenchError::nfs("get a layout")(why)
}
