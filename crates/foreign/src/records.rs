//! Durable records of servers of others (`f`) and of groups over them (`h`) in the metadata store. Keys are a tag byte and a
//! big-endian number, values XDR; docs/formats.md has the table.
//!
//! Owns the form of the records and the transactions that write them. It decides nothing.

use bytes::Bytes;
use control::{ADDRESSES_MAX, NetAddr, Text};
use meta::{MetaError, MetaStore, Purpose, Seq, TxOutcome};
use nfs3_client::Fh;
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, List};

const SERVER: u8 = b'f';
const GROUP: u8 = b'h';
/// Records read in one step.
const PAGE: usize = 256;
/// Most servers that a cluster ever had, removed ones included.
pub const SERVERS_MAX: u32 = 256;
/// Most groups over them.
pub const GROUPS_MAX: u32 = 4096;
/// Longest "HOST:/PATH" in bytes.
pub const TARGET_BYTES_MAX: u32 = 1024;

xdr::xdr_enum! {
    /// Whether a server is used.
    pub enum ServerState {
        /// It is, also for new files.
        Active = 1,
        /// It has files, and gets no new ones.
        Draining = 2,
        /// It is called no more, and its id is never used again.
        Removed = 3,
    }
}

xdr::xdr_struct! {
    /// What FSINFO says of a server.
    #[derive(Copy)]
    pub struct ServerLimits {
        /// Most bytes of a READ.
        pub read_bytes_max: u32,
        /// Most bytes of a WRITE.
        pub write_bytes_max: u32,
        /// Largest file in bytes.
        pub file_bytes_max: u64,
    }

    /// Value of key `f` server id.
    pub struct ServerRecord {
        /// The server.
        pub id: u32,
        /// "HOST:/PATH", as the administrator named it.
        pub target: Text<TARGET_BYTES_MAX>,
        /// Where NFS is served, preferred first; clients are told these.
        pub addresses: List<NetAddr, ADDRESSES_MAX>,
        /// Handle of the exported directory.
        pub root: Fh,
        /// What FSINFO said when it was added.
        pub limits: ServerLimits,
        /// Whether it is used.
        pub state: ServerState,
        /// By what its export is known. Nothing is stored where that is not known.
        pub code: ExportCode,
    }

    /// Value of key `h` group id. It never changes.
    pub struct GroupRecord {
        /// The group, at least [`crate::FOREIGN_GROUP_MIN`].
        pub id: u32,
        /// Stripes.
        pub width: u32,
        /// Copies of each stripe.
        pub mirrors: u32,
        /// `servers[mirror * width + stripe]`.
        pub servers: List<u32, SERVERS_MAX>,
    }
}

/// The code in the identity file of an export; `None` for one that an earlier program has added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportCode(pub Option<u128>);

impl Encode for ExportCode {
    fn encode(&self, e: &mut Encoder) {
        if let Some(code) = self.0 {
            code.to_be_bytes().encode(e);
        }
    }
}

impl Decode<'_> for ExportCode {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.remaining() {
            0 => Ok(Self(None)),
            _ => Decode::decode(d).map(|bytes| Self(Some(u128::from_be_bytes(bytes)))),
        }
    }
}

