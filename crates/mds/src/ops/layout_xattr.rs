//! The virtual extended attribute `ropewalk.layout` (`user.ropewalk.layout` on Linux): how data are striped.
//!
//! A plain attribute to clients, so `setfattr` and `getfattr` on a kernel mount do what `ropewalk layout` does. On a directory it
//! is the policy for new files and directories below; reading shows what applies, set or not. On a file it shows how the
//! file lies. To set it gives a file that has data another stripe unit, count or number of copies; what is not named stays.
//! The answer comes before that is done. Meanwhile `restriped` says how many bytes are copied; `restripe_failed` is why the last
//! try ended. Only the owner and root may. `inline=3000` is a file whose bytes, so many, lie in the metadata store:
//! nothing is to be done for it.
//!
//! The value is text: `stripe_unit=1048576 stripe_count=4 inline_max=32768`, each word optional. Sizes may end in K, M or G
//! (powers of 1024, `KiB` too). `stripe_count=all` is a whole placement group. `inline_max` is the size up to which a file
//! is inline, 0 for none.

use crate::Mds;
use crate::cx::Cx;
use cluster::FILE_WIDTH_MAX;
use fs::{RestripeState, STRIPE_UNIT_BYTES_MAX, STRIPE_UNIT_BYTES_MIN};
use layout::COPIES_MAX;
use namespace::{EXECUTE, INLINE_BYTES_MAX, Inode, LayoutPolicy, READ, SetXattr, WRITE};
use nfs4::NfsStatus;

/// Its name on the wire.
pub(super) const NAME: &[u8] = b"ropewalk.layout";
/// Its LISTXATTRS cookie: below that of any other.
pub(super) const COOKIE: u64 = 1;
/// The word for the number of data servers.
const COUNT: &[u8] = b"stripe_count=";
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
    let policy = inode.layout_policy().unwrap_or_default();
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
    Ok(format!("{stripes} inline_max={inline_max}"))
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

/// The policy that a value sets on a directory.
pub(super) fn to_set(
    mds: &Mds,
    inode: &Inode,
    value: &[u8],
    how: SetXattr,
) -> Result<LayoutPolicy, NfsStatus> {
    if !inode.is_dir() {
        return Err(NfsStatus::Inval);
    }
    match how {
        SetXattr::Create if is_set(inode) => return Err(NfsStatus::Exist),
        SetXattr::Replace if !is_set(inode) => return Err(NfsStatus::NoXattr),
        _ => {}
    }
    parse(value, mds.fs.cluster().stripe_count_max()).ok_or(NfsStatus::Inval)
}

/// Begins to give a file that has data the shape that a value names.
pub(super) fn restripe(
    mds: &Mds,
    cx: &Cx<'_>,
    inode: &Inode,
    value: &[u8],
) -> Result<(), NfsStatus> {
    let mut policy = parse(value, mds.fs.cluster().stripe_count_max()).ok_or(NfsStatus::Inval)?;
    if !cx.actor.cred.is_root && cx.actor.cred.uid != inode.uid {
        return Err(NfsStatus::Perm);
    }
    let Some(now) = fs::shape_of(&mds.fs, inode) else {
        return Ok(());
    };
    if policy.stripe_unit == 0 {
        policy.stripe_unit = now.stripe_unit;
    }
    // All of a group is 0 too.
    let names_count = value.windows(COUNT.len()).any(|word| word == COUNT);
    if !names_count {
        policy.stripe_count = now.width;
    }
    if policy.copies == 0 {
        policy.copies = now.copies;
    }
    fs::restripe(&mds.fs, inode, policy)
}

/// Reads the text; `None` for what makes no sense or is beyond its bounds.
fn parse(value: &[u8], count_max: u32) -> Option<LayoutPolicy> {
    let text = std::str::from_utf8(value).ok()?;
    // `setfattr` of a shell variable may end with a line or, by some tools, a NUL.
    let text = text.trim_end_matches('\0');
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let mut policy = LayoutPolicy::default();
    for word in text.split_ascii_whitespace() {
        match word.split_once('=')? {
            ("stripe_unit", size) => policy.stripe_unit = stripe_unit(size)?,
            ("inline_max", size) => {
                let bytes = bytes_of(size)?;
                let bytes = u32::try_from(bytes).ok();
                policy.inline_max_bytes = Some(bytes.filter(|b| *b <= INLINE_BYTES_MAX)?);
            }
            ("copies", count) => {
                let count = count.parse().ok();
                policy.copies = count.filter(|count| (1..=COPIES_MAX).contains(count))?;
            }
            ("stripe_count", "all") => policy.stripe_count = 0,
            ("stripe_count", count) => {
                policy.stripe_count = count
                    .parse()
                    .ok()
                    .filter(|count| (1..=count_max).contains(count))?;
            }
            _ => return None,
        }
    }
    Some(policy)
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
            assert_eq!(parse(text.as_bytes(), 4), policy, "{text}");
        }
        let two = LayoutPolicy {
            copies: 2,
            ..LayoutPolicy::default()
        };
        assert_eq!(parse(b"copies=2", 4), Some(two));
        assert_eq!(parse(b"\xff", 4), None);
        assert_eq!(parse(&[b' '; TEXT_BYTES_MAX + 1], 4), None);
    }
}
