//! Requests to the metadata server, each connection a client of its own: one kind of operation, or a mix of all.

use crate::BenchError;
use crate::load::Requester;
use crate::nfs::client::{Owner, guarded, push_close, push_open, take_open};
use crate::nfs::metadata::{all_asked_for, push_getattr, take_attributes};
use crate::nfs::server::Server;
use crate::nfs::wire::WireSession;
use nfs4::layout::{FileLayout, LAYOUT_NFSV4_1_FILES, LENGTH_TO_EOF};
use nfs4::ops::{
    CloseRes, CreateArgs, CreateRes, CreateType, GetDeviceInfoArgs, GetDeviceInfoRes, GetFhArgs,
    GetFhRes, LayoutGetArgs, LayoutGetRes, PutFhArgs, PutFhRes, PutRootFhArgs, PutRootFhRes,
    ReclaimCompleteArgs, ReclaimCompleteRes, SetXattrArgs, SetXattrOption, SetXattrRes,
};
use nfs4::{
    Attrs, Bitmap, CompoundBuilder, CompoundReply, DeviceId, Fattr, FileHandle, IoMode, OpError,
    Stateid,
};
use xdr::Opaque;

/// Most bytes of a layout, as Linux asks for one.
const LAYOUT_BYTES_MAX: u32 = 4096;
/// Most bytes of a device address: one of 256 data servers fits.
const DEVICE_BYTES_MAX: u32 = 256 * 1024;
/// The extended attribute of a directory that says on how many data servers new files lie.
const LAYOUT_POLICY: &[u8] = b"ropewalk.layout";
/// Requests of a mix: so many of each kind, again and again.
const MIX: [Kind; 10] = [
    Kind::GetAttr,
    Kind::GetAttr,
    Kind::LayoutGet,
    Kind::GetAttr,
    Kind::Create,
    Kind::GetAttr,
    Kind::LayoutGet,
    Kind::GetAttr,
    Kind::GetAttr,
    Kind::Create,
];

/// What one request is; each is one COMPOUND after SEQUENCE and PUTFH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// GETATTR of the 15 attributes that Linux asks for.
    GetAttr,
    /// OPEN of a new file, GETFH, CLOSE.
    Create,
    /// LAYOUTGET for writing.
    LayoutGet,
}

impl Kind {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::GetAttr, Self::Create, Self::LayoutGet];

    /// In tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::GetAttr => "GETATTR",
            Self::Create => "create",
            Self::LayoutGet => "LAYOUTGET",
        }
    }

    /// Its share of a mix.
    #[allow(clippy::cast_precision_loss, reason = "a handful")]
    pub(super) fn share(self) -> f64 {
        let count = MIX.iter().filter(|kind| **kind == self).count();
        count as f64 / MIX.len() as f64
    }
}

/// What a connection asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// One kind.
    Of(Kind),
    /// All kinds.
    Mix,
}

/// Where a file lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lies {
    /// The device.
    pub(super) device: DeviceId,
    /// Its data servers.
    pub(super) width: u32,
}

/// A client with a file.
pub(super) struct Client {
    session: WireSession,
    load: Load,
    root: FileHandle,
    file: FileHandle,
    /// The open, and then the layout: LAYOUTGET names what it has (RFC 8881 §12.5.2).
    stateid: Stateid,
    name: String,
    /// Files that it has made.
    number: u64,
    /// Where in the mix it is.
    turn: usize,
}

fn put(b: &mut CompoundBuilder, handle: &FileHandle) {
    b.push(&PutFhArgs {
        object: Opaque(&handle.0),
    });
}

impl Client {
    /// A client of its own with a new file. `number` must be another for each, in one cluster.
    pub(super) fn new(server: &Server, number: usize, load: Load) -> Result<Self, BenchError> {
        let mut session = WireSession::connect(server.socket()?, &Owner::numbered(number), 0)?;
        let root = begin(&mut session)?;
        let mut client = Self {
            session,
            load,
            file: root.clone(),
            root,
            stateid: Stateid::default(),
            name: format!("c{number}"),
            number: 0,
            // Clients do not all do the same at the same time.
            turn: number % MIX.len(),
        };
        let parent = client.root.clone();
        client.open_in(&parent)?;
        Ok(client)
    }

    /// Takes a new file on so many data servers, or on as many as take new files now.
    pub(super) fn widen(&mut self, width: u32) -> Result<(), BenchError> {
        let dir = self.wide_dir(width)?;
        self.open_in(&dir)
    }

