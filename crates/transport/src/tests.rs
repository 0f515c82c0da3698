//! Goal: one behaviour on every transport (`contract`). Also the failures that only sockets (`sockets`), injected
//! faults (`faults`) and slow peers (`pace`) can show. RDMA peers are faulty (`rdma_peers`) or take messages of other
//! sizes (`inline`), and devices go away (`devices`). Method: a service whose procedures are the situations to test,
//! behind a rig that hides the transport.

mod contract;
mod devices;
mod faults;
mod inline;
mod pace;
mod rdma_peers;
mod sockets;

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rpc::{CallHeader, CallStart, OpaqueAuth, ReplyHeader, ReplyVerdict};
use tokio::sync::Semaphore;
use xdr::{Decode, Decoder, Encode, Encoder};

use crate::rdma::Rdma;
use crate::workers::Shutdown;
use crate::{
    Address, CallId, CloseReason, ConnHandle, Connector, Context, DynService, Endpoint,
    FilePayload, Message, Payload, ReplyRoom, Service, TransportKind, TransportLimits, memory,
    rdma, tcp, tls,
};

pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const ECHO: u32 = 0;
pub(crate) const SLEEP: u32 = 1;
pub(crate) const FILE: u32 = 2;
pub(crate) const CALL_BACK: u32 = 3;
pub(crate) const SILENT: u32 = 4;
pub(crate) const GATED: u32 = 5;
pub(crate) const PANIC: u32 = 6;
pub(crate) const CHARGED: u32 = 7;
pub(crate) const NAMED: u32 = 8;

/// Bytes of a call back, or of its reply, that fit a message over RDMA.
pub(crate) const CALL_BACK_BYTES_MAX: u32 = 2048;

pub(crate) fn call(procedure: u32, args: &[u8]) -> Message {
    let mut e = Encoder::new();
    let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
    let start = CallStart {
        xid: 0,
        program: 0x2000_0000,
        version: 1,
        procedure,
        credential,
        verifier,
    };
    start.encode(&mut e);
    let args = Payload::Bytes(Bytes::copy_from_slice(args));
    e.payload(u32::try_from(args.len()).unwrap());
    Message::new(e, vec![args]).with_reply_room(room(2 * RESULT_BYTES_MAX))
}

/// Most bytes of a result that the calls here make room for.
const RESULT_BYTES_MAX: u32 = 512 * 1024;

/// Room for a reply with a result of so many bytes.
pub(crate) fn room(result_bytes_max: u32) -> ReplyRoom {
    ReplyRoom {
        reply_bytes_max: 200,
        result_bytes_max,
        locate: |reply| {
            let mut d = Decoder::new(reply);
            let header = ReplyHeader::decode(&mut d).ok()?;
            matches!(header.verdict, ReplyVerdict::Success { .. }).then(|| d.position() + 4)
        },
    }
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

/// The opaque result of a successful reply.
pub(crate) fn result(record: &[u8]) -> Vec<u8> {
    let mut d = Decoder::new(record);
    let header = ReplyHeader::decode(&mut d).unwrap();
    assert!(
        matches!(header.verdict, ReplyVerdict::Success { .. }),
        "{header:?}"
    );
    let bytes = d.opaque(u32::MAX).unwrap().to_vec();
    d.finish().unwrap();
    bytes
}

pub(crate) async fn ask(conn: &ConnHandle, procedure: u32, args: &[u8]) -> Vec<u8> {
    result(&conn.call(call(procedure, args), SOON).await.unwrap())
}

/// What a client answers to a server, or why there is no answer. Over RDMA there is room for what fits a message.
async fn call_back(conn: &ConnHandle, args: &[u8]) -> Bytes {
    let mut message = call(ECHO, args);
    if conn.kind() == TransportKind::Rdma {
        message = message.with_reply_room(ReplyRoom::plain(CALL_BACK_BYTES_MAX));
    }
    match conn.call(message, SOON).await {
        Ok(record) => result(&record).into(),
        Err(e) => e.to_string().into(),
    }
}

/// What logs call this call: what is expected, and then as seen by the call before and after it has waited, by a task and by
/// a thread of it, and by a task of nobody's.
async fn names(conn: &ConnHandle, xid: u32) -> String {
    let caller = match conn.peer() {
        Endpoint::Socket(address) => address.to_string(),
        _ => format!("connection-{}", conn.id()),
    };
    let seen = || CallId::current().map_or("nobody's".to_owned(), |id| id.to_string());
    let mut names = vec![format!("{caller}/0x{xid:08x}"), seen()];
    tokio::time::sleep(Duration::from_millis(2)).await;
    names.push(seen());
    let task = CallId::carry(async move {
        tokio::time::sleep(Duration::from_millis(2)).await;
        seen()
    });
    names.push(tokio::spawn(task).await.unwrap());
    let thread = tokio::task::spawn_blocking(CallId::carry_over(seen));
    names.push(thread.await.unwrap());
    names.push(tokio::spawn(async move { seen() }).await.unwrap());
    names.join(" ")
}

fn reply(xid: u32, payload: Payload) -> Message {
    let mut e = Encoder::new();
    rpc::begin_success(&mut e, xid, OpaqueAuth::NONE);
    e.payload(u32::try_from(payload.len()).unwrap());
    Message::new(e, vec![payload])
}

/// The service of both ends.
pub(crate) struct Situations {
    pub(crate) file: Arc<File>,
    pub(crate) guards: Arc<AtomicUsize>,
    pub(crate) gate: Semaphore,
    pub(crate) waiting: AtomicUsize,
    pub(crate) connected: AtomicUsize,
    pub(crate) ended: Mutex<Vec<CloseReason>>,
    pub(crate) gated_done: AtomicBool,
    /// Set to admit nobody.
    pub(crate) closed: AtomicBool,
}

/// Counts payload guards that are alive.
struct Guard(Arc<AtomicUsize>);

impl Guard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| u8::try_from((i * 7 + i / 251) % 256).unwrap())
        .collect()
}

