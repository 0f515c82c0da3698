//! The socket between the process that watches and the one that serves.
//!
//! It is standard input of the serving process. Bytes go up: the signs of [`Sign`]. Listening sockets go down, once, when they
//! were asked for. The end of either process is the end of the stream for the other.
//!
//! # Ownership
//! The server holds a [`ParentLine`], whose clones share one socket. The watcher holds the other end as a stream of its
//! runtime.
//!
//! # Failure
//! A sign never waits: when the socket is full the other side has enough of them. Sockets go out at once or not at all, since all
//! of them fit into the socket's buffer.

use crate::failure::{Outcome, cannot, failed};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Sockets in one message; the kernel takes 253.
const SOCKETS_AT_ONCE: usize = 128;
/// Sockets in all: more than any configuration asks for.
const SOCKETS_MAX: usize = 8192;
/// Goes with sockets that are followed by others, and with the last ones.
const MORE: u8 = b'm';
const LAST: u8 = b'e';

/// What the server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It is alive and so is its disk.
    Alive,
    /// Its stores are open: it asks for the sockets.
    Ready,
    /// It serves.
    Serving,
    /// It has taken its configuration again, or has found it wrong.
    Reloaded,
    /// It ends, and shall not be started again.
    Leaving,
}

impl Sign {
    const fn byte(self) -> u8 {
        match self {
            Self::Alive => b'a',
            Self::Ready => b'r',
            Self::Serving => b's',
            Self::Reloaded => b'c',
            Self::Leaving => b'l',
        }
    }

    /// From a byte of the stream.
    pub(crate) const fn of(byte: u8) -> Option<Self> {
        match byte {
            b'a' => Some(Self::Alive),
            b'r' => Some(Self::Ready),
            b's' => Some(Self::Serving),
            b'c' => Some(Self::Reloaded),
            b'l' => Some(Self::Leaving),
            _ => None,
        }
    }
}

/// The server's end.
#[derive(Debug, Clone)]
pub(crate) struct ParentLine(Arc<OwnedFd>);

impl ParentLine {
    /// Takes standard input for it.
    pub(crate) fn adopt() -> Outcome<Self> {
        let stdin = std::io::stdin();
        if rustix::net::sockopt::socket_domain(stdin.as_fd())
            != Ok(rustix::net::AddressFamily::UNIX)
        {
            return Err(failed(
                "--watched is for the process that `ropewalk ds` starts by itself",
            ));
        }
        let socket = stdin.as_fd().try_clone_to_owned();
        let socket = socket.map_err(cannot("use standard input"))?;
        Ok(Self::of(socket))
    }

    /// The line at the end of this socket.
    pub(crate) fn of(socket: OwnedFd) -> Self {
        Self(Arc::new(socket))
    }

    /// Says that this process and its disk are alive.
    pub(crate) fn alive(&self) {
        self.say(Sign::Alive);
    }

    /// Says that this process serves.
    pub(crate) fn serving(&self) {
        self.say(Sign::Serving);
    }

    /// Says that this process has taken its configuration again, or has found it wrong.
    pub(crate) fn reloaded(&self) {
        self.say(Sign::Reloaded);
    }

    /// Says that this process ends and shall not be started again.
    pub(crate) fn leaving(&self) {
        self.say(Sign::Leaving);
    }

    fn say(&self, sign: Sign) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // Who is gone or has many unread signs needs no more.
        let _ = rustix::net::send(&*self.0, &[sign.byte()], flags);
    }

    /// Asks for the listening sockets and waits for them; `None` when the other process is gone or stops.
    pub(crate) fn take_sockets(&self) -> Outcome<Option<Vec<OwnedFd>>> {
        self.say(Sign::Ready);
        let mut sockets = Vec::new();
        loop {
            let mut byte = [0];
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_AT_ONCE))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = rustix::io::retry_on_intr(|| {
                let mut bytes = [IoSliceMut::new(&mut byte)];
                rustix::net::recvmsg(&*self.0, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)
            });
            let received = received.map_err(cannot("take the listening sockets over"))?;
            if received.bytes == 0 {
                return Ok(None);
            }
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(handed) = message {
                    sockets.extend(handed);
                }
            }
            if byte[0] == LAST {
                return Ok(Some(sockets));
            }
            if sockets.len() > SOCKETS_MAX {
                return Err(failed("too many listening sockets are handed over"));
            }
        }
    }
}

/// Hands sockets over through the other end of the line.
///
/// # Errors
/// Those of the socket; the server cannot be used then.
pub(super) fn hand_over(line: impl AsFd, sockets: &[BorrowedFd<'_>]) -> std::io::Result<()> {
    let batches = sockets.len().div_ceil(SOCKETS_AT_ONCE);
    for (number, batch) in (1..).zip(sockets.chunks(SOCKETS_AT_ONCE)) {
        let word = [if number == batches { LAST } else { MORE }];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_AT_ONCE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = control.push(SendAncillaryMessage::ScmRights(batch));
        debug_assert!(fits, "the space is for as many");
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&line, &[IoSlice::new(&word)], &mut control, flags)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Goal: all sockets arrive, in their order, and each sign is understood. Method: both ends in one process.
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, ParentLine) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        (ours, ParentLine::of(theirs.into()))
    }

    #[test]
    fn sockets_arrive_in_their_order() {
        let (ours, line) = pair();
        let listen = |_| TcpListener::bind("127.0.0.1:0").expect("a socket");
        let sockets: Vec<TcpListener> = (0..=SOCKETS_AT_ONCE).map(listen).collect();
        let borrowed: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        hand_over(&ours, &borrowed).expect("sent");
        let taken = line.take_sockets().expect("received").expect("sockets");
        let address = |socket: &TcpListener| socket.local_addr().expect("an address");
        let taken: Vec<_> = taken.into_iter().map(TcpListener::from).collect();
        let (sent, taken): (Vec<_>, Vec<_>) = (
            sockets.iter().map(address).collect(),
            taken.iter().map(address).collect(),
        );
        assert_eq!(sent, taken);
    }

    #[test]
    fn the_end_of_the_other_process_is_told() {
        let (ours, line) = pair();
        drop(ours);
        assert!(line.take_sockets().expect("an answer").is_none());
        line.alive();
    }

    #[test]
    fn signs_are_understood_and_never_wait() {
        let all = [
            Sign::Alive,
            Sign::Ready,
            Sign::Serving,
            Sign::Reloaded,
            Sign::Leaving,
        ];
        for sign in all {
            assert_eq!(Sign::of(sign.byte()), Some(sign));
        }
        assert_eq!(Sign::of(b'?'), None);
        let (_unread, line) = pair();
        (0..100_000).for_each(|_| line.alive());
    }
}
