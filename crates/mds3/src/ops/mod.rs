//! The procedures of NFSv3 (RFC 1813 §3.3), one file for each; CREATE, MKDIR, SYMLINK and MKNOD share one, as their results do.

mod access;
mod commit;
mod create;
mod fsinfo;
mod fsstat;
mod getattr;
mod link;
mod lookup;
mod pathconf;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod setattr;
mod write;

use crate::cx::Cx;
use nfs3::Proc;
use xdr::{DecodeError, Encode, Encoder, decode_all};

/// Executes a procedure: decodes its arguments and writes its result.
///
/// # Errors
/// Arguments that are none: nothing was executed.
pub(crate) async fn perform(
    cx: &mut Cx<'_>,
    proc: Proc,
    args: &[u8],
    e: &mut Encoder,
) -> Result<(), DecodeError> {
    match proc {
        Proc::Null => decode_all::<()>(args)?,
        Proc::GetAttr => getattr::getattr(cx, decode_all(args)?).await.encode(e),
        Proc::SetAttr => setattr::setattr(cx, decode_all(args)?).await.encode(e),
        Proc::Lookup => lookup::lookup(cx, decode_all(args)?, e).await,
        Proc::Access => access::access(cx, decode_all(args)?).await.encode(e),
        Proc::ReadLink => readlink::readlink(cx, decode_all(args)?, e).await,
        Proc::Read => read::read(cx, decode_all(args)?).await.encode(e),
        Proc::Write => write::write(cx, decode_all(args)?).await.encode(e),
        Proc::Create => create::create(cx, decode_all(args)?, e).await,
        Proc::MkDir => create::mkdir(cx, decode_all(args)?, e).await,
        Proc::Symlink => create::symlink(cx, decode_all(args)?, e).await,
        Proc::MkNod => create::mknod(cx, decode_all(args)?, e).await,
        Proc::Remove => remove::remove(cx, decode_all(args)?).await.encode(e),
        Proc::RmDir => remove::rmdir(cx, decode_all(args)?).await.encode(e),
        Proc::Rename => rename::rename(cx, decode_all(args)?).await.encode(e),
        Proc::Link => link::link(cx, decode_all(args)?).await.encode(e),
        Proc::ReadDir => readdir::readdir(cx, decode_all(args)?, e).await,
        Proc::ReadDirPlus => readdir::readdirplus(cx, decode_all(args)?, e).await,
        Proc::FsStat => fsstat::fsstat(cx, decode_all(args)?).await.encode(e),
        Proc::FsInfo => fsinfo::fsinfo(cx, decode_all(args)?).await.encode(e),
        Proc::PathConf => pathconf::pathconf(cx, decode_all(args)?).await.encode(e),
        Proc::Commit => commit::commit(cx, decode_all(args)?).await.encode(e),
    }
    Ok(())
}
