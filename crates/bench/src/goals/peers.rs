//! Beside nfs-ganesha with everything in memory: its FSAL_VFS on the same tmpfs, and its FSAL_MEM.
//!
//! A bare server stands beside them where there is one for the operation. It shows what the machine can do; no goal
//! asks for more than 0.95 of it.
//!
//! The client is the same for all: a blocking socket with a session for each connection. Where data are read or written each connection has a file of its
//! own, no longer than what FSAL_MEM keeps of one.

use super::beside::beside_ganesha;
use super::table::{Denominator, Shape};
use super::trial::{Ground, Look, Stage, Trial};
use super::{Planning, Row, data, metadata};
use crate::bare::ping_pong::Form as PingPongForm;
use crate::nfs::Form;
use crate::nfs::cluster::Carrier;
use crate::nfs::host::Host;
use crate::nfs::io::{Access, FileIo, Order};
use crate::nfs::metadata::{Metadata, Operation};
use crate::peer::{self, Fsal, GaneshaOptions, MEM_FILE_BYTES_MAX};
use crate::runner::Metric;
use clap::ValueEnum;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Which other servers there are on this machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Peers {
    /// nfs-ganesha.
    pub(super) ganesha: Option<PathBuf>,
    /// Whether it has FSAL_MEM.
    pub(super) has_mem: bool,
    /// Whether names can be made durable with it: on a disk of our own.
    pub(super) on_own_disk: bool,
}

impl Peers {
    /// Looks for them, and says what is missing.
    pub(super) fn find(on_own_disk: bool) -> Self {
        let ganesha = peer::find();
        let has_mem = peer::has_mem();
        if ganesha.is_none() {
            eprintln!("{}: nothing is compared with it", peer::HOW_TO_INSTALL);
        } else if !has_mem {
            eprintln!("{}", peer::HOW_TO_INSTALL_MEM);
        }
        Self {
            ganesha,
            has_mem,
            on_own_disk,
        }
    }

    /// As if there were all of them.
    #[cfg(test)]
    pub(super) fn all() -> Self {
        Self {
            ganesha: Some(PathBuf::from("ganesha.nfsd")),
            has_mem: true,
            on_own_disk: true,
        }
    }

    /// nfs-ganesha with a file system, if it is there.
    pub(super) fn host(&self, fsal: Fsal) -> Option<impl FnOnce(&Stage<'_>) -> Host + use<>> {
        let program = self.ganesha.clone()?;
        Some(move |stage: &Stage<'_>| {
            Host::Ganesha(GaneshaOptions {
                launcher: stage.launcher(),
                program,
                dir: stage.dir().to_owned(),
                fsal,
                listen: Ipv4Addr::LOCALHOST,
            })
        })
    }
}

/// What a connection does to a server, whichever it is.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Metadata(Operation),
    Io(Access, Order),
}

impl Deed {
    fn of(shape: &Shape) -> Option<Self> {
        let name = shape.operation.as_str();
        let io = match name {
            "READ" => Some((Access::Read, Order::Walk)),
            "WRITE" => Some((Access::Write, Order::Walk)),
            "random READ" => Some((Access::Read, Order::Random)),
            "random WRITE" => Some((Access::Write, Order::Random)),
            _ => None,
        };
        let mut operations = Operation::value_variants().iter();
        match io {
            Some((access, order)) => Some(Self::Io(access, order)),
            None => operations
                .find(|operation| operation.name() == name)
                .map(|operation| Self::Metadata(*operation)),
        }
    }

    fn add(
        self,
        trial: &mut Trial,
        shape: &Shape,
        host: impl FnOnce(&Stage<'_>) -> Host + 'static,
    ) -> usize {
        match self {
            Self::Metadata(operation) => trial.add(move |stage| {
                Ok(Metadata {
                    host: host(stage),
                    form: Form::Wire,
                    operation,
                })
            }),
            Self::Io(access, order) => {
                let io_bytes = shape.size_bytes.unwrap_or(MEM_FILE_BYTES_MAX);
                trial.add(move |stage| {
                    Ok(FileIo {
                        host: host(stage),
                        form: Form::Wire,
                        access,
                        order,
                        own_files: true,
                        file_bytes: u64::from(MEM_FILE_BYTES_MAX),
                        io_bytes,
                        is_inline: false,
                    })
                })
            }
        }
    }

    /// The bare server that does as much, if there is one. Its ranges follow each other: in memory that is no slower than places at random.
    fn add_raw(self, trial: &mut Trial, shape: &Shape) -> Option<(Denominator, usize)> {
        match self {
            Self::Metadata(operation @ (Operation::Getattr | Operation::Lookup)) => {
                let thread = PingPongForm::Thread;
                let place = metadata::add_ping_pong(trial, operation, thread, false);
                Some((Denominator::PingPong, place))
            }
            Self::Metadata(_) => None,
            Self::Io(access, _) => {
                let io_bytes = shape.size_bytes.unwrap_or(MEM_FILE_BYTES_MAX);
                // One file, as large as all files of the others together.
                let file_bytes = u64::from(MEM_FILE_BYTES_MAX) * shape.connections as u64;
                Some(data::add_bare(trial, access, file_bytes, io_bytes))
            }
        }
    }

    /// What FSAL_MEM keeps of a file: nothing where files stay empty.
    const fn mem(self) -> Fsal {
        let file_bytes = match self {
            Self::Metadata(_) => 0,
            Self::Io(..) => MEM_FILE_BYTES_MAX,
        };
        Fsal::Mem { file_bytes }
    }
}

/// Changes of names and attributes one at a time beside nfs-ganesha, whose are not durable and ours are.
pub(super) fn changes(planning: &Planning<'_>) -> Vec<Trial> {
    beside_ganesha(planning, Row::Changes, |shape| {
        let deed = Deed::of(shape)?;
        let Deed::Metadata(operation) = deed else {
            return None;
        };
        Some(move |host| Metadata {
            host,
            form: Form::Wire,
            operation,
        })
    })
}

pub(super) fn in_memory(planning: &Planning<'_>) -> Vec<Trial> {
    let peers = &planning.peers;
    let trial = |shape: &Shape| {
        let deed = Deed::of(shape)?;
        let mut trial = Trial::new(shape.text(), Ground::Tmpfs, shape.connections);
        trial.look = Look::Servers;
        let ours = deed.add(&mut trial, shape, |stage| {
            Host::Ropewalk(stage.cluster(1, Carrier::Tcp))
        });
        let tmpfs = peers.host(Fsal::Vfs { is_durable: false });
        let mem = peers.host(deed.mem()).filter(|_| peers.has_mem);
        let raw = deed.add_raw(&mut trial, shape);
        let metric = Metric::RequestsPerSecond;
        if let Some(host) = tmpfs {
            let to = (Denominator::GaneshaTmpfs, deed.add(&mut trial, shape, host));
            trial.claim(shape, ours, to, metric).raw = raw;
        }
        if let Some(host) = mem {
            let to = (Denominator::GaneshaMem, deed.add(&mut trial, shape, host));
            trial.claim(shape, ours, to, metric).raw = raw;
        }
        if let Some(to) = raw {
            trial.claim(shape, ours, to, metric);
        }
        Some(trial)
    };
    let shapes = planning.table.shapes(Row::Peer);
    shapes.iter().filter_map(trial).collect()
}
