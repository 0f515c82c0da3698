//! The operations of the metadata server, one file each, and the table that leads to them.
//!
//! An operation takes decoded arguments and answers its result body or a status. Operations that this server does
//! not have (README, "Operations that answer NOTSUPP") answer `NotSupp` here.

mod access;
mod allocate;
mod clone;
mod close;
mod commit;
mod copy;
mod create;
mod delegated_times;
mod delegreturn;
mod free_stateid;
mod get_dir_delegation;
mod getattr;
mod getdeviceinfo;
mod getxattr;
mod io_advise;
mod layout_xattr;
mod layoutcommit;
mod layoutget;
mod layoutreturn;
mod layoutstats;
mod link;
mod listxattrs;
mod lock;
mod lookup;
mod open;
mod open_confirm;
mod open_delegation;
mod open_downgrade;
mod read;
mod read_plus;
mod readdir;
mod readlink;
mod remove;
mod removexattr;
mod rename;
mod secinfo;
mod seek;
mod setattr;
mod setxattr;
mod test_stateid;
mod verify;
mod want_delegation;
mod write;

use crate::Mds;
use crate::cx::Cx;
use fs::note_operation;
use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};
use server::{answer, fail};
use xdr::Decode;

/// Operations that this server does not have yet, or never will. The README lists them; no other one may answer `NotSupp`.
pub const NOT_SUPPORTED: &[OpNum] = &[
    // CLAIM_DELEGATE_PREV is not supported, and so neither is this (RFC 8881 §18.5.3).
    OpNum::DelegPurge,
    OpNum::OpenAttr,
    // NFSv4.0 only (RFC 8881 §17).
    OpNum::OpenConfirm,
    OpNum::Renew,
    OpNum::SetClientId,
    OpNum::SetClientIdConfirm,
    OpNum::ReleaseLockOwner,
    OpNum::GetDeviceList,
    OpNum::CopyNotify,
    OpNum::WriteSame,
];

fn args<'r, T: Decode<'r>>(ops: &mut OpReader<'r>, cx: &mut Cx<'_>) -> Result<T, NfsStatus> {
    let args = ops.args().map_err(|_| NfsStatus::BadXdr);
    cx.args_read(ops);
    args
}

/// Decodes, executes, answers.
macro_rules! run {
    ($reply:ident, $ops:ident, $cx:ident, |$a:ident| $call:expr) => {
        answer(
            $reply,
            match args($ops, $cx) {
                Ok($a) => $call,
                Err(status) => Err(status),
            },
        )
    };
}

