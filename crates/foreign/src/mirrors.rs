//! The good mirrors of a file, and its objects on them. Owns which mirrors count, and in which order they are read.

use crate::fail::{Fail, Failures};
use crate::file_at::FileAt;
use crate::foreign::Foreign;
use crate::group::ForeignGroup;
use crate::object::Spot;
use crate::records::ServerLimits;
use crate::refusals::FarError;
use futures_util::StreamExt;
use layout::{Extent, Striping};
use nfs4::NfsStatus;
use std::future::Future;
use std::sync::Arc;

/// Calls of one mirror of a file that are under way at one time, for one operation.
pub(crate) const PIECES_MAX: usize = 8;
/// Objects of a file that are asked at one time, for one operation. Each is at a server of its own.
pub(crate) const OBJECTS_AT_ONCE: usize = 64;
/// Most bytes of one READ or WRITE, whatever a server takes.
const IO_BYTES_MAX: u32 = 1 << 20;
/// Fewest, whatever a server says.
const IO_BYTES_MIN: u32 = 512;

/// Where the objects of a file are.
pub(crate) struct Mirrors {
    pub(crate) at: FileAt,
    pub(crate) group: Arc<ForeignGroup>,
    pub(crate) striping: Striping,
    /// Bits of the mirrors that count; never 0.
    pub(crate) good: u32,
}

impl Mirrors {
    /// The mirrors that count.
    pub(crate) fn each(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.group.mirrors).filter(|mirror| self.good & (1 << mirror) != 0)
    }

    /// Mirror and stripe of all objects that count.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let stripes = |mirror| (0..self.group.width).map(move |stripe| (mirror, stripe));
        self.each().flat_map(stripes)
    }

    /// Runs of bytes on one server each, no longer than `bytes_max`.
    pub(crate) fn pieces(
        &self,
        offset: u64,
        len: u64,
        bytes_max: u64,
    ) -> impl Iterator<Item = Extent> {
        let step = bytes_max.max(1);
        let cut = move |extent: Extent| {
            (0..extent.len.div_ceil(step)).map(move |piece| Extent {
                index: extent.index,
                offset: extent.offset + piece * step,
                len: step.min(extent.len - piece * step),
            })
        };
        self.striping.extents(offset, len).flat_map(cut)
    }

    /// Most bytes of a call that every server of a mirror takes, by what FSINFO says.
    pub(crate) fn call_bytes(
        &self,
        foreign: &Foreign,
        mirrors: impl Iterator<Item = u32>,
        told: impl Fn(&ServerLimits) -> u32,
    ) -> u64 {
        let stripes = |mirror| (0..self.group.width).map(move |stripe| (mirror, stripe));
        let ids = mirrors
            .flat_map(stripes)
            .filter_map(|(mirror, stripe)| self.group.server(mirror, stripe));
        let servers = ids.filter_map(|id| foreign.server(id));
        let least = servers.map(|server| told(&server.record().limits)).min();
        u64::from(least.unwrap_or(0).clamp(IO_BYTES_MIN, IO_BYTES_MAX))
    }

    pub(crate) fn spot(&self, foreign: &Foreign, mirror: u32, stripe: u32) -> Result<Spot, Fail> {
        let server = self.group.server(mirror, stripe);
        foreign.spot(server.ok_or(Fail::Wrong("a group is cut"))?, &self.at)
    }
}

impl Foreign {
    /// The good mirrors of a file.
    pub(crate) fn mirrors(&self, at: &FileAt) -> Result<Mirrors, FarError> {
        let fault = FarError::of(NfsStatus::ServerFault);
        let group = self.group(at.group).ok_or(fault)?;
        let striping = group.striping(at.stripe_unit).ok_or(fault)?;
        let good = group.all_mirrors() & !at.bad_mirrors;
        match good {
            0 => Err(FarError::of(NfsStatus::Io)),
            good => Ok(Mirrors {
                at: *at,
                group,
                striping,
                good,
            }),
        }
    }

    /// Whether each mirror of a file that counts has something on a server that was removed: what is there is lost, and none of them
    /// can be whole again.
    #[must_use]
    pub fn is_stranded(&self, at: &FileAt) -> bool {
        let Ok(mirrors) = self.mirrors(at) else {
            return false;
        };
        let is_removed = |(mirror, stripe)| {
            let spot = mirrors.spot(self, mirror, stripe);
            matches!(spot, Err(Fail::Removed))
        };
        let stripes = |mirror| (0..mirrors.group.width).map(move |stripe| (mirror, stripe));
        mirrors.each().all(|mirror| stripes(mirror).any(is_removed))
    }

    /// Does something for every object that counts, up to 64 at one time, and waits for all. Returns what came of each place, and
    /// which mirrors failed.
    pub(crate) async fn each_object<T, F>(
        &self,
        mirrors: &Mirrors,
        call: impl Fn(u32, u32, Spot) -> F,
    ) -> (Vec<(u32, u32, T)>, Failures)
    where
        F: Future<Output = Result<T, Fail>>,
    {
        let call = &call;
        let at_place = |mirror: u32, stripe: u32, spot: Result<Spot, Fail>| async move {
            match spot {
                Ok(spot) => call(mirror, stripe, spot).await,
                Err(fail) => Err(fail),
            }
        };
        self.each_place(mirrors, at_place).await
    }

    /// As [`Foreign::each_object`], also where a server cannot be called.
    pub(crate) async fn each_place<T, F>(
        &self,
        mirrors: &Mirrors,
        call: impl Fn(u32, u32, Result<Spot, Fail>) -> F,
    ) -> (Vec<(u32, u32, T)>, Failures)
    where
        F: Future<Output = Result<T, Fail>>,
    {
        let call = &call;
        let tasks = mirrors.places().map(|(mirror, stripe)| {
            let spot = mirrors.spot(self, mirror, stripe);
            async move { (mirror, stripe, call(mirror, stripe, spot).await) }
        });
        let tasks: Vec<_> = tasks.collect();
        let mut tasks = futures_util::stream::iter(tasks).buffered(OBJECTS_AT_ONCE);
        let (mut done, mut failures) = (Vec::new(), Failures::default());
        while let Some((mirror, stripe, result)) = tasks.next().await {
            match result {
                Ok(value) => done.push((mirror, stripe, value)),
                Err(fail) => {
                    mirrors.told(self, mirror, stripe, &fail);
                    failures.add(mirror, fail.status());
                }
            }
        }
        (done, failures)
    }
}

impl Mirrors {
    /// Says what failed, to the log and to the administrator.
    pub(crate) fn told(&self, foreign: &Foreign, mirror: u32, stripe: u32, fail: &Fail) {
        let server = self.group.server(mirror, stripe);
        let file = self.at.number;
        match fail {
            Fail::Down | Fail::Newer => tracing::debug!(file, server, mirror, %fail, "foreign I/O"),
            fail => tracing::warn!(file, server, mirror, %fail, "foreign I/O"),
        }
        if let Some(server) = server.and_then(|id| foreign.server(id)) {
            server.note_failure(fail);
        }
    }
}
