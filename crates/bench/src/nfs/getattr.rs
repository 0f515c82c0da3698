//! GETATTR at the metadata server: SEQUENCE, PUTFH, GETATTR of the attributes that Linux asks for, of one file.

use crate::bare::ping_pong::Sizes;
use crate::load::{self, Load, Requester};
use crate::nfs::Form;
use crate::nfs::client::{Owner, Peer};
use crate::nfs::cluster::{Cluster, ClusterOptions};
use crate::nfs::wire::WireSession;
use crate::{BenchError, Sample, Subject};
use nfs4::attr::{
    CHANGE, FILEID, FSID, MODE, MOUNTED_ON_FILEID, NUMLINKS, OWNER, OWNER_GROUP, RAWDEV, SIZE,
    SPACE_USED, TIME_ACCESS, TIME_METADATA, TIME_MODIFY, TYPE,
};
use nfs4::ops::{GetAttrArgs, GetAttrRes, PutFhArgs, PutFhRes};
use nfs4::{Bitmap, CompoundBuilder, CompoundReply, FileHandle, OpError};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
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
const DOING: &str = "read attributes";
/// Slots of the session that makes the file.
const MDS_SLOTS: u32 = 4;

/// GETATTRs as a subject.
#[derive(Debug, Clone)]
pub struct GetAttrs {
    /// The cluster.
    pub cluster: ClusterOptions,
    /// The client.
    pub form: Form,
}

impl GetAttrs {
    /// The sizes of the messages: those of a ping-pong to compare with.
    ///
    /// # Errors
    /// As for a run.
    pub fn sizes(&self) -> Result<Sizes, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        let (session, _setup) = Client::first(&cluster)?;
        let (request, reply) = session.last_sizes();
        let size = |bytes: usize| u32::try_from(bytes).map_err(BenchError::nfs("read a reply"));
        Ok(Sizes {
            request_bytes: size(request)?,
            reply_bytes: size(reply)?,
        })
    }
}

impl Subject for GetAttrs {
    fn name(&self) -> String {
        match self.form {
            Form::Wire => "ropewalk getattr".to_owned(),
            Form::Session => {
                format!(
                    "ropewalk getattr, {}, session-client",
                    self.cluster.carrier()
                )
            }
        }
    }

    fn settings(&self) -> Value {
        json!({ "attributes": WANTED.iter().collect::<Vec<_>>(), "cluster": self.cluster.settings() })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let cluster = Cluster::start(&self.cluster)?;
        let owner = Owner::new();
        let setup = Setup::make(&cluster, &owner)?;
        let connect = |index| {
            // Several sessions of one client to the metadata server would all say that nothing is reclaimed.
            let owner = match self.form {
                Form::Wire => owner.clone(),
                Form::Session => Owner::numbered(index),
            };
            let client = Client::connect(&cluster, self.form, &owner, setup.handle.clone())?;
            Ok(Box::new(client) as Box<dyn Requester>)
        };
        load::drive(load, connect, &|| cluster.cpu())
    }
}

/// The file, kept open.
struct Setup {
    handle: FileHandle,
    _mds: Peer,
    _runtime: Runtime,
}

impl Setup {
    fn make(cluster: &Cluster, owner: &Owner) -> Result<Self, BenchError> {
        let runtime = load::runtime()?;
        let (mds, handle) = runtime.block_on(async {
            let mds = Peer::mds(cluster.server(), owner, MDS_SLOTS).await?;
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

/// One connection and the file that it asks about.
struct Client {
    session: ClientSession,
    handle: FileHandle,
}

enum ClientSession {
    Wire(WireSession),
    // The session's connection lives on the runtime, so it goes first.
    Session(Box<Peer>, Runtime),
}

impl Client {
    fn first(cluster: &Cluster) -> Result<(WireSession, Setup), BenchError> {
        let owner = Owner::new();
        let setup = Setup::make(cluster, &owner)?;
        let mut session = WireSession::connect(cluster.server().socket()?, &owner, 0)?;
        take(&mut session.compound(|b| push(b, &setup.handle))?, true)?;
        Ok((session, setup))
    }

    fn connect(
        cluster: &Cluster,
        form: Form,
        owner: &Owner,
        handle: FileHandle,
    ) -> Result<Self, BenchError> {
        let server = cluster.server();
        let session = match form {
            Form::Wire => ClientSession::Wire(WireSession::connect(server.socket()?, owner, 0)?),
            Form::Session => {
                let runtime = load::runtime()?;
                let peer = runtime.block_on(Peer::mds(server, owner, 1))?;
                ClientSession::Session(Box::new(peer), runtime)
            }
        };
        let mut client = Self { session, handle };
        // The first reply is looked at: all that was asked for is there.
        client.ask(true)?;
        Ok(client)
    }

    /// Returns the bytes of the messages, as far as they are known.
    fn ask(&mut self, checked: bool) -> Result<u64, BenchError> {
        let Self { session, handle } = self;
        match session {
            ClientSession::Wire(session) => {
                take(&mut session.compound(|b| push(b, handle))?, checked)?;
                let (request, reply) = session.last_sizes();
                Ok((request + reply) as u64)
            }
            ClientSession::Session(peer, runtime) => {
                let done = runtime.block_on(peer.run(|b| push(b, handle)))?;
                take(
                    &mut done.results().map_err(BenchError::nfs(DOING))?,
                    checked,
                )?;
                Ok(0)
            }
        }
    }
}

fn push(b: &mut CompoundBuilder, handle: &FileHandle) {
    b.push(&PutFhArgs {
        object: Opaque(&handle.0),
    });
    b.push(&GetAttrArgs {
        attr_request: WANTED,
    });
}

fn take(reply: &mut CompoundReply<'_>, checked: bool) -> Result<(), BenchError> {
    let attributes = {
        reply
            .take::<PutFhRes>()
            .and_then(|_| reply.take::<GetAttrRes<'_>>())
    };
    let attributes = attributes
        .map_err(BenchError::nfs::<OpError>(DOING))?
        .attributes;
    if checked {
        let attrs = attributes.attrs().map_err(BenchError::nfs(DOING))?;
        if attributes.mask != WANTED || attrs.size != Some(0) || attrs.numlinks != Some(1) {
            return Err(BenchError::nfs(DOING)("others than asked for"));
        }
    }
    Ok(())
}

impl Requester for Client {
    fn request(&mut self) -> Result<u64, BenchError> {
        self.ask(false)
    }
}
