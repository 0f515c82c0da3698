//! The directories of a cluster on a server: one with the cluster's id in its name, and 256 in it by the low byte of the number.
//!
//! Owns their names, and the names of objects. A directory that is not there is a fault of the server: `add` made all of them, and
//! nothing else makes one. Another disk may be there.

use crate::fail::Fail;
use crate::server::Server;
use futures_util::StreamExt;
use nfs3::{FileType3, Nfs3Status, PostOpAttr, Sattr3};
use nfs3_client::Fh;

/// Nobody but root may search a directory: clients have handles.
const DIR_MODE: u32 = 0o700;
/// Directories that are made at one time.
const MAKING_MAX: usize = 8;

/// Whether a directory or an object that is missing is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Made,
    /// The same for an object that has no bytes yet, wherever it is: nobody looks whether it is there.
    MadeUnseen,
    /// The same for an object that may be lost, of a file that is to have no bytes.
    MadeAnew,
    Left,
}

pub(crate) fn cluster_name(cluster_id: u64) -> Vec<u8> {
    format!(".ropewalk-{cluster_id:016x}").into_bytes()
}

pub(crate) const fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

pub(crate) fn dir_name(low_byte: u8) -> Vec<u8> {
    format!("{low_byte:02x}").into_bytes()
}

pub(crate) fn object_name(number: u64, generation: u32) -> Vec<u8> {
    format!("{number:016x}.{generation:08x}").into_bytes()
}

impl Server {
    /// Makes all directories that are missing.
    pub(crate) async fn make_dirs(&self) -> Result<(), Fail> {
        self.dir(None, Missing::Made).await?;
        let made =
            futures_util::stream::iter(0..=u8::MAX).map(|byte| self.dir(Some(byte), Missing::Made));
        let mut made = made.buffer_unordered(MAKING_MAX);
        while let Some(one) = made.next().await {
            one?;
        }
        Ok(())
    }

    /// Forgets the handles of all directories: they are looked up again.
    pub(crate) fn forget_dirs(&self) {
        self.dirs.lock().clear();
    }

    /// The directory of objects whose number ends so; without a byte, that of the cluster. Kept.
    pub(crate) async fn dir(&self, low_byte: Option<u8>, missing: Missing) -> Result<Fh, Fail> {
        let known = |key| self.dirs.lock().get(&key).cloned();
        if let Some(fh) = known(low_byte) {
            return Ok(fh);
        }
        let root = self.record().root.clone();
        let cluster = match known(None) {
            Some(fh) => fh,
            None => {
                if missing == Missing::Left {
                    // Its handle is not known, or not valid any more.
                    self.see_place().await?;
                }
                self.below(&root, &cluster_name(self.cluster_id), missing)
                    .await?
            }
        };
        self.dirs.lock().insert(None, cluster.clone());
        let Some(byte) = low_byte else {
            return Ok(cluster);
        };
        let found = self.below(&cluster, &dir_name(byte), missing).await?;
        self.dirs.lock().insert(low_byte, found.clone());
        Ok(found)
    }

    /// A directory below another one.
    async fn below(&self, dir: &Fh, name: &[u8], missing: Missing) -> Result<Fh, Fail> {
        let who = &self.root_caller;
        let looked_up = self.call(self.nfs.lookup(who, dir, name)).await;
        match looked_up {
            Ok(found) => return sound(found.fh, found.attributes),
            Err(fail) if fail.is(Nfs3Status::NoEnt) => {}
            Err(fail) => return Err(fail),
        }
        if missing == Missing::Left {
            return Err(Fail::Wrong("a directory of the cluster is missing"));
        }
        let attributes = Sattr3 {
            mode: Some(DIR_MODE),
            ..Sattr3::default()
        };
        match self.call(self.nfs.mkdir(who, dir, name, attributes)).await {
            Ok(made) if made.fh.is_some() => {
                let fh = made.fh.unwrap_or_default();
                return sound(fh, made.attributes);
            }
            Ok(_) => {}
            // A call that was sent twice has made it the first time.
            Err(fail) if fail.is(Nfs3Status::Exist) => {}
            Err(fail) => return Err(fail),
        }
        let found = self.call(self.nfs.lookup(who, dir, name)).await?;
        sound(found.fh, found.attributes)
    }
}

/// A directory of ours is root's.
fn sound(fh: Fh, attributes: PostOpAttr) -> Result<Fh, Fail> {
    match attributes {
        Some(a) if a.file_type != FileType3::Dir => {
            Err(Fail::Wrong("a file has the name of a directory"))
        }
        Some(a) if a.uid != 0 => Err(Fail::Wrong("a directory of the cluster is not root's")),
        _ => Ok(fh),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_documents() {
        assert_eq!(cluster_name(0xab), b".ropewalk-00000000000000ab");
        assert_eq!(dir_name(low_byte(0x1234_5607)), b"07");
        assert_eq!(object_name(0x1f, 2), b"000000000000001f.00000002");
    }
}
