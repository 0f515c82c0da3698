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
use fs::{is_sampled, note_operation};
use nfs3::procs::{LinkArgs, RenameArgs};
use nfs3::{Handle, Proc};
use xdr::{Decode, DecodeError, Decoder, Encode, Encoder, decode_all};

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
    if is_sampled() {
        note(cx, proc, args);
    }
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

/// Notes a sampled call for the directories that it is about.
#[cold]
fn note(cx: &Cx<'_>, proc: Proc, args: &[u8]) {
    let handles = handles(proc, args).map(|handle| handle.map(|h| h.0));
    note_operation(cx.fs(), &cx.actor, handles);
}

/// What a call is about: directories of names, or what its arguments begin with. Arguments that are none have no handles.
fn handles(proc: Proc, args: &[u8]) -> [Option<Handle<'_>>; 2] {
    match proc {
        Proc::Null => [None, None],
        Proc::Link => {
            let args = decode_all::<LinkArgs<'_>>(args).ok();
            [args.map(|a| a.link.dir), None]
        }
        Proc::Rename => {
            let args = decode_all::<RenameArgs<'_>>(args).ok();
            [args.map(|a| a.from.dir), args.map(|a| a.to.dir)]
        }
        _ => [Handle::decode(&mut Decoder::new(args)).ok(), None],
    }
}
