//! READ by the metadata server: from one good mirror, and from the next one where that fails.

use crate::fail::{Fail, Failures};
use crate::file_at::FileAt;
use crate::foreign::Foreign;
use crate::mirrors::{Mirrors, PIECES_MAX};
use crate::object::Spot;
use crate::refusals::FarError;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use layout::Extent;
use nfs4::NfsStatus;

/// Most bytes of one read.
pub const READ_BYTES_MAX: u64 = 16 << 20;
/// READs that may answer one piece: a server may answer fewer bytes than were asked for.
const SHORTS_MAX: u32 = 64;

impl Foreign {
    /// Reads bytes from good mirrors. What no object has is zeros. An object that is lost is no hole.
    ///
    /// # Errors
    /// [`FarError`] when some bytes are at no good mirror; `Inval` beyond [`READ_BYTES_MAX`].
    pub async fn read(&self, at: &FileAt, offset: u64, len: u64) -> Result<Bytes, FarError> {
        self.read_and_tell(at, offset, len)
            .await
            .map(|(bytes, _)| bytes)
    }

    /// As [`Foreign::read`], with the mirrors that were asked, answered, and could not read what another one has.
    ///
    /// # Errors
    /// As [`Foreign::read`].
    pub async fn read_and_tell(
        &self,
        at: &FileAt,
        offset: u64,
        len: u64,
    ) -> Result<(Bytes, u32), FarError> {
        let mirrors = self.mirrors(at)?;
        let total = usize::try_from(len).ok().filter(|_| len <= READ_BYTES_MAX);
        let total = total.ok_or(FarError::of(NfsStatus::Inval))?;
        let order = &self.reading_order(&mirrors);
        let mirrors = &mirrors;
        let most = mirrors.call_bytes(self, mirrors.each(), |limits| limits.read_bytes_max);
        let pieces: Vec<_> = (mirrors.pieces(offset, len, most))
            .map(|extent| async move {
                let bytes = self.read_piece(mirrors, order, extent).await;
                (extent, bytes)
            })
            .collect();
        let count = pieces.len();
        let mut pieces = futures_util::stream::iter(pieces).buffered(PIECES_MAX);
        let (mut out, mut error, mut faulty) = (BytesMut::new(), None, 0);
        while let Some((extent, read)) = pieces.next().await {
            let read = read.map(|(bytes, failed)| {
                faulty |= failed;
                bytes
            });
            match read {
                Ok(bytes) if count == 1 && bytes.len() == total => return Ok((bytes, faulty)),
                Ok(bytes) => {
                    if out.is_empty() {
                        out = BytesMut::zeroed(total);
                    }
                    put(&mut out, extent.offset - offset, &bytes);
                }
                Err(e) => error = error.or(Some(e)),
            }
        }
        // Bytes beyond the last offset that there can be are in no piece.
        out.resize(total, 0);
        error.map_or_else(|| Ok((out.freeze(), faulty)), Err)
    }

    /// Good mirrors, those of which all servers are up first. Files begin with different ones.
    fn reading_order(&self, mirrors: &Mirrors) -> Vec<u32> {
        let mut order: Vec<u32> = mirrors.each().collect();
        let count = order.len() as u64;
        let first = usize::try_from(mirrors.at.number % count.max(1)).unwrap_or(0);
        order.rotate_left(first);
        if count == 1 {
            return order;
        }
        order.sort_by_key(|mirror| {
            let mut stripes = 0..mirrors.group.width;
            stripes.any(|stripe| mirrors.spot(self, *mirror, stripe).is_err())
        });
        order
    }

    /// The bytes of an extent, without the zeros at its end, and the mirrors that answered and could not read it. What has no object at one mirror is a hole only if no other one that
    /// answers has the object: a server may have lost it while this process did not run. Where all objects were made there is no
    /// hole without one.
    async fn read_piece(
        &self,
        mirrors: &Mirrors,
        order: &[u32],
        extent: Extent,
    ) -> Result<(Bytes, u32), FarError> {
        let (mut failures, mut is_missing) = (Failures::default(), false);
        let mut faulty = 0;
        for mirror in order {
            let read = match mirrors.spot(self, *mirror, extent.index) {
                Ok(spot) => self.read_object(&spot, extent.offset, extent.len).await,
                Err(fail) => Err(fail),
            };
            match read {
                Ok(Some(bytes)) => return Ok((bytes, faulty)),
                Ok(None) => is_missing = true,
                Err(fail) => {
                    mirrors.told(self, *mirror, extent.index, &fail);
                    failures.add(*mirror, fail.status());
                    faulty |= u32::from(fail.status() == NfsStatus::Io) << *mirror;
                }
            }
        }
        match is_missing {
            true => Ok((Bytes::new(), faulty)),
            false => Err(failures.error()),
        }
    }

    /// READs until the end of the object, or until there are `len` bytes; `None` when there is no object. One that answers all is
    /// not copied.
    async fn read_object(&self, spot: &Spot, offset: u64, len: u64) -> Result<Option<Bytes>, Fail> {
        let server = &*spot.server;
        let (nfs, who) = (&server.nfs, &server.root_caller);
        let mut shorts = 0;
        let (mut at, mut left) = (offset, len);
        let mut got = BytesMut::new();
        while left > 0 {
            let count = u32::try_from(left).unwrap_or(u32::MAX);
            let read = self
                .with(
                    spot,
                    |fh| async move { nfs.read(who, &fh, at, count).await },
                )
                .await?;
            let Some(read) = read else {
                return Ok(None);
            };
            let bytes = read.data.len() as u64;
            if bytes == len {
                return Ok(Some(read.data));
            }
            got.extend_from_slice(&read.data);
            (at, left) = (at + bytes, left - bytes);
            if bytes < u64::from(count) {
                if read.eof {
                    break;
                }
                shorts += 1;
                if bytes == 0 || shorts > SHORTS_MAX {
                    return Err(Fail::Wrong("READ answers too little before the end"));
                }
            }
        }
        Ok(Some(got.freeze()))
    }
}

fn put(out: &mut [u8], at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let room = out.get_mut(at..).unwrap_or_default();
    let len = bytes.len().min(room.len());
    room[..len].copy_from_slice(&bytes[..len]);
}
