//! Goal: only members of this cluster are members. A joining data server takes only the MDS of its token. A token is
//! good once, and in time. Method: real handshakes over two buffers in memory, one thing wrong at a time; files in a
//! temporary directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use control::JoinSecret;
use proptest::prelude::*;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use crate::*;

const CLUSTER: u64 = 0x1234;

struct Cluster {
    _dir: tempfile::TempDir,
    ca: ClusterCa,
    mds: Identity,
}

fn cluster() -> Cluster {
    let dir = tempfile::tempdir().unwrap();
    let ca = ClusterCa::create(dir.path(), CLUSTER).unwrap();
    let mds = ca.issue_identity(CertRole::Mds).unwrap();
    Cluster { _dir: dir, ca, mds }
}

fn ds(cluster: &Cluster, ds_id: u32) -> Identity {
    cluster
        .ca
        .issue_identity(CertRole::DataServer { ds_id })
        .unwrap()
}

/// Runs a handshake to its end; each side's view of the other, or the first error of either.
fn handshake(
    client: ClientConfig,
    server: ServerConfig,
    name: ServerName<'static>,
) -> Result<(Peer, Peer), rustls::Error> {
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut wire = &wire[..];
        while !wire.is_empty() {
            server.read_tls(&mut wire).unwrap();
            server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut wire = &wire[..];
        while !wire.is_empty() {
            client.read_tls(&mut wire).unwrap();
            client.process_new_packets()?;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    let at_client = peer_of(client.peer_certificates()).unwrap();
    let at_server = peer_of(server.peer_certificates()).unwrap();
    Ok((at_client, at_server))
}

#[test]
fn members_of_a_cluster_see_each_others_identity() {
    let cluster = cluster();
    let ds = ds(&cluster, 7);
    let client = client_config(&ds).unwrap();
    let server = server_config(&cluster.mds).unwrap();
    let (mds_seen, ds_seen) = handshake(client, server, mds_name()).unwrap();
    let expected = |identity: &Identity| Peer::Member {
        role: identity.role(),
        fingerprint: identity.fingerprint(),
    };
    assert_eq!(mds_seen, expected(&cluster.mds));
    assert_eq!(ds_seen, expected(&ds));
    assert_eq!(ds.role(), CertRole::DataServer { ds_id: 7 });
}

#[test]
fn another_clusters_data_server_is_refused() {
    let (ours, other) = (cluster(), cluster());
    // It takes our MDS for its own, so that the refusal is the MDS's.
    let pretender = ds(&other, 7);
    let client = {
        let key = pretender.certified_key().unwrap();
        let mut config = join_config(ours.ca.fingerprint()).unwrap();
        config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(key));
        config
    };
    let server = server_config(&ours.mds).unwrap();
    let refused = handshake(client, server, mds_name()).unwrap_err();
    assert!(
        matches!(refused, rustls::Error::InvalidCertificate(_)),
        "{refused}"
    );
}

#[test]
fn another_clusters_mds_is_refused() {
    let (ours, other) = (cluster(), cluster());
    let client = client_config(&ds(&ours, 7)).unwrap();
    let server = server_config(&other.mds).unwrap();
    let refused = handshake(client, server, mds_name()).unwrap_err();
    assert!(
        matches!(refused, rustls::Error::InvalidCertificate(_)),
        "{refused}"
    );
}

#[test]
fn a_data_server_is_not_taken_for_the_mds() {
    let cluster = cluster();
    let server = || server_config(&ds(&cluster, 8)).unwrap();
    let member = client_config(&ds(&cluster, 7)).unwrap();
    assert!(handshake(member, server(), mds_name()).is_err());
    let joining = join_config(cluster.ca.fingerprint()).unwrap();
    assert!(handshake(joining, server(), mds_name()).is_err());
}

#[test]
fn a_joining_data_server_is_anonymous_and_takes_only_the_pinned_mds() {
    let (ours, other) = (cluster(), cluster());
    let client = join_config(ours.ca.fingerprint()).unwrap();
    let server = server_config(&ours.mds).unwrap();
    let (mds_seen, ds_seen) = handshake(client, server, mds_name()).unwrap();
    assert!(matches!(
        mds_seen,
        Peer::Member {
            role: CertRole::Mds,
            ..
        }
    ));
    assert_eq!(ds_seen, Peer::Anonymous);

    let client = join_config(ours.ca.fingerprint()).unwrap();
    let server = server_config(&other.mds).unwrap();
    assert!(handshake(client, server, mds_name()).is_err());
}

#[test]
fn showing_the_pinned_ca_does_not_help_who_was_not_signed_by_it() {
    let (ours, other) = (cluster(), cluster());
    let key = other.mds.certified_key().unwrap();
    // The other MDS's leaf and key, with our CA in its chain.
    let chain = vec![key.cert[0].clone(), ours.ca.certificate().clone()];
    let forged = rustls::sign::CertifiedKey::new(chain, key.key.clone());
    let mut server = server_config(&other.mds).unwrap();
    server.cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(forged));
    let client = join_config(ours.ca.fingerprint()).unwrap();
    let refused = handshake(client, server, mds_name()).unwrap_err();
    assert!(
        matches!(refused, rustls::Error::InvalidCertificate(_)),
        "{refused}"
    );
}