fn key(tag: u8, id: u32) -> [u8; 5] {
    let mut key = [tag; 5];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

/// All records of a tag, ascending by number.
fn load<T: for<'a> Decode<'a>>(
    store: &dyn MetaStore,
    tag: u8,
    what: &str,
) -> Result<Vec<T>, MetaError> {
    let mut out = Vec::new();
    let (mut start, end) = (vec![tag], meta::prefix_end(&[tag]));
    loop {
        let page: Vec<(Bytes, Bytes)> = store.scan(&start, &end, PAGE)?;
        for (_, value) in &page {
            let record = xdr::decode_all(value);
            out.push(record.map_err(|e| MetaError::Corrupt(format!("{what}: {e}")))?);
        }
        match page.last() {
            Some((key, _)) if page.len() == PAGE => {
                start = key.to_vec();
                start.push(0);
            }
            _ => return Ok(out),
        }
    }
}

fn put(
    store: &dyn MetaStore,
    purpose: Purpose,
    key: &[u8],
    value: &impl Encode,
) -> Result<Seq, MetaError> {
    let value = xdr::encode_to_vec(value);
    store.transact(&mut |tx| {
        tx.purpose(purpose);
        tx.put(key, &value);
        Ok(TxOutcome::Commit)
    })
}

pub(crate) fn load_servers(store: &dyn MetaStore) -> Result<Vec<ServerRecord>, MetaError> {
    load(store, SERVER, "foreign server")
}

/// Stores a server. Without its servers nothing can be removed.
pub(crate) fn put_server(store: &dyn MetaStore, record: &ServerRecord) -> Result<Seq, MetaError> {
    put(store, Purpose::Removal, &key(SERVER, record.id), record)
}

pub(crate) fn load_groups(store: &dyn MetaStore) -> Result<Vec<GroupRecord>, MetaError> {
    let groups = load::<GroupRecord>(store, GROUP, "foreign group")?;
    match groups.iter().all(GroupRecord::is_sound) {
        true => Ok(groups),
        false => Err(MetaError::Corrupt("foreign group: shape".to_owned())),
    }
}

pub(crate) fn put_group(store: &dyn MetaStore, record: &GroupRecord) -> Result<Seq, MetaError> {
    put(store, Purpose::Ordinary, &key(GROUP, record.id), record)
}

/// Forgets a group that no file lies on.
pub(crate) fn delete_group(store: &dyn MetaStore, id: u32) -> Result<Seq, MetaError> {
    store.transact(&mut |tx| {
        tx.purpose(Purpose::Removal);
        tx.delete(&key(GROUP, id));
        Ok(TxOutcome::Commit)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by it")]
mod tests {
    use super::*;
    use meta::MemStore;
    use xdr::OpaqueBuf;

    #[test]
    fn records_are_stored_as_the_documents_say_and_come_back() {
        let store = MemStore::default();
        let server = ServerRecord {
            id: 7,
            target: Text::cut("h:/d"),
            addresses: vec![NetAddr {
                netid: Text::cut("tcp"),
                uaddr: Text::cut("u"),
            }]
            .into(),
            root: OpaqueBuf(vec![9; 4]),
            limits: ServerLimits {
                read_bytes_max: 1,
                write_bytes_max: 2,
                file_bytes_max: 3,
            },
            state: ServerState::Draining,
            code: ExportCode(None),
        };
        let group = GroupRecord {
            id: 0x4000_0001,
            width: 1,
            mirrors: 2,
            servers: vec![7, 8].into(),
        };
        put_server(&store, &server).unwrap();
        put_group(&store, &group).unwrap();
        assert_eq!(load_servers(&store).unwrap(), [server]);
        assert_eq!(load_groups(&store).unwrap(), std::slice::from_ref(&group));
        let stored = meta::Read::get(&store, b"f\0\0\0\x07").unwrap().unwrap();
        let words = [
            b"\0\0\0\x07\0\0\0\x04h:/d\0\0\0\x01".to_vec(),
            b"\0\0\0\x03tcp\0\0\0\0\x01u\0\0\0".to_vec(),
            b"\0\0\0\x04\x09\x09\x09\x09\0\0\0\x01\0\0\0\x02".to_vec(),
            b"\0\0\0\0\0\0\0\x03\0\0\0\x02".to_vec(),
        ];
        assert_eq!(stored, words.concat());
        let coded = ServerRecord {
            code: ExportCode(Some(0x0102)),
            ..load_servers(&store).unwrap().remove(0)
        };
        put_server(&store, &coded).unwrap();
        assert_eq!(load_servers(&store).unwrap(), [coded]);
        let stored = meta::Read::get(&store, b"f\0\0\0\x07").unwrap().unwrap();
        let code = [&[0; 14][..], &[1, 2]].concat();
        assert_eq!(stored, [words.concat(), code].concat());
        let cut = GroupRecord { width: 2, ..group };
        put_group(&store, &cut).unwrap();
        assert!(matches!(load_groups(&store), Err(MetaError::Corrupt(_))));
    }
}
