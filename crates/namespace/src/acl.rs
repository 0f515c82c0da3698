//! Access control lists (RFC 8881 §6): how they are judged, and how they and the mode follow each other.
//!
//! A pure model. A file whose permissions a mode can express has no list. The numbers of flags and masks are those of
//! RFC 8881 §6.2.1.3 and §6.2.1.4. Entry points: [`Acl::decide`], [`Acl::mode`], [`Acl::with_mode`], [`Acl::of_mode`],
//! [`Acl::inherited`].

use crate::NsError;
use crate::rights::{
    APPEND, DELETE_CHILD, EXECUTE, OF_ALL, OF_OWNER, READ, READ_XATTRS, WRITE, WRITE_XATTRS,
};
use xdr::List;

/// Most entries of a list.
pub const ACES_MAX: u32 = 256;

/// Files made in the directory get the entry.
pub const FILE_INHERIT: u32 = 0x1;
/// Directories made in it do.
pub const DIRECTORY_INHERIT: u32 = 0x2;
/// They do not hand it on.
pub const NO_PROPAGATE_INHERIT: u32 = 0x4;
/// The entry is not for the directory itself.
pub const INHERIT_ONLY: u32 = 0x8;
/// The entry was inherited.
pub const INHERITED: u32 = 0x80;
/// Flags about what is made below.
pub const INHERITANCE: u32 = FILE_INHERIT | DIRECTORY_INHERIT | NO_PROPAGATE_INHERIT | INHERIT_ONLY;

/// The list takes part in automatic inheritance (`ACL4_AUTO_INHERIT`).
pub const AUTO_INHERIT: u32 = 0x1;
/// The list is to be left alone by it (`ACL4_PROTECTED`).
pub const PROTECTED: u32 = 0x2;
/// The server chose the list (`ACL4_DEFAULTED`).
pub const DEFAULTED: u32 = 0x4;

xdr::xdr_enum! {
    /// Kinds of principals.
    pub enum WhoKind {
        /// The owner of the file: `OWNER@`.
        Owner = 0,
        /// Its group: `GROUP@`.
        Group = 1,
        /// Everyone, these two included: `EVERYONE@`.
        Everyone = 2,
        /// One user.
        User = 3,
        /// One group.
        NamedGroup = 4,
    }
}

xdr::xdr_struct! {
    /// Whom an entry is about.
    #[derive(Copy)]
    pub struct Who {
        /// Kind.
        pub kind: WhoKind,
        /// User or group id; 0 for other kinds.
        pub id: u32,
    }

    /// An entry.
    #[derive(Copy)]
    pub struct Ace {
        /// It denies rather than allows.
        pub denies: bool,
        /// Inheritance.
        pub flags: u32,
        /// What.
        pub mask: u32,
        /// Whom.
        pub who: Who,
    }

    /// A list.
    #[derive(Default)]
    pub struct Acl {
        /// [`AUTO_INHERIT`] and the like.
        pub flags: u32,
        /// The entries, judged in order.
        pub aces: List<Ace, ACES_MAX>,
    }
}

impl Who {
    const OWNER: Self = Self::special(WhoKind::Owner);
    const GROUP: Self = Self::special(WhoKind::Group);
    const EVERYONE: Self = Self::special(WhoKind::Everyone);

    const fn special(kind: WhoKind) -> Self {
        Self { kind, id: 0 }
    }

    /// Whether it follows from the file rather than being named.
    #[must_use]
    pub fn is_special(self) -> bool {
        !matches!(self.kind, WhoKind::User | WhoKind::NamedGroup)
    }
}

impl Ace {
    const fn new(denies: bool, who: Who, mask: u32) -> Self {
        Self {
            denies,
            flags: 0,
            mask,
            who,
        }
    }

    /// Whether it is about the file itself.
    #[must_use]
    pub fn is_effective(&self) -> bool {
        self.flags & INHERIT_ONLY == 0
    }
}

