//! Goal: nothing of a peer is above its limit, and lists of a server stay within the client's counts. Method: each limit
//! at its last value and one past it.

use xdr::{
    Chain, DecodeErrorKind, Encode, Encoder, List, Opaque, OpaqueBuf, decode_all, encode_to_vec,
};

use crate::mount::{DumpRes, ExportRes, MntArgs, MntRes};
use crate::procs::*;
use crate::*;

fn too_long(len: u32, limit: u32) -> DecodeErrorKind {
    DecodeErrorKind::TooLong { len, limit }
}

/// An opaque of `len` bytes.
fn opaque(len: u32) -> Vec<u8> {
    encode_to_vec(&OpaqueBuf::<{ u32::MAX }>(vec![b'x'; len as usize]))
}

#[test]
fn opaques_end_at_their_limits() {
    let kind = |bytes: &[u8]| decode_all::<GetAttrArgs<'_>>(bytes).err().map(|e| e.kind);
    assert_eq!(kind(&opaque(64)), None);
    assert_eq!(kind(&opaque(65)), Some(too_long(65, 64)));

    let kind = |len| {
        let bytes = [opaque(1), opaque(len)].concat();
        decode_all::<LookupArgs<'_>>(&bytes).err().map(|e| e.kind)
    };
    assert_eq!(kind(NAME_BYTES_MAX), None);
    assert_eq!(kind(NAME_BYTES_MAX + 1), Some(too_long(1025, 1024)));

    let kind = |len| {
        let bytes = [vec![0; 8], opaque(len)].concat();
        decode_all::<ReadLinkRes<'_>>(&bytes).err().map(|e| e.kind)
    };
    assert_eq!(kind(PATH_BYTES_MAX), None);
    assert_eq!(kind(PATH_BYTES_MAX + 1), Some(too_long(4097, 4096)));

    let kind = |len| {
        decode_all::<MntArgs<'_>>(&opaque(len))
            .err()
            .map(|e| e.kind)
    };
    assert_eq!(kind(1024), None);
    assert_eq!(kind(1025), Some(too_long(1025, 1024)));
}

#[test]
fn a_length_beyond_the_record_is_refused_before_its_bytes() {
    // A handle, offset and count of zero bytes, UNSTABLE, and more data than any record has.
    let bytes = [
        vec![0; 4 + 8 + 4 + 4],
        (IO_BYTES_MAX + 1).to_be_bytes().to_vec(),
    ]
    .concat();
    let err = decode_all::<WriteArgs<'_>>(&bytes).unwrap_err();
    assert_eq!(err.kind, too_long(IO_BYTES_MAX + 1, IO_BYTES_MAX));
    let bytes = [vec![0; 4 + 8 + 4 + 4], IO_BYTES_MAX.to_be_bytes().to_vec()].concat();
    let err = decode_all::<WriteArgs<'_>>(&bytes).unwrap_err();
    assert_eq!(err.kind, DecodeErrorKind::Truncated);
}

