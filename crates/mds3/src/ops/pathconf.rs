//! PATHCONF (RFC 1813 §3.3.20).

use crate::cx::Cx;
use crate::results::res;
use nfs3::procs::{PathConfArgs, PathConfOk, PathConfRes};

pub(super) async fn pathconf(cx: &mut Cx<'_>, args: PathConfArgs<'_>) -> PathConfRes {
    let found = cx.inode(args.object).map(drop);
    let obj_attributes = cx.attrs_of_handle(args.object).await;
    let limits = cx.fs().namespace().limits();
    let ok = |()| PathConfOk {
        obj_attributes,
        linkmax: limits.link_count_max,
        name_max: namespace::NAME_BYTES_MAX,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    };
    res(found.map(ok), obj_attributes)
}
