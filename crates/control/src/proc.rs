//! Procedures: numbers, who may call them, and from bytes to typed calls.

use rpc::AcceptError;
use xdr::{Decode, DecodeError, Encode};

use crate::to_ds::{
    CloneObjectArgs, CommitObjectsArgs, CommitOk, ExpelArgs, FenceArgs, FloorsArgs, ItemStatuses,
    KeysArgs, MapArgs, MapOk, PunchArgs, PunchOk, RemoveObjectsArgs, ReserveArgs, ReserveOk,
    RowsArgs, RowsOk, SetSizeArgs, ShutdownArgs, StatArgs, StatOk, YieldArgs,
};
use crate::to_mds::{
    FilledArgs, HeartbeatArgs, HeartbeatOk, HelloArgs, HelloOk, JoinArgs, JoinOk, LeftArgs,
    OutArgs, RowsTold, SizeArgs, SizeOk, StoppingArgs, WroteArgs,
};
use crate::{PROGRAM, VERSION_MAX, VERSION_MIN};

xdr::xdr_enum! {
    /// Procedure numbers: from 1 to the MDS, from 32 to a data server. 0 does nothing, as everywhere.
    pub enum Proc {
        /// Does nothing; either side may call it.
        Null = 0,
        /// A new data server.
        Join = 1,
        /// First call of a connection.
        Hello = 2,
        /// Renews the lease.
        Heartbeat = 3,
        /// Size of a file.
        Size = 4,
        /// Stable writes.
        Wrote = 5,
        /// A member of places fails.
        Out = 6,
        /// A member of a place has all of it.
        Filled = 7,
        /// A member of a place has removed its parts.
        Left = 8,
        /// A data server is about to stop.
        Stopping = 9,
        /// Sizes and times of objects.
        Stat = 33,
        /// Cuts objects.
        SetSize = 34,
        /// Makes writes durable.
        Commit = 35,
        /// Removes files.
        Remove = 36,
        /// Raises floors.
        Fence = 37,
        /// Replaces the keys.
        Keys = 38,
        /// A page of missed floors.
        Floors = 39,
        /// Puts a data server out of the cluster.
        Expel = 40,
        /// Stops a data server.
        Shutdown = 41,
        /// Where an object has data.
        Map = 42,
        /// Makes a hole.
        Punch = 43,
        /// Takes storage.
        Reserve = 44,
        /// Shares storage.
        Clone = 45,
        /// The members of places, which hold their parts.
        Rows = 46,
        /// A primary lets go of places.
        Yield = 47,
    }
}

/// Who may call a procedure, as proved by the certificate of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedCaller {
    /// Anyone, even without a certificate: the token inside decides.
    Anyone,
    /// A data server of the cluster.
    DataServer,
    /// The MDS.
    MetadataServer,
}

impl Proc {
    /// Who may call it.
    #[must_use]
    pub const fn caller(self) -> AllowedCaller {
        match self {
            Self::Null | Self::Join => AllowedCaller::Anyone,
            Self::Hello
            | Self::Heartbeat
            | Self::Size
            | Self::Wrote
            | Self::Out
            | Self::Filled
            | Self::Left
            | Self::Stopping => AllowedCaller::DataServer,
            Self::Stat
            | Self::SetSize
            | Self::Commit
            | Self::Remove
            | Self::Fence
            | Self::Keys
            | Self::Floors
            | Self::Expel
            | Self::Shutdown
            | Self::Map
            | Self::Punch
            | Self::Reserve
            | Self::Clone
            | Self::Rows
            | Self::Yield => AllowedCaller::MetadataServer,
        }
    }
}

/// The arguments of a procedure, which tell the procedure and its result.
pub trait Request: Encode + for<'a> Decode<'a> {
    /// The procedure.
    const PROC: Proc;
    /// Its result when it is done; on the wire inside an [`crate::Answer`].
    type Ok: Encode + for<'a> Decode<'a>;
}

/// Why a call was not understood; [`CallDecodeError::accept_error`] is what RPC answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDecodeError {
    /// Another program.
    Program(u32),
    /// A version that we do not speak.
    Version(u32),
    /// A procedure that this side does not have.
    Procedure(u32),
    /// Arguments that are not those of the procedure.
    Arguments(Proc, DecodeError),
}

impl CallDecodeError {
    /// The `accept_stat` of the reply (RFC 5531 §9).
    #[must_use]
    pub const fn accept_error(&self) -> AcceptError {
        match self {
            Self::Program(_) => AcceptError::ProgUnavail,
            Self::Version(_) => AcceptError::ProgMismatch {
                low: VERSION_MIN,
                high: VERSION_MAX,
            },
            Self::Procedure(_) => AcceptError::ProcUnavail,
            Self::Arguments(..) => AcceptError::GarbageArgs,
        }
    }
}

