//! Bodies of the flexible files layout (RFC 8435, `LAYOUT4_FLEX_FILES`): device, layout, and what a client reports.
//!
//! They travel as opaque bytes in the outer types of [`crate::layout`] and [`crate::ops`]. The module knows bytes, limits
//! and what the RFC forbids in one body; it may call [`crate::ops`] for shared types, and never decides where data go.
//!
//! LAYOUTCOMMIT has no body of this layout: `lou_body` is empty (RFC 8435 §5.2).

use xdr::{Decode, DecodeError, DecodeErrorKind, Decoder, Encode, Encoder, List};

use crate::{
    DeviceId, FileHandle, NetAddr, NfsTime, Owner, Stateid,
    layout::{LAYOUT_FLEX_FILES, MULTIPATH_ADDRS_MAX},
    ops::{DeviceError, IoInfo, LAYOUT_ERRORS_MAX, LayoutErrorArgs, LayoutStatsArgs},
};

/// Most versions of NFS of a device. RFC 8435 §4.1 has six: 3, 4.0, and both couplings of 4.1 and 4.2.
pub const VERSIONS_MAX: u32 = 8;
/// Most mirrors of a layout. Linux fails the write of a page that has more.
pub const MIRRORS_MAX: u32 = 16;
/// Most data servers of a mirror, the stripes of the layout: as many as a files layout can name
/// ([`crate::layout::MULTIPATH_LISTS_MAX`]). Many versions of Linux take only one.
pub const DATA_SERVERS_MAX: u32 = 256;
/// Longest file handle of NFSv3 in bytes (`NFS3_FHSIZE`, RFC 1813 §2.4). It is below [`crate::FH_BYTES_MAX`].
pub const NFS3_FH_BYTES_MAX: usize = 64;
/// Most reports of errors of one LAYOUTRETURN; Linux sends at most 20.
pub const IO_ERRORS_MAX: u32 = 256;
/// Most reports of statistics of one LAYOUTRETURN; Linux sends at most 4, one a device.
pub const IO_STATS_MAX: u32 = 256;

/// `ff_flags4`: the client need not send LAYOUTCOMMIT.
pub const FF_FLAGS_NO_LAYOUTCOMMIT: u32 = 0x1;
/// `ff_flags4`: the client should not send I/O to the MDS. A hint only (RFC 8435 §5.1.2).
pub const FF_FLAGS_NO_IO_THRU_MDS: u32 = 0x2;
/// `ff_flags4`: a client should read with a layout for reading, not with one for writing.
pub const FF_FLAGS_NO_READ_IO: u32 = 0x4;
/// `ff_flags4`: a client writes to any one mirror, and that data server to the others (RFC 8435 §8.2.1).
pub const FF_FLAGS_WRITE_ONE_MIRROR: u32 = 0x8;

/// What a client may leave out (`ff_flags4`, RFC 8435 §5.1). Unknown bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FlexFlags(pub u32);

impl FlexFlags {
    /// Whether the client need not send LAYOUTCOMMIT.
    #[must_use]
    pub const fn is_no_layoutcommit(self) -> bool {
        self.0 & FF_FLAGS_NO_LAYOUTCOMMIT != 0
    }

    /// Whether the client should not send I/O to the MDS.
    #[must_use]
    pub const fn is_no_io_thru_mds(self) -> bool {
        self.0 & FF_FLAGS_NO_IO_THRU_MDS != 0
    }

    /// Whether the client should not read with a layout for writing.
    #[must_use]
    pub const fn is_no_read_io(self) -> bool {
        self.0 & FF_FLAGS_NO_READ_IO != 0
    }

    /// Whether the client writes to one mirror only.
    #[must_use]
    pub const fn is_write_one_mirror(self) -> bool {
        self.0 & FF_FLAGS_WRITE_ONE_MIRROR != 0
    }
}

impl Decode<'_> for FlexFlags {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u32().map(Self)
    }
}

impl Encode for FlexFlags {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.0);
    }
}

