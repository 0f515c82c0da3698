//! Access control lists on the wire (RFC 8881 §6.2) from and to those of the name space.
//!
//! ALLOW and DENY entries for users, groups, `OWNER@`, `GROUP@` and `EVERYONE@`. The attributes are `acl` and `dacl`; there is no
//! `sacl`, since nothing is audited.

use namespace::acl::{AUTO_INHERIT, DEFAULTED, INHERITANCE, INHERITED, PROTECTED};
use namespace::{Ace, Acl, Inode, Who, WhoKind};
use nfs4::{
    ACE_IDENTIFIER_GROUP, ACE_TYPE_ALARM, ACE_TYPE_ALLOW, ACE_TYPE_AUDIT, ACE_TYPE_DENY, ACES_MAX,
    Attrs, NfsStatus, Owner,
};
use xdr::List;

/// `aclsupport`: ALLOW and DENY entries.
pub(crate) const SUPPORT: u32 = 0x3;
/// Flags about audits, which mean nothing in entries that allow or deny.
const OF_AUDITS: u32 = 0x30;
/// All bits of a mask that RFC 8881 defines and that mean something here: not those of retention.
const MASK: u32 = 0x1f_01ff;

type WireAces = List<nfs4::Ace, ACES_MAX>;

/// The list of a file as `dacl`: that of its mode when it has none.
pub(crate) fn dacl_of(inode: &Inode) -> nfs4::Acl {
    let of_mode;
    let acl = match inode.acl() {
        Some(acl) => acl,
        None => {
            of_mode = Acl::of_mode(inode.mode, inode.is_dir());
            &of_mode
        }
    };
    nfs4::Acl {
        flag: acl.flags,
        aces: List(acl.aces.0.iter().map(to_wire).collect()),
    }
}

/// The same as `acl`: nothing of automatic inheritance.
pub(crate) fn acl_of(inode: &Inode) -> WireAces {
    let mut aces = dacl_of(inode).aces;
    aces.0.iter_mut().for_each(|ace| ace.flag &= !INHERITED);
    aces
}

fn to_wire(ace: &Ace) -> nfs4::Ace {
    let named_group = ace.who.kind == WhoKind::NamedGroup;
    let group = if named_group { ACE_IDENTIFIER_GROUP } else { 0 };
    nfs4::Ace {
        ace_type: if ace.denies {
            ACE_TYPE_DENY
        } else {
            ACE_TYPE_ALLOW
        },
        flag: ace.flags | group,
        access_mask: ace.mask,
        who: match ace.who.kind {
            WhoKind::Owner => Owner::from(b"OWNER@".as_slice()),
            WhoKind::Group => Owner::from(b"GROUP@".as_slice()),
            WhoKind::Everyone => Owner::from(b"EVERYONE@".as_slice()),
            WhoKind::User | WhoKind::NamedGroup => crate::attrs::number(ace.who.id),
        },
    }
}

/// The list that SETATTR, CREATE or OPEN sets; `id` reads a user or group.
pub(crate) fn decode(
    attrs: &Attrs,
    id: impl Fn(&Owner, bool) -> Result<u32, NfsStatus>,
) -> Result<Option<Acl>, NfsStatus> {
    let (flags, keep, aces) = match (&attrs.acl, &attrs.dacl) {
        (None, None) => return Ok(None),
        // RFC 8881 §6.4.1.
        (Some(_), Some(_)) => return Err(NfsStatus::AttrNotSupp),
        // Who sets `acl` knows nothing of automatic inheritance (§6.4.3.2).
        (Some(aces), None) => (PROTECTED, 0, aces),
        (None, Some(dacl)) => (dacl.flag, INHERITED, &dacl.aces),
    };
    if flags & !(AUTO_INHERIT | PROTECTED | DEFAULTED) != 0 {
        return Err(NfsStatus::Inval);
    }
    let aces: Result<Vec<Ace>, _> = aces.0.iter().map(|a| of_wire(a, keep, &id)).collect();
    Ok(Some(Acl {
        flags,
        aces: List(aces?),
    }))
}

fn of_wire(
    ace: &nfs4::Ace,
    keep: u32,
    id: impl Fn(&Owner, bool) -> Result<u32, NfsStatus>,
) -> Result<Ace, NfsStatus> {
    let denies = match ace.ace_type {
        ACE_TYPE_ALLOW => false,
        ACE_TYPE_DENY => true,
        ACE_TYPE_AUDIT | ACE_TYPE_ALARM => return Err(NfsStatus::AttrNotSupp),
        _ => return Err(NfsStatus::Inval),
    };
    let known = INHERITANCE | OF_AUDITS | ACE_IDENTIFIER_GROUP | INHERITED;
    if ace.flag & !known != 0 || ace.access_mask & !MASK != 0 {
        return Err(NfsStatus::AttrNotSupp);
    }
    let is_group = ace.flag & ACE_IDENTIFIER_GROUP != 0;
    let special = |kind| Ok(Who { kind, id: 0 });
    let who = match ace.who.0.as_slice() {
        b"OWNER@" => special(WhoKind::Owner),
        b"GROUP@" => special(WhoKind::Group),
        b"EVERYONE@" => special(WhoKind::Everyone),
        _ => id(&ace.who, is_group).map(|id| Who {
            kind: if is_group {
                WhoKind::NamedGroup
            } else {
                WhoKind::User
            },
            id,
        }),
    }?;
    Ok(Ace {
        denies,
        flags: ace.flag & (INHERITANCE | keep),
        mask: ace.access_mask,
        who,
    })
}
