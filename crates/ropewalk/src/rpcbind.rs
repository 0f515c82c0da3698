//! Registration with the system's rpcbind (RFC 1833), by which clients of NFSv3 without a port find this server.
//!
//! # Ownership
//! [`Registered`] has what was registered, and takes it back when it is dropped.
//!
//! # Failure
//! What another server has registered is left alone: this one does not start. A registration of the same addresses is that of an
//! earlier process of ours, and is taken over. One where nobody serves the program any more, as after a kill and with another
//! address, is replaced. Its owner says nothing: rpcbind notes the user, and that is mostly root.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rpc::rpcbind::{self, BadAnswer, DUMP, Listing, PROGRAM, SET, UNSET, VERSION, is_done};
use rpc::{
    AcceptError, CallRefusal, CallStart, Netid, OpaqueAuth, ReplyHeader, ReplyVerdict,
    UniversalAddress,
};
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, Opaque, decode_all};

/// Where rpcbind listens for programs of this machine. It takes registrations nowhere else.
const SOCKET: &str = "/run/rpcbind.sock";
/// How long it may take.
const WAIT: Duration = Duration::from_secs(5);
/// Bit of a record mark that says that the record ends with this fragment (RFC 5531 §11).
const LAST_FRAGMENT: u32 = 1 << 31;
/// Longest answer: DUMP tells some hundred registrations.
const ANSWER_BYTES_MAX: u32 = 1 << 20;
/// Longest answer without a result, in a datagram.
const NULL_ANSWER_BYTES_MAX: usize = 1024;
/// Programs and versions that clients look for.
const SERVED: [(u32, u32); 5] = [
    (nfs3::PROGRAM, nfs3::VERSION),
    (nfs3::PROGRAM, 4),
    (nfs3::mount::PROGRAM, nfs3::mount::VERSION_1),
    (nfs3::mount::PROGRAM, nfs3::mount::VERSION),
    (nlm::PROGRAM, nlm::VERSION),
];
/// The status monitor. A machine that mounts by NFSv3 itself has one of its own.
const MONITOR: (u32, u32) = (nlm::nsm::PROGRAM, nlm::nsm::VERSION);

/// A program, its version, and where it is: `rpcb` of RFC 1833 §2.1.
#[derive(Debug, Clone)]
struct Mapping {
    program: u32,
    version: u32,
    netid: &'static str,
    address: SocketAddr,
}

impl Mapping {
    fn tcp((program, version): (u32, u32), address: SocketAddr) -> Self {
        Self {
            program,
            version,
            netid: Netid::tcp(&address).as_str(),
            address,
        }
    }

    /// The same over UDP (RFC 5665 §5.2.3).
    const fn over_udp(self) -> Self {
        let netid = match self.address {
            SocketAddr::V4(_) => "udp",
            SocketAddr::V6(_) => "udp6",
        };
        Self { netid, ..self }
    }

    /// Its universal address: that of TCP, as netids do not show in it.
    fn text(&self) -> String {
        UniversalAddress::tcp(self.address).to_text()
    }
}

impl Encode for Mapping {
    fn encode(&self, e: &mut Encoder) {
        let text = self.text();
        let mapping = rpcbind::Mapping {
            program: self.program,
            version: self.version,
            netid: Opaque(self.netid.as_bytes()),
            address: Opaque(text.as_bytes()),
            owner: Opaque(b"ropewalk"),
        };
        mapping.encode(e);
    }
}

/// Why nothing could be registered.
#[derive(Debug)]
pub(crate) enum RegisterError {
    /// rpcbind cannot be reached, or does not answer.
    Io(io::Error),
    /// An answer that is none.
    Answer,
    /// Another server has this program.
    Taken { program: u32, at: String },
}

impl std::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(
                f,
                "rpcbind at {SOCKET}: {error}; start it, or leave `register_rpcbind` out"
            ),
            Self::Answer => write!(f, "rpcbind at {SOCKET} gives no answer that can be read"),
            Self::Taken { program, at } => write!(
                f,
                "program {program} is registered with rpcbind for {at}: stop that server, or leave `register_rpcbind` out"
            ),
        }
    }
}

impl From<io::Error> for RegisterError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<BadAnswer> for RegisterError {
    fn from(_: BadAnswer) -> Self {
        Self::Answer
    }
}

impl From<DecodeError> for RegisterError {
    fn from(_: DecodeError) -> Self {
        Self::Answer
    }
}

/// What was registered.
#[derive(Debug)]
pub(crate) struct Registered(Vec<Mapping>);

