//! NSM version 1, the protocol of the status monitor, after the X/Open XNFS document. A host asks its own monitor to watch
//! another host. A monitor that starts again tells all that it watched with NOTIFY.
//!
//! Owns types and limits of the program. It does not know who watches whom.

use xdr::Opaque;

/// ONC RPC program number of NSM.
pub const PROGRAM: u32 = 100_024;
/// The only version.
pub const VERSION: u32 = 1;
/// Longest name of a host in bytes (`SM_MAXSTRLEN`).
pub const NAME_BYTES_MAX: u32 = 1024;
/// Bytes that a monitor gives back unchanged (`SM_PRIV_SIZE`).
pub const PRIV_BYTES: usize = 16;

/// Name of a host. Its bytes need not be UTF-8.
pub type HostName<'a> = Opaque<'a, NAME_BYTES_MAX>;

xdr::xdr_enum! {
    /// A procedure of NSM version 1.
    pub enum NsmProc {
        /// `SM_NULL`: nothing; answers that the monitor is there.
        Null = 0,
        /// `SM_STAT`: whether a host could be watched.
        Stat = 1,
        /// `SM_MON`: watch a host.
        Mon = 2,
        /// `SM_UNMON`: watch a host no more.
        Unmon = 3,
        /// `SM_UNMON_ALL`: watch no host any more for this caller.
        UnmonAll = 4,
        /// `SM_SIMU_CRASH`: act as if the host had restarted.
        SimuCrash = 5,
        /// `SM_NOTIFY`: from monitor to monitor; a host has restarted.
        Notify = 6,
    }

    /// `res`: whether the monitor watches.
    pub enum NsmRes {
        /// `STAT_SUCC`.
        Succ = 0,
        /// `STAT_FAIL`.
        Fail = 1,
    }
}

impl NsmProc {
    /// The protocol's name, without `SM_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Stat => "STAT",
            Self::Mon => "MON",
            Self::Unmon => "UNMON",
            Self::UnmonAll => "UNMON_ALL",
            Self::SimuCrash => "SIMU_CRASH",
            Self::Notify => "NOTIFY",
        }
    }
}

xdr::xdr_struct! {
    /// `sm_name`: arguments of STAT.
    #[derive(Copy)]
    pub struct SmName<'a> {
        /// The host that is asked about.
        pub mon_name: HostName<'a>,
    }

    /// `my_id`: whom the monitor calls when a host has restarted. The protocol has `int` for numbers of RPC, which are unsigned.
    #[derive(Copy)]
    pub struct MyId<'a> {
        /// The host of the caller.
        pub my_name: HostName<'a>,
        /// Its RPC program.
        pub my_prog: u32,
        /// Version of that program.
        pub my_vers: u32,
        /// Procedure of that program; it takes an [`SmStatus`].
        pub my_proc: u32,
    }

    /// `mon_id`: who watches whom; arguments of UNMON.
    #[derive(Copy)]
    pub struct MonId<'a> {
        /// The host that is watched.
        pub mon_name: HostName<'a>,
        /// The program that is to be told.
        pub my_id: MyId<'a>,
    }

    /// `mon`: arguments of MON.
    #[derive(Copy)]
    pub struct Mon<'a> {
        /// Who watches whom.
        pub mon_id: MonId<'a>,
        /// Given back in [`SmStatus`].
        pub private: [u8; PRIV_BYTES],
    }

    /// `sm_stat_res`: result of STAT and MON.
    #[derive(Copy)]
    pub struct SmStatRes {
        /// Whether the monitor watches.
        pub res_stat: NsmRes,
        /// State of the monitor's own host.
        pub state: i32,
    }

    /// `sm_stat`: result of UNMON and UNMON_ALL.
    #[derive(Copy)]
    pub struct SmStat {
        /// State of the monitor's own host: it rises with each restart, and is odd while the host is up.
        pub state: i32,
    }

    /// `stat_chge`: arguments of NOTIFY.
    #[derive(Copy)]
    pub struct StatChge<'a> {
        /// The host that has restarted.
        pub mon_name: HostName<'a>,
        /// Its new state.
        pub state: i32,
    }

    /// `status`: what a monitor sends to the procedure in [`MyId`].
    #[derive(Copy)]
    pub struct SmStatus<'a> {
        /// The host that has restarted.
        pub mon_name: HostName<'a>,
        /// Its new state.
        pub state: i32,
        /// From [`Mon`].
        pub private: [u8; PRIV_BYTES],
    }
}

bodies! {
    /// Arguments of a call.
    pub enum NsmCall<'a> of NsmProc {
        /// None.
        Null,
        /// The host that is asked about.
        Stat(body: SmName<'a>),
        /// Whom to watch, for whom.
        Mon(body: Mon<'a>),
        /// Whom to watch no more.
        Unmon(body: MonId<'a>),
        /// For whom to watch nobody any more.
        UnmonAll(body: MyId<'a>),
        /// None.
        SimuCrash,
        /// The host that has restarted.
        Notify(body: StatChge<'a>),
    }

    /// Results of a call.
    pub enum NsmReply of NsmProc {
        /// None.
        Null,
        /// Whether the host could be watched.
        Stat(body: SmStatRes),
        /// Whether the host is watched.
        Mon(body: SmStatRes),
        /// State of the monitor's own host.
        Unmon(body: SmStat),
        /// As `Unmon`.
        UnmonAll(body: SmStat),
        /// None.
        SimuCrash,
        /// None.
        Notify,
    }
}
