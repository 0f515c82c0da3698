//! The virtual extended attribute `ropewalk.layout` (`user.ropewalk.layout` on Linux): how data are striped.
//!
//! A plain attribute to clients, so `setfattr` and `getfattr` on a kernel mount do what `ropewalk layout` does. On a directory it
//! is the policy for new files and directories below; reading shows what applies, set or not. On a file it shows how the
//! file lies. To set it gives a file that has data another stripe unit, count or number of copies; what is not named stays.
//! The answer comes before that is done. Meanwhile `restriped` says how many bytes are copied; `restripe_failed` is why the last
//! try ended. Only the owner and root may. `inline=3000` is a file whose bytes, so many, lie in the metadata store:
//! nothing is to be done for it.
//!
//! `servers=nfs3` on an empty directory makes it the top of a tree whose files lie on NFSv3 servers of others; `servers=own` turns
//! it back. `copies` (or `mirrors`) are the mirrors of such files then, one stripe each unless more are named, and none is inline.
//! `bad_mirrors=1` on a file counts those that do not count.
//!
//! The value is text: `stripe_unit=1048576 stripe_count=4 inline_max=32768`, each word optional. Sizes may end in K, M or G
//! (powers of 1024, `KiB` too). `stripe_count=all` is a whole placement group. `inline_max` is the size up to which a file
//! is inline, 0 for none.

use crate::Mds;
use crate::cx::Cx;
use cluster::FILE_WIDTH_MAX;
use foreign::{ServerState, is_foreign};
use fs::{RestripeState, STRIPE_UNIT_BYTES_MAX, STRIPE_UNIT_BYTES_MIN};
use layout::COPIES_MAX;
use namespace::{EXECUTE, INLINE_BYTES_MAX, Inode, LayoutPolicy, READ, SetXattr, WRITE};
use nfs4::NfsStatus;

/// Its name on the wire.
pub(super) const NAME: &[u8] = b"ropewalk.layout";
/// Its LISTXATTRS cookie: below that of any other.
pub(super) const COOKIE: u64 = 1;
/// The word for the kind of servers.
const SERVERS: &str = "servers";
/// What it says of NFSv3 servers of others, and of data servers of the cluster.
const NFS3: &str = "nfs3";
const OWN: &str = "own";
/// Longest text.
const TEXT_BYTES_MAX: usize = 256;

/// The text for a file or directory. Whoever may use it in any way may see how it is striped.
pub(super) fn get(mds: &Mds, cx: &mut Cx<'_>, inode: &Inode) -> Result<String, NfsStatus> {
    let rights = cx.actor.ns(&mds.fs, |ns, op| ns.access(op, inode.id))?;
    if rights & (READ | WRITE | EXECUTE) == 0 {
        return Err(NfsStatus::Access);
    }
    if inode.is_inline() {
        return Ok(format!("inline={}", inode.space_used));
    }
    if let Some(text) = foreign_file(mds, inode) {
        return Ok(text);
    }
    if let Some(placement) = inode.placement {
        let shape = fs::shape_of(&mds.fs, inode);
        let (count, copies) = shape.map_or((0, 1), |shape| (shape.width, shape.copies));
        let stripes = stripes(placement.stripe_unit, count, copies);
        return Ok(match fs::restripe_state(&mds.fs, inode.id) {
            None => stripes,
            Some(RestripeState::Running(bytes)) => format!("{stripes} restriped={bytes}"),
            Some(RestripeState::Failed(status)) => format!("{stripes} restripe_failed={status}"),
        });
    }
    if !inode.is_dir() {
        return Err(NfsStatus::NoXattr);
    }
    let policy = policy_of(mds, inode);
    let unit = match policy.stripe_unit {
        0 => mds.fs.stripe_unit_bytes(),
        unit => unit,
    };
    // One from before that was bounded.
    let copies = match policy.copies {
        0 => mds.fs.cluster().copies(),
        copies => copies,
    };
    let stripes = stripes(unit, policy.stripe_count.min(FILE_WIDTH_MAX), copies);
    let inline_max = mds.fs.inline_max_bytes(policy);
    let servers = match inode.is_foreign() {
        true => format!("{SERVERS}={NFS3} "),
        false => String::new(),
    };
    Ok(format!("{servers}{stripes} inline_max={inline_max}"))
}

