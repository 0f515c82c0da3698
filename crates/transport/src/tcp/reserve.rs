//! Ports that are kept for listeners to come.

use std::io;
use std::net::SocketAddr;

use socket2::{SockRef, Socket};

use super::sockets::socket;

/// An address that stays free until its listener binds it, and again whenever that one is gone.
///
/// A port that was free when it was chosen may be another's when its server starts: that of another listener, or of an outgoing connection.
/// While a reservation lives, no other reservation, no search for any free port and no outgoing connection gets its port. [`bind`](super::bind)
/// does, in this process or another. Nobody listens: a connection is refused until a listener is there.
#[derive(Debug)]
pub struct Reservation {
    socket: Socket,
}

impl Reservation {
    /// Reserves `address`; port 0 finds a free one.
    ///
    /// # Errors
    /// `AddrInUse` when the address is bound, by a reservation too.
    pub fn new(address: SocketAddr) -> io::Result<Self> {
        let socket = socket(address)?;
        // Alone when it binds, so that two reservations never agree; open to sockets with SO_REUSEADDR, as all listeners here are, afterwards.
        socket.set_reuse_address(false)?;
        socket.bind(&address.into())?;
        socket.set_reuse_address(true)?;
        Ok(Self { socket })
    }

    /// What is reserved.
    ///
    /// # Errors
    /// When the kernel cannot tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let address = SockRef::from(&self.socket).local_addr()?;
        address
            .as_socket()
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a reserved port is its listener's alone, before that listener comes and after it has gone.
    use std::io::ErrorKind::{AddrInUse, ConnectionRefused};
    use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};

    use super::super::bind;
    use super::*;

    #[test]
    fn a_reserved_port_is_for_its_listener_alone() {
        for any in [
            (Ipv4Addr::LOCALHOST, 0).into(),
            SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        ] {
            let Ok(reservation) = Reservation::new(any) else {
                assert!(any.is_ipv6(), "every machine has 127.0.0.1");
                continue;
            };
            let address = reservation.address().unwrap();
            let refused = || TcpStream::connect(address).unwrap_err().kind();
            for _ in 0..2 {
                assert_eq!(Reservation::new(address).unwrap_err().kind(), AddrInUse);
                assert_eq!(refused(), ConnectionRefused);
                let listeners = bind(address, 2).unwrap();
                TcpStream::connect(address).unwrap();
                assert_eq!(bind(address, 1).unwrap_err().kind(), AddrInUse);
                drop(listeners);
            }
            drop(reservation);
            assert_eq!(refused(), ConnectionRefused);
        }
    }
}
