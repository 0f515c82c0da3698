//! GETATTR at the metadata server: SEQUENCE, PUTFH, GETATTR of the attributes that Linux asks for, of one file.

use crate::bare::ping_pong::Sizes;
use crate::load::{self, Load, Requester};
use crate::nfs::client::{Owner, Peer};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::nfs::wire::WireSession;
use crate::{BenchError, Sample, Subject};
use nfs4::attr::{
    CHANGE, FILEID, FSID, MODE, MOUNTED_ON_FILEID, NUMLINKS, OWNER, OWNER_GROUP, RAWDEV, SIZE,
    SPACE_USED, TIME_ACCESS, TIME_METADATA, TIME_MODIFY, TYPE,
};
use nfs4::ops::{GetAttrArgs, GetAttrRes, PutFhArgs, PutFhRes};
use nfs4::{Bitmap, FileHandle, OpError};
use serde_json::{Value, json};
use xdr::Opaque;

/// What Linux asks for after most operations.
const WANTED: Bitmap = Bitmap::of(&[
    TYPE,
    CHANGE,
    SIZE,
    FSID,
    FILEID,
    MODE,
    NUMLINKS,
    OWNER,
    OWNER_GROUP,
    RAWDEV,
    SPACE_USED,
    TIME_ACCESS,
    TIME_METADATA,
    TIME_MODIFY,
    MOUNTED_ON_FILEID,
]);
/// Slots of the session that makes the file.
const MDS_SLOTS: u32 = 4;

/// GETATTRs as a subject.
#[derive(Debug, Clone)]
pub struct GetAttrs {
    /// The cluster.
    pub cluster: ClusterOptions,
}

impl GetAttrs {
    /// The sizes of the messages: those of a ping-pong to compare with.
    ///
    /// # Errors
    /// As for a run.
    pub fn sizes(&self) -> Result<Sizes, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        let (mut client, _setup) = Client::first(&cluster)?;
        client.request()?;
        let (request, reply) = client.session.last_sizes();
        let size = |bytes: usize| u32::try_from(bytes).map_err(BenchError::nfs("read a reply"));
        Ok(Sizes {
            request_bytes: size(request)?,
            reply_bytes: size(reply)?,
        })
    }
}

impl Subject for GetAttrs {
    fn name(&self) -> String {
        "ropewalk getattr".to_owned()
    }

    fn settings(&self) -> Value {
        json!({ "attributes": WANTED.iter().collect::<Vec<_>>(), "cluster": self.cluster.settings() })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        let owner = Owner::new();
        let setup = Setup::make(&cluster, &owner)?;
        let connect = |_| {
            let client = Client::connect(&cluster, &owner, setup.handle.clone())?;
            Ok(Box::new(client) as Box<dyn Requester>)
        };
        load::drive(load, connect, &|| cluster.cpu())
    }
}

/// The file, kept open.
struct Setup {
    handle: FileHandle,
    _mds: Peer,
    _runtime: tokio::runtime::Runtime,
}

impl Setup {
    fn make(cluster: &Cluster, owner: &Owner) -> Result<Self, BenchError> {
        let runtime = load::runtime()?;
        let (mds, handle) = runtime.block_on(async {
            let mds = Peer::mds(cluster.address(), owner, MDS_SLOTS).await?;
            let root = mds.root().await?;
            let file = mds.create(&root, "attributes", b"opener").await?;
            Ok::<_, BenchError>((mds, file.handle))
        })?;
        Ok(Self {
            handle,
            _mds: mds,
            _runtime: runtime,
        })
    }
}

struct Client {
    session: WireSession,
    handle: FileHandle,
}

impl Client {
    fn first(cluster: &Cluster) -> Result<(Self, Setup), BenchError> {
        let owner = Owner::new();
        let setup = Setup::make(cluster, &owner)?;
        let client = Self::connect(cluster, &owner, setup.handle.clone())?;
        Ok((client, setup))
    }

    fn connect(cluster: &Cluster, owner: &Owner, handle: FileHandle) -> Result<Self, BenchError> {
        let mut client = Self {
            session: WireSession::connect(cluster.address(), owner, 0)?,
            handle,
        };
        // The first reply is looked at: all that was asked for is there.
        client.ask(true)?;
        Ok(client)
    }

    fn ask(&mut self, checked: bool) -> Result<(), BenchError> {
        let Self { session, handle } = self;
        let mut reply = session.compound(|b| {
            b.push(&PutFhArgs {
                object: Opaque(&handle.0),
            });
            b.push(&GetAttrArgs {
                attr_request: WANTED,
            });
        })?;
        let mut take = || {
            reply.take::<PutFhRes>()?;
            reply.take::<GetAttrRes<'_>>()
        };
        let doing = "read attributes";
        let attributes = take()
            .map_err(BenchError::nfs::<OpError>(doing))?
            .attributes;
        if checked {
            let attrs = attributes.attrs().map_err(BenchError::nfs(doing))?;
            if attributes.mask != WANTED || attrs.size != Some(0) || attrs.numlinks != Some(1) {
                return Err(BenchError::nfs(doing)("others than asked for"));
            }
        }
        Ok(())
    }
}

impl Requester for Client {
    fn request(&mut self) -> Result<u64, BenchError> {
        self.ask(false)?;
        let (request, reply) = self.session.last_sizes();
        Ok((request + reply) as u64)
    }
}
