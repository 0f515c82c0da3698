//! The way from a private network to a server elsewhere: what comes in on one connection goes out on another.
//!
//! The listener is in the private network, the connections to the server are in this machine's own. Each is made from a
//! low port, as servers may ask of root's.
//!
//! # Failure
//! A connection that breaks at one end is closed at the other. Threads end with their connections; that of the listener ends
//! with the process.

use crate::BenchError;
use crate::net::NameSpace;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};

/// Low ports that are tried, the highest first, as NFS clients have it.
const LOW_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;
/// Connections of one relay over its life.
const CONNECTIONS_MAX: usize = 256;

/// Listens at `at` in `space` for the server at `target`; returns where. The calling thread is in the network that the server is
/// reached from.
///
/// # Errors
/// [`BenchError::Io`].
pub(super) fn start(
    space: &NameSpace,
    at: Ipv4Addr,
    target: SocketAddr,
) -> Result<SocketAddrV4, BenchError> {
    let listening = || {
        let listener = TcpListener::bind((at, 0))?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    let (listener, port) = {
        let _inside = space.enter()?;
        listening().map_err(BenchError::io("listen for a server of --server"))?
    };
    std::thread::spawn(move || {
        for client in listener.incoming().take(CONNECTIONS_MAX) {
            // A client that cannot be served sees its connection closed, and comes again.
            let _ = client.and_then(|client| relay(client, target));
        }
    });
    Ok(SocketAddrV4::new(at, port))
}

/// The first of these addresses that answers.
pub(super) fn reachable(targets: &[SocketAddr]) -> io::Result<SocketAddr> {
    let mut why = io::Error::from(io::ErrorKind::NotFound);
    for target in targets {
        match TcpStream::connect(target) {
            Ok(_) => return Ok(*target),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Connects to the server and carries bytes both ways, on two threads.
fn relay(client: TcpStream, target: SocketAddr) -> io::Result<()> {
    let server = connect_low(target)?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let ends = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || carry(client, server));
    std::thread::spawn(move || carry(ends.1, ends.0));
    Ok(())
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    // Whatever ended it, both ends are closed.
    let _ = io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Connects from a low port; from any, where all of them are taken or not allowed.
fn connect_low(target: SocketAddr) -> io::Result<TcpStream> {
    let (family, any): (_, std::net::IpAddr) = match target {
        SocketAddr::V4(_) => (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()),
        SocketAddr::V6(_) => (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
    };
    for port in LOW_PORTS.rev() {
        let made = socket(family, SocketType::STREAM, None)?;
        if bind(&made, &SocketAddr::new(any, port)).is_ok() {
            connect(&made, &target)?;
            return Ok(made.into());
        }
    }
    TcpStream::connect(target)
}

#[cfg(test)]
mod tests {
    //! Bytes arrive at the other side, both ways.
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn bytes_go_both_ways_and_the_end_too() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = server.local_addr().unwrap();
        let front = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(front.local_addr().unwrap()).unwrap();
        relay(front.accept().unwrap().0, target).unwrap();
        let (mut served, _) = server.accept().unwrap();
        client.write_all(b"ask").unwrap();
        let mut heard = [0; 3];
        served.read_exact(&mut heard).unwrap();
        served.write_all(b"say").unwrap();
        client.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"say");
        drop(served);
        assert_eq!(client.read(&mut heard).unwrap(), 0);
        assert!(reachable(&[]).is_err());
    }
}
