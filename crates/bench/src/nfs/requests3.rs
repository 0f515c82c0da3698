//! Requests of NFSv3 to our metadata server, which passes data on to a data server, and to nfs-ganesha, by the same client.
//!
//! The client is a blocking socket for each connection ([`Wire3`]). Each connection has files of its own in the root, which it makes before
//! the measured time. Every reply is looked at: its status, its count of bytes, and what it is about.

use crate::bare::{Range, Walk};
use crate::load::{self, Load, Requester};
use crate::nfs::cluster::{Cluster, Role};
use crate::nfs::host::Host;
use crate::nfs::wire3::{Fh, Wire3};
use crate::pattern;
use crate::peer::older::OlderGanesha;
use crate::{BenchError, Sample, Subject};
use nfs3::procs::{
    CreateArgs, CreateHow, GetAttrArgs, LookupArgs, ReadArgs, RemoveArgs, WriteArgsPayload,
};
use nfs3::{DirOpArgs, FileType3, Sattr3, StableHow};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use xdr::Opaque;

/// What our server exports is its root.
const OUR_EXPORT: &[u8] = b"/";
/// Bytes of each WRITE that fills a file.
const FILL_BYTES: u32 = 512 * 1024;
/// What is written is this far on in the pattern from where it goes to, so that it differs from what is there.
const WRITTEN_SHIFT: u64 = 1 << 40;
/// Mode of new files.
const FILE_MODE: u32 = 0o644;
/// Most files that the REMOVEs of a connection find, and the least. Between the two their creation takes so many times the run.
const STOCK_MAX: u64 = 10_000;
const STOCK_MIN: u64 = 4;
const STOCK_TIMES: u32 = 2;

/// What one request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request3 {
    /// GETATTR of a file.
    GetAttr,
    /// LOOKUP of a file in the root.
    Lookup,
    /// CREATE of a new file (GUARDED).
    Create,
    /// REMOVE of an empty file.
    Remove,
    /// READ of the next range of a file.
    Read,
    /// WRITE of the next range of a file, UNSTABLE.
    Write,
}

impl Request3 {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::GetAttr,
        Self::Lookup,
        Self::Create,
        Self::Remove,
        Self::Read,
        Self::Write,
    ];

    /// In tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GetAttr => "GETATTR",
            Self::Lookup => "LOOKUP",
            Self::Create => "CREATE",
            Self::Remove => "REMOVE",
            Self::Read => "READ",
            Self::Write => "WRITE",
        }
    }

    const fn has_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// Requests of NFSv3 as a subject.
#[derive(Debug, Clone)]
pub struct Requests3 {
    /// The server; of a cluster the number of data servers is taken as one.
    pub host: Host,
    /// The request.
    pub request: Request3,
    /// The size of a file, where requests have data.
    pub file_bytes: u64,
    /// Bytes of each of those requests.
    pub io_bytes: u32,
    /// Whose CPU time counts, of a cluster; without one that of all its processes.
    pub counts: Option<Role>,
}

impl Subject for Requests3 {
    fn name(&self) -> String {
        match self.counts {
            None => format!("{}, NFSv3", self.host.name()),
            Some(role) => format!("{}, NFSv3, CPU of the {}", self.host.name(), role.name()),
        }
    }

    fn settings(&self) -> Value {
        let data = self.request.has_data();
        json!({
            "request": self.request.name(),
            "version": nfs3::VERSION,
            "io_bytes": data.then_some(self.io_bytes),
            "file_bytes": data.then_some(self.file_bytes),
            "cpu_of": self.counts.map(Role::name),
            "server": self.host.settings(),
        })
    }

