//! Asks another member something, over the stream to it (rule P26).

use control::PlaceReign;
use nfs4::NfsTime;
use parts::{FileGeneration, PassOk, StreamItem};

use super::stream::{Head, Outcome, Owned};
use super::table::Copies;

/// Who is asked about which part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// The member.
    pub(crate) member: u32,
    /// The place, and its reign as the caller knows it.
    pub(crate) place: PlaceReign,
    /// The file.
    pub(crate) file: FileGeneration,
}

impl Copies {
    /// The answer; `None` when there is none.
    pub(crate) async fn ask(&self, asked: Asked, question: StreamItem<'static>) -> Option<PassOk> {
        let head = Head {
            group: asked.place.group,
            place: asked.place.place,
            reign: asked.place.reign,
            file: asked.file,
            time: NfsTime::default(),
        };
        let stream = self.stream(asked.member);
        let waiting = stream.push(head, Owned::Plain(question), true)?;
        match waiting.await {
            Ok(Outcome::Done(answer)) => Some(answer),
            _ => None,
        }
    }
}
