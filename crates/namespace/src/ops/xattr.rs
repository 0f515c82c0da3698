//! Extended attributes (RFC 8276): names with values, on regular files and directories.
//!
//! # Ownership
//! One key `x` for each attribute, ordered by a keyed hash of its name like the entries of a directory. The place of a name is
//! its LISTXATTRS cookie, and stays while others come and go. The inode knows their number and bytes; they go with it.
//!
//! # Ordering
//! Values have no cache. A change of any of them also changes the inode. So the inode after a read covers all that the read saw
//! (R7). Permission is checked before the read and after it: what was private at either is not shown.
//!
//! # Failure
//! Setting an attribute to the value that it has changes nothing (RFC 8276 §8.4.2.3).

use crate::bucket::{COOKIE_FIRST, COOKIES_PER_HASH, NAME_BYTES_MAX, hash_name};
use crate::inode::Inode;
use crate::rights::{READ_XATTRS, WRITE_XATTRS};
use crate::txn::Txn;
use crate::{ChangeInfo, Cred, FileId, Namespace, NsError, Op, keys, records};
use meta::{Pair, Purpose, Read};
use std::sync::Arc;
use xdr::OpaqueBuf;

/// Longest value in bytes (XATTR_SIZE_MAX of Linux).
pub const XATTR_VALUE_BYTES_MAX: u32 = 1 << 16;
/// Most attributes of a file. With their longest names, and `user.` before each, Linux can still list them all in the
/// 64 KiB that it has for that.
pub const XATTRS_COUNT_MAX: u32 = 250;
/// Most bytes of names and values of one file.
pub const XATTRS_BYTES_MAX: u32 = 1 << 20;
/// Attributes read from the store at once by a listing; their values come with them.
const SCAN_PAIRS: usize = 16;

xdr::xdr_struct! {
    /// The value of a key `x`.
    pub(crate) struct Stored {
        pub(crate) name: OpaqueBuf<NAME_BYTES_MAX>,
        pub(crate) value: OpaqueBuf<XATTR_VALUE_BYTES_MAX>,
    }
}

impl Stored {
    pub(crate) fn bytes(&self) -> u32 {
        u32::try_from(self.name.0.len() + self.value.0.len()).expect("both are bounded")
    }
}

/// Whether an attribute that is set may exist already (setxattr_option4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Make it or change it.
    Either,
    /// It must not.
    Create,
    /// It must.
    Replace,
}

/// One page of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XattrPage {
    /// Cookies, each above [`COOKIE_FIRST`] or equal, and names, in the order of cookies.
    pub names: Vec<(u64, Vec<u8>)>,
    /// Nothing comes after them.
    pub eof: bool,
}

impl Namespace {
    /// The value of an attribute. Needs read permission.
    ///
    /// # Errors
    /// [`NsError::NoXattr`], [`NsError::Access`], and those of a bad name.
    pub fn xattr(&self, op: &mut Op<'_>, file: FileId, name: &[u8]) -> Result<Vec<u8>, NsError> {
        check_name(name)?;
        let inode = self.getattr(op, file)?;
        op.cred.require(&inode, READ_XATTRS)?;
        if inode.xattrs().count == 0 {
            return Err(NsError::NoXattr);
        }
        let found = find(&*self.store, self.xattr_cookies(name), file, name)?;
        let inode = self.getattr(op, file)?;
        op.cred.require(&inode, READ_XATTRS)?;
        found.stored.map(|s| s.value.0).ok_or(NsError::NoXattr)
    }

    /// Names after `cookie` (0 for the first), at most `bytes_max` of them as [`XattrPage`] counts: each as long as its XDR form.
    /// Needs read permission.
    ///
    /// # Errors
    /// [`NsError::Access`], [`NsError::Stale`].
    pub fn list_xattrs(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        cookie: u64,
        bytes_max: usize,
    ) -> Result<XattrPage, NsError> {
        let inode = self.getattr(op, file)?;
        op.cred.require(&inode, READ_XATTRS)?;
        let mut page = XattrPage {
            names: Vec::new(),
            eof: true,
        };
        if inode.xattrs().count > 0 {
            page.eof = self.fill(&mut page.names, file, cookie, bytes_max)?;
            let inode = self.getattr(op, file)?;
            op.cred.require(&inode, READ_XATTRS)?;
        }
        Ok(page)
    }

    /// Adds names; whether they were the last.
    fn fill(
        &self,
        names: &mut Vec<(u64, Vec<u8>)>,
        file: FileId,
        cookie: u64,
        bytes_max: usize,
    ) -> Result<bool, NsError> {
        let end = keys::xattr_end(file);
        let (mut from, mut bytes) = (cookie.checked_add(1), 0);
        while let Some(start) = from {
            let pairs = self
                .store
                .scan(&keys::xattr(file, start), &end, SCAN_PAIRS)?;
            for pair in &pairs {
                let (cookie, stored) = decode(pair)?;
                bytes += 4 + stored.name.0.len().next_multiple_of(4);
                if bytes > bytes_max {
                    return Ok(false);
                }
                from = cookie.checked_add(1);
                names.push((cookie, stored.name.0));
            }
            if pairs.len() < SCAN_PAIRS {
                return Ok(true);
            }
        }
        Ok(true)
    }

