//! The pcap format as dumpcap writes it, and the headers of Ethernet, IPv4 (RFC 791) and TCP (RFC 9293) in it.
//!
//! What is no whole TCP segment over IPv4 is left out. Nothing here allocates more than a frame.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddrV4};

/// The first number of a file tells the unit of its times.
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Bytes of the header of a file and of a packet.
const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;
/// Longest frame, as dumpcap takes them.
const FRAME_BYTES_MAX: usize = 256 * 1024;
/// Where a frame of Ethernet has its type, and that of IPv4.
const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const TCP: u8 = 6;
/// Least lengths of the headers.
const IPV4_BYTES_MIN: usize = 20;
const TCP_BYTES_MIN: usize = 20;
/// More fragments follow, or an offset: no whole datagram.
const FRAGMENT_BITS: u16 = 0x3fff;
const SYN: u8 = 2;

/// Reads a stream of packets.
#[derive(Debug)]
pub(super) struct Packets<R> {
    input: R,
    ns_per_tick: u64,
    frame: Vec<u8>,
}

impl<R: Read> Packets<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The stream ends or is something else.
    pub(super) fn open(mut input: R) -> io::Result<Self> {
        let mut header = [0; FILE_HEADER_BYTES];
        input.read_exact(&mut header)?;
        let ns_per_tick = match number(&header, 0) {
            Some(MAGIC_MICROSECONDS) => 1000,
            Some(MAGIC_NANOSECONDS) => 1,
            _ => return Err(ErrorKind::InvalidData.into()),
        };
        Ok(Self {
            input,
            ns_per_tick,
            frame: Vec::new(),
        })
    }

    /// The next packet: nanoseconds since 1970, and its frame. None when the stream ends, be it within a packet.
    ///
    /// # Errors
    /// The stream cannot be read, or has a frame that is longer than any.
    pub(super) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let mut header = [0; PACKET_HEADER_BYTES];
        if !is_read(self.input.read_exact(&mut header))? {
            return Ok(None);
        }
        let field = |at| number(&header, at).map_or(0, u64::from);
        let (seconds, ticks) = (field(0), field(4));
        let length = usize::try_from(field(8)).unwrap_or(usize::MAX);
        if length > FRAME_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        self.frame.resize(length, 0);
        if !is_read(self.input.read_exact(&mut self.frame))? {
            return Ok(None);
        }
        let at_ns = seconds * 1_000_000_000 + ticks * self.ns_per_tick;
        Ok(Some((at_ns, &self.frame)))
    }
}

fn is_read(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// A number as this machine writes it.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// A segment of TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) from: SocketAddrV4,
    pub(super) to: SocketAddrV4,
    /// Of its first byte, or of SYN before it.
    pub(super) sequence: u32,
    pub(super) is_syn: bool,
    pub(super) payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// The segment in a frame, if it is there as a whole.
    pub(super) fn of(frame: &'a [u8]) -> Option<Self> {
        let (ethernet, ip) = frame.split_at_checked(ETHERNET_BYTES)?;
        if !ethernet.ends_with(&IPV4) {
            return None;
        }
        let header_bytes = usize::from(*ip.first()? & 15) * 4;
        let total_bytes = usize::from(short(ip, 2)?);
        let is_whole = short(ip, 6)? & FRAGMENT_BITS == 0;
        if header_bytes < IPV4_BYTES_MIN || !is_whole || *ip.get(9)? != TCP {
            return None;
        }
        let address = |at: usize| -> Option<Ipv4Addr> {
            let octets: [u8; 4] = ip.get(at..at + 4)?.try_into().ok()?;
            Some(octets.into())
        };
        let tcp = ip.get(header_bytes..total_bytes)?;
        let data_at = usize::from(*tcp.get(12)? >> 4) * 4;
        if data_at < TCP_BYTES_MIN {
            return None;
        }
        Some(Self {
            from: SocketAddrV4::new(address(12)?, short(tcp, 0)?),
            to: SocketAddrV4::new(address(16)?, short(tcp, 2)?),
            sequence: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
            is_syn: *tcp.get(13)? & SYN != 0,
            payload: tcp.get(data_at..)?,
        })
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

/// A frame with a segment.
#[cfg(test)]
pub(super) fn frame(segment: &Segment<'_>) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend(IPV4);
    let total = u16::try_from(40 + segment.payload.len()).expect("payloads of tests are short");
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
    ip.extend(segment.from.ip().octets());
    ip.extend(segment.to.ip().octets());
    ip.extend(segment.from.port().to_be_bytes());
    ip.extend(segment.to.port().to_be_bytes());
    ip.extend(segment.sequence.to_be_bytes());
    ip.extend([0, 0, 0, 0, 0x50, if segment.is_syn { SYN } else { 0x10 }]);
    ip.extend([0; 6]);
    ip.extend(segment.payload);
    frame.extend(ip);
    frame
}

/// A file with these frames, a millisecond between them.
#[cfg(test)]
pub(super) fn file(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = MAGIC_MICROSECONDS.to_ne_bytes().to_vec();
    file.extend([0; FILE_HEADER_BYTES - 4]);
    for (number, frame) in (0_u32..).zip(frames) {
        let length = u32::try_from(frame.len()).expect("frames of tests are short");
        for field in [7, number * 1000, length, length] {
            file.extend(field.to_ne_bytes());
        }
        file.extend(frame);
    }
    file
}

#[cfg(test)]
mod tests {
    //! Goal: whole segments are read, and what is cut anywhere is left out.
    use super::*;

    #[test]
    fn segments_are_read_and_pieces_are_not() {
        let segment = Segment {
            from: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 10), 700),
            to: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 2049),
            sequence: 0xffff_fff0,
            is_syn: false,
            payload: b"payload",
        };
        let whole = frame(&segment);
        assert_eq!(Segment::of(&whole).unwrap(), segment);
        for end in 0..whole.len() {
            assert_eq!(Segment::of(&whole[..end]), None, "{end}");
        }
        let mut fragment = whole.clone();
        fragment[ETHERNET_BYTES + 6] = 0x20;
        assert_eq!(Segment::of(&fragment), None);
        // Padding of short frames is no payload.
        let padded = [&whole[..], &[0; 9]].concat();
        assert_eq!(Segment::of(&padded).unwrap(), segment);
    }

    #[test]
    fn a_file_is_read_up_to_its_last_whole_packet() {
        let bytes = file(&[vec![1; 60], vec![2; 61]]);
        for end in 0..FILE_HEADER_BYTES {
            assert!(Packets::open(&bytes[..end]).is_err());
        }
        for end in FILE_HEADER_BYTES..=bytes.len() {
            let mut packets = Packets::open(&bytes[..end]).unwrap();
            let mut count = 0;
            while let Some((at_ns, frame)) = packets.next().unwrap() {
                assert_eq!(at_ns, 7_000_000_000 + count * 1_000_000);
                assert_eq!(frame.len() as u64, 60 + count);
                count += 1;
            }
            let whole = u64::from(end == bytes.len());
            let first = u64::from(end >= FILE_HEADER_BYTES + PACKET_HEADER_BYTES + 60);
            assert_eq!(count, whole + first);
        }
        let mut long = bytes;
        long[FILE_HEADER_BYTES + 8..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(Packets::open(&long[..]).unwrap().next().is_err());
        assert!(Packets::open(&[0; 24][..]).is_err());
    }
}
