//! How data servers come into the cluster and leave it: join tokens, JOIN, expulsion.
//!
//! # Ordering
//! A token is used up, and the data server's record made, in one transaction that is durable before JOIN is answered.
//!
//! # Failure
//! When JOIN's answer is lost the token is used up: the administrator makes another.

use crate::call;
use crate::cluster::Cluster;
use crate::last_copies::last_copies;
use crate::records::{self, Membership, Redeemed, SERVERS_MAX, ServerRecord};
use crate::servers::Server;
use cluster_tls::{CertRole, Fingerprint, TOKENS_MAX, TokenHash};
use control::{ExpelArgs, JoinArgs, JoinOk, JoinSecret, Refusal, Status, Text, VersionRange};
use layout::KeyError;
use meta::MetaError;
use transport::CloseReason;
use xdr::OpaqueBuf;

/// Why an administrator's order was not done.
#[derive(Debug)]
pub enum AdminError {
    /// The metadata store failed.
    Store(MetaError),
    /// As many join tokens wait as may.
    TooManyTokens,
    /// No member of the cluster has this id.
    UnknownServer,
    /// Fewer other data servers take its places than its files have copies.
    TooFew {
        /// Copies of its files.
        wanted: usize,
        /// Other data servers that serve and have room.
        there: usize,
    },
    /// It has files of placement groups that were made before places could be moved.
    Fixed {
        /// Such groups.
        groups: usize,
    },
    /// The substitute does not serve, is full, or is drained itself.
    NoSubstitute,
    /// It still has places.
    HasPlaces {
        /// So many.
        places: usize,
    },
    /// It has the last copy of places.
    LastCopies {
        /// So many.
        places: usize,
    },
    /// A data server does not serve whose word is needed.
    Away {
        /// Its id.
        ds: u32,
    },
    /// No other signing key can be made now.
    Key(KeyError),
    /// The previous change of the signing keys waits for a data server.
    KeysBusy,
}

impl std::fmt::Display for AdminError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(e) => write!(f, "{e}"),
            Self::TooManyTokens => write!(f, "{TOKENS_MAX} join tokens wait already"),
            Self::Away { ds } => write!(
                f,
                "data server {ds} is away and may know more than the others; bring it back, or expel it"
            ),
            Self::UnknownServer => f.write_str("no data server of the cluster has this id"),
            Self::TooFew { wanted, there } => write!(
                f,
                "its files have {wanted} copies, and {there} other data servers serve and have room; add one first"
            ),
            Self::Fixed { groups } => write!(
                f,
                "it is in {groups} placement groups of an earlier version, which cannot be moved; lay their files out anew \
                 (`ropewalk layout set --existing`), then take it out with `ropewalk ds remove --yes-lose-data`, which \
                 names what is left there"
            ),
            Self::NoSubstitute => {
                f.write_str("the substitute does not serve, is full, or is drained itself")
            }
            Self::HasPlaces { places } => write!(
                f,
                "it still has {places} places; drain it first (`ropewalk ds drain`), and wait until it has none"
            ),
            Self::LastCopies { places } => write!(
                f,
                "it has the last copy of {places} places; bring back the data servers that have others, or say \
                 --yes-lose-data"
            ),
            Self::Key(KeyError::NotNext) => f.write_str(
                "a new key waits already for data servers to take it; `ropewalk status` shows it",
            ),
            Self::Key(e) => write!(
                f,
                "{e}; layouts that were granted under the oldest must come back first"
            ),
            Self::KeysBusy => f.write_str("the keys are being changed; ask again"),
        }
    }
}

impl std::error::Error for AdminError {}

impl From<MetaError> for AdminError {
    fn from(e: MetaError) -> Self {
        Self::Store(e)
    }
}

/// Signs the certificates of data servers that join.
pub trait Issuer: Send + Sync + 'static {
    /// The certificate (DER) for the holder of `public_key`, or a sentence why not.
    ///
    /// # Errors
    /// The sentence.
    fn issue(&self, ds_id: u32, public_key: &[u8]) -> Result<Vec<u8>, String>;

    /// The CA's certificate (DER).
    fn ca_certificate(&self) -> Vec<u8>;
}

impl Issuer for cluster_tls::ClusterCa {
    fn issue(&self, ds_id: u32, public_key: &[u8]) -> Result<Vec<u8>, String> {
        let issued = Self::issue(self, CertRole::DataServer { ds_id }, public_key);
        issued.map(|der| der.to_vec()).map_err(|e| e.to_string())
    }

    fn ca_certificate(&self) -> Vec<u8> {
        self.certificate().to_vec()
    }
}

/// Makes a join token's secret good for `ttl_ms`. Only its hash is kept.
///
/// # Errors
/// [`AdminError`].
pub async fn add_token(
    cluster: &Cluster,
    secret: &JoinSecret,
    ttl_ms: u64,
) -> Result<(), AdminError> {
    let now_ms = cluster.now_wall_ms();
    let hash = TokenHash::of(secret);
    let expires_ms = now_ms.saturating_add(ttl_ms);
    let stored = records::put_token(&*cluster.store, &hash.0, expires_ms, now_ms, TOKENS_MAX)?;
    let seq = stored.ok_or(AdminError::TooManyTokens)?;
    Ok(cluster.store.durable(seq).await?)
}

/// Puts a data server out of the cluster. Its objects are lost to the files that have them.
///
/// # Errors
/// [`AdminError`].
pub async fn expel(cluster: &Cluster, ds: u32, reason: &str) -> Result<(), AdminError> {
    put_out(cluster, ds, reason, true).await
}