/// `ff_device_versions4`: one way to speak to a device (RFC 8435 §4.1). Decoding refuses NFSv3 with a minor version or
/// with tight coupling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlexDeviceVersion {
    /// 3 or 4. Others are kept: the RFC leaves them undefined, and a client passes over them.
    pub version: u32,
    /// 0 with version 3.
    pub minor_version: u32,
    /// Most bytes of a READ.
    pub rsize_bytes: u32,
    /// Most bytes of a WRITE.
    pub wsize_bytes: u32,
    /// Whether the device knows the stateids and users of the MDS; `false` with version 3.
    pub tightly_coupled: bool,
}

impl Decode<'_> for FlexDeviceVersion {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let offset = d.position();
        let out = Self {
            version: d.u32()?,
            minor_version: d.u32()?,
            rsize_bytes: d.u32()?,
            wsize_bytes: d.u32()?,
            tightly_coupled: d.bool()?,
        };
        if out.version == 3 && (out.minor_version != 0 || out.tightly_coupled) {
            return Err(invalid(
                "NFSv3 has no minor version and no tight coupling",
                offset,
            ));
        }
        Ok(out)
    }
}

impl Encode for FlexDeviceVersion {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.version);
        e.u32(self.minor_version);
        e.u32(self.rsize_bytes);
        e.u32(self.wsize_bytes);
        e.bool(self.tightly_coupled);
    }
}

/// `ff_device_addr4`: the body of a device address, one data server (RFC 8435 §4.1). Decoding refuses one without
/// addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexDeviceAddr {
    /// Its addresses, one or more. Leave out worse ones: a client may use any (RFC 8435 §4.2).
    pub net_addrs: List<NetAddr, MULTIPATH_ADDRS_MAX>,
    /// How to speak to it. Linux uses the first only, and no device of which it does not know each version.
    pub versions: List<FlexDeviceVersion, VERSIONS_MAX>,
}

impl FlexDeviceAddr {
    /// The handle of `server`, which must be on this device, for the version at `version_index`.
    ///
    /// `None` when there is no such version, when the numbers of handles and versions differ (RFC 8435 §5.1 demands
    /// that they do not), or when NFSv3 cannot have so long a handle.
    #[must_use]
    pub fn handle_of<'a>(
        &self,
        server: &'a FlexDataServer,
        version_index: usize,
    ) -> Option<&'a FileHandle> {
        let version = self.versions.0.get(version_index)?;
        let handle = server.file_handles.0.get(version_index)?;
        let is_matched = server.file_handles.0.len() == self.versions.0.len();
        let is_fit = version.version != 3 || handle.0.len() <= NFS3_FH_BYTES_MAX;
        (is_matched && is_fit).then_some(handle)
    }
}

impl Decode<'_> for FlexDeviceAddr {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let offset = d.position();
        let out = Self {
            net_addrs: List::decode(d)?,
            versions: List::decode(d)?,
        };
        if out.net_addrs.0.is_empty() {
            return Err(invalid("a device has no address", offset));
        }
        Ok(out)
    }
}

impl Encode for FlexDeviceAddr {
    fn encode(&self, e: &mut Encoder) {
        self.net_addrs.encode(e);
        self.versions.encode(e);
    }
}

xdr::xdr_struct! {
    /// `ff_data_server4`: a data file (RFC 8435 §5.1).
    pub struct FlexDataServer {
        /// The device.
        pub device_id: DeviceId,
        /// How well the MDS thinks of it: higher is better. The network of the client does not count (RFC 8435 §8.1).
        pub efficiency: u32,
        /// [`Stateid::ANONYMOUS`] with loose coupling, else one that the device knows.
        pub stateid: Stateid,
        /// One for each of [`FlexDeviceAddr::versions`], in that order.
        pub file_handles: List<FileHandle, VERSIONS_MAX>,
        /// Whom the client says it is, with loose coupling ([`owner_of_id`]). With a layout for reading no user of the
        /// data file (RFC 8435 §2.2.2).
        pub user: Owner,
        /// Its group, which may read.
        pub group: Owner,
    }

    /// `ff_mirror4`: one copy of the data (RFC 8435 §5.1).
    pub struct FlexMirror {
        /// One for each stripe.
        pub data_servers: List<FlexDataServer, DATA_SERVERS_MAX>,
    }
}

