//! Data servers that speak the control program over the memory transport and remember what they were told. They hold
//! sizes, not bytes.

use super::Rig;
use ::cluster::{ControlService, Issuer, add_token};
use bytes::Bytes;
use cluster_tls::{CertRole, Fingerprint, Peer};
use control::{
    Answer, Capacity, CommitOk, HeartbeatArgs, HeartbeatOk, HelloArgs, HelloOk, JoinArgs, JoinOk,
    JoinSecret, KeySet, NetAddr, ObjectRef, Refusal, ReplyError, Request, SizeArgs, SizeOk,
    StatItem, StatOk, Status, StoreIdentity, Text, ToDs, VersionRange, WroteArgs, WroteItem,
};
use layout::{Floor, KeyRing};
use nfs4::{NfsTime, Verifier};
use rpc::{CallHeader, OpaqueAuth};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use transport::workers::Shutdown;
use transport::{
    Address, CloseReason, ConnHandle, Connector, Context, Endpoint, Message, NoService, Service,
    TransportLimits,
};
use xdr::{Decoder, Encode, Encoder, OpaqueBuf};

type Peers = Arc<Mutex<HashMap<String, Peer>>>;

struct TestIssuer;

impl Issuer for TestIssuer {
    fn issue(&self, ds_id: u32, _public_key: &[u8]) -> Result<Vec<u8>, String> {
        Ok(format!("certificate of {ds_id}").into_bytes())
    }

    fn ca_certificate(&self) -> Vec<u8> {
        b"ca".to_vec()
    }
}

/// The control port of a rig.
pub struct Port {
    peers: Peers,
    _shutdown: Shutdown,
}