/// Executes one operation.
pub(crate) async fn perform<'r>(
    mds: &'r Mds,
    cx: &mut Cx<'r>,
    op: OpNum,
    ops: &mut OpReader<'r>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match op {
        OpNum::Access => run!(reply, ops, cx, |a| access::access(mds, cx, a)),
        OpNum::Allocate => run!(reply, ops, cx, |a| allocate::allocate(mds, cx, a).await),
        OpNum::Clone => run!(reply, ops, cx, |a| clone::clone(mds, cx, a).await),
        OpNum::Close => run!(reply, ops, cx, |a| close::close(mds, cx, a)),
        OpNum::Commit => run!(reply, ops, cx, |a| commit::commit(mds, cx, a).await),
        OpNum::Copy => match args(ops, cx) {
            Ok(a) => answer(reply, copy::copy(mds, cx, &a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::Create => run!(reply, ops, cx, |a| create::create(mds, cx, &a).await),
        OpNum::Deallocate => run!(reply, ops, cx, |a| allocate::deallocate(mds, cx, a).await),
        OpNum::DelegReturn => {
            run!(reply, ops, cx, |a| delegreturn::delegreturn(mds, cx, a))
        }
        OpNum::FreeStateid => run!(reply, ops, cx, |a| free_stateid::free_stateid(mds, cx, a)),
        OpNum::GetAttr => match args(ops, cx) {
            Ok(a) => getattr::getattr(mds, cx, &a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::GetDirDelegation => {
            run!(reply, ops, cx, |a| get_dir_delegation::get_dir_delegation(
                mds, cx, a
            ))
        }
        OpNum::GetDeviceInfo => match args(ops, cx) {
            Ok(a) => getdeviceinfo::getdeviceinfo(mds, cx, a, reply),
            Err(status) => fail(reply, op, status),
        },
        OpNum::GetXattr => match args(ops, cx) {
            Ok(a) => getxattr::getxattr(mds, cx, a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::IoAdvise => run!(reply, ops, cx, |a| io_advise::io_advise(mds, cx, &a).await),
        OpNum::LayoutCommit => match args(ops, cx) {
            Ok(a) => answer(reply, layoutcommit::layoutcommit(mds, cx, &a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::LayoutGet => match args(ops, cx) {
            Ok(a) => layoutget::layoutget(mds, cx, a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::LayoutReturn => match args(ops, cx) {
            Ok(a) => answer(reply, layoutreturn::layoutreturn(mds, cx, &a)),
            Err(status) => fail(reply, op, status),
        },
        OpNum::LayoutStats | OpNum::LayoutError => layoutstats::perform(mds, cx, op, ops, reply),
        OpNum::Link => run!(reply, ops, cx, |a| link::link(mds, cx, a).await),
        OpNum::ListXattrs => match args(ops, cx) {
            Ok(a) => listxattrs::listxattrs(mds, cx, a, reply),
            Err(status) => fail(reply, op, status),
        },
        OpNum::Lock => match args(ops, cx) {
            Ok(a) => lock::lock(mds, cx, &a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::LockT => match args(ops, cx) {
            Ok(a) => lock::lockt(mds, cx, &a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::LockU => run!(reply, ops, cx, |a| lock::locku(mds, cx, a)),
        OpNum::Lookup => run!(reply, ops, cx, |a| lookup::lookup(mds, cx, a)),
        OpNum::LookupP => run!(reply, ops, cx, |a| lookup::lookupp(mds, cx, a)),
        OpNum::NVerify => run!(reply, ops, cx, |a| verify::nverify(mds, cx, &a).await),
        OpNum::OffloadCancel => run!(reply, ops, cx, |a| copy::offload_cancel(mds, cx, a).await),
        OpNum::OffloadStatus => run!(reply, ops, cx, |a| copy::offload_status(mds, cx, a)),
        OpNum::Open => run!(reply, ops, cx, |a| open::open(mds, cx, &a).await),
        OpNum::OpenDowngrade => {
            run!(reply, ops, cx, |a| open_downgrade::open_downgrade(
                mds, cx, a
            ))
        }
        OpNum::Read => match args(ops, cx) {
            Ok(a) => answer(reply, read::read(mds, cx, a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::ReadPlus => match args(ops, cx) {
            Ok(a) => match read_plus::read_plus(mds, cx, a).await {
                Ok(read) => answer(reply, Ok(read.result())),
                Err(status) => fail(reply, op, status),
            },
            Err(status) => fail(reply, op, status),
        },
        OpNum::ReadDir => match args(ops, cx) {
            Ok(a) => readdir::readdir(mds, cx, &a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::ReadLink => readlink::readlink(mds, cx, reply),
        OpNum::Remove => run!(reply, ops, cx, |a| remove::remove(mds, cx, a).await),
        OpNum::RemoveXattr => run!(reply, ops, cx, |a| removexattr::removexattr(mds, cx, a)
            .await),
        OpNum::Rename => run!(reply, ops, cx, |a| rename::rename(mds, cx, a).await),
        OpNum::SecInfo => run!(reply, ops, cx, |a| secinfo::secinfo(mds, cx, a)),
        OpNum::SecInfoNoName => run!(reply, ops, cx, |a| secinfo::secinfo_no_name(mds, cx, a)),
        OpNum::Seek => run!(reply, ops, cx, |a| seek::seek(mds, cx, a).await),
        OpNum::SetAttr => match args(ops, cx) {
            Ok(a) => answer(reply, Ok(setattr::setattr(mds, cx, &a).await)),
            Err(status) => fail(reply, op, status),
        },
        OpNum::SetXattr => run!(reply, ops, cx, |a| setxattr::setxattr(mds, cx, a).await),
        OpNum::TestStateid => run!(reply, ops, cx, |a| test_stateid::test_stateid(mds, cx, &a)),
        OpNum::Verify => run!(reply, ops, cx, |a| verify::verify(mds, cx, &a).await),
        OpNum::WantDelegation => {
            run!(reply, ops, cx, |a| want_delegation::want_delegation(
                mds, cx, a
            ))
        }
        OpNum::Write => run!(reply, ops, cx, |a| write::write(mds, cx, a).await),
        _ => perform_0(mds, cx, op, ops, reply),
    }
}

/// Notes a sampled operation for the directories that it is about, before it makes another handle current.
#[cold]
pub(crate) fn note(mds: &Mds, cx: &Cx<'_>, op: OpNum) {
    let saved = match op {
        OpNum::Rename => cx.saved().ok(),
        _ => None,
    };
    note_operation(&mds.fs, &cx.actor, [cx.fh().ok(), saved]);
}

/// What NFSv4.0 alone has beside what the engine does.
fn perform_0(
    mds: &Mds,
    cx: &mut Cx<'_>,
    op: OpNum,
    ops: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match op {
        OpNum::OpenConfirm if cx.minor_version == 0 => {
            run!(reply, ops, cx, |a| open_confirm::open_confirm(mds, cx, a))
        }
        _ => fail(reply, op, NfsStatus::NotSupp),
    }
}
