//! Attributes and statuses of NFSv3 as this library has them, which are those of NFSv4.

use super::state::Inner3;
use crate::{Error, Metadata, SetAttrs};
use nfs3::{Fattr3, FileType3, Nfs3Status, NfsTime3, Sattr3, SetTime3};
use nfs3_client::{Fh, Nfs3Error};
use nfs4::{FileHandle, FileType, FsId, NfsStatus, NfsTime, SpecData, Thresholds};
use xdr::{Decode, Decoder, OpaqueBuf};

impl From<Nfs3Error> for Error {
    fn from(e: Nfs3Error) -> Self {
        match e {
            Nfs3Error::Rpc(e) => Self::Rpc(e),
            Nfs3Error::Status(status) => Self::Status(status_of(status)),
            Nfs3Error::Mount(status) => Self::Mount(status),
        }
    }
}

/// The same status of NFSv4, which kept the numbers. What it dropped is an I/O error.
fn status_of(status: Nfs3Status) -> NfsStatus {
    let number = (status as u32).to_be_bytes();
    NfsStatus::decode(&mut Decoder::new(&number)).unwrap_or(NfsStatus::Io)
}

/// A handle as the interface has it.
pub(super) fn public(fh: &Fh) -> FileHandle {
    OpaqueBuf(fh.0.clone())
}

/// A handle that the interface was given.
pub(super) fn private(fh: &FileHandle) -> Result<Fh, Error> {
    match fh.0.len() <= nfs3::NFS3_FHSIZE as usize {
        true => Ok(OpaqueBuf(fh.0.clone())),
        false => Err(Error::Status(NfsStatus::BadHandle)),
    }
}

fn time(t: NfsTime3) -> NfsTime {
    NfsTime {
        seconds: i64::from(t.seconds),
        nanoseconds: t.nanoseconds,
    }
}

pub(super) fn metadata(a: &Fattr3) -> Metadata {
    Metadata {
        file_type: match a.file_type {
            FileType3::Reg => FileType::Reg,
            FileType3::Dir => FileType::Dir,
            FileType3::Blk => FileType::Blk,
            FileType3::Chr => FileType::Chr,
            FileType3::Lnk => FileType::Lnk,
            FileType3::Sock => FileType::Sock,
            FileType3::Fifo => FileType::Fifo,
        },
        mode: a.mode & 0o7777,
        links_count: a.nlink,
        owner: a.uid.to_string(),
        group: a.gid.to_string(),
        size: a.size,
        space_bytes: a.used,
        file_id: a.fileid,
        fsid: FsId {
            major: a.fsid,
            minor: 0,
        },
        rdev: SpecData {
            major: a.rdev.major,
            minor: a.rdev.minor,
        },
        // There is no counter of changes; this time is what clients compare (RFC 1813 §4.11).
        change: u64::from(a.ctime.seconds) << 32 | u64::from(a.ctime.nanoseconds),
        atime: time(a.atime),
        mtime: time(a.mtime),
        ctime: time(a.ctime),
        thresholds: Thresholds::default(),
    }
}

fn set_time(t: Option<NfsTime>) -> Result<SetTime3, Error> {
    let Some(t) = t else {
        return Ok(SetTime3::DontChange);
    };
    let seconds = u32::try_from(t.seconds);
    let seconds = seconds.map_err(|_| Error::NotInV3("times before 1970 or after 2105"))?;
    Ok(SetTime3::ClientTime(NfsTime3 {
        seconds,
        nanoseconds: t.nanoseconds,
    }))
}

pub(super) fn sattr(attrs: &SetAttrs) -> Result<Sattr3, Error> {
    Ok(Sattr3 {
        mode: attrs.mode,
        uid: attrs.uid,
        gid: attrs.gid,
        size: attrs.size,
        atime: set_time(attrs.atime)?,
        mtime: set_time(attrs.mtime)?,
    })
}

impl Inner3 {
    pub(super) async fn metadata_of(&self, fh: &Fh) -> Result<Metadata, Error> {
        let attrs = self.wait(self.nfs.getattr(&self.caller, fh)).await?;
        Ok(metadata(&attrs))
    }

    pub(super) async fn set_attrs_of(&self, fh: &Fh, attrs: &SetAttrs) -> Result<(), Error> {
        let attrs = sattr(attrs)?;
        let call = self.nfs.setattr(&self.caller, fh, &attrs, None);
        self.wait(call).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_keep_their_meaning() {
        for (of_v3, of_v4) in [
            (Nfs3Status::NoEnt, NfsStatus::NoEnt),
            (Nfs3Status::NotEmpty, NfsStatus::NotEmpty),
            (Nfs3Status::BadCookie, NfsStatus::BadCookie),
            (Nfs3Status::Jukebox, NfsStatus::Delay),
            (Nfs3Status::Remote, NfsStatus::Io),
        ] {
            assert_eq!(status_of(of_v3), of_v4, "{of_v3}");
        }
    }

    #[test]
    fn a_time_that_cannot_be_told_is_refused() {
        let at = |seconds| {
            Some(NfsTime {
                seconds,
                nanoseconds: 5,
            })
        };
        for seconds in [-1, i64::from(u32::MAX) + 1] {
            assert!(matches!(set_time(at(seconds)), Err(Error::NotInV3(_))));
        }
        let last = NfsTime3 {
            seconds: u32::MAX,
            nanoseconds: 5,
        };
        let set = set_time(at(i64::from(u32::MAX))).unwrap();
        assert_eq!(set, SetTime3::ClientTime(last));
        assert_eq!(set_time(None).unwrap(), SetTime3::DontChange);
    }

    #[test]
    fn a_handle_of_nfsv4_is_not_sent() {
        assert!(private(&OpaqueBuf(vec![0; 64])).is_ok());
        assert!(private(&OpaqueBuf(vec![0; 65])).is_err());
    }
}
