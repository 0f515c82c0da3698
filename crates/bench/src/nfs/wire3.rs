//! The cheapest client of NFSv3: one blocking socket, one call at a time, buffers that are used again.
//!
//! It is to NFSv3 what [`WireSession`](super::wire::WireSession) is to NFSv4, and shares its socket. A failure of a call ends the run,
//! and so does a result with anything behind it.

use crate::BenchError;
use crate::bare::{PAYLOAD_BYTES_MAX, connect};
use crate::nfs::client::Owner;
use crate::nfs::rpc_socket::{Procedure, RpcSocket};
use crate::nfs::wire::HEAD_BYTES_MAX;
use nfs3::mount::{self, MntArgs, MntRes};
use nfs3::{ProcArgs, Res};
use std::net::SocketAddr;
use xdr::{Decode, Encode, Opaque};

/// MNT (RFC 1813 §5.2.1).
const MNT: Procedure = Procedure {
    program: mount::PROGRAM,
    version: mount::VERSION,
    number: mount::Proc::Mnt as u32,
};

/// A file handle of NFSv3.
pub(crate) type Fh = Vec<u8>;

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire3 {
    socket: RpcSocket,
}

impl Wire3 {
    /// Connects; calls are those of root.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub(crate) fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        let credential = Owner::new().identity().to_body();
        let reply_bytes_max = PAYLOAD_BYTES_MAX + HEAD_BYTES_MAX;
        Ok(Self {
            socket: RpcSocket::over(connect(address)?, credential, reply_bytes_max),
        })
    }

    /// The handle of an exported directory, by the MOUNT protocol at the same address.
    ///
    /// # Errors
    /// [`BenchError::Nfs`] when the server refuses, [`BenchError::Io`] when it does not answer.
    pub(crate) fn mount(&mut self, path: &[u8]) -> Result<Fh, BenchError> {
        let doing = "mount an export";
        let args = MntArgs {
            dirpath: Opaque(path),
        };
        let encode = |mut e| {
            args.encode(&mut e);
            e
        };
        let d = self.socket.call(MNT, encode, &[])?;
        match xdr::decode_all(d.rest()).map_err(BenchError::nfs(doing))? {
            MntRes::Ok(ok) => Ok(ok.fhandle.0.to_vec()),
            MntRes::Fail(status) => Err(BenchError::nfs(doing)(status)),
        }
    }

    /// Calls a procedure, with the payload that its arguments announce.
    ///
    /// # Errors
    /// As [`Self::mount`].
    pub(crate) fn ask<A: ProcArgs>(
        &mut self,
        args: &A,
        payload: &[u8],
    ) -> Result<A::Ok<'_>, BenchError> {
        let doing = A::PROC.name();
        let procedure = Procedure {
            program: nfs3::PROGRAM,
            version: nfs3::VERSION,
            number: A::PROC as u32,
        };
        let encode = |mut e| {
            args.encode(&mut e);
            e
        };
        let mut d = self.socket.call(procedure, encode, payload)?;
        let res: Res<A::Ok<'_>, A::Fail> = Res::decode(&mut d).map_err(BenchError::nfs(doing))?;
        d.finish().map_err(BenchError::nfs(doing))?;
        let failed = |(status, _)| BenchError::nfs::<nfs3::Nfs3Status>(doing)(status);
        res.into_result().map_err(failed)
    }
}
