//! What a call answers when it does not do what was asked.

use meta::MetaError;

/// A refusal (nothing happened), or a failure of the store. The nouns are those of POSIX.
#[derive(Debug, Clone)]
pub enum NsError {
    /// No such name.
    NoEnt,
    /// The name is taken.
    Exist,
    /// Not a directory.
    NotDir,
    /// A directory, where none is allowed.
    IsDir,
    /// The directory has entries.
    NotEmpty,
    /// The permission bits deny it.
    Access,
    /// Only the owner or root may.
    Perm,
    /// A name or a symlink target above its limit.
    NameTooLong,
    /// A name that is "." or "..", or has a '/' or a NUL.
    BadName,
    /// No inode has this number and generation (any more).
    Stale,
    /// No room: the metadata store's disk is full.
    NoSpace,
    /// The link count is at its limit.
    MLink,
    /// An argument makes no sense: an empty name, a directory into itself, a wrong file type.
    Inval,
    /// The two lie in trees that do not share files: own and foreign data servers.
    OtherTree,
    /// A READDIR cookie that no READDIR returned.
    BadCookie,
    /// A file size above 2^63 - 1.
    FileTooBig,
    /// Another change of the same kind is under way on this file; try again later.
    Busy,
    /// The new size needs [`crate::Namespace::begin_truncate`]: data may lie beyond it.
    NeedsTruncate,
    /// The file would outgrow the metadata store: it needs [`crate::Namespace::place`] first.
    NeedsPlace,
    /// A table with a named limit is full.
    TooMany,
    /// The file has no extended attribute of this name.
    NoXattr,
    /// The value of an extended attribute is above its limit.
    XattrTooBig,
    /// An access control list would have more entries than [`crate::ACES_MAX`].
    AclTooLong,
    /// The store failed, or what it holds makes no sense.
    Store(MetaError),
}

impl NsError {
    /// The stored bytes are not what this crate writes.
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Store(MetaError::Corrupt(what.into()))
    }
}

impl PartialEq for NsError {
    /// Same variant; store failures are equal when their text is.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Store(a), Self::Store(b)) => a.to_string() == b.to_string(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl From<MetaError> for NsError {
    fn from(e: MetaError) -> Self {
        match e {
            MetaError::NoSpace => Self::NoSpace,
            other => Self::Store(other),
        }
    }
}

impl std::fmt::Display for NsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::NoEnt => "no such name",
            Self::Exist => "the name exists",
            Self::NotDir => "not a directory",
            Self::IsDir => "is a directory",
            Self::NotEmpty => "the directory is not empty",
            Self::Access => "permission denied",
            Self::Perm => "operation not permitted",
            Self::NameTooLong => "name too long",
            Self::BadName => "bad name",
            Self::Stale => "stale file",
            Self::NoSpace => "no space left for metadata",
            Self::MLink => "too many links",
            Self::Inval => "invalid argument",
            Self::OtherTree => "in another tree",
            Self::BadCookie => "bad directory cookie",
            Self::FileTooBig => "file too big",
            Self::Busy => "busy",
            Self::NeedsTruncate => "the new size needs a truncation",
            Self::NeedsPlace => "the file is too large to be inline",
            Self::TooMany => "a bounded table is full",
            Self::NoXattr => "no such extended attribute",
            Self::XattrTooBig => "the value of an extended attribute is too long",
            Self::AclTooLong => "the access control list has too many entries",
            Self::Store(e) => return e.fmt(f),
        };
        f.write_str(text)
    }
}

impl std::error::Error for NsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(e) => Some(e),
            _ => None,
        }
    }
}