impl Registered {
    /// Registers NFS, MOUNT, NLM and NSM at these addresses: the first one of each address family, since rpcbind knows one for each.
    ///
    /// # Errors
    /// [`RegisterError`]; then nothing is registered.
    pub(crate) fn new(listeners: &[SocketAddr]) -> Result<Self, RegisterError> {
        let v4 = listeners.iter().find(|a| a.is_ipv4());
        let v6 = listeners.iter().find(|a| a.is_ipv6());
        let mut registered = Self(Vec::new());
        for address in v4.into_iter().chain(v6) {
            for program in SERVED {
                registered.add(Mapping::tcp(program, *address))?;
            }
            let monitor = Mapping::tcp(MONITOR, *address);
            for mapping in [monitor.clone(), monitor.over_udp()] {
                match registered.add(mapping) {
                    Err(RegisterError::Taken { at, .. }) => tracing::warn!(
                        at,
                        "another status monitor is registered: locks of NFSv3 hosts that restart end with their next lock"
                    ),
                    added => added?,
                }
            }
        }
        Ok(registered)
    }

    fn add(&mut self, mapping: Mapping) -> Result<(), RegisterError> {
        set(&mapping)?;
        self.0.push(mapping);
        Ok(())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        for mapping in &self.0 {
            if let Err(error) = call(UNSET, mapping) {
                tracing::warn!(%error, "rpcbind still names this server");
                return;
            }
        }
    }
}

fn set(mapping: &Mapping) -> Result<(), RegisterError> {
    if is_done(&call(SET, mapping)?)? {
        return Ok(());
    }
    let at = listed(mapping)?;
    if at == mapping.text() {
        return Ok(());
    }
    if is_left_behind(mapping, &at, WAIT) {
        tracing::info!(
            program = mapping.program,
            at,
            "rpcbind names an address where nobody serves this program: replaced"
        );
        // The entry of another user stays, and the answer is that the program is taken.
        if is_done(&call(UNSET, mapping)?)? && is_done(&call(SET, mapping)?)? {
            return Ok(());
        }
    }
    Err(RegisterError::Taken {
        program: mapping.program,
        at,
    })
}

/// Whether nobody serves the program of `mapping` at `at`, for certain: this machine has no such address, or refuses what is sent
/// there, or another program answers. Who says nothing within `wait` may be slow.
fn is_left_behind(mapping: &Mapping, at: &str, wait: Duration) -> bool {
    let netid = Netid::tcp(&mapping.address).as_str();
    let Ok(told) = UniversalAddress::parse(netid.as_bytes(), at.as_bytes()) else {
        return false;
    };
    let mut address = told.address;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    } else if let Err(error) = UdpSocket::bind((address.ip(), 0)) {
        return error.kind() == io::ErrorKind::AddrNotAvailable;
    }
    match ask(mapping, address, wait) {
        Ok(answer) => {
            let header = ReplyHeader::decode(&mut Decoder::new(&answer));
            matches!(
                header.map(|header| header.verdict),
                Ok(ReplyVerdict::Error(CallRefusal::Accepted(
                    AcceptError::ProgUnavail | AcceptError::ProgMismatch { .. }
                )))
            )
        }
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

/// The answer to a call of procedure 0 of a program, which every program has (RFC 5531 §12.1).
fn ask(mapping: &Mapping, address: SocketAddr, wait: Duration) -> io::Result<Vec<u8>> {
    let mut e = Encoder::new();
    CallStart {
        xid: mapping.program,
        program: mapping.program,
        version: mapping.version,
        procedure: 0,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    let record = e.into_bytes();
    if mapping.netid.starts_with("udp") {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(wait))?;
        socket.send(&record)?;
        let mut answer = vec![0; NULL_ANSWER_BYTES_MAX];
        let len = socket.recv(&mut answer)?;
        answer.truncate(len);
        return Ok(answer);
    }
    let mut stream = TcpStream::connect_timeout(&address, wait)?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    exchange(&mut stream, &record)
}

/// Sends a record over a stream and reads the one that answers it.
fn exchange(stream: &mut (impl Read + Write), record: &[u8]) -> io::Result<Vec<u8>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let len = u32::try_from(record.len()).map_err(|_| invalid())?;
    stream.write_all(&(len | LAST_FRAGMENT).to_be_bytes())?;
    stream.write_all(record)?;
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let len = u32::from_be_bytes(mark) & !LAST_FRAGMENT;
    if u32::from_be_bytes(mark) & LAST_FRAGMENT == 0 || len > ANSWER_BYTES_MAX {
        return Err(invalid());
    }
    let mut answer = vec![0; len as usize];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// Where NFSv3 is by rpcbind, for clients of the family of `listener`; and where it is with this server. Changes nothing.
///
/// # Errors
/// rpcbind gives no answer.
pub(crate) fn nfs3_registered(listener: SocketAddr) -> Result<(String, String), RegisterError> {
    let mapping = Mapping::tcp((nfs3::PROGRAM, nfs3::VERSION), listener);
    Ok((listed(&mapping)?, mapping.text()))
}

/// Where a program is by the list of rpcbind: GETADDR tells a local caller nothing.
fn listed(mapping: &Mapping) -> Result<String, RegisterError> {
    let answer = call(DUMP, mapping)?;
    let all: Listing<'_> = decode_all(&answer)?;
    let netid = mapping.netid.as_bytes();
    let is_it = |l: &&rpcbind::Mapping<'_>| {
        (l.program, l.version, l.netid.0) == (mapping.program, mapping.version, netid)
    };
    let found = all.0.iter().find(is_it);
    let text = found.map(|l| String::from_utf8_lossy(l.address.0).into_owned());
    Ok(text.unwrap_or_default())
}