/// Puts a data server out of the cluster that has the last copy of no place (rule P20).
///
/// # Errors
/// [`AdminError`], among them [`AdminError::LastCopies`].
pub async fn expel_spare(cluster: &Cluster, ds: u32, reason: &str) -> Result<(), AdminError> {
    put_out(cluster, ds, reason, false).await
}

async fn put_out(
    cluster: &Cluster,
    ds: u32,
    reason: &str,
    loses_data: bool,
) -> Result<(), AdminError> {
    let (seq, conn) = {
        // No row changes before the record says that it is out.
        let mut groups = cluster.groups.lock();
        let mut servers = cluster.servers.lock();
        let last = last_copies(&groups, &servers, ds);
        let server = servers.map.get_mut(&ds).filter(|s| s.is_member());
        let server = server.ok_or(AdminError::UnknownServer)?;
        if !loses_data && !last.is_empty() {
            return Err(AdminError::LastCopies { places: last.len() });
        }
        let record = ServerRecord {
            membership: Membership::Expelled,
            ..server.record.clone()
        };
        let conn = server.conn.clone();
        let seq = records::put_server(&*cluster.store, ds, &record, &[])?;
        servers.note_expelled(ds, record);
        groups.forget_known(ds);
        (seq, conn)
    };
    cluster.store.durable(seq).await?;
    // What waits for it waits on until its lease has run out: the table still says when that is.
    if let Some(conn) = conn {
        let args = ExpelArgs {
            reason: Text::cut(reason),
        };
        match call::call(&conn, &args).await {
            Ok(()) => {
                if let Some(server) = cluster.servers.lock().map.get_mut(&ds) {
                    server.lease_end = None;
                }
                cluster.fences.lock().forget_server(ds);
            }
            Err(error) => tracing::warn!(ds, %error, "expelled without its answer"),
        }
        conn.close(CloseReason::Asked);
    }
    cluster.changed.notify_waiters();
    Ok(())
}

fn store_failed(error: &MetaError) -> Refusal {
    tracing::error!(%error, "JOIN");
    Refusal::new(Status::Io, "the metadata store failed")
}

/// JOIN.
pub(crate) async fn join(
    cluster: &Cluster,
    issuer: &dyn Issuer,
    args: JoinArgs,
) -> Result<JoinOk, Refusal> {
    let store = &*cluster.store;
    if VersionRange::OURS.common(args.versions).is_none() {
        return Err(Refusal::new(
            Status::UnsupportedVersion,
            "no common version",
        ));
    }
    let hash = TokenHash::of(&args.secret);
    let bad_token = || Refusal::new(Status::BadToken, "the join token is unknown or used up");
    // Looked at before a certificate is signed for a stranger.
    if !records::token_waits(store, &hash.0, cluster.now_wall_ms()).map_err(|e| store_failed(&e))? {
        return Err(bad_token());
    }
    let ds_id = new_id(cluster, &args)?;
    let certificate = issuer
        .issue(ds_id, &args.public_key.0)
        .map_err(|why| Refusal::new(Status::BadPublicKey, &why))?;
    let record = ServerRecord {
        membership: Membership::Active,
        store_id: args.store.store_id,
        counter: args.store.counter,
        fingerprint: Fingerprint::of(&certificate).0,
        addresses: args.addresses,
    };
    let redeemed = records::redeem(store, &hash.0, cluster.now_wall_ms(), ds_id, &record);
    let seq = match redeemed.map_err(|e| store_failed(&e))? {
        Redeemed::Taken(seq) => seq,
        Redeemed::Unknown => return Err(bad_token()),
        Redeemed::Expired => {
            return Err(Refusal::new(Status::BadToken, "the join token has expired"));
        }
    };
    store.durable(seq).await.map_err(|e| store_failed(&e))?;
    cluster.add_server(ds_id, Server::new(record));
    tracing::info!(ds = ds_id, "data server joined");
    Ok(JoinOk {
        cluster_id: cluster.cluster_id,
        ds_id,
        certificate: OpaqueBuf(certificate),
        ca_certificate: OpaqueBuf(issuer.ca_certificate()),
    })
}

fn new_id(cluster: &Cluster, args: &JoinArgs) -> Result<u32, Refusal> {
    let mut servers = cluster.servers.lock();
    if servers.map.len() >= SERVERS_MAX {
        return Err(Refusal::new(
            Status::TableFull,
            "the cluster has as many servers as it may",
        ));
    }
    let known = |s: &Server| s.record.store_id == args.store.store_id;
    if servers.map.values().any(known) {
        let why = "a data server has joined with this store already";
        return Err(Refusal::new(Status::Invalid, why));
    }
    let id = servers.next_id;
    servers.next_id = id.saturating_add(1);
    Ok(id)
}

/// A join token that waits to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingToken {
    /// Hash of its secret.
    pub hash: TokenHash,
    /// How long it is good still, in milliseconds.
    pub left_ms: u64,
}

/// The join tokens that wait and are in time.
///
/// # Errors
/// [`AdminError::Store`].
pub fn waiting_tokens(cluster: &Cluster) -> Result<Vec<WaitingToken>, AdminError> {
    let now_ms = cluster.now_wall_ms();
    let stored = records::load_tokens(&*cluster.store, TOKENS_MAX)?;
    let waiting = stored
        .into_iter()
        .filter(|(_, expires_ms)| now_ms < *expires_ms);
    let describe = |(hash, expires_ms): ([u8; 32], u64)| WaitingToken {
        hash: TokenHash(hash),
        left_ms: expires_ms - now_ms,
    };
    Ok(waiting.map(describe).collect())
}
