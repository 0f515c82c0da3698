//! WRITE by the metadata server: to all good mirrors at the same time.
//!
//! # Failure
//! It waits for every mirror. One that took all of it is enough: the caller marks the others bad before it answers. A mirror without
//! room fails the whole, for that is no fault of the mirror. What failed says which mirrors may have something of it.

use crate::fail::{Fail, Failures};
use crate::file_at::{FarWritten, FileAt};
use crate::foreign::Foreign;
use crate::mirrors::{Mirrors, OBJECTS_AT_ONCE, PIECES_MAX};
use crate::object::Spot;
use crate::refusals::NotWritten;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use layout::Extent;
use nfs4::{NfsStatus, StableHow, Verifier};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// WRITEs that may take one piece: a server may take fewer bytes than it was sent.
const SHORTS_MAX: u32 = 64;

/// What a mirror, or a part of it, has taken.
struct Taken {
    committed: StableHow,
    /// By server. `None` where two WRITEs were answered with different ones.
    verifiers: BTreeMap<u32, Option<Verifier>>,
}

impl Taken {
    const fn nothing() -> Self {
        Self {
            committed: StableHow::FileSync,
            verifiers: BTreeMap::new(),
        }
    }

    fn saw(&mut self, server: u32, verifier: Option<Verifier>) {
        let known = self.verifiers.entry(server).or_insert(verifier);
        if *known != verifier {
            *known = None;
        }
    }

    fn and(&mut self, other: Self) {
        self.committed = self.committed.min(other.committed);
        for (server, verifier) in other.verifiers {
            self.saw(server, verifier);
        }
    }
}

/// Why a mirror did not take all.
struct Missed {
    status: NfsStatus,
    /// It may have taken something.
    is_touched: bool,
}

/// What is to be written.
#[derive(Clone, Copy)]
struct Writing<'a> {
    offset: u64,
    stable: StableHow,
    bytes: &'a Bytes,
}

impl Foreign {
    /// Writes bytes to all good mirrors, at least as stable as asked. It succeeds where one of them took all. Unless the file has all of
    /// its objects, those that are missing are made first, also of stripes that nothing is written to: afterwards each mirror that did
    /// not fail has all of them.
    ///
    /// # Errors
    /// [`NotWritten`]: `NoSpc`, `DQuot` and `FBig` of any mirror; when no mirror took all; `Delay` when a server restarted in
    /// between, for no verifier says that.
    pub async fn write(
        &self,
        at: &FileAt,
        offset: u64,
        stable: StableHow,
        bytes: &Bytes,
    ) -> Result<FarWritten, NotWritten> {
        let mirrors = &self.mirrors(at)?;
        let len = bytes.len() as u64;
        if offset.checked_add(len).is_none() {
            return Err(NotWritten {
                status: NfsStatus::FBig,
                whole_mirrors: 0,
                touched_mirrors: 0,
            });
        }
        let writing = Writing {
            offset,
            stable,
            bytes,
        };
        let all = mirrors.each().map(|mirror| async move {
            let taken = self.write_mirror(mirrors, mirror, writing).await;
            (mirror, taken)
        });
        let (mut whole, mut failures) = (Taken::nothing(), Failures::default());
        let mut touched_mirrors = 0;
        for (mirror, taken) in join_all(all).await {
            match taken {
                Ok(taken) => whole.and(taken),
                Err(missed) => {
                    failures.add(mirror, missed.status);
                    touched_mirrors |= u32::from(missed.is_touched) << mirror;
                }
            }
        }
        let whole_mirrors = mirrors.good & !failures.mirrors;
        let not_written = |status| NotWritten {
            status,
            whole_mirrors,
            touched_mirrors: touched_mirrors | whole_mirrors,
        };
        let failed_mirrors = failures.of_some(mirrors.good);
        let failed_mirrors = failed_mirrors.map_err(|error| not_written(error.status))?;
        let is_committed = whole.committed != StableHow::Unstable;
        let mut verifiers = BTreeMap::new();
        for (server, verifier) in whole.verifiers {
            match verifier {
                Some(verifier) => drop(verifiers.insert(server, verifier)),
                None if is_committed => {}
                None => return Err(not_written(NfsStatus::Delay)),
            }
        }
        Ok(FarWritten {
            committed: whole.committed,
            verifiers,
            failed_mirrors,
        })
    }