    /// Sets an attribute. Needs write permission; in a sticky directory only its owner may, as on Linux.
    ///
    /// # Errors
    /// - [`NsError::Exist`], [`NsError::NoXattr`]: as `how` says.
    /// - [`NsError::XattrTooBig`]: the value. [`NsError::NoSpace`]: too many, or too much.
    /// - [`NsError::Perm`]: neither file nor directory. [`NsError::Access`], and those of a bad name.
    pub fn set_xattr(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<ChangeInfo, NsError> {
        check_name(name)?;
        if value.len() > XATTR_VALUE_BYTES_MAX as usize {
            return Err(NsError::XattrTooBig);
        }
        let (cred, now) = (op.cred, op.now);
        let new = Stored {
            name: name.into(),
            value: value.into(),
        };
        self.write(op, |txn| {
            let inode = txn.need(file)?;
            check_settable(cred, &inode)?;
            let found = txn.find_xattr(file, name)?;
            match (how, &found.stored) {
                (SetXattr::Create, Some(_)) => return Err(NsError::Exist),
                (SetXattr::Replace, None) => return Err(NsError::NoXattr),
                (_, Some(old)) if *old == new => return Ok(unchanged(&inode)),
                _ => {}
            }
            let mut totals = inode.xattrs();
            totals.count += u32::from(found.stored.is_none());
            let old = found.stored.as_ref().map_or(0, Stored::bytes);
            totals.bytes = totals.bytes.saturating_sub(old).saturating_add(new.bytes());
            if totals.count > XATTRS_COUNT_MAX || totals.bytes > XATTRS_BYTES_MAX {
                return Err(NsError::NoSpace);
            }
            txn.put(&keys::xattr(file, found.cookie), &records::encode(&new));
            let after = txn.touch(file)?;
            after.ctime = now;
            after.extras.edit(|rare| rare.xattrs = totals);
            Ok(ChangeInfo {
                before: inode.change,
                after: after.change,
            })
        })
    }

    /// Removes an attribute. Permissions are those of [`Namespace::set_xattr`].
    ///
    /// # Errors
    /// [`NsError::NoXattr`], [`NsError::Access`], [`NsError::Perm`], and those of a bad name.
    pub fn remove_xattr(
        &self,
        op: &mut Op<'_>,
        file: FileId,
        name: &[u8],
    ) -> Result<ChangeInfo, NsError> {
        check_name(name)?;
        let (cred, now) = (op.cred, op.now);
        self.write(op, |txn| {
            txn.purpose(Purpose::Removal);
            let inode = txn.need(file)?;
            check_settable(cred, &inode)?;
            let found = txn.find_xattr(file, name)?;
            let old = found.stored.ok_or(NsError::NoXattr)?;
            txn.delete(&keys::xattr(file, found.cookie));
            let after = txn.touch(file)?;
            after.ctime = now;
            after.extras.edit(|rare| {
                rare.xattrs.count = rare.xattrs.count.saturating_sub(1);
                rare.xattrs.bytes = rare.xattrs.bytes.saturating_sub(old.bytes());
            });
            Ok(ChangeInfo {
                before: inode.change,
                after: after.change,
            })
        })
    }

    /// The lowest cookie that an attribute of this name can have.
    fn xattr_cookies(&self, name: &[u8]) -> u64 {
        hash_name(&self.identity.hash_key, self.hash_mask, name) * COOKIE_FIRST
    }
}

/// Removes all attributes of an inode that goes away.
pub(crate) fn remove_all(txn: &mut Txn<'_>, inode: &Inode) -> Result<(), NsError> {
    if inode.xattrs().count == 0 {
        return Ok(());
    }
    let (start, end) = (keys::xattr(inode.id, 0), keys::xattr_end(inode.id));
    let pairs = txn.store().scan(&start, &end, XATTRS_COUNT_MAX as usize)?;
    for (key, _) in pairs {
        txn.delete(&key);
    }
    Ok(())
}

/// Where a name is or may come, and what it has.
pub(crate) struct Found {
    cookie: u64,
    stored: Option<Stored>,
}

impl Txn<'_> {
    fn find_xattr(&mut self, file: FileId, name: &[u8]) -> Result<Found, NsError> {
        let first = self.namespace().xattr_cookies(name);
        find(self.store(), first, file, name)
    }
}

fn find<R: Read + ?Sized>(
    store: &R,
    first: u64,
    file: FileId,
    name: &[u8],
) -> Result<Found, NsError> {
    let (start, end) = (
        keys::xattr(file, first),
        keys::xattr(file, first + COOKIES_PER_HASH),
    );
    let mut free = first;
    let slots = usize::try_from(COOKIES_PER_HASH).expect("it is small");
    for pair in &store.scan(&start, &end, slots)? {
        let (cookie, stored) = decode(pair)?;
        if stored.name.0 == name {
            return Ok(Found {
                cookie,
                stored: Some(stored),
            });
        }
        free += u64::from(cookie == free);
    }
    // Fewer attributes exist than a hash has places.
    Ok(Found {
        cookie: free,
        stored: None,
    })
}

pub(crate) fn decode((key, value): &Pair) -> Result<(u64, Stored), NsError> {
    let bad_key = || NsError::corrupt("key of an extended attribute");
    let (_, cookie) = keys::xattr_of(key).ok_or_else(bad_key)?;
    Ok((cookie, records::decode(value, "extended attribute")?))
}

fn check_name(name: &[u8]) -> Result<(), NsError> {
    if name.is_empty() || name.contains(&0) {
        return Err(NsError::Inval);
    }
    if name.len() > NAME_BYTES_MAX as usize {
        return Err(NsError::NameTooLong);
    }
    Ok(())
}

fn check_settable(cred: &Cred, inode: &Arc<Inode>) -> Result<(), NsError> {
    if !inode.is_regular() && !inode.is_dir() {
        return Err(NsError::Perm);
    }
    cred.require(inode, WRITE_XATTRS)?;
    if inode.is_dir() && inode.is_sticky() && !cred.owns(inode) {
        return Err(NsError::Perm);
    }
    Ok(())
}

fn unchanged(inode: &Inode) -> ChangeInfo {
    ChangeInfo {
        before: inode.change,
        after: inode.change,
    }
}