impl std::fmt::Display for CallDecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program(v) => write!(f, "unknown program {v:#x}"),
            Self::Version(v) => write!(f, "unknown version {v} of the control program"),
            Self::Procedure(v) => write!(f, "unknown procedure {v} of the control program"),
            Self::Arguments(proc, e) => write!(f, "bad arguments of {proc:?}: {e}"),
        }
    }
}

impl std::error::Error for CallDecodeError {}

/// Checks the program and version of a call header.
///
/// # Errors
/// [`CallDecodeError::Program`] or [`CallDecodeError::Version`].
pub const fn admit(program: u32, version: u32) -> Result<(), CallDecodeError> {
    if program != PROGRAM {
        return Err(CallDecodeError::Program(program));
    }
    if version < VERSION_MIN || version > VERSION_MAX {
        return Err(CallDecodeError::Version(version));
    }
    Ok(())
}

macro_rules! calls {
    (
        $(#[$meta:meta])* $name:ident:
        $( $(#[$vmeta:meta])* $variant:ident($args:ident) => $ok:ty ),* $(,)?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name {
            /// Does nothing.
            Null,
            $( $(#[$vmeta])* $variant($args), )*
        }

        impl $name {
            /// The call of a procedure number and its argument bytes.
            ///
            /// # Errors
            /// [`CallDecodeError::Procedure`] or [`CallDecodeError::Arguments`]; bytes after the arguments are refused too.
            pub fn decode(procedure: u32, args: &[u8]) -> Result<Self, CallDecodeError> {
                let bad = |proc| move |e| CallDecodeError::Arguments(proc, e);
                match Proc::from_u32(procedure) {
                    Some(Proc::Null) => {
                        xdr::decode_all::<()>(args).map_err(bad(Proc::Null))?;
                        Ok(Self::Null)
                    }
                    $( Some(Proc::$variant) => {
                        xdr::decode_all(args).map(Self::$variant).map_err(bad(Proc::$variant))
                    } )*
                    _ => Err(CallDecodeError::Procedure(procedure)),
                }
            }

            /// The procedure.
            #[must_use]
            pub const fn proc(&self) -> Proc {
                match self {
                    Self::Null => Proc::Null,
                    $( Self::$variant(_) => Proc::$variant, )*
                }
            }
        }

        $( impl Request for $args {
            const PROC: Proc = Proc::$variant;
            type Ok = $ok;
        } )*
    };
}

calls! {
    /// A call to the MDS.
    ToMds:
    /// A new data server.
    Join(JoinArgs) => JoinOk,
    /// First call of a connection.
    Hello(HelloArgs) => HelloOk,
    /// Renews the lease.
    Heartbeat(HeartbeatArgs) => HeartbeatOk,
    /// Size of a file.
    Size(SizeArgs) => SizeOk,
    /// Stable writes.
    Wrote(WroteArgs) => ItemStatuses,
    /// A member of places fails.
    Out(OutArgs) => RowsTold,
    /// A member of a place has all of it.
    Filled(FilledArgs) => RowsTold,
    /// A member of a place has removed its parts.
    Left(LeftArgs) => (),
    /// A data server is about to stop.
    Stopping(StoppingArgs) => (),
}

calls! {
    /// A call to a data server.
    ToDs:
    /// Sizes and times of objects.
    Stat(StatArgs) => StatOk,
    /// Cuts objects.
    SetSize(SetSizeArgs) => ItemStatuses,
    /// Makes writes durable.
    Commit(CommitObjectsArgs) => CommitOk,
    /// Removes files.
    Remove(RemoveObjectsArgs) => ItemStatuses,
    /// Raises floors.
    Fence(FenceArgs) => (),
    /// Replaces the keys.
    Keys(KeysArgs) => (),
    /// A page of missed floors.
    Floors(FloorsArgs) => (),
    /// Puts a data server out of the cluster.
    Expel(ExpelArgs) => (),
    /// Stops a data server.
    Shutdown(ShutdownArgs) => (),
    /// Where an object has data.
    Map(MapArgs) => MapOk,
    /// Makes a hole.
    Punch(PunchArgs) => PunchOk,
    /// Takes storage.
    Reserve(ReserveArgs) => ReserveOk,
    /// Shares storage.
    Clone(CloneObjectArgs) => (),
    /// The members of places, which hold their parts.
    Rows(RowsArgs) => RowsOk,
    /// A primary lets go of places.
    Yield(YieldArgs) => (),
}
