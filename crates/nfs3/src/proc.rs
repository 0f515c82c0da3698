//! Procedure numbers (RFC 1813 §3).

xdr::xdr_enum! {
    /// A procedure of NFSv3.
    pub enum Proc {
        /// Does nothing.
        Null = 0,
        /// Attributes.
        GetAttr = 1,
        /// Sets attributes.
        SetAttr = 2,
        /// The handle of a name.
        Lookup = 3,
        /// What a user may do.
        Access = 4,
        /// The text of a symbolic link.
        ReadLink = 5,
        /// Data of a file.
        Read = 6,
        /// Writes data.
        Write = 7,
        /// A new file.
        Create = 8,
        /// A new directory.
        MkDir = 9,
        /// A new symbolic link.
        Symlink = 10,
        /// A new device, socket or pipe.
        MkNod = 11,
        /// Removes a name that is no directory.
        Remove = 12,
        /// Removes a directory.
        RmDir = 13,
        /// Renames.
        Rename = 14,
        /// A further name.
        Link = 15,
        /// Names of a directory.
        ReadDir = 16,
        /// Names of a directory with attributes and handles.
        ReadDirPlus = 17,
        /// Space and files.
        FsStat = 18,
        /// What the server can do.
        FsInfo = 19,
        /// Limits of POSIX.
        PathConf = 20,
        /// Makes writes stable.
        Commit = 21,
    }
}

impl Proc {
    /// The RFC's name, `GETATTR`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::GetAttr => "GETATTR",
            Self::SetAttr => "SETATTR",
            Self::Lookup => "LOOKUP",
            Self::Access => "ACCESS",
            Self::ReadLink => "READLINK",
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::Create => "CREATE",
            Self::MkDir => "MKDIR",
            Self::Symlink => "SYMLINK",
            Self::MkNod => "MKNOD",
            Self::Remove => "REMOVE",
            Self::RmDir => "RMDIR",
            Self::Rename => "RENAME",
            Self::Link => "LINK",
            Self::ReadDir => "READDIR",
            Self::ReadDirPlus => "READDIRPLUS",
            Self::FsStat => "FSSTAT",
            Self::FsInfo => "FSINFO",
            Self::PathConf => "PATHCONF",
            Self::Commit => "COMMIT",
        }
    }
}

impl std::fmt::Display for Proc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
