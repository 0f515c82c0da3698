//! The tables of `mds.toml`: exports, placement and the root directory.

use serde::{Deserialize, Serialize};
use server::exports::ANONYMOUS_ID;

/// One `[[export]]` table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportTable {
    /// `*`, an address, or ADDRESS/BITS.
    pub clients: String,
    /// `rw` or `ro`.
    #[serde(default)]
    pub access: Access,
    /// `root` (default), `all` or `none`.
    #[serde(default)]
    pub squash: SquashName,
    /// uid of squashed callers.
    #[serde(default = "anonymous")]
    pub anonymous_uid: u32,
    /// gid of squashed callers.
    #[serde(default = "anonymous")]
    pub anonymous_gid: u32,
    /// `relatime` (default) or `off`.
    #[serde(default)]
    pub atime: AtimeName,
}

fn anonymous() -> u32 {
    ANONYMOUS_ID
}

/// `access` of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Read and write.
    #[default]
    Rw,
    /// Read only.
    Ro,
}

/// `atime` of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AtimeName {
    /// A read moves an access time that is not newer than the last change, or a day old.
    #[default]
    Relatime,
    /// Reads move no access time.
    Off,
}

/// `squash` of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SquashName {
    /// Root becomes anonymous.
    #[default]
    Root,
    /// Everyone becomes anonymous.
    All,
    /// No one does.
    None,
}

/// The `[foreign]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ForeignTable {
    /// Files made ahead for each group of such servers that is in use; 0 makes each file when it is first used.
    pub pool: usize,
}

impl Default for ForeignTable {
    fn default() -> Self {
        Self { pool: 32 }
    }
}

/// The `[placement]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PlacementTable {
    /// When the objects of a new file are made.
    pub create: CreateChoice,
}

/// When the objects of a new file are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CreateChoice {
    /// By the first write to each data server.
    #[default]
    Lazy,
    /// With the file, on all of its data servers.
    Eager,
}

impl From<CreateChoice> for fs::Creation {
    fn from(choice: CreateChoice) -> Self {
        match choice {
            CreateChoice::Lazy => Self::Lazy,
            CreateChoice::Eager => Self::Eager,
        }
    }
}

/// The `[root]` table: owner and mode of the root directory when the file system is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RootTable {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits as an octal string, for example "0755".
    pub mode: OctalMode,
}

impl Default for RootTable {
    fn default() -> Self {
        Self {
            uid: 0,
            gid: 0,
            mode: OctalMode(0o755),
        }
    }
}

impl RootTable {
    /// One that everybody can write to as to /tmp.
    pub(crate) fn open_to_all() -> Self {
        Self {
            mode: OctalMode(0o1777),
            ..Self::default()
        }
    }

    /// A root directory in which the user that starts a private cluster can write. It is that user's own, or, with
    /// root, who is squashed, one that everybody can write to as to /tmp.
    pub(crate) fn for_invoker() -> Self {
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        if uid.is_root() {
            return Self::open_to_all();
        }
        Self {
            uid: uid.as_raw(),
            gid: gid.as_raw(),
            ..Self::default()
        }
    }
}

/// Permission bits, written as octal text: TOML numbers with a leading zero are errors, and without one a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct OctalMode(pub u32);

impl TryFrom<String> for OctalMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mode = u32::from_str_radix(&text, 8)
            .ok()
            .filter(|mode| *mode <= 0o7777);
        mode.map(Self)
            .ok_or_else(|| format!("`{text}` is no mode: write octal digits, as in \"0755\""))
    }
}

impl From<OctalMode> for String {
    fn from(mode: OctalMode) -> Self {
        format!("{:04o}", mode.0)
    }
}