/// The text for a file on servers of others.
fn foreign_file(mds: &Mds, inode: &Inode) -> Option<String> {
    let placement = inode.placement.filter(|p| is_foreign(p.group))?;
    let group = mds.fs.foreign().group(placement.group);
    let (width, mirrors) = group.map_or((0, 1), |group| (group.width, group.mirrors));
    let stripes = stripes(placement.stripe_unit, width, mirrors);
    Some(match inode.bad_mirrors().count_ones() {
        0 => format!("{SERVERS}={NFS3} {stripes}"),
        bad => format!("{SERVERS}={NFS3} {stripes} bad_mirrors={bad}"),
    })
}

/// Copies are told where there is more than one.
fn stripes(unit: u32, count: u32, copies: u32) -> String {
    let count = match count {
        0 => "all".to_owned(),
        count => count.to_string(),
    };
    let stripes = format!("stripe_unit={unit} stripe_count={count}");
    match copies {
        0 | 1 => stripes,
        copies => format!("{stripes} copies={copies}"),
    }
}

/// Whether a directory has a policy of its own, which LISTXATTRS shows.
pub(super) fn is_set(inode: &Inode) -> bool {
    inode.is_dir() && inode.layout_policy().is_some()
}

/// The policy of a directory, with what a foreign tree has where nothing is said.
fn policy_of(mds: &Mds, inode: &Inode) -> LayoutPolicy {
    let set = inode.layout_policy();
    match inode.is_foreign() {
        true => set.unwrap_or_else(|| for_foreign(mds, Wanted::default())),
        false => set.unwrap_or_default(),
    }
}

/// The policy of a foreign tree: what is not named is one stripe, the copies of the cluster, and nothing inline.
fn for_foreign(mds: &Mds, wanted: Wanted) -> LayoutPolicy {
    let mut policy = wanted.policy;
    if !wanted.names_count {
        policy.stripe_count = 1;
    }
    if policy.copies == 0 {
        policy.copies = mds.fs.cluster().copies();
    }
    policy.inline_max_bytes = policy.inline_max_bytes.or(Some(0));
    policy
}

/// Whether servers of others can have files of a policy.
fn fits_foreign(mds: &Mds, policy: &LayoutPolicy) -> bool {
    let servers = mds.fs.foreign().servers();
    let active = servers.iter().filter(|s| s.state == ServerState::Active);
    let count = u32::try_from(active.count()).unwrap_or(u32::MAX);
    let stripes = u64::from(policy.stripe_count) * u64::from(policy.copies);
    policy.stripe_count > 0 && stripes <= u64::from(count)
}

/// The policy that a value sets on a directory, and the kind of servers, where it names one.
pub(super) fn to_set(
    mds: &Mds,
    inode: &Inode,
    value: &[u8],
    how: SetXattr,
) -> Result<(LayoutPolicy, Option<bool>), NfsStatus> {
    if !inode.is_dir() {
        return Err(NfsStatus::Inval);
    }
    match how {
        SetXattr::Create if is_set(inode) => return Err(NfsStatus::Exist),
        SetXattr::Replace if !is_set(inode) => return Err(NfsStatus::NoXattr),
        _ => {}
    }
    let wanted = wanted(mds, inode, value).ok_or(NfsStatus::Inval)?;
    let is_foreign = wanted.is_foreign;
    if !is_foreign.unwrap_or(inode.is_foreign()) {
        return Ok((wanted.policy, is_foreign));
    }
    let policy = for_foreign(mds, wanted);
    match fits_foreign(mds, &policy) {
        true => Ok((policy, is_foreign)),
        false => Err(NfsStatus::Inval),
    }
}