    /// All pieces of one mirror, a few at one time. After a failure none begins.
    async fn write_mirror(
        &self,
        mirrors: &Mirrors,
        mirror: u32,
        writing: Writing<'_>,
    ) -> Result<Taken, Missed> {
        self.see_to_all(mirrors, mirror).await?;
        let has_failed = &AtomicBool::new(false);
        let one = std::iter::once(mirror);
        let most = mirrors.call_bytes(self, one, |limits| limits.write_bytes_max);
        let pieces = mirrors.pieces(writing.offset, writing.bytes.len() as u64, most);
        let pieces: Vec<_> = pieces
            .map(|extent| async move {
                if has_failed.load(Relaxed) {
                    return Ok(None);
                }
                let mut sent = extent.offset;
                let taken = match mirrors.spot(self, mirror, extent.index) {
                    Ok(spot) => {
                        let piece = (extent, &mut sent);
                        self.write_piece(mirrors, &spot, piece, writing).await
                    }
                    Err(fail) => Err(fail),
                };
                taken.map(Some).map_err(|fail| {
                    has_failed.store(true, Relaxed);
                    mirrors.told(self, mirror, extent.index, &fail);
                    let is_touched = sent > extent.offset || !fail.is_refusal();
                    (fail.status(), is_touched)
                })
            })
            .collect();
        let mut pieces = futures_util::stream::iter(pieces).buffer_unordered(PIECES_MAX);
        let (mut whole, mut failures) = (Taken::nothing(), Failures::default());
        let mut is_touched = false;
        while let Some(taken) = pieces.next().await {
            match taken {
                Ok(Some(taken)) => {
                    is_touched = true;
                    whole.and(taken);
                }
                Ok(None) => {}
                Err((status, is_begun)) => {
                    is_touched |= is_begun;
                    failures.add(mirror, status);
                }
            }
        }
        match failures.mirrors {
            0 => Ok(whole),
            _ => Err(Missed {
                status: failures.error().status,
                is_touched,
            }),
        }
    }

    /// Makes the objects of a mirror that are missing, unless the file has all of them.
    async fn see_to_all(&self, mirrors: &Mirrors, mirror: u32) -> Result<(), Missed> {
        if mirrors.at.has_objects {
            return Ok(());
        }
        let epoch = mirrors.at.epoch;
        let seeing = (0..mirrors.group.width).map(|stripe| async move {
            let seen = match mirrors.spot(self, mirror, stripe) {
                Ok(spot) => self.see_to(&spot, epoch).await,
                Err(fail) => Err(fail),
            };
            seen.inspect_err(|fail| mirrors.told(self, mirror, stripe, fail))
        });
        let mut seeing = futures_util::stream::iter(seeing).buffer_unordered(OBJECTS_AT_ONCE);
        let mut failures = Failures::default();
        while let Some(seen) = seeing.next().await {
            if let Err(fail) = seen {
                failures.add(mirror, fail.status());
            }
        }
        match failures.mirrors {
            0 => Ok(()),
            _ => Err(Missed {
                status: failures.error().status,
                is_touched: false,
            }),
        }
    }

    /// WRITEs until an object has all of an extent. It is made where it is missing. `at` is where the next bytes go.
    async fn write_piece(
        &self,
        mirrors: &Mirrors,
        spot: &Spot,
        (extent, at): (Extent, &mut u64),
        writing: Writing<'_>,
    ) -> Result<Taken, Fail> {
        let (mut taken, mut shorts) = (Taken::nothing(), 0);
        let mut left = extent.len;
        while left > 0 {
            let begin = usize::try_from(*at - writing.offset).unwrap_or(usize::MAX);
            let sent = usize::try_from(left).unwrap_or(usize::MAX);
            let end = begin.saturating_add(sent);
            if end > writing.bytes.len() {
                return Err(Fail::Wrong("a piece lies beyond the bytes"));
            }
            let piece = writing.bytes.slice(begin..end);
            let (count, committed, verifier) = self
                .write_once(mirrors, spot, *at, writing.stable, &piece)
                .await?;
            taken.committed = taken.committed.min(committed);
            taken.saw(spot.server.id, Some(verifier));
            (*at, left) = (*at + u64::from(count), left - u64::from(count));
            if (count as usize) < sent {
                shorts += 1;
                if count == 0 || shorts > SHORTS_MAX {
                    return Err(Fail::Wrong("WRITE takes too little"));
                }
            }
        }
        Ok(taken)
    }

    async fn write_once(
        &self,
        mirrors: &Mirrors,
        spot: &Spot,
        at: u64,
        stable: StableHow,
        piece: &Bytes,
    ) -> Result<(u32, StableHow, Verifier), Fail> {
        let (nfs, who) = (&spot.server.nfs, &spot.server.root_caller);
        let asked = to_v3(stable);
        let write = |fh| async move { nfs.write(who, &fh, at, asked, piece).await };
        let ok = match self.with(spot, write).await? {
            Some(ok) => ok,
            None => {
                self.see_to(spot, mirrors.at.epoch).await?;
                let ok = self.with(spot, write).await?;
                ok.ok_or(Fail::Wrong("an object is not there after it was made"))?
            }
        };
        let committed = of_v3(ok.committed);
        if committed < stable {
            return Err(Fail::Wrong("WRITE is less stable than was asked"));
        }
        Ok((ok.count, committed, spot.server.saw(ok.verf)))
    }
}

const fn to_v3(stable: StableHow) -> nfs3::StableHow {
    match stable {
        StableHow::Unstable => nfs3::StableHow::Unstable,
        StableHow::DataSync => nfs3::StableHow::DataSync,
        StableHow::FileSync => nfs3::StableHow::FileSync,
    }
}

const fn of_v3(stable: nfs3::StableHow) -> StableHow {
    match stable {
        nfs3::StableHow::Unstable => StableHow::Unstable,
        nfs3::StableHow::DataSync => StableHow::DataSync,
        nfs3::StableHow::FileSync => StableHow::FileSync,
    }
}
