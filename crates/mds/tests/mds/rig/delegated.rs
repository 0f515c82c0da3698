//! Clients that are delegated files: their back channels note what they are asked.

use super::cluster::{FakeDs, Port};
use super::file::patiently;
use super::{Client, Rig, after_putfh};
use nfs4::attr::{self, Attrs};
use nfs4::cb::{CbRecallAnyArgs, CbRecallArgs};
use nfs4::ops::*;
use nfs4::{
    CbOpNum, ClientId, Fattr, FileHandle, NfsStatus, NfsTime, OpError, OpReader, StateOwner,
    Stateid,
};
use session_client::{CallbackHandler, HeldAttrs, Outcome};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tracing_mutex::parkinglot::Mutex;
use xdr::Opaque;

pub const READ: u32 = SHARE_ACCESS_READ;
pub const BOTH: u32 = SHARE_ACCESS_BOTH;
/// How long a file that was recalled gets no delegation, and a little. A lease is no longer.
pub const CONTENDED: Duration = Duration::from_secs(31);
/// The lease of the rig and a tick.
pub const LEASE: Duration = Duration::from_secs(32);

/// What a client's back channel was asked, and what it knows of a file that it holds.
#[derive(Default)]
pub struct Back {
    pub recalled: Mutex<Vec<Stateid>>,
    /// How many of which types it may keep.
    pub may_keep: Mutex<Vec<CbRecallAnyArgs>>,
    pub known: Mutex<Option<(u64, u64)>>,
    /// Access and modification time, where it is the authority for them.
    pub times: Mutex<Option<(NfsTime, NfsTime)>>,
    pub unknown: bool,
}

impl CallbackHandler for Back {
    fn callback<'a>(
        &'a self,
        op: CbOpNum,
        args: &'a mut OpReader<'_>,
    ) -> Pin<Box<dyn Future<Output = NfsStatus> + Send + 'a>> {
        let status = match op {
            CbOpNum::Recall => {
                let args: CbRecallArgs<'_> = args.args().unwrap();
                self.recalled.lock().push(args.stateid);
                if self.unknown {
                    NfsStatus::BadStateid
                } else {
                    NfsStatus::Ok
                }
            }
            CbOpNum::RecallAny => {
                self.may_keep.lock().push(args.args().unwrap());
                NfsStatus::Ok
            }
            _ => NfsStatus::NotSupp,
        };
        Box::pin(std::future::ready(status))
    }

    fn attributes(&self, _fh: &[u8]) -> Result<HeldAttrs, NfsStatus> {
        let known = self.known.lock().ok_or(NfsStatus::BadHandle)?;
        Ok(HeldAttrs {
            change: known.0,
            size: known.1,
            times: *self.times.lock(),
        })
    }
}

pub struct User {
    pub client: Client,
    pub back: Arc<Back>,
}

/// A file as a client has it.
#[derive(Clone)]
pub struct Held {
    pub fh: FileHandle,
    pub open: Stateid,
    /// There is no open, only the delegation.
    pub is_alone: bool,
    pub delegation: Given,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    None,
    Why(WhyNoDelegation),
    Read(Stateid, bool),
    Write(Stateid, bool),
    /// For writing, with authority for the times.
    WriteAttrs(Stateid),
}

impl Given {
    pub fn of(delegation: Delegation) -> Self {
        match delegation {
            Delegation::None => Self::None,
            Delegation::NoneExt(why) => Self::Why(why),
            Delegation::Read(d) => Self::Read(d.stateid, d.recall),
            Delegation::ReadAttrs(_) => panic!("never granted"),
            Delegation::WriteAttrs(d) => Self::WriteAttrs(d.stateid),
            Delegation::Write(d) => {
                assert_eq!(
                    d.space_limit,
                    SpaceLimit::Size(0),
                    "nothing is kept at close"
                );
                Self::Write(d.stateid, d.recall)
            }
        }
    }

    pub fn stateid(&self) -> Stateid {
        match self {
            Self::Read(stateid, _) | Self::Write(stateid, _) | Self::WriteAttrs(stateid) => {
                *stateid
            }
            other => panic!("{other:?}"),
        }
    }
}

