//! Attributes as text and JSON.

use client::{FileType, Metadata, NfsTime, NfsUrl};
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::IsTerminal;

/// `drwxr-xr-x`.
pub(crate) fn mode(m: &Metadata) -> String {
    let kind = match m.file_type {
        FileType::Dir => 'd',
        FileType::Lnk => 'l',
        FileType::Blk => 'b',
        FileType::Chr => 'c',
        FileType::Fifo => 'p',
        FileType::Sock => 's',
        _ => '-',
    };
    let mut out = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = m.mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (bits & 1 != 0, m.mode & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
        });
    }
    out
}

/// The name of a type.
pub(crate) fn type_name(t: FileType) -> &'static str {
    match t {
        FileType::Dir => "directory",
        FileType::Lnk => "symlink",
        FileType::Blk => "block device",
        FileType::Chr => "character device",
        FileType::Fifo => "fifo",
        FileType::Sock => "socket",
        _ => "file",
    }
}

/// Bytes with a unit, as `1.5M`.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    // Tenths of the unit, rounded up, so that what is there never looks like less.
    let (mut tenths, mut unit) = ((u128::from(bytes) * 10).div_ceil(1024), 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths = tenths.div_ceil(1024);
        unit += 1;
    }
    if tenths < 100 {
        format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[unit])
    } else {
        format!("{}{}", tenths.div_ceil(10), UNITS[unit])
    }
}

/// A time in UTC, as `2026-01-31 23:59:58`.
pub(crate) fn time(t: NfsTime) -> String {
    let (day, second) = (t.seconds.div_euclid(86_400), t.seconds.rem_euclid(86_400));
    let (year, month, day) = civil(day);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month and day of a number of days since 1970-01-01 in the Gregorian calendar. Years are counted from March, so
/// that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// A name for people. On a terminal, one with control characters or bytes that are not UTF-8 is quoted as shells
/// understand it (`$'a\nb'`). No name moves the cursor or looks like two.
pub(crate) fn name(bytes: &[u8]) -> String {
    if std::io::stdout().is_terminal() {
        quoted(bytes)
    } else {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

fn quoted(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes);
    if let Ok(text) = text.as_ref().map(|t| t.to_string())
        && !text.chars().any(char::is_control)
    {
        return text;
    }
    let mut out = String::from("$'");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\'' | '\\' => out.extend(['\\', c]),
                c if c.is_control() => {
                    let mut utf8 = [0; 4];
                    octal(&mut out, c.encode_utf8(&mut utf8).as_bytes());
                }
                c => out.push(c),
            }
        }
        octal(&mut out, chunk.invalid());
    }
    out.push('\'');
    out
}

fn octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}

/// Everything that is known. `path` shows what is no UTF-8 as U+FFFD; `url` keeps every byte.
pub(crate) fn json_of(url: &NfsUrl, m: &Metadata, target: Option<&[u8]>) -> Value {
    let seconds = |t: NfsTime| json!({ "seconds": t.seconds, "nanoseconds": t.nanoseconds });
    let mut value = json!({
        "path": String::from_utf8_lossy(&url.path),
        "url": url.to_string(),
        "type": type_name(m.file_type),
        "mode": format!("{:04o}", m.mode),
        "links": m.links_count,
        "owner": m.owner,
        "group": m.group,
        "size": m.size,
        "space": m.space_bytes,
        "inode": m.file_id,
        "change": m.change,
        "accessed": seconds(m.atime),
        "modified": seconds(m.mtime),
        "changed": seconds(m.ctime),
    });
    if let Some(target) = target {
        value["target"] = Value::from(String::from_utf8_lossy(target).into_owned());
    }
    value
}

#[cfg(test)]
mod tests {
    //! Goal: numbers become the text that people know from the usual tools.
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (bytes, want) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1536, "1.5K"),
            (10 << 10, "10K"),
            (1 << 20, "1.0M"),
            ((1 << 20) + 1, "1.1M"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(bytes), want, "{bytes}");
        }
    }

    #[test]
    fn names_do_not_move_the_cursor() {
        for (name, want) in [
            (&b"plain"[..], "plain"),
            ("gr\u{fc}n".as_bytes(), "gr\u{fc}n"),
            (b"it's", "it's"),
            (b"a\nb", "$'a\\nb'"),
            (b"\x1b[2J'", "$'\\033[2J\\''"),
            (b"bad\xff", "$'bad\\377'"),
        ] {
            assert_eq!(quoted(name), want);
        }
    }

    #[test]
    fn times_are_civil() {
        for (seconds, want) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            let t = NfsTime {
                seconds,
                nanoseconds: 0,
            };
            assert_eq!(time(t), want);
        }
    }
}
