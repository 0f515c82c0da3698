//! JOIN: once, with an empty store, only with the CA of the token.

use super::*;
use crate::JoinError;
use crate::join::{JoinConfig, join};
use cluster_tls::{CertRole, ClusterCa, Fingerprint, Identity, JoinToken};
use control::{JoinOk, JoinSecret};

/// An MDS that lets everybody join whose secret is right.
struct Joins {
    ca: ClusterCa,
    ds_id: u32,
}

impl Service for Joins {
    async fn call(&self, _conn: &ConnHandle, record: Bytes) -> Option<Message> {
        let mut d = Decoder::new(&record);
        let header = CallHeader::decode(&mut d).unwrap();
        let ToMds::Join(args) = ToMds::decode(header.procedure, d.rest()).unwrap() else {
            panic!("not a JOIN");
        };
        let mut e = Encoder::new();
        rpc::begin_success(&mut e, header.xid, OpaqueAuth::NONE);
        let role = CertRole::DataServer { ds_id: self.ds_id };
        let answer = if args.secret == JoinSecret([7; 16]) {
            let certificate = self.ca.issue(role, &args.public_key.0).unwrap();
            Ok(JoinOk {
                cluster_id: CLUSTER,
                ds_id: 4,
                certificate: certificate.to_vec()[..].into(),
                ca_certificate: self.ca.certificate().to_vec()[..].into(),
            })
        } else {
            Err(Refusal::new(Status::BadToken, "no such token"))
        };
        Answer::from(answer).encode(&mut e);
        Some(e.into())
    }
}

struct Setting {
    network: MemoryNetwork,
    context: Context,
    ca: Fingerprint,
    _shutdown: Shutdown,
}

fn setting(ds_id: u32) -> Setting {
    let dir = tempfile::tempdir().unwrap();
    let ca = ClusterCa::create(dir.path(), CLUSTER).unwrap();
    let fingerprint = ca.fingerprint();
    let network = MemoryNetwork::default();
    let context = Context::new(TransportLimits::default());
    let shutdown = Shutdown::new();
    let listener = network.listen("mds").unwrap();
    let service = Arc::new(Joins { ca, ds_id });
    tokio::spawn(listener.serve(service, context.clone(), shutdown.signal()));
    Setting {
        network,
        context,
        ca: fingerprint,
        _shutdown: shutdown,
    }
}

impl Setting {
    async fn join(
        &self,
        nfsd: &Nfsd<Ds>,
        secret: u8,
        path: &std::path::Path,
    ) -> Result<Membership, JoinError> {
        let secret = JoinSecret([secret; 16]);
        let token = JoinToken::new(&["mds:1".to_owned()], self.ca, secret).unwrap();
        let config = JoinConfig {
            token: &token,
            connector: &self.network.connector("ds", self.context.clone()),
            mds: &[
                Address::Memory("gone".into()),
                Address::Memory("mds".into()),
            ],
            advertise: Vec::new(),
            identity_path: path,
        };
        join(nfsd, config).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_join_makes_a_member_that_is_one_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("identity.pem");
    let setting = setting(4);
    let stores = Stores::new();
    let nfsd = open(stores.index.clone(), stores.objects.clone())
        .await
        .unwrap();
    let wrong = setting.join(&nfsd, 8, &path).await.unwrap_err();
    assert!(
        matches!(&wrong, JoinError::Link(LinkError::Refused(r)) if r.status == Status::BadToken)
    );
    assert!(!path.exists());
    let membership = setting.join(&nfsd, 7, &path).await.unwrap();
    assert_eq!((membership.cluster_id, membership.ds_id), (CLUSTER, 4));
    let identity = Identity::load(&path).unwrap();
    assert_eq!(identity.role(), CertRole::DataServer { ds_id: 4 });
    let again = setting.join(&nfsd, 7, &path).await;
    assert!(matches!(again.unwrap_err(), JoinError::AlreadyMember));
    let nfsd = open(stores.index.clone(), stores.objects.clone())
        .await
        .unwrap();
    assert_eq!(nfsd.role().membership(), Some(membership));
    assert_eq!(nfsd.role().status().ds_id, Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_certificate_for_another_server_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("identity.pem");
    let stores = Stores::new();
    let nfsd = open(stores.index.clone(), stores.objects.clone())
        .await
        .unwrap();
    let joined = setting(9).join(&nfsd, 7, &path).await;
    assert!(matches!(joined.unwrap_err(), JoinError::WrongRole));
    assert_eq!(nfsd.role().membership(), None);
    assert!(!path.exists());
}