pub fn status(e: &OpError) -> NfsStatus {
    e.status().unwrap_or_else(|| panic!("{e}"))
}

pub fn ended(done: &Outcome) -> Result<(), NfsStatus> {
    done.results().unwrap().status.ok()
}

pub async fn cluster() -> (Rig, Port, FakeDs) {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let ds = FakeDs::joined(&rig, &port, 1).await;
    (rig, port, ds)
}

impl User {
    pub async fn new(rig: &Rig, name: &str) -> Self {
        Self::with(rig, name, Back::default()).await
    }

    pub async fn with(rig: &Rig, name: &str, back: Back) -> Self {
        let back = Arc::new(back);
        let client = rig.session_of(name, *b"boot0001", Some(back.clone())).await;
        Self { client, back }
    }

    pub async fn open_by(
        &self,
        fh: &FileHandle,
        share_access: u32,
        how: OpenHow<'_>,
        claim: OpenClaim<'_>,
    ) -> Result<Held, NfsStatus> {
        let done = self
            .client
            .on(fh, |b| {
                b.push(&OpenArgs {
                    seqid: 0,
                    share_access,
                    share_deny: 0,
                    owner: StateOwner {
                        clientid: ClientId::default(),
                        owner: Opaque(b"owner"),
                    },
                    how: how.clone(),
                    claim,
                });
                b.push(&GetFhArgs {});
            })
            .await;
        let mut reply = after_putfh(&done);
        let opened = reply.take::<OpenRes>().map_err(|e| status(&e))?;
        let fh = reply.take::<GetFhRes<'_>>().map_err(|e| status(&e))?;
        Ok(Held {
            fh: FileHandle::from(fh.object.0),
            open: opened.stateid,
            is_alone: opened.rflags & OPEN_RESULT_NO_OPEN_STATEID != 0,
            delegation: Given::of(opened.delegation),
        })
    }

    /// Opens a file of the root once, making it if need be.
    pub async fn try_open(&self, name: &str, share_access: u32) -> Result<Held, NfsStatus> {
        let root = self.client.lookup(&[]).await.unwrap();
        let attrs = Fattr::new(&Attrs {
            mode: Some(0o644),
            ..Attrs::default()
        });
        let how = OpenHow::Create(CreateHow::Unchecked(attrs));
        let claim = OpenClaim::Null(Opaque(name.as_bytes()));
        self.open_by(&root, share_access, how, claim).await
    }

    pub async fn open(&self, name: &str, share_access: u32) -> Held {
        let opened = patiently(|| self.try_open(name, share_access)).await;
        opened.unwrap()
    }

    pub async fn close(&self, file: &Held) {
        let done = self.client.on(&file.fh, |b| {
            b.push(&CloseArgs {
                seqid: 0,
                open_stateid: file.open,
            });
        });
        ended(&done.await).unwrap();
    }

    pub async fn give_back(&self, file: &Held) -> Result<(), NfsStatus> {
        let stateid = file.delegation.stateid();
        let done = self.client.on(&file.fh, |b| {
            b.push(&DelegReturnArgs { stateid });
        });
        ended(&done.await)
    }

    pub fn recalls(&self) -> usize {
        self.back.recalled.lock().len()
    }

    /// Waits for a recall, then returns the delegation.
    pub async fn obey(&self, file: &Held) {
        while self.recalls() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(self.back.recalled.lock()[0], file.delegation.stateid());
        self.give_back(file).await.unwrap();
    }

    /// Change and size.
    pub async fn attrs(&self, fh: &FileHandle) -> Result<(u64, u64), NfsStatus> {
        let attrs = self.client.attrs(fh, &[attr::CHANGE, attr::SIZE]).await?;
        Ok((attrs.change.unwrap(), attrs.size.unwrap()))
    }
}

/// Time passes; leases are renewed.
pub async fn be_idle(users: &[&User], time: Duration) {
    for _ in 0..time.as_secs() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        for user in users {
            user.client.session.renew().await.unwrap();
        }
    }
}