/// What three permission bits allow on a file or directory.
pub(crate) const fn mask_of(bits: u32, is_dir: bool) -> u32 {
    let read = if bits & 4 != 0 { READ | READ_XATTRS } else { 0 };
    let write = match (bits & 2 != 0, is_dir) {
        (true, true) => WRITE | APPEND | WRITE_XATTRS | DELETE_CHILD,
        (true, false) => WRITE | APPEND | WRITE_XATTRS,
        (false, _) => 0,
    };
    let execute = if bits & 1 != 0 { EXECUTE } else { 0 };
    read | write | execute
}

/// The permission bits of a mask (RFC 8881 §6.3.2).
const fn bits_of(mask: u32) -> u32 {
    let read = if mask & READ != 0 { 4 } else { 0 };
    let write = if mask & WRITE != 0 && mask & APPEND != 0 {
        2
    } else {
        0
    };
    let execute = if mask & EXECUTE != 0 { 1 } else { 0 };
    read | write | execute
}

impl Acl {
    /// Which bits of `want` the entries allow that are about the file itself and whose `who` matches, and which they say anything
    /// about.
    pub(crate) fn walk(&self, want: u32, is: impl Fn(Who) -> bool) -> (u32, u32) {
        let (mut allowed, mut decided) = (0, 0);
        for ace in self.aces.0.iter().filter(|a| a.is_effective() && is(a.who)) {
            let bits = ace.mask & want & !decided;
            decided |= bits;
            allowed |= if ace.denies { 0 } else { bits };
        }
        (allowed, decided)
    }

    /// The nine permission bits (RFC 8881 §6.3.2).
    #[must_use]
    pub fn mode(&self) -> u32 {
        let bits = |kind| {
            let is = |who: Who| who.kind == kind || who.kind == WhoKind::Everyone;
            bits_of(self.walk(u32::MAX, is).0)
        };
        bits(WhoKind::Owner) << 6 | bits(WhoKind::Group) << 3 | bits(WhoKind::Everyone)
    }

    /// Whether anybody may execute.
    #[must_use]
    pub fn lets_execute(&self) -> bool {
        let lets = |a: &Ace| a.is_effective() && !a.denies && a.mask & EXECUTE != 0;
        self.aces.0.iter().any(lets)
    }

    /// Whether it says nothing that the mode does not.
    #[must_use]
    pub fn is_trivial(&self) -> bool {
        let says =
            |a: &Ace| !a.who.is_special() || a.flags & (FILE_INHERIT | DIRECTORY_INHERIT) != 0;
        !self.aces.0.iter().any(says)
    }

    /// The list as it is stored: without inheritance where nothing can inherit.
    #[must_use]
    pub(crate) fn settled(mut self, is_dir: bool) -> Self {
        if !is_dir {
            self.aces.0.retain(Ace::is_effective);
            self.aces.0.iter_mut().for_each(|a| a.flags &= !INHERITANCE);
        }
        self
    }

    /// The list, unless its mode says it all.
    #[must_use]
    pub(crate) fn unless_trivial(self, is_dir: bool) -> Option<Self> {
        let same = || Self::of_mode(self.mode(), is_dir).aces == self.aces;
        (self.flags & !PROTECTED != 0 || !same()).then_some(self)
    }

    /// The list that says what a mode says.
    #[must_use]
    pub fn of_mode(mode: u32, is_dir: bool) -> Self {
        Self::around(0, mode, is_dir, Vec::new(), Vec::new())
    }

    /// The entries of a mode, with `named` ones between those of the owner and those of the group. Named entries do not
    /// override what the mode says of the owner, and its entry for the group does not override them.
    fn around(flags: u32, mode: u32, is_dir: bool, named: Vec<Ace>, tail: Vec<Ace>) -> Self {
        let [owner, group, other] = [6, 3, 0].map(|shift| mask_of(mode >> shift & 7, is_dir));
        let of_named = named.iter().fold(0, |sum, ace| sum | ace.mask);
        let deny_owner = mask_of(7, is_dir) & (group | other | of_named) & !owner;
        let mut aces = vec![
            Ace::new(true, Who::OWNER, deny_owner),
            Ace::new(false, Who::OWNER, owner | OF_ALL | OF_OWNER),
        ];
        aces.extend(named);
        aces.extend([
            Ace::new(false, Who::GROUP, group | OF_ALL),
            Ace::new(true, Who::GROUP, other & !group),
            Ace::new(false, Who::EVERYONE, other | OF_ALL),
        ]);
        aces.retain(|a| a.mask != 0);
        aces.extend(tail);
        Self {
            flags,
            aces: List(aces),
        }
    }

