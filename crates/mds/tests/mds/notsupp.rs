//! Goal: NOTSUPP is answered by the operations that the README names, and by no other; docs/conformance.md says the same.
//! Method: send every operation number bare, without arguments, after PUTROOTFH; one that exists fails for another reason. The
//! documents are read as text, and for data servers the table of their operations is.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::Rig;
use nfs4::ops::PutRootFhRes;
use nfs4::{CbOpNum, CompoundBuilder, NfsStatus, OpArgs, OpNum};
use ropewalk_mds::NOT_SUPPORTED;
use std::collections::BTreeSet;
use std::path::Path;
use xdr::{Encode, Encoder};

const README: &str = include_str!("../../../../README.md");
const CONFORMANCE: &str = include_str!("../../../../docs/conformance.md");
const OPERATIONS_OF_DS: &str = include_str!("../../../ds/src/ops/mod.rs");
/// Operations that the engine executes for both roles.
const OPERATIONS_OF_ENGINE: &str = include_str!("../../../server/src/tables.rs");

macro_rules! bare {
    ($b:ident, $op:expr; $($variant:ident),*) => {
        match $op {
            $(OpNum::$variant => {
                struct This;
                impl Encode for This {
                    fn encode(&self, _: &mut Encoder) {}
                }
                impl OpArgs for This {
                    type Num = OpNum;
                    const OP: OpNum = OpNum::$variant;
                }
                $b.push(&This);
            })*
        }
    };
}

/// Appends an operation without its arguments.
pub(crate) fn push(b: &mut CompoundBuilder, op: OpNum) {
    bare!(b, op; Access, Close, Commit, Create, DelegPurge, DelegReturn, GetAttr, GetFh, Link, Lock, LockT, LockU,
        Lookup, LookupP, NVerify, Open, OpenAttr, OpenConfirm, OpenDowngrade, PutFh, PutPubFh, PutRootFh, Read, ReadDir,
        ReadLink, Remove, Rename, Renew, RestoreFh, SaveFh, SecInfo, SetAttr, SetClientId, SetClientIdConfirm, Verify,
        Write, ReleaseLockOwner, BackchannelCtl, BindConnToSession, ExchangeId, CreateSession, DestroySession,
        FreeStateid, GetDirDelegation, GetDeviceInfo, GetDeviceList, LayoutCommit, LayoutGet, LayoutReturn,
        SecInfoNoName, Sequence, SetSsv, TestStateid, WantDelegation, DestroyClientId, ReclaimComplete, Allocate, Copy,
        CopyNotify, Deallocate, IoAdvise, LayoutError, LayoutStats, OffloadCancel, OffloadStatus, ReadPlus, Seek,
        WriteSame, Clone, GetXattr, SetXattr, ListXattrs, RemoveXattr, Illegal);
}

#[tokio::test]
async fn notsupp_is_answered_where_the_table_says_and_nowhere_else() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    for op in OpNum::ALL
        .iter()
        .copied()
        .filter(|op| *op != OpNum::Illegal)
    {
        let done = client
            .run(|b| {
                push(b, OpNum::PutRootFh);
                push(b, op);
            })
            .await;
        let mut reply = done.results().unwrap();
        reply.take::<PutRootFhRes>().unwrap();
        let status = reply.next_result().unwrap().unwrap().status;
        assert_eq!(
            status == NfsStatus::NotSupp,
            NOT_SUPPORTED.contains(&op),
            "{op:?}: {status}"
        );
    }
}

#[test]
fn the_readme_lists_exactly_these_operations() {
    let start = README.find("## Operations that answer NOTSUPP").unwrap();
    let section = &README[start..];
    let section = &section[..section[3..].find("\n## ").unwrap() + 3];
    let list = section.lines().filter(|line| line.starts_with("- "));
    let words = list.flat_map(|line| line.split(|c: char| !(c.is_ascii_uppercase() || c == '_')));
    let known: BTreeSet<&str> = OpNum::ALL.iter().map(|op| op.name()).collect();
    let listed: BTreeSet<&str> = words.filter(|w| known.contains(w)).collect();
    let table: BTreeSet<&str> = NOT_SUPPORTED.iter().map(|op| op.name()).collect();
    assert_eq!(listed, table);
}