pub(crate) const FILE_BYTES: usize = 300_000;

impl Situations {
    pub(crate) fn new() -> Arc<Self> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&pattern(FILE_BYTES)).unwrap();
        Arc::new(Self {
            file: Arc::new(file),
            guards: Arc::default(),
            gate: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            connected: AtomicUsize::new(0),
            ended: Mutex::default(),
            gated_done: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }
}

impl Service for Situations {
    async fn call(&self, conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let args = record.slice_ref(d.opaque(u32::MAX).unwrap());
        let number = |i: usize| u32::from_be_bytes(args[i * 4..i * 4 + 4].try_into().unwrap());
        let payload = match header.procedure {
            SLEEP => {
                tokio::time::sleep(Duration::from_millis(u64::from(number(0)))).await;
                Payload::Bytes(args.clone())
            }
            FILE => Payload::File(FilePayload {
                file: Arc::clone(&self.file),
                offset: u64::from(number(0)),
                len: number(1),
                guard: Box::new(Guard::new(&self.guards)),
            }),
            CALL_BACK => Payload::Bytes(call_back(conn, &args).await),
            SILENT => return None,
            GATED => {
                self.waiting.fetch_add(1, SeqCst);
                self.gate.acquire().await.unwrap().forget();
                self.gated_done.store(true, SeqCst);
                Payload::Bytes(args.clone())
            }
            PANIC => panic!("asked to"),
            CHARGED => {
                let charge = conn.charge_reply(number(0)).await;
                self.waiting.fetch_add(1, SeqCst);
                // As a fetch from elsewhere would: requests that were let in end together.
                tokio::time::sleep(Duration::from_millis(1)).await;
                let payload = Payload::Bytes(vec![0; number(0) as usize].into());
                return Some(reply(header.xid, payload).with_charge(Some(charge)));
            }
            NAMED => Payload::Bytes(names(conn, header.xid).await.into()),
            _ => Payload::Bytes(args.clone()),
        };
        Some(reply(header.xid, payload))
    }

    fn admits(&self, _peer: &Endpoint) -> bool {
        !self.closed.load(SeqCst)
    }

    fn connected(&self, _conn: &ConnHandle) {
        self.connected.fetch_add(1, SeqCst);
    }

    fn disconnected(&self, _conn: &ConnHandle, reason: CloseReason) {
        self.ended.lock().push(reason);
    }
}

/// Which transport a rig runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Tcp,
    Tls,
    Memory,
    /// RDMA within the process.
    Rdma,
    /// The same, where single connections cannot be held back.
    RdmaCutting,
    /// RDMA over software iWARP.
    Iwarp,
    /// The same without checksums.
    IwarpUnsummed,
}

impl On {
    pub(crate) const fn is_rdma(self) -> bool {
        !matches!(self, Self::Tcp | Self::Tls | Self::Memory)
    }
}