    fn run(&mut self, load: &Load) -> Result<Sample, BenchError> {
        let running = Running::start(&self.host)?;
        let (address, root) = running.mount()?;
        let mut load = *load;
        let askers = (0..load.connections_count).map(|index| {
            let mut asker = Asker {
                wire: Wire3::connect(address)?,
                request: self.request,
                root: root.clone(),
                file: File3::default(),
                index,
                next: 0,
                stock_end: 0,
                walk: None,
                data: Vec::new(),
            };
            if self.request.has_data() {
                let walk = Walk::new(self.file_bytes, self.io_bytes, 0, 1)?;
                asker.prepare_data(walk, self.file_bytes, self.io_bytes)?;
            }
            Ok(asker)
        });
        let mut askers: Vec<Asker> = askers.collect::<Result<_, BenchError>>()?;
        match self.request {
            Request3::Remove => {
                stock(&mut askers, (load.warm_up + load.measure) * STOCK_TIMES)?;
                // The files were made right now, and none is to go before it counts.
                load.warm_up = Duration::ZERO;
            }
            Request3::GetAttr | Request3::Lookup => {
                askers.iter_mut().try_for_each(Asker::prepare_file)?;
            }
            Request3::Create | Request3::Read | Request3::Write => {}
        }
        let mut askers = askers.into_iter();
        let connect = |_| {
            let asker = askers.next().expect("there is one for each connection");
            Ok(Box::new(asker) as Box<dyn Requester>)
        };
        load::drive(&load, connect, &|| running.cpu(self.counts))
    }
}

/// Each connection makes the files that it is to remove, all at the same time.
fn stock(askers: &mut [Asker], time: Duration) -> Result<(), BenchError> {
    std::thread::scope(|scope| {
        let makers: Vec<_> = askers
            .iter_mut()
            .map(|asker| scope.spawn(move || asker.prepare_stock(time)))
            .collect();
        let mut made = makers.into_iter().map(|maker| maker.join());
        made.try_for_each(|made| made.expect("a maker does not panic"))
    })
}

/// A server while it runs.
enum Running {
    Cluster(Box<Cluster>),
    Ganesha(OlderGanesha),
}

impl Running {
    fn start(host: &Host) -> Result<Self, BenchError> {
        Ok(match host {
            Host::Ropewalk(options) => {
                let mut options = options.with_ds_count(1);
                options.nfs3 = true;
                Self::Cluster(Box::new(Cluster::start(&options)?))
            }
            Host::Ganesha(options) => Self::Ganesha(OlderGanesha::start(options)?),
        })
    }

    /// Where NFS is, and the handle of the root.
    fn mount(&self) -> Result<(SocketAddr, Fh), BenchError> {
        let (nfs, mount, export) = match self {
            Self::Cluster(cluster) => {
                let address = cluster.server().socket()?;
                (address, address, OUR_EXPORT.to_vec())
            }
            Self::Ganesha(peer) => (peer.address(), peer.mount_address(), peer.export()),
        };
        Ok((nfs, Wire3::connect(mount)?.mount(&export)?))
    }

    fn cpu(&self, of: Option<Role>) -> Result<Duration, BenchError> {
        match (self, of) {
            (Self::Cluster(cluster), None) => cluster.cpu(),
            (Self::Cluster(cluster), Some(role)) => cluster.cpu_of(role),
            (Self::Ganesha(peer), _) => peer.cpu(),
        }
    }
}

/// A file that requests are about.
#[derive(Debug, Clone, Default)]
struct File3 {
    handle: Fh,
    fileid: u64,
}

/// One connection and what it asks.
struct Asker {
    wire: Wire3,
    request: Request3,
    root: Fh,
    file: File3,
    index: usize,
    /// The number of its next file to create or remove, and the first that does not exist yet.
    next: u64,
    stock_end: u64,
    walk: Option<Walk>,
    /// What WRITEs write.
    data: Vec<u8>,
}

impl Asker {
    /// Twelve bytes, as names of the other rows have.
    fn name(&self, number: u64) -> String {
        format!("file{:03x}{number:05x}", self.index)
    }

    fn create(&mut self, number: u64) -> Result<File3, BenchError> {
        let name = self.name(number);
        let attributes = Sattr3 {
            mode: Some(FILE_MODE),
            ..Sattr3::default()
        };
        let args = CreateArgs {
            place: DirOpArgs {
                dir: Opaque(&self.root),
                name: Opaque(name.as_bytes()),
            },
            how: CreateHow::Guarded(attributes),
        };
        let made = self.wire.ask(&args, &[])?;
        let (Some(handle), Some(attrs)) = (made.obj, made.obj_attributes) else {
            return Err(BenchError::nfs("CREATE")("no handle, or no attributes"));
        };
        Ok(File3 {
            handle: handle.0.to_vec(),
            fileid: attrs.fileid,
        })
    }