    /// A new directory whose files have so many data servers (`ropewalk layout`).
    fn wide_dir(&mut self, width: u32) -> Result<FileHandle, BenchError> {
        let name = self.next_name();
        let policy = format!("stripe_count={width}");
        let root = &self.root;
        let mut reply = self.session.compound(|b| {
            put(b, root);
            b.push(&CreateArgs {
                object_type: CreateType::Dir,
                name: Opaque(name.as_bytes()),
                attrs: Fattr::new(&Attrs {
                    mode: Some(0o755),
                    ..Attrs::default()
                }),
            });
            b.push(&GetFhArgs {});
            b.push(&SetXattrArgs {
                option: SetXattrOption::Either,
                name: Opaque(LAYOUT_POLICY),
                value: Opaque(policy.as_bytes()),
            });
        })?;
        let made = |reply: &mut CompoundReply<'_>| {
            reply.take::<PutFhRes>()?;
            reply.take::<CreateRes>()?;
            let dir = FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0);
            reply.take::<SetXattrRes>()?;
            Ok(dir)
        };
        made(&mut reply).map_err(BenchError::nfs::<OpError>("set a layout policy"))
    }

    fn open_in(&mut self, parent: &FileHandle) -> Result<(), BenchError> {
        let name = self.next_name();
        let mut reply = self
            .session
            .compound(|b| push_open(b, parent, &name, b"opener", guarded()))?;
        let file = take_open(&mut reply).map_err(BenchError::nfs("open a file"))?;
        (self.file, self.stateid) = (file.handle, file.stateid);
        Ok(())
    }

    fn next_name(&mut self) -> String {
        self.number += 1;
        format!("{}-{}", self.name, self.number)
    }

    fn getattr(&mut self) -> Result<(), BenchError> {
        let file = &self.file;
        let mut reply = self.session.compound(|b| {
            put(b, file);
            push_getattr(b);
        })?;
        let taken = reply.take::<PutFhRes>();
        let mask = taken.and_then(|_| take_attributes(&mut reply));
        all_asked_for(mask.map_err(BenchError::nfs("read attributes"))?)
    }

    fn create(&mut self) -> Result<(), BenchError> {
        let name = self.next_name();
        let root = &self.root;
        let mut reply = self.session.compound(|b| {
            push_open(b, root, &name, b"maker", guarded());
            push_close(b, Stateid::CURRENT);
        })?;
        let made = take_open(&mut reply).and_then(|_| reply.take::<CloseRes>());
        made.map(drop).map_err(BenchError::nfs("create a file"))
    }

    /// LAYOUTGET. Returns where the file lies.
    pub(super) fn layoutget(&mut self) -> Result<Lies, BenchError> {
        self.try_layoutget()?.ok_or(BenchError::Refused)
    }

    /// LAYOUTGET. Returns where the file lies; none when the server says "later".
    pub(super) fn try_layoutget(&mut self) -> Result<Option<Lies>, BenchError> {
        let (file, stateid) = (&self.file, self.stateid);
        let mut reply = self.session.compound(|b| {
            put(b, file);
            b.push(&LayoutGetArgs {
                signal_layout_avail: false,
                layout_type: LAYOUT_NFSV4_1_FILES,
                iomode: IoMode::Rw,
                offset: 0,
                length: LENGTH_TO_EOF,
                minlength: 0,
                stateid,
                maxcount: LAYOUT_BYTES_MAX,
            });
        })?;
        let granted = layout(&mut reply).map_err(BenchError::nfs("get a layout"))?;
        Ok(granted.map(|(stateid, lies)| {
            self.stateid = stateid;
            lies
        }))
    }

    /// GETDEVICEINFO.
    pub(super) fn device_info(&mut self, device_id: DeviceId) -> Result<(), BenchError> {
        let mut reply = self.session.compound(|b| {
            b.push(&GetDeviceInfoArgs {
                device_id,
                layout_type: LAYOUT_NFSV4_1_FILES,
                maxcount: DEVICE_BYTES_MAX,
                notify_types: Bitmap::EMPTY,
            });
        })?;
        match reply.take::<GetDeviceInfoRes<'_>>() {
            Ok(GetDeviceInfoRes::Ok(_)) => Ok(()),
            Ok(GetDeviceInfoRes::TooSmall { .. }) => Err(BenchError::Refused),
            Err(e) => Err(BenchError::nfs("find the data servers")(e)),
        }
    }

    /// Bytes of the last request and its reply on the connection.
    pub(super) fn last_bytes(&self) -> u64 {
        let (request, reply) = self.session.last_sizes();
        (request + reply) as u64
    }

    /// Bytes of the last reply.
    pub(super) fn last_reply_bytes(&self) -> u64 {
        self.session.last_sizes().1 as u64
    }
}

/// RECLAIM_COMPLETE, and the handle of the root.
fn begin(session: &mut WireSession) -> Result<FileHandle, BenchError> {
    let mut reply = session.compound(|b| {
        b.push(&ReclaimCompleteArgs { one_fs: false });
        b.push(&PutRootFhArgs {}).push(&GetFhArgs {});
    })?;
    let root = |reply: &mut CompoundReply<'_>| {
        reply.take::<ReclaimCompleteRes>()?;
        reply.take::<PutRootFhRes>()?;
        Ok(FileHandle::from(reply.take::<GetFhRes<'_>>()?.object.0))
    };
    root(&mut reply).map_err(BenchError::nfs::<OpError>("begin a session"))
}

/// Stateid and place of a layout; none when the server says "later".
fn layout(reply: &mut CompoundReply<'_>) -> Result<Option<(Stateid, Lies)>, OpError> {
    reply.take::<PutFhRes>()?;
    let LayoutGetRes::Ok(granted) = reply.take::<LayoutGetRes<'_>>()? else {
        return Ok(None);
    };
    let body = granted.layouts.0.first().map(|segment| segment.body.0);
    let body: FileLayout = xdr::decode_all(body.unwrap_or_default())?;
    let lies = Lies {
        device: body.device_id,
        width: u32::try_from(body.file_handles.0.len()).unwrap_or(u32::MAX),
    };
    Ok(Some((granted.stateid, lies)))
}

impl Requester for Client {
    fn request(&mut self) -> Result<u64, BenchError> {
        let kind = match self.load {
            Load::Of(kind) => kind,
            Load::Mix => {
                self.turn = (self.turn + 1) % MIX.len();
                MIX[self.turn]
            }
        };
        match kind {
            Kind::GetAttr => self.getattr()?,
            Kind::Create => self.create()?,
            Kind::LayoutGet => {
                self.layoutget()?;
            }
        }
        Ok(self.last_bytes())
    }
}

#[cfg(test)]
mod tests {
    //! A mix has all of each kind, and nothing else.
    use super::*;

    #[test]
    fn shares_of_a_mix_add_up() {
        let shares = Kind::ALL.map(Kind::share);
        assert!(shares.iter().all(|share| *share > 0.0));
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