/// A server and the means to connect to it.
pub(crate) struct Rig {
    pub(crate) service: Arc<Situations>,
    pub(crate) server: Context,
    pub(crate) client: Context,
    pub(crate) address: Address,
    /// On RDMA.
    pub(crate) rdma: Option<Rdma>,
    pub(crate) connector: Arc<dyn Connector>,
    _closed: Closed,
    pub(crate) shutdown: Shutdown,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

/// Whatever a test does, no client gets into memory of the server.
struct Closed(Context);

impl Drop for Closed {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.0.counters().snapshot().rdma_exposures, 0);
        }
    }
}

fn provider(on: On) -> Rdma {
    let fabric: Arc<dyn fabric::Fabric> = match on {
        On::Rdma => Arc::new(fabric::mem::MemFabric::default()),
        On::RdmaCutting => Arc::new(fabric::mem::MemFabric::cutting()),
        _ => Arc::new(fabric_iwarp::Iwarp::default()),
    };
    let crc = on != On::IwarpUnsummed;
    let config = rdma::Config {
        crc,
        ..rdma::Config::default()
    };
    Rdma::new(fabric, config)
}

impl Rig {
    pub(crate) async fn new(on: On, limits: TransportLimits) -> Self {
        let server = Context::new(limits);
        let client = Context::new(TransportLimits::default());
        let (service, shutdown) = (Situations::new(), Shutdown::new());
        let (signal, context) = (shutdown.signal(), server.clone());
        let dynamic: Arc<dyn DynService> = service.clone();
        let bind = || {
            let listeners = tcp::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
            let address = listeners[0].local_addr().unwrap();
            (listeners, address)
        };
        let mut rdma = None;
        let (address, connector, task): (_, Arc<dyn Connector>, _) = match on {
            On::Tcp => {
                let (listeners, address) = bind();
                let serve = tcp::serve(listeners, dynamic, context, signal);
                (
                    Address::Tcp(address),
                    Arc::new(tcp::TcpConnector::new(client.clone())),
                    tokio::spawn(async { serve.await.unwrap() }),
                )
            }
            On::Tls => {
                let (listeners, address) = bind();
                let (server_tls, client_tls) = tls_configs();
                let server_name = "server.test".to_owned();
                let serve = tcp::serve_tls(listeners, server_tls, dynamic, context, signal);
                (
                    Address::Tls {
                        address,
                        server_name,
                    },
                    Arc::new(tcp::TcpConnector::with_tls(client.clone(), client_tls)),
                    tokio::spawn(async { serve.await.unwrap() }),
                )
            }
            On::Memory => {
                let network = memory::MemoryNetwork::default();
                let listener = network.listen("server").unwrap();
                (
                    Address::Memory("server".to_owned()),
                    Arc::new(network.connector("client", client.clone())),
                    tokio::spawn(listener.serve(dynamic, context, signal)),
                )
            }
            On::Rdma | On::RdmaCutting | On::Iwarp | On::IwarpUnsummed => {
                let over = rdma.insert(provider(on)).clone();
                let any = "127.0.0.1:0".parse().unwrap();
                let listener = rdma::listen(any, &over).await.unwrap();
                let address = listener.local();
                let serve = rdma::serve(vec![listener], over.clone(), dynamic, context, signal);
                (
                    Address::Rdma(address),
                    Arc::new(tcp::TcpConnector::new(client.clone()).with_rdma(over)),
                    tokio::spawn(serve),
                )
            }
        };
        Self {
            service,
            _closed: Closed(server.clone()),
            server,
            client,
            address,
            rdma,
            connector,
            shutdown,
            task,
        }
    }

    pub(crate) async fn connect(&self) -> ConnHandle {
        self.connect_as(Situations::new()).await
    }

    pub(crate) async fn connect_as(&self, reverse: Arc<Situations>) -> ConnHandle {
        self.connector
            .connect(&self.address, reverse)
            .await
            .unwrap()
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, condition: impl Fn(&Self) -> bool) {
        for _ in 0..2000 {
            if condition(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never became true");
    }
}

/// A CA, and mutually authenticated configurations of it.
fn tls_configs() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let signed = |name: &str| -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Ropewalk");
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (vec![certificate.der().clone()], key.into())
    };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca_certificate.der().clone()).unwrap();
    let roots = Arc::new(roots);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (chain, key) = signed("server.test");
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::clone(&roots),
        Arc::clone(&provider),
    )
    .build()
    .unwrap();
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    let (chain, key) = signed("client.test");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    (Arc::new(server), Arc::new(client))
}