/// The user or group of an id: decimal, without leading zeros (RFC 8435 §5.1). Linux takes no other form.
#[must_use]
pub fn owner_of_id(id: u32) -> Owner {
    Owner::from(id.to_string().as_bytes())
}

/// The id of a user or group. `None` for a name, and for digits after a leading zero, which some clients take as octal.
#[must_use]
pub fn id_of_owner(owner: &Owner) -> Option<u32> {
    let digits = owner.0.as_slice();
    let is_plain = digits.iter().all(u8::is_ascii_digit);
    if !is_plain || (digits.first() == Some(&b'0') && digits.len() > 1) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// `ff_layout4`: the body of a layout (RFC 8435 §5.1). Stripes are sparse: the offset in a data file is that in the file
/// (§6).
///
/// Decoding refuses a layout without mirrors, mirrors without or with different numbers of data servers, and several
/// stripes with a unit of 0. So neither an index nor a division needs to be checked at I/O.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlexLayout {
    /// Bytes of a stripe unit; 0 with one stripe.
    pub stripe_unit_bytes: u64,
    /// The copies. A client writes to all of them, unless [`FF_FLAGS_WRITE_ONE_MIRROR`] is set (RFC 8435 §8.2).
    pub mirrors: List<FlexMirror, MIRRORS_MAX>,
    /// What a client may leave out.
    pub flags: FlexFlags,
    /// Seconds between two LAYOUTSTATS that the server would like; 0 is no wish.
    pub stats_collect_hint_seconds: u32,
}

impl FlexLayout {
    /// Data servers of each mirror; 0 without mirrors, which decoding refuses.
    #[must_use]
    pub fn stripe_count(&self) -> usize {
        self.mirrors.0.first().map_or(0, |m| m.data_servers.0.len())
    }

    fn check(&self) -> Result<(), &'static str> {
        let stripes = self.stripe_count();
        if stripes == 0 {
            return Err("a layout has no data server");
        }
        let widths = self.mirrors.0.iter().map(|m| m.data_servers.0.len());
        if widths.into_iter().any(|width| width != stripes) {
            return Err("mirrors differ in their stripes");
        }
        if stripes > 1 && self.stripe_unit_bytes == 0 {
            return Err("stripes have no size");
        }
        Ok(())
    }
}

impl Decode<'_> for FlexLayout {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let offset = d.position();
        let out = Self {
            stripe_unit_bytes: d.u64()?,
            mirrors: List::decode(d)?,
            flags: FlexFlags::decode(d)?,
            stats_collect_hint_seconds: d.u32()?,
        };
        out.check().map_err(|why| invalid(why, offset))?;
        Ok(out)
    }
}

impl Encode for FlexLayout {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.stripe_unit_bytes);
        self.mirrors.encode(e);
        self.flags.encode(e);
        e.u32(self.stats_collect_hint_seconds);
    }
}