    fn prepare_file(&mut self) -> Result<(), BenchError> {
        self.file = self.create(0)?;
        Ok(())
    }

    fn prepare_stock(&mut self, time: Duration) -> Result<(), BenchError> {
        let end = Instant::now() + time;
        while self.stock_end < STOCK_MIN || self.stock_end < STOCK_MAX && Instant::now() < end {
            self.create(self.stock_end)?;
            self.stock_end += 1;
        }
        Ok(())
    }

    /// Fills a file with the pattern, and looks at what the first requests do to it: comparing the measured ones would cost more
    /// than serving them.
    fn prepare_data(
        &mut self,
        walk: Walk,
        file_bytes: u64,
        io_bytes: u32,
    ) -> Result<(), BenchError> {
        self.prepare_file()?;
        let mut offset = 0;
        while offset < file_bytes {
            let len = u64::from(FILL_BYTES).min(file_bytes - offset);
            let len = u32::try_from(len).expect("at most FILL_BYTES");
            self.data.resize(len as usize, 0);
            pattern::fill(offset, &mut self.data);
            self.write(Range { offset, len })?;
            offset += u64::from(len);
        }
        let first = walk.clone().next();
        self.read(first, Some(first.offset))?;
        if self.request == Request3::Write {
            self.data.resize(io_bytes as usize, 0);
            pattern::fill(first.offset + WRITTEN_SHIFT, &mut self.data);
            self.write(first)?;
            self.read(first, Some(first.offset + WRITTEN_SHIFT))?;
        }
        self.walk = Some(walk);
        Ok(())
    }

    fn getattr(&mut self) -> Result<(), BenchError> {
        let args = GetAttrArgs {
            object: Opaque(&self.file.handle),
        };
        let attrs = self.wire.ask(&args, &[])?.obj_attributes;
        if attrs.file_type != FileType3::Reg || attrs.fileid != self.file.fileid {
            return Err(BenchError::nfs("GETATTR")("attributes of another file"));
        }
        Ok(())
    }

    fn lookup(&mut self) -> Result<(), BenchError> {
        let name = self.name(0);
        let args = LookupArgs {
            what: DirOpArgs {
                dir: Opaque(&self.root),
                name: Opaque(name.as_bytes()),
            },
        };
        let found = self.wire.ask(&args, &[])?;
        if found.object.0 != self.file.handle || found.obj_attributes.is_none() {
            return Err(BenchError::nfs("LOOKUP")(
                "another file, or no attributes of it",
            ));
        }
        Ok(())
    }

    fn remove(&mut self, number: u64) -> Result<(), BenchError> {
        let name = self.name(number);
        let args = RemoveArgs {
            object: DirOpArgs {
                dir: Opaque(&self.root),
                name: Opaque(name.as_bytes()),
            },
        };
        self.wire.ask(&args, &[]).map(drop)
    }

    /// Reads a range, and compares it with the pattern from there on.
    fn read(&mut self, range: Range, pattern_at: Option<u64>) -> Result<(), BenchError> {
        let args = ReadArgs {
            file: Opaque(&self.file.handle),
            offset: range.offset,
            count: range.len,
        };
        let read = self.wire.ask(&args, &[])?;
        if read.count != range.len || read.data.0.len() != range.len as usize {
            return Err(BenchError::nfs("READ")("fewer bytes than asked for"));
        }
        pattern_at.map_or(Ok(()), |at| pattern::check(at, read.data.0))
    }

    fn write(&mut self, range: Range) -> Result<(), BenchError> {
        let args = WriteArgsPayload {
            file: Opaque(&self.file.handle),
            offset: range.offset,
            stable: StableHow::Unstable,
            len: range.len,
        };
        if self.wire.ask(&args, &self.data)?.count != range.len {
            return Err(BenchError::nfs("WRITE")("less was written than asked"));
        }
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn range(&mut self) -> Range {
        let walk = self.walk.as_mut();
        walk.expect("it was prepared for data").next()
    }
}

impl Requester for Asker {
    fn request(&mut self) -> Result<u64, BenchError> {
        match self.request {
            Request3::GetAttr => self.getattr()?,
            Request3::Lookup => self.lookup()?,
            Request3::Create => {
                let number = self.number();
                self.create(number)?;
            }
            Request3::Remove => {
                let number = self.number();
                self.remove(number)?;
            }
            Request3::Read => {
                let range = self.range();
                self.read(range, None)?;
                return Ok(u64::from(range.len));
            }
            Request3::Write => {
                let range = self.range();
                self.write(range)?;
                return Ok(u64::from(range.len));
            }
        }
        Ok(0)
    }