/// The cells of the rows of a table of docs/conformance.md, between its header and the next empty line.
fn rows(header: &str) -> Vec<Vec<&'static str>> {
    let start = CONFORMANCE.find(header).unwrap();
    let lines = CONFORMANCE[start..]
        .lines()
        .take_while(|line| !line.is_empty());
    lines
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn the_conformance_page_has_a_row_for_each_operation() {
    let rows = rows("| No. | Operation |");
    let listed: Vec<(u32, &str)> = rows.iter().map(|r| (r[0].parse().unwrap(), r[1])).collect();
    let all: Vec<(u32, &str)> = OpNum::ALL
        .iter()
        .map(|op| (*op as u32, op.name()))
        .collect();
    assert_eq!(listed, all);
    let (engine, _) = OPERATIONS_OF_ENGINE.split_once("fn effect_bytes").unwrap();
    for (row, op) in rows.iter().zip(OpNum::ALL) {
        let (mds, ds) = (row[3], row[4]);
        assert_eq!(mds == "NOTSUPP", NOT_SUPPORTED.contains(op), "{op:?}");
        let engine_has = engine.contains(&format!("OpNum::{op:?}\n"));
        let ds_has = OPERATIONS_OF_DS.contains(&format!("OpNum::{op:?} =>"));
        // There is no root on a data server.
        let is_root = matches!(op, OpNum::PutRootFh | OpNum::PutPubFh);
        let expected = (engine_has && !is_root) || ds_has || *op == OpNum::Illegal;
        assert_eq!(ds != "NOTSUPP", expected, "{op:?} on a data server");
    }
}

/// What `file::function` names: the text of the file and of the helpers beside it. The function is to be a test.
fn text_of_test(named: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (file, function) = named.split_once("::").unwrap_or_else(|| panic!("{named}"));
    let path = root.join(file);
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{named}: {e}"));
    let text = read(&path);
    let (before, _) = text
        .split_once(&format!("fn {function}()"))
        .unwrap_or_else(|| panic!("{named} is not there"));
    let attributes = before.rsplit("\n\n").next().unwrap();
    let is_test = attributes.contains("#[test]") || attributes.contains("#[tokio::test");
    assert!(is_test, "{named} is no test");
    let helpers = std::fs::read_dir(path.with_file_name("rig")).into_iter();
    let helpers = helpers.flatten().map(|entry| read(&entry.unwrap().path()));
    helpers.fold(text, |all, helper| all + &helper)
}

/// Tests in a cell.
fn tests_in(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn tests_that_the_conformance_page_names_exist_and_use_the_operation() {
    for (row, op) in rows("| No. | Operation |").iter().zip(OpNum::ALL) {
        let texts: Vec<String> = tests_in(row[5]).into_iter().map(text_of_test).collect();
        // This file names those that exist nowhere without arguments.
        let use_of = match row[3] {
            "NOTSUPP" => format!("{op:?},"),
            _ => format!("{op:?}Args"),
        };
        let is_used = texts.iter().any(|text| text.contains(&use_of));
        assert!(is_used || *op == OpNum::Illegal, "{op:?}: {}", row[5]);
    }
    let mut listed = BTreeSet::new();
    for row in rows("| Operation | RFC | Sent |") {
        let tests = tests_in(row[3]);
        assert_eq!(tests.is_empty(), row[2].starts_with("never"), "{}", row[0]);
        tests.into_iter().map(text_of_test).for_each(drop);
        listed.insert(row[0].replace('_', ""));
    }
    let all = CbOpNum::ALL.iter().filter(|op| **op != CbOpNum::Illegal);
    let mut all: BTreeSet<String> = all.map(|op| format!("CB{op:?}").to_uppercase()).collect();
    all.insert("CBNULL".to_owned());
    assert_eq!(listed, all);
    // And the files that are named in passing.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for path in tests_in(CONFORMANCE)
        .iter()
        .filter(|word| word.ends_with(".rs"))
    {
        assert!(root.join(path).is_file(), "{path}");
    }
}
