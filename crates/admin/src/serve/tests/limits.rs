//! Goal: connections, handshakes and tunnels have their limits, and a tunnel ends with its token.
use super::*;
use crate::tls::HANDSHAKE_MAX;
use crate::tunnel::LOOK;
use std::io::ErrorKind;

/// A desk whose tunnels stay.
fn keeping(is_full: bool) -> Arc<Echo> {
    Arc::new(Echo {
        keeps_tunnels: true,
        is_full,
        ..Echo::default()
    })
}

/// The status and the sentence of a tunnel that is refused.
async fn refused(address: SocketAddr, token: &str) -> (u16, String) {
    match crate::open_tunnel(&server_at(address, token)).await {
        Err(AskError::Told(problem)) => (problem.status, problem.detail),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it is open"),
    }
}

#[tokio::test]
async fn a_tunnel_ends_with_its_token() {
    let desk = keeping(false);
    let address = network(Arc::clone(&desk) as Arc<dyn Desk>).await;
    let mut tunnel = crate::open_tunnel(&server_at(address, "a")).await.unwrap();
    let mut peer = [0; 9];
    tunnel.read_exact(&mut peer).await.unwrap();
    assert_eq!(&peer, b"admin a #");
    let mut rest = Vec::new();
    let open = timeout(LOOK + LOOK / 2, tunnel.read_to_end(&mut rest)).await;
    assert!(open.is_err(), "it ended while its token was good");
    assert_eq!(desk.samples.tunnels_open(), 1);
    desk.is_revoked.store(true, Ordering::Relaxed);
    let ended = timeout(LOOK * 3, tunnel.read_to_end(&mut rest)).await;
    ended.expect("it has ended").unwrap();
    assert_eq!(refused(address, "a").await.0, 401);
    assert_eq!(desk.samples.tunnels_open(), 0);
    assert_eq!(
        (
            desk.samples.tunnels_opened(),
            desk.samples.tunnels_refused()
        ),
        (1, 0)
    );
}

#[tokio::test]
async fn one_tunnel_too_many_is_refused() {
    let desk = keeping(false);
    let address = network(Arc::clone(&desk) as Arc<dyn Desk>).await;
    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS_MAX {
        tunnels.push(crate::open_tunnel(&server_at(address, "a")).await.unwrap());
    }
    let (status, why) = refused(address, "a").await;
    assert_eq!((status, &*why), (503, "16 tunnels are open already"));
    assert_eq!(
        (desk.samples.tunnels_open(), desk.samples.tunnels_refused()),
        (TUNNELS_MAX, 1)
    );
    let full = network(keeping(true)).await;
    let (status, why) = refused(full, "a").await;
    assert!(status == 503 && why.contains("connections_max"), "{why}");
}

#[tokio::test]
async fn one_connection_too_many_waits_for_another_to_end() {
    let address = network(echo()).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let mut late = TcpStream::connect(address).await.unwrap();
    let head = format!("GET /api/v1/status HTTP/1.1\r\nHost: a:1\r\n{VIEWER}\r\n");
    late.write_all(head.as_bytes()).await.unwrap();
    let mut begin = [0; 12];
    let waiting = timeout(Duration::from_millis(500), late.read_exact(&mut begin)).await;
    assert!(waiting.is_err(), "{begin:?}");
    drop(idle.pop());
    let served = timeout(HANDSHAKE_MAX / 2, late.read_exact(&mut begin)).await;
    served.expect("its turn has come").unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_handshake_that_stalls_is_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = Listener::Tls(listener, Arc::clone(&TLS.server));
    tokio::spawn(serve(listener, Door::Network, echo()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The begin of a ClientHello, and no more.
    stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    tokio::time::pause();
    tokio::time::sleep(HANDSHAKE_MAX - Duration::from_secs(1)).await;
    let now = stream.try_read(&mut [0]);
    assert_eq!(now.unwrap_err().kind(), ErrorKind::WouldBlock);
    tokio::time::sleep(Duration::from_secs(2)).await;
    tokio::time::resume();
    let cut = timeout(Duration::from_secs(5), stream.read(&mut [0])).await;
    assert_eq!(cut.expect("it is cut").unwrap_or(0), 0);
}