#[test]
fn another_protocol_on_the_port_is_refused() {
    let cluster = cluster();
    let mut client = client_config(&ds(&cluster, 7)).unwrap();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    let server = server_config(&cluster.mds).unwrap();
    assert!(handshake(client, server, mds_name()).is_err());
}

#[test]
fn joining_makes_an_identity_that_survives_its_file() {
    let cluster = cluster();
    let key = NewKey::generate().unwrap();
    let role = CertRole::DataServer { ds_id: 3 };
    let certificate = cluster.ca.issue(role, key.public_key()).unwrap();
    let ca = cluster.ca.certificate().clone();
    let identity = key
        .complete(certificate, ca, cluster.ca.fingerprint())
        .unwrap();

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new").join("identity.pem");
    identity.save(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    identity.save(&path).unwrap();
    let loaded = Identity::load(&path).unwrap();
    assert_eq!(loaded.fingerprint(), identity.fingerprint());
    assert_eq!(loaded.role(), role);
    let client = client_config(&loaded).unwrap();
    assert!(handshake(client, server_config(&cluster.mds).unwrap(), mds_name()).is_ok());
    let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "no scratch file is left");
}

#[test]
fn parts_that_do_not_belong_together_make_no_identity() {
    let (ours, other) = (cluster(), cluster());
    let role = CertRole::DataServer { ds_id: 3 };
    let key = || NewKey::generate().unwrap();
    let (a, b) = (key(), key());
    let for_b = ours.ca.issue(role, b.public_key()).unwrap();
    let ca = || ours.ca.certificate().clone();
    assert!(
        a.complete(for_b.clone(), ca(), ours.ca.fingerprint())
            .is_err()
    );
    assert!(b.complete(for_b, ca(), other.ca.fingerprint()).is_err());
    let c = key();
    let foreign = other.ca.issue(role, c.public_key()).unwrap();
    assert!(c.complete(foreign, ca(), ours.ca.fingerprint()).is_err());
}

#[test]
fn a_public_key_that_is_none_is_refused() {
    let cluster = cluster();
    for bad in [&[][..], &[4; 64], &[4; 66], &[2; 65]] {
        let refused = cluster.ca.issue(CertRole::Mds, bad);
        assert!(matches!(refused, Err(ClusterTlsError::BadPublicKey)));
    }
}

#[test]
fn a_ca_is_created_once_loads_and_signs_on() {
    let dir = tempfile::tempdir().unwrap();
    let ca = ClusterCa::create(dir.path(), CLUSTER).unwrap();
    assert_eq!(mode(&ClusterCa::path(dir.path())), 0o600);
    let again = ClusterCa::create(dir.path(), CLUSTER);
    assert!(matches!(again, Err(ClusterTlsError::Exists(_))));
    let loaded = ClusterCa::load(dir.path(), CLUSTER).unwrap();
    assert_eq!(loaded.fingerprint(), ca.fingerprint());
    let server = server_config(&ca.issue_identity(CertRole::Mds).unwrap()).unwrap();
    let ds = loaded
        .issue_identity(CertRole::DataServer { ds_id: 1 })
        .unwrap();
    assert!(handshake(client_config(&ds).unwrap(), server, mds_name()).is_ok());
    let other = ClusterCa::load(dir.path(), CLUSTER + 1);
    assert!(matches!(other, Err(ClusterTlsError::Mismatch(_))));
}

#[test]
fn bad_files_are_refused_with_the_reason() {
    let cluster = cluster();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("identity.pem");
    assert!(matches!(
        Identity::load(&path),
        Err(ClusterTlsError::Io { .. })
    ));
    cluster.mds.save(&path).unwrap();
    let good = fs::read(&path).unwrap();
    for mode in [0o640, 0o604, 0o644] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let exposed = Identity::load(&path);
        assert!(matches!(exposed, Err(ClusterTlsError::Exposed { .. })));
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for len in (0..good.len() - 1).step_by(7) {
        fs::write(&path, &good[..len]).unwrap();
        assert!(Identity::load(&path).is_err(), "cut at {len}");
    }
    fs::write(&path, vec![b'x'; 65 * 1024]).unwrap();
    assert!(matches!(
        Identity::load(&path),
        Err(ClusterTlsError::TooLarge(_))
    ));
}

#[test]
fn certificates_that_name_no_role_are_no_peers() {
    let made = |names: &[&str]| -> CertificateDer<'static> {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(names).unwrap();
        params.self_signed(&key).unwrap().der().clone()
    };
    let refused: [&[&str]; 8] = [
        &[],
        &["mds"],
        &["ds-.ropewalk"],
        &["ds-07.ropewalk"],
        &["ds-4294967296.ropewalk"],
        &["mds.ropewalk.example"],
        &["mds.ropewalk", "ds-1.ropewalk"],
        &["*.ropewalk"],
    ];
    for names in refused {
        assert_eq!(peer_of(Some(&[made(names)])), Err(PeerError), "{names:?}");
    }
    assert_eq!(
        peer_of(Some(&[CertificateDer::from(vec![0x30, 0])])),
        Err(PeerError)
    );
    assert_eq!(peer_of(Some(&[])), Ok(Peer::Anonymous));
    assert!(peer_of(Some(&[made(&["ds-4294967295.ropewalk"])])).is_ok());
}