xdr::xdr_struct! {
    /// `ff_ioerr4`: errors of a range (RFC 8435 §9.1.1). LAYOUTERROR has the same arguments (§10).
    pub struct FlexIoError {
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// The layout's. In a LAYOUTRETURN, Linux sends [`FlexDataServer::stateid`] instead: do not look it up there.
        pub stateid: Stateid,
        /// What went wrong, in numbers of NFSv4 whatever the device speaks. Unknown ones are kept.
        pub errors: List<DeviceError, LAYOUT_ERRORS_MAX>,
    }

    /// `ff_io_latency4`: reads, or writes with COMMITs (RFC 8435 §9.2.1). Sums since the layout's first I/O: a later
    /// report replaces an earlier one.
    #[derive(Copy, Default)]
    pub struct FlexIoLatency {
        /// Operations begun.
        pub ops_requested: u64,
        /// Their bytes.
        pub bytes_requested: u64,
        /// Operations done.
        pub ops_completed: u64,
        /// Their bytes.
        pub bytes_completed: u64,
        /// Bytes that errors kept back.
        pub bytes_not_delivered: u64,
        /// How long a call was outstanding: a duration, not a date.
        pub total_busy_time: NfsTime,
        /// Sum of the round trips: a duration, not a date.
        pub aggregate_completion_time: NfsTime,
    }

    /// `ff_layoutupdate4`: what a client adds to the statistics of a device (RFC 8435 §9.2.2). The body of
    /// `lsa_layoutupdate` in LAYOUTSTATS (§11), not of LAYOUTCOMMIT.
    pub struct FlexLayoutUpdate {
        /// Address of the device that was used.
        pub addr: NetAddr,
        /// Handle that was used.
        pub file_handle: FileHandle,
        /// Reads.
        pub read: FlexIoLatency,
        /// Writes.
        pub write: FlexIoLatency,
        /// Time that the statistics are about: a duration, not a date.
        pub duration: NfsTime,
        /// Whether the client's cache served the I/O.
        pub local: bool,
    }

    /// `ff_iostats4`: statistics of a range and a device (RFC 8435 §9.2.3).
    pub struct FlexIoStats {
        /// First byte.
        pub offset: u64,
        /// Bytes; all ones is to the end of the file.
        pub length: u64,
        /// The layout.
        pub stateid: Stateid,
        /// Reads.
        pub read: IoInfo,
        /// Writes.
        pub write: IoInfo,
        /// The device.
        pub device_id: DeviceId,
        /// What this layout type adds; here it is not opaque.
        pub layout_update: FlexLayoutUpdate,
    }

    /// `ff_layoutreturn4`: the body of a LAYOUTRETURN of a range (RFC 8435 §9.3). A server reads it with
    /// [`FlexLayoutReturn::of_body`].
    #[derive(Default)]
    pub struct FlexLayoutReturn {
        /// Errors, which the MDS has to repair (RFC 8435 §8.2.3).
        pub io_errors: List<FlexIoError, IO_ERRORS_MAX>,
        /// Statistics. Ranges may overlap.
        pub io_stats: List<FlexIoStats, IO_STATS_MAX>,
    }

    /// `ff_layouthint4`: what a client wants of a new file (RFC 8435 §12.1).
    #[derive(Copy, Default)]
    pub struct FlexLayoutHint {
        /// Wanted mirrors (`ff_mirrors_hint`).
        pub mirrors: Option<u32>,
    }
}

/// LAYOUTERROR is treated as the report of a LAYOUTRETURN (RFC 8435 §10).
impl From<LayoutErrorArgs> for FlexIoError {
    fn from(args: LayoutErrorArgs) -> Self {
        Self {
            offset: args.offset,
            length: args.length,
            stateid: args.stateid,
            errors: args.errors,
        }
    }
}

impl FlexLayoutReturn {
    /// The report in `lrf_body`. An empty body is an empty report: Linux sends it when it lacks memory.
    ///
    /// # Errors
    /// The body is malformed.
    pub fn of_body(body: &[u8]) -> Result<Self, DecodeError> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        xdr::decode_all(body)
    }
}

impl FlexIoStats {
    /// The statistics of a LAYOUTSTATS (RFC 8435 §11).
    ///
    /// # Errors
    /// The layout type is another one, or its body is malformed.
    pub fn of_layoutstats(args: &LayoutStatsArgs<'_>) -> Result<Self, DecodeError> {
        if args.layout_update.layout_type != LAYOUT_FLEX_FILES {
            return Err(invalid("these are statistics of another layout type", 0));
        }
        Ok(Self {
            offset: args.offset,
            length: args.length,
            stateid: args.stateid,
            read: args.read,
            write: args.write,
            device_id: args.device_id,
            layout_update: xdr::decode_all(args.layout_update.body.0)?,
        })
    }
}

fn invalid(why: &'static str, offset: usize) -> DecodeError {
    DecodeError {
        kind: DecodeErrorKind::Invalid(why),
        offset,
    }
}
