//! Joining a cluster, once in the life of a store.
//!
//! # Ordering
//! The membership is durable in the index before the identity's file exists; whoever finds the file finds the membership.
//!
//! # Failure
//! After the MDS has answered, a crash before the identity is saved leaves a store that must be made anew and needs a
//! new token. The MDS knows a data server that will never say HELLO. An administrator expels it.

use std::path::Path;
use std::time::Duration;

use cluster_tls::{CertRole, Identity, JoinToken, NewKey};
use control::{JoinArgs, NetAddr, VersionRange};
use server::Nfsd;
use transport::{Address, CloseReason, ConnectError, Connector, NoService};

use crate::{Ds, JoinError, LinkError, Membership, link};

/// How long JOIN may take.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// What a join needs.
pub struct JoinConfig<'a> {
    /// From `ropewalk token create`.
    pub token: &'a JoinToken,
    /// Connects with `cluster_tls::join_config` of the token's CA: it takes no other MDS.
    pub connector: &'a dyn Connector,
    /// The token's addresses, resolved.
    pub mds: &'a [Address],
    /// Where clients will reach this server.
    pub advertise: Vec<NetAddr>,
    /// Where the identity is saved.
    pub identity_path: &'a Path,
}

/// Makes the data server a member and saves its identity. File access is synchronous: to be called before serving.
///
/// # Errors
/// [`JoinError`].
pub async fn join(nfsd: &Nfsd<Ds>, config: JoinConfig<'_>) -> Result<Membership, JoinError> {
    let ds = nfsd.role();
    if ds.membership().is_some() {
        return Err(JoinError::AlreadyMember);
    }
    let floors = ds.gate.with_floors(|f| f.len());
    if ds.index.objects_count() > 0 || floors > 0 {
        return Err(JoinError::NotEmpty);
    }
    let key = NewKey::generate().map_err(JoinError::Tls)?;
    let mut addresses = config.advertise;
    addresses.truncate(control::ADDRESSES_MAX as usize);
    let args = JoinArgs {
        versions: VersionRange::OURS,
        secret: config.token.secret.clone(),
        public_key: key.public_key().into(),
        store: ds.store_identity(),
        addresses: addresses.into(),
        capacity: ds.capacity(),
    };
    let mut last = LinkError::Connect(ConnectError::Unsupported);
    for address in config.mds {
        let connected = config.connector.connect(address, NoService::shared()).await;
        let conn = match connected {
            Ok(conn) => conn,
            Err(e) => {
                last = LinkError::Connect(e);
                continue;
            }
        };
        let answer = link::call(&conn, &args, JOIN_TIMEOUT).await;
        conn.close(CloseReason::Asked);
        // The token may be used up now: no other address is asked.
        let ok = answer.map_err(JoinError::Link)?;
        let membership = Membership {
            cluster_id: ok.cluster_id,
            ds_id: ok.ds_id,
        };
        let identity = key
            .complete(
                ok.certificate.0.into(),
                ok.ca_certificate.0.into(),
                config.token.ca,
            )
            .map_err(JoinError::Tls)?;
        let expected = CertRole::DataServer { ds_id: ok.ds_id };
        if identity.role() != expected {
            return Err(JoinError::WrongRole);
        }
        return finish(ds, &identity, membership, config.identity_path).await;
    }
    Err(JoinError::Link(last))
}

async fn finish(
    ds: &Ds,
    identity: &Identity,
    membership: Membership,
    path: &Path,
) -> Result<Membership, JoinError> {
    let stored = ds.index.set_membership(membership).await;
    stored.map_err(JoinError::Index)?;
    identity.save(path).map_err(JoinError::Tls)?;
    ds.gate.set_membership(membership);
    Ok(membership)
}