    fn is_done(&mut self) -> bool {
        self.request == Request3::Remove && self.next >= self.stock_end
    }
}

#[cfg(test)]
mod tests {
    //! Which replies are none to a request, and names.
    use super::*;
    use nfs3::procs::{ReadOk, ReadRes, WriteOk, WriteRes};
    use nfs3::{Nfs3Status, WccData};
    use rpc::OpaqueAuth;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use xdr::{Encode, Encoder};

    fn asker(wire: Wire3, request: Request3) -> Asker {
        Asker {
            wire,
            request,
            root: b"root".to_vec(),
            file: File3::default(),
            index: 15,
            next: 0,
            stock_end: 0,
            walk: Some(Walk::new(64, 8, 0, 1).unwrap()),
            data: vec![7; 8],
        }
    }

    /// What a request comes to when a server replies with a result.
    fn asked(request: Request3, result: &dyn Encode) -> Result<u64, BenchError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut body = Encoder::new();
        result.encode(&mut body);
        let body = body.into_bytes();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = [0; 8];
                stream.read_exact(&mut head).unwrap();
                let xid = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
                let mut e = Encoder::new();
                rpc::begin_success(&mut e, xid, OpaqueAuth::NONE);
                let reply = [e.into_bytes(), body].concat();
                let mark = u32::try_from(reply.len()).unwrap() | 1 << 31;
                stream.write_all(&mark.to_be_bytes()).unwrap();
                stream.write_all(&reply).unwrap();
                // The rest of the request, up to the end of the client.
                let _ = stream.read_to_end(&mut Vec::new());
            });
            asker(Wire3::connect(address).unwrap(), request).request()
        })
    }

    fn read(count: u32, data: &[u8]) -> ReadRes<'_> {
        ReadRes::Ok(ReadOk {
            file_attributes: None,
            count,
            eof: false,
            data: Opaque(data),
        })
    }

    fn written(count: u32) -> WriteRes {
        WriteRes::Ok(WriteOk {
            file_wcc: WccData::default(),
            count,
            committed: StableHow::Unstable,
            verf: [0; 8],
        })
    }

    #[test]
    fn a_failure_or_fewer_bytes_end_the_run() {
        assert_eq!(asked(Request3::Read, &read(8, &[1; 8])).unwrap(), 8);
        assert_eq!(asked(Request3::Write, &written(8)).unwrap(), 8);
        let stale = Nfs3Status::Stale;
        let refused: [(Request3, &dyn Encode, &str); 6] = [
            (Request3::Read, &read(8, &[1; 4]), "fewer bytes"),
            (Request3::Read, &read(4, &[1; 8]), "fewer bytes"),
            (Request3::Read, &ReadRes::Fail(stale, None), stale.name()),
            (Request3::Write, &written(4), "less was written"),
            (
                Request3::Write,
                &WriteRes::Fail(stale, WccData::default()),
                stale.name(),
            ),
            // The result of another procedure leaves bytes behind it.
            (Request3::Write, &read(8, &[1; 64]), "WRITE"),
        ];
        for (request, result, said) in refused {
            let error = asked(request, result).unwrap_err().to_string();
            assert!(error.contains(said), "{said:?} is not in {error:?}");
        }
    }

    #[test]
    fn names_differ_between_connections_and_have_twelve_bytes() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let wire = Wire3::connect(listener.local_addr().unwrap()).unwrap();
        let mut asker = asker(wire, Request3::Create);
        let names = [0, STOCK_MAX].map(|number| asker.name(number));
        assert_eq!(names, ["file00f00000", "file00f02710"]);
        asker.index = 16;
        assert_eq!(asker.name(0), "file01000000");
    }
}
