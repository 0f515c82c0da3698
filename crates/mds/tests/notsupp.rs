//! Goal: NOTSUPP is answered by the operations that the README names, and by no other.
//! Method: send every operation number bare, without arguments, behind PUTROOTFH; one that exists fails for another reason.

mod rig;

use nfs4::ops::PutRootFhRes;
use nfs4::{CompoundBuilder, NfsStatus, OpArgs, OpNum};
use rig::Rig;
use ropewalk_mds::NOT_SUPPORTED;
use std::collections::BTreeSet;
use xdr::{Encode, Encoder};

const README: &str = include_str!("../../../README.md");

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

fn push(b: &mut CompoundBuilder, op: OpNum) {
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