/// What a value says for a file or directory.
fn wanted(mds: &Mds, inode: &Inode, value: &[u8]) -> Option<Wanted> {
    parse(value, |is_foreign| {
        match is_foreign.unwrap_or(inode.is_foreign()) {
            true => FILE_WIDTH_MAX,
            false => mds.fs.cluster().stripe_count_max(),
        }
    })
}

/// Begins to give a file that has data the shape that a value names.
pub(super) fn restripe(
    mds: &Mds,
    cx: &Cx<'_>,
    inode: &Inode,
    value: &[u8],
) -> Result<(), NfsStatus> {
    let wanted = wanted(mds, inode, value).ok_or(NfsStatus::Inval)?;
    let mut policy = wanted.policy;
    if !cx.actor.cred.is_root && cx.actor.cred.uid != inode.uid {
        return Err(NfsStatus::Perm);
    }
    if wanted.is_foreign.is_some_and(|is| is != inode.is_foreign()) {
        return Err(NfsStatus::Inval);
    }
    if inode.is_foreign() {
        return has_shape(mds, inode, &wanted);
    }
    let Some(now) = fs::shape_of(&mds.fs, inode) else {
        return Ok(());
    };
    if policy.stripe_unit == 0 {
        policy.stripe_unit = now.stripe_unit;
    }
    // All of a group is 0 too.
    if !wanted.names_count {
        policy.stripe_count = now.width;
    }
    if policy.copies == 0 {
        policy.copies = now.copies;
    }
    fs::restripe(&mds.fs, inode, policy)
}

/// A file on servers of others keeps its shape: it can only be told to have the one that it has.
fn has_shape(mds: &Mds, inode: &Inode, wanted: &Wanted) -> Result<(), NfsStatus> {
    let Some(placement) = inode.placement else {
        return Ok(());
    };
    let group = mds.fs.foreign().group(placement.group);
    let group = group.ok_or(NfsStatus::Inval)?;
    let policy = &wanted.policy;
    let is_same = [
        (
            policy.stripe_unit != 0,
            policy.stripe_unit == placement.stripe_unit,
        ),
        (wanted.names_count, policy.stripe_count == group.width),
        (policy.copies != 0, policy.copies == group.mirrors),
    ];
    match is_same
        .iter()
        .all(|(is_named, is_same)| !is_named || *is_same)
    {
        true => Ok(()),
        false => Err(NfsStatus::Inval),
    }
}

/// What a text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Wanted {
    policy: LayoutPolicy,
    /// Whether it names a stripe count. All of a group is 0 too.
    names_count: bool,
    /// Whether files are to lie on servers of others, where it says so.
    is_foreign: Option<bool>,
}

/// Reads the text; `None` for what makes no sense or is beyond its bounds.
/// How many stripes there may be depends on the kind of servers.
fn parse(value: &[u8], count_max: impl Fn(Option<bool>) -> u32) -> Option<Wanted> {
    let text = std::str::from_utf8(value).ok()?;
    // `setfattr` of a shell variable may end with a line or, by some tools, a NUL.
    let text = text.trim_end_matches('\0');
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (mut policy, mut names_count, mut is_foreign) = (LayoutPolicy::default(), false, None);
    for word in text.split_ascii_whitespace() {
        match word.split_once('=')? {
            ("stripe_unit", size) => policy.stripe_unit = stripe_unit(size)?,
            ("inline_max", size) => {
                let bytes = bytes_of(size)?;
                let bytes = u32::try_from(bytes).ok();
                policy.inline_max_bytes = Some(bytes.filter(|b| *b <= INLINE_BYTES_MAX)?);
            }
            (SERVERS, NFS3) => is_foreign = Some(true),
            (SERVERS, OWN) => is_foreign = Some(false),
            ("copies" | "mirrors", count) => {
                let count = count.parse().ok();
                policy.copies = count.filter(|count| (1..=COPIES_MAX).contains(count))?;
            }
            ("stripe_count", "all") => (policy.stripe_count, names_count) = (0, true),
            ("stripe_count", count) => {
                let count = count.parse().ok().filter(|count| *count > 0)?;
                (policy.stripe_count, names_count) = (count, true);
            }
            _ => return None,
        }
    }
    let wanted = Wanted {
        policy,
        names_count,
        is_foreign,
    };
    (policy.stripe_count <= count_max(is_foreign)).then_some(wanted)
}

