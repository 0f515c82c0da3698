//! Goal: a client reaches the server that it trusts and no other, whichever certificate the server shows, and a file that is wrong
//! is refused with a reason.
use super::*;
use crate::{CertRole, ClusterCa, client_config, mds_name};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{ClientConnection, ServerConnection};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// Shakes hands in memory; why not.
fn shake(
    client: ClientConfig,
    expected: ServerName<'static>,
    server: &Arc<ServerConfig>,
) -> Result<(), rustls::Error> {
    let mut client = ClientConnection::new(Arc::new(client), expected)?;
    let mut server = ServerConnection::new(Arc::clone(server))?;
    for _ in 0..8 {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets()?;
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets()?;
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(())
}

fn new_ca() -> (TempDir, ClusterCa) {
    let dir = tempfile::tempdir().unwrap();
    let ca = ClusterCa::create(dir.path(), 1).unwrap();
    (dir, ca)
}

fn certs(ca: &ClusterCa, names: &[&str]) -> Arc<AdminCerts> {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let made = AdminCert::make(ca, &names).unwrap();
    Arc::new(AdminCerts::new(&made).unwrap())
}

fn server(certs: &Arc<AdminCerts>) -> Arc<ServerConfig> {
    Arc::new(admin_server_config(Arc::clone(certs)).unwrap())
}

fn pinned(ca: &ClusterCa) -> ClientConfig {
    admin_client_config(ca.fingerprint()).unwrap()
}

#[test]
fn only_the_clusters_own_ca_can_prove_the_server() {
    let ((_own, ca), (_other, stranger)) = (new_ca(), new_ca());
    let server = server(&certs(&ca, &["localhost"]));
    shake(pinned(&ca), admin_name(), &server).unwrap();
    shake(pinned(&stranger), admin_name(), &server).unwrap_err();
    let data_server = ca
        .issue_identity(CertRole::DataServer { ds_id: 1 })
        .unwrap();
    let as_mds = client_config(&data_server).unwrap();
    shake(as_mds, mds_name(), &server).unwrap_err();
    AdminCert::make(&ca, &["MDS.ropewalk".to_owned()]).unwrap_err();
}

#[test]
fn a_kept_certificate_is_taken_for_its_ca_and_its_names_alone() {
    let ((dir, ca), (_other, stranger)) = (new_ca(), new_ca());
    let path = dir.path().join("admin.pem");
    let names = |all: &[&str]| -> Vec<String> { all.iter().map(|n| (*n).to_owned()).collect() };
    let made = AdminCert::make(&ca, &names(&["mds.example.org", "192.0.2.1", "::1"])).unwrap();
    made.save(&path).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let load = |ca, all: &[&str]| AdminCert::load(&path, ca, &names(all));
    let kept = load(&ca, &["::1", "mds.example.org", "192.0.2.1"]).unwrap();
    let chain = |cert: &AdminCert| cert.certified_key().unwrap().cert.clone();
    assert_eq!(chain(&kept), chain(&made));
    load(&ca, &[]).unwrap();
    for (ca, all) in [
        (&ca, &["192.0.2.2"][..]),
        (&ca, &["other.example.org"]),
        (&stranger, &[]),
    ] {
        let refused = load(ca, all).unwrap_err();
        assert!(
            matches!(refused, ClusterTlsError::Mismatch(_)),
            "{refused:?}"
        );
    }
}

/// A CA of the operator's, and files with a certificate of it.
struct Own {
    dir: TempDir,
}

impl Own {
    fn new(host: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(params, ca_key);
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new([host.to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &issuer).unwrap();
        fs::write(dir.path().join("ca"), ca.pem()).unwrap();
        fs::write(dir.path().join("cert"), leaf.pem()).unwrap();
        fs::write(dir.path().join("key"), key.serialize_pem()).unwrap();
        let own = Self { dir };
        own.set_mode("key", 0o600);
        own
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn load(&self) -> Result<OwnCert, ClusterTlsError> {
        OwnCert::load(&self.path("cert"), &self.path("key"))
    }

    fn client(&self) -> ClientConfig {
        trusting_client_config(&self.path("ca")).unwrap()
    }
}

#[test]
fn the_operators_certificate_is_shown_to_all_but_those_who_pin_the_clusters_ca() {
    let (_dir, ca) = new_ca();
    let certs = certs(&ca, &["mds.example.org"]);
    let server = server(&certs);
    let (own, next) = (Own::new("mds.example.org"), Own::new("mds.example.org"));
    let name = |name: &str| ServerName::try_from(name.to_owned()).unwrap();
    shake(own.client(), name("mds.example.org"), &server).unwrap_err();
    assert!(certs.set_own(Some(own.load().unwrap())));
    assert!(!certs.set_own(Some(own.load().unwrap())));
    // The first second of the year 4096, where rcgen ends what has no other end.
    assert_eq!(certs.own_not_after_s(), Some(67090118400));
    shake(own.client(), name("mds.example.org"), &server).unwrap();
    shake(own.client(), name("elsewhere.example.org"), &server).unwrap_err();
    shake(pinned(&ca), admin_name(), &server).unwrap();
    shake(next.client(), name("mds.example.org"), &server).unwrap_err();
    assert!(certs.set_own(Some(next.load().unwrap())));
    shake(next.client(), name("mds.example.org"), &server).unwrap();
    assert!(certs.set_own(None));
    assert_eq!(certs.own_not_after_s(), None);
    shake(next.client(), name("mds.example.org"), &server).unwrap_err();
    shake(pinned(&ca), name("mds.example.org"), &server).unwrap();
}

#[test]
fn a_file_that_is_no_certificate_or_key_is_refused_with_a_reason() {
    type Spoil = fn(&Own);
    let cases: [(Spoil, &str); 7] = [
        (
            |own| fs::remove_file(own.path("cert")).unwrap(),
            "cert: No such file",
        ),
        (
            |own| fs::remove_file(own.path("key")).unwrap(),
            "key: No such file",
        ),
        (
            |own| own.set_mode("key", 0o640),
            "has mode 640: make it 600",
        ),
        (
            |own| {
                fs::copy(own.path("key"), own.path("cert"))
                    .map(drop)
                    .unwrap();
            },
            "cert: has no certificate",
        ),
        (
            |own| fs::write(own.path("key"), "nothing").unwrap(),
            "key: has no private key",
        ),
        (
            |own| {
                let other = KeyPair::generate().unwrap();
                fs::write(own.path("key"), other.serialize_pem()).unwrap();
            },
            "key: is not the key of the first certificate",
        ),
        (
            |own| fs::write(own.path("cert"), vec![b'a'; 70_000]).unwrap(),
            "is too large",
        ),
    ];
    for (spoil, word) in cases {
        let own = Own::new("a.example.org");
        own.load().unwrap();
        spoil(&own);
        let refused = own.load().unwrap_err().to_string();
        assert!(refused.contains(word), "{word}: {refused}");
    }
    let none = trusting_client_config(&Own::new("a").path("key")).unwrap_err();
    assert!(none.to_string().contains("has no certificate"), "{none}");
}
