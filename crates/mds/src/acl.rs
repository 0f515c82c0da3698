//! Access control lists on the wire (RFC 8881 §6.2) from and to those of the name space.
//!
//! ALLOW and DENY entries for users, groups, `OWNER@`, `GROUP@` and `EVERYONE@`. The attributes are `acl` and `dacl`; there is no
//! `sacl`, since nothing is audited.

use crate::identities::{IdKind, Identities};
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
pub(crate) fn dacl_of(inode: &Inode, ids: &Identities) -> nfs4::Acl {
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
        aces: List(acl.aces.0.iter().map(|a| to_wire(a, ids)).collect()),
    }
}

/// The same as `acl`: nothing of automatic inheritance.
pub(crate) fn acl_of(inode: &Inode, ids: &Identities) -> WireAces {
    let mut aces = dacl_of(inode, ids).aces;
    aces.0.iter_mut().for_each(|ace| ace.flag &= !INHERITED);
    aces
}

fn to_wire(ace: &Ace, ids: &Identities) -> nfs4::Ace {
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
            WhoKind::User => ids.owner(IdKind::User, ace.who.id),
            WhoKind::NamedGroup => ids.owner(IdKind::Group, ace.who.id),
        },
    }
}

/// The users and groups that a list names.
pub(crate) fn named(acl: &Acl) -> Vec<(IdKind, u32)> {
    let kind = |who: Who| match who.kind {
        WhoKind::User => Some((IdKind::User, who.id)),
        WhoKind::NamedGroup => Some((IdKind::Group, who.id)),
        WhoKind::Owner | WhoKind::Group | WhoKind::Everyone => None,
    };
    acl.aces.0.iter().filter_map(|a| kind(a.who)).collect()
}

/// The principals of lists to set.
pub(crate) fn principals(attrs: &Attrs) -> impl Iterator<Item = (IdKind, &Owner)> {
    let acl = attrs.acl.iter().flat_map(|aces| &aces.0);
    let dacl = attrs.dacl.iter().flat_map(|dacl| &dacl.aces.0);
    acl.chain(dacl).map(|ace| (kind_of(ace), &ace.who))
}

fn kind_of(ace: &nfs4::Ace) -> IdKind {
    if ace.flag & ACE_IDENTIFIER_GROUP != 0 {
        IdKind::Group
    } else {
        IdKind::User
    }
}

/// The list that SETATTR, CREATE or OPEN sets.
pub(crate) fn decode(attrs: &Attrs, ids: &Identities) -> Result<Option<Acl>, NfsStatus> {
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
    let aces: Result<Vec<Ace>, _> = aces.0.iter().map(|a| of_wire(a, keep, ids)).collect();
    Ok(Some(Acl {
        flags,
        aces: List(aces?),
    }))
}

fn of_wire(ace: &nfs4::Ace, keep: u32, ids: &Identities) -> Result<Ace, NfsStatus> {
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
    let special = |kind| Ok(Who { kind, id: 0 });
    let who = match ace.who.0.as_slice() {
        b"OWNER@" => special(WhoKind::Owner),
        b"GROUP@" => special(WhoKind::Group),
        b"EVERYONE@" => special(WhoKind::Everyone),
        _ => ids.id(kind_of(ace), &ace.who).map(|id| Who {
            kind: match kind_of(ace) {
                IdKind::User => WhoKind::User,
                IdKind::Group => WhoKind::NamedGroup,
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
