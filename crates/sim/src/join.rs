//! How data servers join the simulated cluster: as over TLS, but the network vouches for names instead of certificates.
//!
//! [`Peers`] is what the control port asks who its peer is; [`join`] says JOIN with a fresh token.

use crate::connector::ds_address;
use crate::trace::host;
use cluster::{Issuer, add_token};
use cluster_tls::{CertRole, Fingerprint, Peer};
use control::{JoinArgs, JoinSecret, Request, StoreIdentity, VersionRange};
use ds::{Ds, Membership};
use mds::Mds;
use server::Nfsd;
use std::time::Duration;
use transport::{Address, CloseReason, ConnHandle, Connector, Endpoint, NoService};
use xdr::OpaqueBuf;

/// Name of the control port.
pub(crate) const CONTROL_NAME: &str = "mds/control";
/// How long JOIN may take, and its token lives, in milliseconds.
const JOIN_MS: u64 = 30_000;

/// Signs by writing the id down.
pub(crate) struct SimIssuer;

fn certificate(ds_id: u32) -> Vec<u8> {
    format!("certificate of {ds_id}").into_bytes()
}

impl Issuer for SimIssuer {
    fn issue(&self, ds_id: u32, _public_key: &[u8]) -> Result<Vec<u8>, String> {
        Ok(certificate(ds_id))
    }

    fn ca_certificate(&self) -> Vec<u8> {
        b"ca".to_vec()
    }
}

/// Who the peer of a control connection is: data servers join in the order of their names, so `ds-0` is number 1.
pub(crate) fn peer_of(conn: &ConnHandle) -> Option<Peer> {
    let Endpoint::Memory(name) = conn.peer() else {
        return None;
    };
    let number: u32 = host(name).strip_prefix("ds-")?.parse().ok()?;
    let ds_id = number + 1;
    Some(Peer::Member {
        role: CertRole::DataServer { ds_id },
        fingerprint: Fingerprint::of(&certificate(ds_id)),
    })
}

/// Makes a data server a member, without faults. It gets the id that its name says.
pub(crate) async fn join(
    ds: &Nfsd<Ds>,
    mds: &Nfsd<Mds>,
    connector: &dyn Connector,
    index: usize,
) -> Result<Membership, String> {
    let mut secret = JoinSecret([0; control::JOIN_SECRET_BYTES]);
    secret.0[0] = u8::try_from(index).map_err(|e| e.to_string())?;
    let token = add_token(mds.role().fs().cluster(), &secret, JOIN_MS).await;
    token.map_err(|e| e.to_string())?;
    let status = ds.role().status();
    let args = JoinArgs {
        versions: VersionRange::OURS,
        secret,
        public_key: OpaqueBuf(vec![4; 65]),
        store: StoreIdentity {
            store_id: status.store_id,
            counter: status.counter,
            changes: status.changes,
        },
        addresses: vec![ds_address(index)].into(),
        capacity: control::Capacity {
            total_bytes: status.total_bytes,
            free_bytes: status.free_bytes,
            unused_bytes: status.free_bytes,
            object_bytes_max: objects::OBJECT_BYTES_MAX,
            disk: 0,
            objects_count: 0,
        },
    };
    let to = Address::Memory(CONTROL_NAME.into());
    let conn = connector.connect(&to, NoService::shared()).await;
    let conn = conn.map_err(|e| e.to_string())?;
    let answer = call(&conn, &args).await;
    conn.close(CloseReason::Asked);
    let ok = answer?;
    if usize::try_from(ok.ds_id) != Ok(index + 1) {
        return Err(format!("data server {index} got the id {}", ok.ds_id));
    }
    Ok(Membership {
        cluster_id: ok.cluster_id,
        ds_id: ok.ds_id,
    })
}

/// One call of the control program.
async fn call<R: Request>(conn: &ConnHandle, args: &R) -> Result<R::Ok, String> {
    let wait = Duration::from_millis(JOIN_MS);
    let record = conn.call(control::encode_call(args).into(), wait).await;
    let record = record.map_err(|e| format!("{e:?}"))?;
    control::read_reply::<R>(&record).map_err(|e| e.to_string())
}