impl Port {
    /// Listens, and ticks the metadata server every second.
    pub fn open(rig: &Rig) -> Self {
        let peers: Peers = Arc::default();
        let known = Arc::clone(&peers);
        let peer_of = move |conn: &ConnHandle| match conn.peer() {
            Endpoint::Memory(name) => Some(
                known
                    .lock()
                    .get(&**name)
                    .copied()
                    .unwrap_or(Peer::Anonymous),
            ),
            Endpoint::Socket(_) | Endpoint::Tunnel(_) => None,
        };
        let nfsd = Arc::clone(&rig.nfsd);
        let service = ControlService::new(
            Arc::clone(nfsd.role().fs().cluster()),
            Arc::clone(nfsd.role().fs()),
            Arc::new(peer_of),
            Arc::new(TestIssuer),
        );
        let listener = rig.network.listen("control").unwrap();
        let shutdown = Shutdown::new();
        let context = Context::new(TransportLimits::default());
        tokio::spawn(listener.serve(Arc::new(service), context, shutdown.signal()));
        let nfsd = Arc::downgrade(&rig.nfsd);
        tokio::spawn(async move {
            while let Some(nfsd) = nfsd.upgrade() {
                ropewalk_mds::Mds::tick(&nfsd).await;
                drop(nfsd);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        Self {
            peers,
            _shutdown: shutdown,
        }
    }
}

impl Port {
    /// From now on connections from `name` are those of data server `ds_id`.
    pub fn admit(&self, name: &str, ds_id: u32) {
        let fingerprint = Fingerprint::of(format!("certificate of {ds_id}").as_bytes());
        let role = CertRole::DataServer { ds_id };
        self.peers
            .lock()
            .insert(name.to_owned(), Peer::Member { role, fingerprint });
    }
}

/// What a data server was told and has.
#[derive(Default)]
pub struct Told {
    /// Size of each object.
    pub sizes: BTreeMap<u64, u64>,
    pub modified_s: i64,
    /// Floors of FLOORS pages.
    pub floors: Vec<Floor>,
    /// Rows, as they came.
    pub rows: Vec<control::PlaceRow>,
    /// Floors of FENCE calls.
    pub fences: Vec<Floor>,
    pub set_sizes: Vec<control::SetSizeItem>,
    pub removed: Vec<control::RemoveItem>,
    pub stats_count: usize,
    /// Whether the last page of floors has come.
    pub serving: bool,
    /// What it says of its room, when not the usual.
    pub free_bytes: Option<u64>,
    /// The disk that it says it is on.
    pub disk: u64,
    /// The largest object that it takes, when not the usual.
    pub object_bytes_max: Option<u64>,
    /// How full it says that its floors are.
    pub floors_fill_percent: u32,
    /// Objects whose STAT fails, and how.
    pub unreadable: BTreeMap<u64, Status>,
    /// Changes of its store.
    pub changes: u64,
    /// SET_SIZE fails as of a disk.
    pub failing: bool,
    /// FENCE, STAT and SET_SIZE get no answer.
    pub mute: bool,
    /// The keys of the last HELLO or KEYS.
    pub keys: Option<KeySet>,
    /// KEYS gets no answer.
    pub mute_keys: bool,
    /// Says no HEARTBEAT.
    pub silent: bool,
}

/// A data server.
pub struct FakeDs {
    pub id: u32,
    pub name: String,
    /// What it says of where clients reach it; several with commas.
    pub uaddr: String,
    pub store: StoreIdentity,
    /// Tells one start of its process from another.
    pub boot_nonce: [u8; 16],
    /// The versions of placement groups that it says it knows.
    pub groups: Vec<control::GroupVersion>,
    pub told: Arc<Mutex<Told>>,
    pub hello: Option<HelloOk>,
    conn: Option<ConnHandle>,
    beats: Option<tokio::task::JoinHandle<()>>,
}

struct Calls(Arc<Mutex<Told>>);

impl Service for Calls {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let call = ToDs::decode(header.procedure, d.rest()).unwrap();
        let slow = matches!(call, ToDs::Fence(_) | ToDs::Stat(_) | ToDs::SetSize(_));
        while slow && self.0.lock().mute {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        while matches!(call, ToDs::Keys(_)) && self.0.lock().mute_keys {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
        self.answer(call, &mut e);
        Some(e.into())
    }
}

impl Calls {
    fn answer(&self, call: ToDs, e: &mut Encoder) {
        let told = &mut *self.0.lock();
        let ok = |e: &mut Encoder| Answer::Ok(()).encode(e);
        match call {
            ToDs::Floors(args) => {
                told.floors.extend(args.floors.0);
                told.serving = args.last;
                ok(e);
            }
            ToDs::Fence(args) => {
                told.fences.extend(args.floors.0);
                ok(e);
            }
            ToDs::Stat(args) => {
                told.stats_count += 1;
                let items: Vec<_> = args.objects.0.iter().map(|o| told.stat(o)).collect();
                Answer::Ok(StatOk {
                    items: items.into(),
                })
                .encode(e);
            }
            ToDs::SetSize(args) if told.failing => {
                let statuses = vec![Status::Io; args.items.0.len()];
                Answer::Ok(control::ItemStatuses::from(statuses)).encode(e);
            }
            ToDs::SetSize(args) => {
                for item in &args.items.0 {
                    if let Some(size) = told.sizes.get_mut(&item.object.file_id) {
                        *size = (*size).min(item.size_bytes);
                    }
                }
                let statuses = vec![Status::Ok; args.items.0.len()];
                told.set_sizes.extend(args.items.0);
                Answer::Ok(control::ItemStatuses::from(statuses)).encode(e);
            }
            ToDs::Commit(args) => {
                let statuses = vec![Status::Ok; args.objects.0.len()].into();
                let verifier = Verifier { bytes: [7; 8] };
                Answer::Ok(CommitOk { verifier, statuses }).encode(e);
            }
            ToDs::Remove(args) => {
                let statuses = vec![Status::Ok; args.items.0.len()];
                told.removed.extend(args.items.0);
                Answer::Ok(control::ItemStatuses::from(statuses)).encode(e);
            }
            ToDs::Rows(args) => {
                told.rows.extend(args.rows.0);
                let newer = Vec::new().into();
                Answer::Ok(control::RowsOk { newer }).encode(e);
            }
            ToDs::Keys(args) => {
                told.keys = Some(args.keys);
                ok(e);
            }
            _ => ok(e),
        }
    }
}

impl Told {
    fn stat(&self, object: &ObjectRef) -> StatItem {
        if let Some(status) = self.unreadable.get(&object.file_id) {
            return StatItem {
                status: *status,
                size_bytes: 0,
                durable_bytes: 0,
                space_bytes: 0,
                modified: NfsTime::default(),
            };
        }
        let size = self.sizes.get(&object.file_id);
        StatItem {
            status: if size.is_some() {
                Status::Ok
            } else {
                Status::NotFound
            },
            size_bytes: size.copied().unwrap_or(0),
            durable_bytes: 0,
            space_bytes: size.copied().unwrap_or(0),
            modified: NfsTime {
                seconds: self.modified_s,
                nanoseconds: 0,
            },
        }
    }
}

/// One call, either direction.
pub async fn call<R: Request>(conn: &ConnHandle, args: &R) -> Result<R::Ok, Refusal> {
    let call = control::encode_call(args).into();
    let record = conn.call(call, Duration::from_secs(60)).await.unwrap();
    control::read_reply::<R>(&record).map_err(|error| match error {
        ReplyError::Refused(refusal) => refusal,
        other => panic!("{other}"),
    })
}

/// Several names have commas between them.
pub fn addresses(names: &str) -> Vec<NetAddr> {
    let address = |name| NetAddr {
        netid: Text::cut("memory"),
        uaddr: Text::cut(name),
    };
    names.split(',').map(address).collect()
}

const CAPACITY: Capacity = Capacity {
    total_bytes: 1000,
    free_bytes: 900,
    unused_bytes: 950,
    object_bytes_max: i64::MAX as u64,
    disk: 0,
    objects_count: 0,
};

fn join_args(name: &str, secret: JoinSecret, store: StoreIdentity) -> JoinArgs {
    JoinArgs {
        versions: VersionRange::OURS,
        secret,
        public_key: OpaqueBuf(vec![4; 65]),
        store,
        addresses: addresses(name).into(),
        capacity: CAPACITY,
    }
}

/// JOIN on a connection of its own.
pub async fn join(
    rig: &Rig,
    name: &str,
    secret: JoinSecret,
    store: StoreIdentity,
) -> Result<JoinOk, Refusal> {
    let connector = rig
        .network
        .connector(name, Context::new(TransportLimits::default()));
    let address = Address::Memory("control".into());
    let conn = connector
        .connect(&address, NoService::shared())
        .await
        .unwrap();
    let answer = call(&conn, &join_args(name, secret, store)).await;
    conn.close(CloseReason::Asked);
    answer
}

/// A metadata server with so many data servers, numbered from 1.
pub async fn cluster(servers: u8) -> (Rig, Port, Vec<FakeDs>) {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let mut all = Vec::new();
    for number in 1..=servers {
        all.push(FakeDs::joined(&rig, &port, number).await);
    }
    (rig, port, all)
}

impl FakeDs {
    /// Joins and says HELLO.
    pub async fn joined(rig: &Rig, port: &Port, number: u8) -> Self {
        let secret = JoinSecret([number; 16]);
        add_token(rig.nfsd.role().fs().cluster(), &secret, 60_000)
            .await
            .unwrap();
        let known = Self::known(number);
        let ok = join(rig, &known.name, secret, known.store).await.unwrap();
        let mut ds = Self {
            id: ok.ds_id,
            ..known
        };
        ds.say_hello(rig, port).await.unwrap();
        ds
    }

    /// One that joined, as `number`, in an earlier run of the metadata server.
    pub fn known(number: u8) -> Self {
        Self {
            id: u32::from(number),
            name: format!("ds{number}"),
            uaddr: format!("ds{number}"),
            store: StoreIdentity {
                store_id: u64::from(number),
                counter: 1,
                changes: 0,
            },
            boot_nonce: [number; 16],
            groups: Vec::new(),
            told: Arc::default(),
            hello: None,
            conn: None,
            beats: None,
        }
    }

    /// Calls the metadata server.
    pub async fn says<R: Request>(&self, args: &R) -> Result<R::Ok, Refusal> {
        call(self.conn.as_ref().unwrap(), args).await
    }

    /// Connects to a rig, which may be another run of the same metadata server.
    pub async fn say_hello(&mut self, rig: &Rig, port: &Port) -> Result<(), Refusal> {
        port.admit(&self.name, self.id);
        {
            let mut told = self.told.lock();
            told.serving = false;
            told.changes = self.store.changes;
        }
        let connector = rig
            .network
            .connector(&self.name, Context::new(TransportLimits::default()));
        let service = Arc::new(Calls(Arc::clone(&self.told)));
        let address = Address::Memory("control".into());
        let conn = connector.connect(&address, service).await.unwrap();
        let args = HelloArgs {
            versions: VersionRange::OURS,
            cluster_id: rig.nfsd.role().fs().cluster().id(),
            ds_id: self.id,
            store: self.store,
            boot_nonce: self.boot_nonce,
            addresses: addresses(&self.uaddr).into(),
            capacity: CAPACITY,
            location: Text::default(),
            groups: self.groups.clone().into(),
        };
        let hello = call(&conn, &args).await?;
        self.told.lock().keys = Some(hello.keys.clone());
        self.hello = Some(hello);
        self.conn = Some(conn.clone());
        let told = Arc::clone(&self.told);
        self.beats = Some(tokio::spawn(async move {
            while !conn.is_closed() {
                tokio::time::sleep(Duration::from_millis(900)).await;
                while told.lock().silent {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                if conn.is_closed() {
                    return;
                }
                let (capacity, floors_fill_percent, changes) = {
                    let told = told.lock();
                    let of_object = told.object_bytes_max;
                    let capacity = Capacity {
                        free_bytes: told.free_bytes.unwrap_or(CAPACITY.free_bytes),
                        unused_bytes: told
                            .free_bytes
                            .map_or(CAPACITY.unused_bytes, |free| free + 50),
                        disk: told.disk,
                        object_bytes_max: of_object.unwrap_or(CAPACITY.object_bytes_max),
                        ..CAPACITY
                    };
                    (capacity, told.floors_fill_percent, told.changes)
                };
                let beat = HeartbeatArgs {
                    capacity,
                    floors_fill_percent,
                    changes,
                    ..HeartbeatArgs::default()
                };
                let _renewed: Result<HeartbeatOk, _> = call(&conn, &beat).await;
            }
        }));
        while !self.told.lock().serving {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // FENCE and COMMIT follow the last page.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(())
    }

    /// Stays connected and says nothing, for less than its lease.
    pub fn fall_silent(&self) {
        self.told.lock().silent = true;
    }

    /// Goes on.
    pub fn speak_again(&self) {
        self.told.lock().silent = false;
    }

    /// Loses its connection; its lease runs on.
    pub async fn go_away(&mut self) {
        if let Some(beats) = self.beats.take() {
            beats.abort();
        }
        let conn = self.conn.take().unwrap();
        conn.close(CloseReason::Asked);
        conn.closed().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// The keys that it has.
    pub fn ring(&self) -> KeyRing {
        self.told.lock().keys.as_ref().unwrap().ring().unwrap()
    }

    pub async fn size(&self, file_id: u64) -> Result<SizeOk, Refusal> {
        call(
            self.conn.as_ref().unwrap(),
            &SizeArgs {
                file_id,
                generation: 1,
            },
        )
        .await
    }

    pub async fn wrote(&self, file_id: u64, end_offset: u64) -> Result<(), Refusal> {
        self.wrote_taking(file_id, end_offset, None).await
    }

    /// As [`FakeDs::wrote`], with the storage that it took.
    pub async fn wrote_taking(
        &self,
        file_id: u64,
        end_offset: u64,
        taken_bytes: Option<u64>,
    ) -> Result<(), Refusal> {
        let item = WroteItem {
            file_id,
            generation: 1,
            end_offset,
            time: NfsTime::default(),
            taken_bytes,
        };
        let args = WroteArgs {
            items: vec![item].into(),
        };
        let statuses = call(self.conn.as_ref().unwrap(), &args).await?;
        match statuses.0[..] {
            [Status::Ok] => Ok(()),
            ref refused => Err(Refusal::new(refused[0], "no")),
        }
    }
}