#[test]
fn debug_output_shows_no_secrets() {
    let cluster = cluster();
    let key = NewKey::generate().unwrap();
    let shown = format!("{key:?} {:?} {:?} {:?}", cluster.ca, cluster.mds, token());
    assert!(shown.contains("<secret>") && shown.len() < 600, "{shown}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn token() -> JoinToken {
    let addresses = [
        "mds.example:2050".to_owned(),
        "[2001:db8::1]:2050".to_owned(),
    ];
    JoinToken::new(&addresses, Fingerprint([7; 32]), JoinSecret([9; 16])).unwrap()
}

#[test]
fn a_token_comes_back_from_its_text() {
    let text = token().to_text();
    assert!(text.starts_with("rwj1."));
    assert!(
        text[5..]
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    );
    assert_eq!(JoinToken::parse(&text), Ok(token()));
    assert_eq!(JoinToken::parse(&format!("  {text}\n")), Ok(token()));
}

#[test]
fn a_mistyped_token_is_told_apart_from_something_else() {
    let text = token().to_text();
    assert_eq!(JoinToken::parse("hello"), Err(TokenError::NotAToken));
    assert_eq!(JoinToken::parse("rwj1."), Err(TokenError::Mistyped));
    assert_eq!(JoinToken::parse("rwj1.\u{fc}"), Err(TokenError::Mistyped));
    for at in 5..text.len() {
        assert_eq!(JoinToken::parse(&text[..at]), Err(TokenError::Mistyped));
        let other = if &text[at..=at] == "a" { "b" } else { "a" };
        let wrong = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        assert_eq!(JoinToken::parse(&wrong), Err(TokenError::Mistyped));
    }
    let long = format!("rwj1.{}", "a".repeat(TOKEN_CHARS_MAX));
    assert_eq!(JoinToken::parse(&long), Err(TokenError::Mistyped));
}

#[test]
fn the_largest_token_fits_and_larger_ones_are_not_made() {
    let longest = "x".repeat(TOKEN_ADDRESS_BYTES_MAX as usize);
    let made =
        |addresses: &[String]| JoinToken::new(addresses, Fingerprint([7; 32]), JoinSecret([9; 16]));
    let most = vec![longest.clone(); TOKEN_ADDRESSES_MAX as usize];
    let token = made(&most).unwrap();
    assert_eq!(JoinToken::parse(&token.to_text()), Ok(token));
    let many = vec![longest.clone(); TOKEN_ADDRESSES_MAX as usize + 1];
    for bad in [many, vec![], vec![longest + "x"], vec![String::new()]] {
        assert_eq!(made(&bad), Err(TokenError::Malformed));
    }
}

#[test]
fn a_token_is_good_once_and_in_time() {
    let mut table = TokenTable::new();
    let secret = random_bytes().map(control::JoinSecret).unwrap();
    let hash = TokenHash::of(&secret);
    table.add(hash, 1000, 0).unwrap();
    let forged = random_bytes().map(control::JoinSecret).unwrap();
    assert_eq!(table.redeem(&forged, 500), Err(TokenRefusal::Unknown));
    assert_eq!(table.redeem(&secret, 999), Ok(hash));
    assert_eq!(table.redeem(&secret, 999), Err(TokenRefusal::Unknown));
    table.add(hash, 1000, 0).unwrap();
    assert_eq!(table.redeem(&secret, 1000), Err(TokenRefusal::Expired));
    assert!(table.is_empty());
}

#[test]
fn waiting_tokens_are_bounded_and_expired_ones_make_room() {
    let mut table = TokenTable::new();
    for n in 0..TOKENS_MAX {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&n.to_be_bytes());
        table.add(TokenHash(hash), 10 + n as u64, 0).unwrap();
    }
    let extra = TokenHash([0xff; 32]);
    assert_eq!(table.add(extra, 5000, 9), Err(TokenRefusal::Full));
    assert_eq!(table.add(extra, 5000, 10), Ok(()));
    assert_eq!(table.drop_expired(12).len(), 2);
    assert_eq!(table.len(), TOKENS_MAX - 2);
}

proptest! {
    #[test]
    fn base32_round_trips(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let text = base32::encode(&bytes);
        prop_assert_eq!(base32::decode(&text), Some(bytes.clone()));
        prop_assert_eq!(base32::decode(&text.to_uppercase()), Some(bytes));
    }

    #[test]
    fn any_text_is_taken_without_harm_and_each_value_has_one_text(text in "[a-z2-7]{0,40}") {
        if let Some(bytes) = base32::decode(&text) {
            prop_assert_eq!(base32::encode(&bytes), text.clone());
        }
        let _ = JoinToken::parse(&format!("rwj1.{text}"));
    }
}
