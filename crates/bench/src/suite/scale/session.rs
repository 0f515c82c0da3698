//! A client that has a session and does nothing with it but keep it: a blocking socket from a loopback address of its own.
//! There is no back channel: nobody would answer there.

use crate::BenchError;
use crate::load::REQUEST_TIMEOUT;
use crate::nfs::client::Owner;
use crate::nfs::wire::WireSession;
use nfs4::ops::{ReclaimCompleteArgs, ReclaimCompleteRes};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

/// The longest reply that such a client expects.
const REPLY_BYTES_MAX: u32 = 4096;

/// One of them.
#[derive(Debug)]
pub(super) struct IdleSession(WireSession);

impl IdleSession {
    /// Connects, makes a session and says that nothing is reclaimed, as a client does that has just mounted.
    pub(super) fn open(server: SocketAddr, number: u32) -> Result<Self, BenchError> {
        let stream = connect_from(address_of(number), server).map_err(BenchError::io("connect"))?;
        let owner = Owner::numbered(number as usize);
        let mut session = WireSession::over(stream, &owner, 0, REPLY_BYTES_MAX)?;
        let mut reply = session.compound(|b| {
            b.push(&ReclaimCompleteArgs { one_fs: false });
        })?;
        let done = reply.take::<ReclaimCompleteRes>();
        done.map_err(BenchError::nfs("say that nothing is reclaimed"))?;
        Ok(Self(session))
    }

    /// Renews the lease: SEQUENCE alone.
    pub(super) fn renew(&mut self) -> Result<(), BenchError> {
        self.0.compound(|_| {}).map(drop)
    }
}

/// A loopback address for each client: servers limit what one address may have.
fn address_of(number: u32) -> Ipv4Addr {
    let [_, high, middle, low] = number.to_be_bytes();
    Ipv4Addr::new(127, 64 | (high & 63), middle, low)
}

fn connect_from(address: Ipv4Addr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(address, 0))?;
    connect(&socket, &server)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    //! Each client has an address, and no two the same.
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_are_of_the_loopback_and_differ() {
        let all: BTreeSet<_> = (0..20_000).map(address_of).collect();
        assert_eq!(all.len(), 20_000);
        assert!(all.iter().all(Ipv4Addr::is_loopback));
    }

    #[test]
    fn connections_come_from_where_they_should() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let _stream = connect_from(address_of(300), to).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), Ipv4Addr::new(127, 64, 1, 44));
    }
}