#[test]
fn unknown_discriminants_are_refused() {
    let bad =
        |kind: DecodeErrorKind, value| assert_eq!(kind, DecodeErrorKind::BadDiscriminant(value));
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_be_bytes()).collect() };
    bad(decode_all::<GetAttrRes>(&words(&[3])).unwrap_err().kind, 3);
    bad(
        decode_all::<MntRes<'_>>(&words(&[70])).unwrap_err().kind,
        70,
    );
    bad(decode_all::<SetTime3>(&words(&[3])).unwrap_err().kind, 3);
    let create = words(&[0, 0, 3]);
    bad(decode_all::<CreateArgs<'_>>(&create).unwrap_err().kind, 3);
    let mknod = words(&[0, 0, 8]);
    bad(decode_all::<MkNodArgs<'_>>(&mknod).unwrap_err().kind, 8);
    let write = words(&[0, 0, 0, 0, 3, 0]);
    bad(decode_all::<WriteArgs<'_>>(&write).unwrap_err().kind, 3);
    let wcc = words(&[0, 2]);
    let err = decode_all::<RemoveRes>(&wcc).unwrap_err();
    assert_eq!(err.kind, DecodeErrorKind::BadBool(2));
}

#[test]
fn lists_of_mount_end_at_their_limits() {
    let host = Opaque(b"h");
    let mounts = |len: u32| {
        let entry = mount::MountEntry {
            hostname: host,
            directory: Opaque(b"/"),
        };
        encode_to_vec(&DumpRes::from(vec![entry; len as usize]))
    };
    let limit = mount::MOUNTS_MAX;
    assert!(decode_all::<DumpRes<'_>>(&mounts(limit)).is_ok());
    let err = decode_all::<DumpRes<'_>>(&mounts(limit + 1)).unwrap_err();
    assert_eq!(err.kind, too_long(limit + 1, limit));

    let exports = |exports_len: u32, groups_len: u32| {
        let groups = Chain(vec![host; groups_len as usize]);
        let entry = mount::ExportEntry {
            dir: Opaque(b"/"),
            groups,
        };
        encode_to_vec(&ExportRes::from(vec![entry; exports_len as usize]))
    };
    let (limit, groups) = (mount::EXPORTS_MAX, mount::GROUPS_MAX);
    assert!(decode_all::<ExportRes<'_>>(&exports(limit, 1)).is_ok());
    let err = decode_all::<ExportRes<'_>>(&exports(limit + 1, 0)).unwrap_err();
    assert_eq!(err.kind, too_long(limit + 1, limit));
    assert!(decode_all::<ExportRes<'_>>(&exports(1, groups)).is_ok());
    let err = decode_all::<ExportRes<'_>>(&exports(1, groups + 1)).unwrap_err();
    assert_eq!(err.kind, too_long(groups + 1, groups));

    let flavors = mount::MntOk {
        fhandle: Opaque(b""),
        auth_flavors: List(vec![1; 33]),
    };
    let err = decode_all::<MntRes<'_>>(&encode_to_vec(&MntRes::Ok(flavors))).unwrap_err();
    assert_eq!(err.kind, too_long(33, mount::AUTH_FLAVORS_MAX));
}

#[test]
#[should_panic(expected = "a failure has another status than NFS3_OK")]
fn a_failure_with_the_status_of_a_success_is_a_bug() {
    let res: GetAttrRes = Res::Fail(Nfs3Status::Ok, ());
    let _ = encode_to_vec(&res);
}

const VERF: CookieVerf = *b"verifier";

fn attr() -> Fattr3 {
    let time = NfsTime3::default();
    Fattr3 {
        file_type: FileType3::Reg,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 0,
        used: 0,
        rdev: SpecData3::default(),
        fsid: 0,
        fileid: 0,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

#[test]
fn a_readdir_result_fills_its_count_and_no_more() {
    let names: [&[u8]; 4] = [b"a", b"four", b"fives", b"twelve bytes"];
    for dir_attributes in [None, Some(attr())] {
        // Past the size of the whole list.
        for count in 0..=300 {
            let mut e = Encoder::new();
            let Some(mut w) = DirListWriter::new(&mut e, &dir_attributes, VERF, count) else {
                assert!(e.is_empty());
                let smallest = 4 + 8 + 8 + if dir_attributes.is_some() { 84 } else { 0 };
                assert!(count < smallest);
                continue;
            };
            let entry = |name| Entry3 {
                fileid: 1,
                name: Opaque(name),
                cookie: 2,
            };
            let written = names.iter().take_while(|name| w.push(&entry(name))).count();
            assert_eq!(w.entries_count() as usize, written);
            w.finish(written == names.len());
            let bytes = e.into_bytes();
            assert!(
                bytes.len() <= count as usize,
                "{} above {count}",
                bytes.len()
            );
            let ok: ReadDirOk<'_> = decode_all(&bytes).unwrap();
            assert_eq!((ok.dir_attributes, ok.cookieverf), (dir_attributes, VERF));
            assert_eq!(
                ok.entries.0,
                names[..written]
                    .iter()
                    .map(|n| entry(n))
                    .collect::<Vec<_>>()
            );
            assert_eq!(ok.eof, written == names.len());
            // The next one would have been too much.
            let next = names.get(written).map(|name| entry(name).list_bytes());
            assert!(next.is_none_or(|next| bytes.len() + next > count as usize));
        }
    }
}

#[test]
fn the_size_of_an_entry_is_known_before_it_is_written() {
    let handle = Opaque(&[7; 64][..]);
    for name in [&b"abcd"[..], b"abcde"] {
        let entry = Entry3 {
            fileid: 1,
            name: Opaque(name),
            cookie: 2,
        };
        assert_eq!(entry.list_bytes(), 4 + encode_to_vec(&entry).len());
        for name_attributes in [None, Some(attr())] {
            for name_handle in [None, Some(handle), Some(Opaque(&b"fh"[..]))] {
                let entry = EntryPlus3 {
                    fileid: 1,
                    name: Opaque(name),
                    cookie: 2,
                    name_attributes,
                    name_handle,
                };
                assert_eq!(entry.list_bytes(), 4 + encode_to_vec(&entry).len());
            }
        }
    }
}

#[test]
fn a_readdirplus_result_keeps_both_counts() {
    // Of each entry, `dircount` counts 8 + 4 + 4 + 8 = 24 bytes, `maxcount` 4 + 24 + 4 + 84 + 4 + 4 + 4 = 128. Beside
    // the entries there are 4 + 8 + 8 = 20 bytes.
    let entry = EntryPlus3 {
        fileid: 1,
        name: Opaque(b"name"),
        cookie: 2,
        name_attributes: Some(attr()),
        name_handle: Some(Opaque(b"fh12")),
    };
    let table = [
        ("no room for an entry", 4096, 20 + 127, 0),
        ("maxcount binds", 4096, 20 + 2 * 128, 2),
        ("maxcount binds, one byte less", 4096, 20 + 2 * 128 - 1, 1),
        ("dircount binds", 3 * 24, 4096, 3),
        ("dircount binds, one byte less", 3 * 24 - 1, 4096, 2),
        ("dircount below one entry still gives one", 1, 4096, 1),
        ("dircount 0 does not bind", 0, 20 + 9 * 128, 9),
    ];
    for (case, dircount, maxcount, entries) in table {
        let mut e = Encoder::new();
        let mut w = DirListPlusWriter::new(&mut e, &None, VERF, dircount, maxcount).unwrap();
        let mut refused = false;
        for _ in 0..16 {
            refused |= !w.push(&entry);
        }
        assert!(refused, "{case}");
        assert_eq!(w.entries_count(), entries, "{case}");
        w.finish(false);
        let bytes = e.into_bytes();
        assert!(bytes.len() <= maxcount as usize, "{case}");
        let ok: ReadDirPlusOk<'_> = decode_all(&bytes).unwrap();
        assert_eq!(ok.entries.0, vec![entry; entries as usize], "{case}");
    }
    let mut e = Encoder::new();
    assert!(DirListPlusWriter::new(&mut e, &None, VERF, 0, 19).is_none());
    assert!(e.is_empty());
}

#[test]
fn a_client_bounds_the_entries_of_a_reply() {
    let entry = Entry3 {
        fileid: 1,
        name: Opaque(b""),
        cookie: 2,
    };
    let reply = |len: u32| {
        let mut e = Encoder::new();
        let mut w = DirListWriter::new(&mut e, &None, VERF, u32::MAX).unwrap();
        for _ in 0..len {
            assert!(w.push(&entry));
        }
        w.finish(true);
        let mut bytes = encode_to_vec(&Nfs3Status::Ok);
        bytes.extend(e.into_bytes());
        bytes
    };
    let read = |bytes: &[u8]| ReadDirArgs::decode_res(bytes).err().map(|e| e.kind);
    assert_eq!(read(&reply(ENTRIES_MAX)), None);
    let kind = too_long(ENTRIES_MAX + 1, ENTRIES_MAX);
    assert_eq!(read(&reply(ENTRIES_MAX + 1)), Some(kind));
}

#[test]
fn a_client_reads_the_result_that_belongs_to_its_arguments() {
    fn answer<A: ProcArgs>(_: &A, bytes: &[u8]) -> (Proc, Option<Nfs3Status>) {
        (A::PROC, A::decode_res(bytes).ok().map(|res| res.status()))
    }
    let payload = WriteArgsPayload {
        file: Opaque(b""),
        offset: 0,
        stable: StableHow::Unstable,
        len: 0,
    };
    let failed = [70_u32, 0, 0].map(u32::to_be_bytes).concat();
    let stale = Some(Nfs3Status::Stale);
    assert_eq!(answer(&payload, &failed), (Proc::Write, stale));
    let getattr = GetAttrArgs {
        object: Opaque(b""),
    };
    assert_eq!(answer(&getattr, &failed[..4]), (Proc::GetAttr, stale));
    assert_eq!(answer(&getattr, &failed), (Proc::GetAttr, None));
    let mut e = Encoder::new();
    getattr.encode(&mut e);
    assert_eq!(e.into_bytes(), [0; 4]);
}