    /// The list after a chmod (RFC 8881 §6.4.1.1). Its mode is `mode`, no named entry has what the group bits do not
    /// allow, and what is for inheritance only stays. `None` when the mode says it all.
    ///
    /// # Errors
    /// [`NsError::AclTooLong`]: the entries of the mode come to the others, and what is handed down may part from what is in
    /// force here. Dropping any would give or take rights that nobody spoke of.
    pub fn with_mode(&self, mode: u32, is_dir: bool) -> Result<Option<Self>, NsError> {
        let rwx = READ | WRITE | APPEND | EXECUTE;
        let limit = !rwx | mask_of(mode >> 3 & 7, is_dir);
        let (mut named, mut tail) = (Vec::new(), Vec::new());
        for ace in &self.aces.0 {
            let mut ace = *ace;
            let mask = match (ace.denies, ace.who.is_special()) {
                (_, true) => 0,
                (true, false) => ace.mask,
                (false, false) => ace.mask & limit,
            };
            if !ace.is_effective() {
                tail.push(ace);
                continue;
            }
            let changes = mask == 0 || mask != ace.mask;
            if ace.flags & (FILE_INHERIT | DIRECTORY_INHERIT) != 0 && changes {
                // What is handed down is not changed with what is in force here.
                tail.push(Ace {
                    flags: ace.flags | INHERIT_ONLY,
                    ..ace
                });
                ace.flags &= !INHERITANCE;
            }
            ace.mask = mask;
            if mask != 0 {
                named.push(ace);
            }
        }
        let changed = Self::around(self.flags, mode, is_dir, named, tail);
        if changed.is_trivial() {
            return Ok(None);
        }
        if changed.aces.0.len() > ACES_MAX as usize {
            return Err(NsError::AclTooLong);
        }
        Ok(Some(changed))
    }

    /// As [`Acl::with_mode`], for a list that automatic inheritance may have made: it is to leave it alone from now on
    /// (RFC 8881 §6.4.3.2).
    pub(crate) fn chmod(&self, mode: u32, is_dir: bool) -> Result<Option<Self>, NsError> {
        let mut changed = self.with_mode(mode, is_dir)?;
        if let Some(changed) = &mut changed
            && self.aces.0.iter().any(|a| a.flags & INHERITED != 0)
        {
            changed.flags |= PROTECTED;
        }
        Ok(changed)
    }

    /// What a new directory or other object gets of its directory's list (RFC 8881 §6.4.3.1).
    #[must_use]
    pub fn inherited(&self, is_dir: bool) -> Option<Self> {
        let aces: Vec<Ace> = self
            .aces
            .0
            .iter()
            .filter_map(|a| inherit(a, is_dir))
            .collect();
        (!aces.is_empty()).then_some(Self {
            flags: self.flags & AUTO_INHERIT,
            aces: List(aces),
        })
    }
}

fn inherit(ace: &Ace, is_dir: bool) -> Option<Ace> {
    let has = |flag| ace.flags & flag != 0;
    let flags = if !is_dir {
        has(FILE_INHERIT).then_some(0)?
    } else if has(NO_PROPAGATE_INHERIT) {
        has(DIRECTORY_INHERIT).then_some(0)?
    } else if has(DIRECTORY_INHERIT) {
        ace.flags & (FILE_INHERIT | DIRECTORY_INHERIT)
    } else if has(FILE_INHERIT) {
        FILE_INHERIT | INHERIT_ONLY
    } else {
        return None;
    };
    Some(Ace {
        flags: flags | INHERITED,
        ..*ace
    })
}

#[cfg(test)]
#[path = "acl_tests.rs"]
mod tests;