/// One call over a connection of its own. Returns the result.
fn call(procedure: u32, mapping: &Mapping) -> Result<Vec<u8>, RegisterError> {
    let mut stream = UnixStream::connect(SOCKET)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    let mut e = Encoder::new();
    CallStart {
        xid: procedure,
        program: PROGRAM,
        version: VERSION,
        procedure,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut e);
    if procedure != DUMP {
        mapping.encode(&mut e);
    }
    let answer = exchange(&mut stream, &e.into_bytes()).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData => RegisterError::Answer,
        _ => RegisterError::Io(e),
    })?;
    let mut d = Decoder::new(&answer);
    match ReplyHeader::decode(&mut d)?.verdict {
        ReplyVerdict::Success { .. } => Ok(d.rest().to_vec()),
        ReplyVerdict::Error(_) => Err(RegisterError::Answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_mapping_is_what_rfc_1833_says() {
        let mapping = Mapping::tcp((100_003, 3), "192.0.2.7:2049".parse().unwrap());
        let bytes = xdr::encode_to_vec(&mapping);
        let mut wanted = Vec::new();
        wanted.extend([0, 1, 0x86, 0xa3, 0, 0, 0, 3]);
        wanted.extend(*b"\0\0\0\x03tcp\0");
        wanted.extend(*b"\0\0\0\x0d192.0.2.7.8.1\0\0\0");
        wanted.extend(*b"\0\0\0\x08ropewalk");
        assert_eq!(bytes, wanted);
        let by_udp = xdr::encode_to_vec(&mapping.over_udp());
        wanted[11..15].copy_from_slice(b"\x03udp");
        assert_eq!(by_udp, wanted);
    }
    /// Whether what is registered at a port of this machine is left behind, where this answers one call there.
    fn judged(answer: impl FnOnce(&mut Encoder, u32) -> bool + Send + 'static) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = UniversalAddress::tcp(listener.local_addr().unwrap()).to_text();
        let mapping = Mapping::tcp((100_003, 3), "127.0.0.1:2049".parse().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut call = [0; 8];
            stream.read_exact(&mut call).unwrap();
            let xid = u32::from_be_bytes(call[4..].try_into().unwrap());
            let mut e = Encoder::new();
            if answer(&mut e, xid) {
                let record = e.into_bytes();
                let mark = u32::try_from(record.len()).unwrap() | LAST_FRAGMENT;
                stream.write_all(&mark.to_be_bytes()).unwrap();
                stream.write_all(&record).unwrap();
            }
            let _until_it_ends = stream.read_to_end(&mut Vec::new());
        });
        let judged = is_left_behind(&mapping, &at, Duration::from_millis(300));
        server.join().unwrap();
        judged
    }

    #[test]
    fn an_entry_is_left_behind_only_where_nobody_serves_its_program() {
        assert!(!judged(|e, xid| {
            rpc::begin_success(e, xid, OpaqueAuth::NONE);
            true
        }));
        assert!(judged(|e, xid| {
            rpc::encode_error(e, xid, AcceptError::ProgUnavail.into());
            true
        }));
        assert!(!judged(|_, _| false), "it may be slow");
        let mapping = Mapping::tcp((100_003, 3), "127.0.0.1:2049".parse().unwrap());
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let closed = UniversalAddress::tcp(closed.unwrap()).to_text();
        for (at, is_left) in [
            (&*closed, true),
            ("192.0.2.7.8.1", true),
            ("no address", false),
            ("", false),
        ] {
            assert_eq!(is_left_behind(&mapping, at, WAIT), is_left, "{at}");
        }
        let by_udp = mapping.over_udp();
        assert!(is_left_behind(&by_udp, &closed, WAIT));
    }
}