/// A number of bytes, perhaps with a unit.
fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn stripe_unit(text: &str) -> Option<u32> {
    let bytes = bytes_of(text)?;
    let unit = u32::try_from(bytes).ok()?;
    let range = STRIPE_UNIT_BYTES_MIN..=STRIPE_UNIT_BYTES_MAX;
    (range.contains(&unit) && unit.is_power_of_two()).then_some(unit)
}

#[cfg(test)]
mod tests {
    //! Goal: a policy is taken as written or refused, never bent.
    use super::*;

    #[test]
    fn units_and_counts_have_bounds() {
        let is = |stripe_unit, stripe_count| {
            Some(LayoutPolicy {
                stripe_unit,
                stripe_count,
                inline_max_bytes: None,
                copies: 0,
            })
        };
        let inline = |bytes| {
            Some(LayoutPolicy {
                inline_max_bytes: Some(bytes),
                ..LayoutPolicy::default()
            })
        };
        for (text, policy) in [
            ("stripe_unit=65536 stripe_count=4", is(65536, 4)),
            ("stripe_count=1", is(0, 1)),
            ("stripe_unit=1MiB\n", is(1 << 20, 0)),
            ("stripe_unit=1G stripe_count=all\0", is(1 << 30, 0)),
            ("", is(0, 0)),
            ("inline_max=0", inline(0)),
            ("inline_max=64K", inline(65_536)),
            ("inline_max=65537", None),
            ("inline_max=1G", None),
            ("inline_max=-1", None),
            ("stripe_count=0", None),
            ("stripe_count=5", None),
            ("stripe_count=-1", None),
            ("stripe_unit=4097", None),
            ("stripe_unit=12K", None),
            ("stripe_unit=0", None),
            ("stripe_unit=2G", None),
            ("stripe_unit=1MB", None),
            ("stripe_unit=99999999999999999999G", None),
            ("stripe_unit", None),
            ("copies=0", None),
            ("copies=5", None),
            ("pool=a", None),
        ] {
            let said = parse(text.as_bytes(), |_| 4);
            assert_eq!(said.map(|said| said.policy), policy, "{text}");
        }
        let two = LayoutPolicy {
            copies: 2,
            ..LayoutPolicy::default()
        };
        for text in ["copies=2", "mirrors=2"] {
            let said = parse(text.as_bytes(), |_| 4);
            assert_eq!(said.map(|said| said.policy), Some(two), "{text}");
        }
        assert_eq!(parse(b"\xff", |_| 4), None);
        assert_eq!(parse(&[b' '; TEXT_BYTES_MAX + 1], |_| 4), None);
    }

    #[test]
    fn the_kind_of_servers_is_one_of_two_and_decides_how_many_there_are() {
        let max = |is_foreign| match is_foreign {
            Some(true) => 2,
            _ => 4,
        };
        for (text, is_foreign, names_count) in [
            ("servers=nfs3 mirrors=2", Some(true), false),
            ("stripe_count=2 servers=nfs3", Some(true), true),
            ("servers=own stripe_count=all", Some(false), true),
            ("stripe_count=4", None, true),
        ] {
            let said = parse(text.as_bytes(), max).unwrap();
            let is = (said.is_foreign, said.names_count);
            assert_eq!(is, (is_foreign, names_count), "{text}");
        }
        for wrong in [
            "servers=",
            "servers=NFS3",
            "servers=nfs4",
            "stripe_count=3 servers=nfs3",
            "servers=nfs3 stripe_count=3",
            "mirrors=5",
            "mirrors=0",
        ] {
            assert_eq!(parse(wrong.as_bytes(), max), None, "{wrong}");
        }
    }
}
