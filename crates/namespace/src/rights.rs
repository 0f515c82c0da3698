//! Rights: masks with the numbers of RFC 8881 §6.2.1.3.

/// May read a file or list a directory.
pub const READ: u32 = 0x1;
/// May write a file or make files in a directory.
pub const WRITE: u32 = 0x2;
/// May append to a file or make directories in a directory.
pub const APPEND: u32 = 0x4;
/// May read extended attributes.
pub const READ_XATTRS: u32 = 0x8;
/// May change extended attributes.
pub const WRITE_XATTRS: u32 = 0x10;
/// May execute a file or search a directory.
pub const EXECUTE: u32 = 0x20;
/// May remove what is in a directory.
pub const DELETE_CHILD: u32 = 0x40;
/// May read attributes: nobody is asked for it.
pub const READ_ATTRIBUTES: u32 = 0x80;
/// May set times.
pub const WRITE_ATTRIBUTES: u32 = 0x100;
/// May remove the file.
pub const DELETE: u32 = 0x1_0000;
/// May read the access control list.
pub const READ_ACL: u32 = 0x2_0000;
/// May change it and the mode.
pub const WRITE_ACL: u32 = 0x4_0000;
/// May take the file over, or give it to a group of one's own.
pub const WRITE_OWNER: u32 = 0x8_0000;
/// May wait for local I/O: means nothing here.
pub const SYNCHRONIZE: u32 = 0x10_0000;

/// What everyone may on a file without a list.
pub(crate) const OF_ALL: u32 = READ_ATTRIBUTES | READ_ACL | SYNCHRONIZE;
/// What an owner may always do, whatever the list or the mode says: an owner must never be locked out.
pub(crate) const OF_OWNER: u32 = READ_ACL | WRITE_ACL | READ_ATTRIBUTES | WRITE_ATTRIBUTES;
