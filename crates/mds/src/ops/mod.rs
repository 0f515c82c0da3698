//! The operations of the metadata server, one file each, and the table that leads to them.
//!
//! An operation takes decoded arguments and answers its result body or a status. Operations that this server does
//! not have (README, "Operations that answer NOTSUPP") answer `NotSupp` here.

mod access;
mod allocate;
pub(crate) mod client_record;
mod clone;
mod close;
mod commit;
mod copy;
mod create;
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
pub(crate) mod notify_lock;
mod open;
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
use nfs4::{NfsStatus, OpNum, OpReader, ReplyWriter};
use server::{Nfsd, answer};
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
    nfsd: &'r Nfsd<Mds>,
    cx: &mut Cx<'r>,
    op: OpNum,
    ops: &mut OpReader<'r>,
    reply: &mut ReplyWriter<OpNum>,
) -> NfsStatus {
    match op {
        OpNum::Access => run!(reply, ops, cx, |a| access::access(nfsd, cx, a)),
        OpNum::Allocate => run!(reply, ops, cx, |a| allocate::allocate(nfsd, cx, a).await),
        OpNum::Clone => run!(reply, ops, cx, |a| clone::clone(nfsd, cx, a).await),
        OpNum::Close => run!(reply, ops, cx, |a| close::close(nfsd, cx, a).await),
        OpNum::Commit => run!(reply, ops, cx, |a| commit::commit(nfsd, cx, a).await),
        OpNum::Copy => match args(ops, cx) {
            Ok(a) => answer_body(reply, op, copy::copy(nfsd, cx, &a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::Create => run!(reply, ops, cx, |a| create::create(nfsd, cx, &a).await),
        OpNum::Deallocate => run!(reply, ops, cx, |a| allocate::deallocate(nfsd, cx, a).await),
        OpNum::DelegReturn => {
            run!(reply, ops, cx, |a| delegreturn::delegreturn(nfsd, cx, a)
                .await)
        }
        OpNum::FreeStateid => run!(reply, ops, cx, |a| free_stateid::free_stateid(nfsd, cx, a)),
        OpNum::GetAttr => match args(ops, cx) {
            Ok(a) => getattr::getattr(nfsd, cx, &a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::GetDirDelegation => {
            run!(reply, ops, cx, |a| get_dir_delegation::get_dir_delegation(
                nfsd, cx, a
            ))
        }
        OpNum::GetDeviceInfo => match args(ops, cx) {
            Ok(a) => getdeviceinfo::getdeviceinfo(nfsd, cx, a, reply),
            Err(status) => fail(reply, op, status),
        },
        OpNum::GetXattr => match args(ops, cx) {
            Ok(a) => getxattr::getxattr(nfsd, cx, a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::IoAdvise => run!(reply, ops, cx, |a| io_advise::io_advise(nfsd, cx, &a).await),
        OpNum::LayoutCommit => match args(ops, cx) {
            Ok(a) => answer(reply, layoutcommit::layoutcommit(nfsd, cx, &a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::LayoutGet => match args(ops, cx) {
            Ok(a) => layoutget::layoutget(nfsd, cx, a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::LayoutReturn => match args(ops, cx) {
            Ok(a) => answer(reply, layoutreturn::layoutreturn(nfsd, cx, &a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::LayoutStats | OpNum::LayoutError => layoutstats::perform(nfsd, cx, op, ops, reply),
        OpNum::Link => run!(reply, ops, cx, |a| link::link(nfsd, cx, a).await),
        OpNum::ListXattrs => match args(ops, cx) {
            Ok(a) => listxattrs::listxattrs(nfsd, cx, a, reply),
            Err(status) => fail(reply, op, status),
        },
        OpNum::Lock => match args(ops, cx) {
            Ok(a) => lock::lock(nfsd, cx, &a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::LockT => match args(ops, cx) {
            Ok(a) => lock::lockt(nfsd, cx, &a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::LockU => run!(reply, ops, cx, |a| lock::locku(nfsd, cx, a)),
        OpNum::Lookup => run!(reply, ops, cx, |a| lookup::lookup(nfsd, cx, a)),
        OpNum::LookupP => run!(reply, ops, cx, |a| lookup::lookupp(nfsd, cx, a)),
        OpNum::NVerify => run!(reply, ops, cx, |a| verify::nverify(nfsd, cx, &a).await),
        OpNum::OffloadCancel => run!(reply, ops, cx, |a| copy::offload_cancel(nfsd, cx, a).await),
        OpNum::OffloadStatus => run!(reply, ops, cx, |a| copy::offload_status(nfsd, cx, a)),
        OpNum::Open => run!(reply, ops, cx, |a| open::open(nfsd, cx, &a).await),
        OpNum::OpenDowngrade => {
            run!(reply, ops, cx, |a| open_downgrade::open_downgrade(
                nfsd, cx, a
            ))
        }
        OpNum::Read => match args(ops, cx) {
            Ok(a) => answer_body(reply, op, read::read(nfsd, cx, a).await),
            Err(status) => fail(reply, op, status),
        },
        OpNum::ReadPlus => match args(ops, cx) {
            Ok(a) => match read_plus::read_plus(nfsd, cx, a).await {
                Ok(read) => answer_body(reply, op, Ok(read.result())),
                Err(status) => fail(reply, op, status),
            },
            Err(status) => fail(reply, op, status),
        },
        OpNum::ReadDir => match args(ops, cx) {
            Ok(a) => readdir::readdir(nfsd, cx, &a, reply).await,
            Err(status) => fail(reply, op, status),
        },
        OpNum::ReadLink => readlink::readlink(nfsd, cx, reply),
        OpNum::Remove => run!(reply, ops, cx, |a| remove::remove(nfsd, cx, a).await),
        OpNum::RemoveXattr => run!(reply, ops, cx, |a| removexattr::removexattr(nfsd, cx, a)
            .await),
        OpNum::Rename => run!(reply, ops, cx, |a| rename::rename(nfsd, cx, a).await),
        OpNum::SecInfo => run!(reply, ops, cx, |a| secinfo::secinfo(nfsd, cx, a)),
        OpNum::SecInfoNoName => run!(reply, ops, cx, |a| secinfo::secinfo_no_name(nfsd, cx, a)),
        OpNum::Seek => run!(reply, ops, cx, |a| seek::seek(nfsd, cx, a).await),
        OpNum::SetAttr => match args(ops, cx) {
            Ok(a) => answer(reply, Ok(setattr::setattr(nfsd, cx, &a).await)),
            Err(status) => fail(reply, op, status),
        },
        OpNum::SetXattr => run!(reply, ops, cx, |a| setxattr::setxattr(nfsd, cx, a).await),
        OpNum::TestStateid => run!(reply, ops, cx, |a| test_stateid::test_stateid(nfsd, cx, &a)),
        OpNum::Verify => run!(reply, ops, cx, |a| verify::verify(nfsd, cx, &a).await),
        OpNum::WantDelegation => {
            run!(reply, ops, cx, |a| want_delegation::want_delegation(
                nfsd, cx, a
            ))
        }
        OpNum::Write => run!(reply, ops, cx, |a| write::write(nfsd, cx, a).await),
        _ => fail(reply, op, NfsStatus::NotSupp),
    }
}

/// Writes a failure and returns its status.
pub(crate) fn fail(reply: &mut ReplyWriter<OpNum>, op: OpNum, status: NfsStatus) -> NfsStatus {
    reply.error(op, status);
    status
}

/// Writes a result body that only a server encodes, or a failure.
pub(crate) fn answer_body<T: nfs4::OpBody<Num = OpNum>>(
    reply: &mut ReplyWriter<OpNum>,
    op: OpNum,
    result: Result<T, NfsStatus>,
) -> NfsStatus {
    match result {
        Ok(body) => {
            let status = body.status();
            let _ = reply.result(&body);
            status
        }
        Err(status) => fail(reply, op, status),
    }
}

/// A component name for the name space. A name longer than a component is `NameTooLong` there.
pub(crate) fn name<'a>(name: nfs4::Name<'a>) -> Result<&'a [u8], NfsStatus> {
    match name.0 {
        [] => Err(NfsStatus::Inval),
        bytes => Ok(bytes),
    }
}

/// `change_info4` of a directory.
pub(crate) fn cinfo(dir: namespace::ChangeInfo) -> nfs4::ChangeInfo {
    nfs4::ChangeInfo {
        atomic: true,
        before: dir.before,
        after: dir.after,
    }
}
