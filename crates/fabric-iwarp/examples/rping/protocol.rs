//! The protocol of rping. The client names its data; the server reads them and says so. The client names an empty
//! buffer; the server writes the data there and says so. What names memory are 16 octets: address, key, length.

use crate::peer::{CONFIG, PING_BYTES_MAX, Peer, Result, receives};
use bytes::Bytes;
use fabric::{Fabric, Incoming, Memory, Remote};
use std::net::SocketAddr;

/// Octets of every message.
const MESSAGE_BYTES: usize = 16;

/// What a server has seen of a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) pings: u64,
}

fn encode(remote: Remote) -> Vec<u8> {
    let mut message = remote.offset.to_be_bytes().to_vec();
    message.extend(remote.key.to_be_bytes());
    message.extend(remote.len.to_be_bytes());
    message
}

fn decode(message: &[u8]) -> Result<Remote> {
    let message: &[u8; MESSAGE_BYTES] = message.try_into()?;
    let (offset, rest) = message.split_at(8);
    let (key, len) = rest.split_at(4);
    let len = u32::from_be_bytes(len.try_into()?);
    if usize::try_from(len)? > PING_BYTES_MAX {
        return Err(format!("a ping of {len} bytes").into());
    }
    Ok(Remote {
        key: u32::from_be_bytes(key.try_into()?),
        offset: u64::from_be_bytes(offset.try_into()?),
        len,
    })
}

/// Serves a client until it closes.
pub(crate) async fn serve(incoming: Box<dyn Incoming>) -> Result<Served> {
    let connected = incoming.accept(CONFIG, Bytes::new(), receives()).await?;
    let mut peer = Peer::new(connected);
    let mut pings = 0;
    while let Some(message) = peer.message().await? {
        let source = decode(&message)?;
        let data = peer.read(source).await?;
        peer.send(vec![0; MESSAGE_BYTES]).await?;
        let message = peer.message().await?.ok_or("closed in a ping")?;
        let sink = decode(&message)?;
        let len = data.len();
        peer.write(data.freeze(0..len), sink).await?;
        peer.send(vec![0; MESSAGE_BYTES]).await?;
        pings += 1;
    }
    Ok(Served { pings })
}

/// Pings a server.
pub(crate) async fn ping(
    fabric: &dyn Fabric,
    address: SocketAddr,
    bytes: usize,
    count: u64,
) -> Result<()> {
    if !(2..=PING_BYTES_MAX).contains(&bytes) {
        return Err(format!("a ping has 2 to {PING_BYTES_MAX} bytes").into());
    }
    let connected = fabric.connect(address, CONFIG, Bytes::new(), receives());
    let mut peer = Peer::new(connected.await?);
    for number in 0..count {
        let data = text(bytes, number);
        let source = peer.expose(Memory::Bytes(data.clone()))?;
        peer.send(encode(source)).await?;
        peer.message().await?.ok_or("closed instead of reading")?;
        peer.withdraw(source.key).await?;
        let empty = Memory::Buffer(peer.buffer(bytes)?);
        let sink = peer.expose(empty)?;
        peer.send(encode(sink)).await?;
        peer.message().await?.ok_or("closed instead of writing")?;
        match peer.withdraw(sink.key).await? {
            Memory::Buffer(back) if back[..] == data[..] => {}
            _ => return Err(format!("ping {number} came back as something else").into()),
        }
    }
    peer.close().await
}

/// Text that ends with a zero: the server of librdmacm writes back as much as a string has.
fn text(bytes: usize, number: u64) -> Bytes {
    let letter = |n: usize| b'!' + u8::try_from((n as u64 + number) % 90).unwrap_or_default();
    let mut text: Vec<u8> = (0..bytes - 1).map(letter).collect();
    text.push(0);
    text.into()
}

#[cfg(test)]
mod tests {
    //! Both sides against each other, and the octets of a message.
    use super::*;
    use ropewalk_fabric_iwarp::Iwarp;

    #[test]
    fn a_message_is_address_key_and_length() {
        let remote = Remote {
            offset: 0x0102_0304_0506_0708,
            key: 0x090a_0b0c,
            len: 0x000d_0e0f,
        };
        let message = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 13, 14, 15];
        assert_eq!(encode(remote), message);
        assert_eq!(decode(&message).unwrap(), remote);
        assert!(decode(&message[1..]).is_err());
        assert!(decode(&[0xff; 16]).is_err());
    }

    #[tokio::test]
    async fn our_client_pings_our_server() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = Iwarp::default().listen(any).await.unwrap();
        let address = listener.local();
        for (bytes, count) in [(2, 1), (64, 20), (PING_BYTES_MAX, 3)] {
            let serving = async { serve(listener.accept().await.unwrap()).await.unwrap() };
            let iwarp = Iwarp::default();
            let pinging = ping(&iwarp, address, bytes, count);
            let (served, pinged) = tokio::join!(serving, pinging);
            pinged.unwrap();
            assert_eq!(served, Served { pings: count });
        }
    }
}
