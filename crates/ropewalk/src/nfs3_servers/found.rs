//! What a probe has found, as it is shown.

use crate::table::{bytes, table};
use foreign::{Check, Finding, ProbeReport};

/// The report for people.
pub(super) fn text(report: &ProbeReport) -> String {
    let verdict = |found: &Finding| match (&found.lacks, found.check.is_needed()) {
        (None, _) => "yes",
        (Some(_), true) => "NO",
        (Some(_), false) => "no",
    };
    let of = |check: &Check| report.findings.iter().find(|f| f.check == *check);
    let row = |check: &Check| {
        let found = of(check);
        let said = found.map_or("not tried", verdict);
        vec![check.name().to_owned(), said.to_owned()]
    };
    let rows: Vec<_> = Check::ALL.iter().map(row).collect();
    let mut text = table(&["WHAT A DATA SERVER MUST DO", "IT DOES"], &rows);
    let (read, write) = report.io_bytes_max;
    text += &format!(
        "\n{} of {} are free; READ takes {}, WRITE {}; a file has at most {}\n",
        bytes(report.bytes_free),
        bytes(report.bytes_total),
        bytes(read.into()),
        bytes(write.into()),
        bytes(report.file_bytes_max)
    );
    for found in &report.findings {
        if let Some(why) = &found.lacks {
            let (check, advice) = (found.check, found.check.advice());
            text += &format!("\n{check}: {why}\n  {advice}\n");
        }
    }
    text
}

/// The report for programs.
pub(super) fn json(report: &ProbeReport) -> serde_json::Value {
    let finding = |found: &Finding| {
        serde_json::json!({
            "check": found.check.name(),
            "needed": found.check.is_needed(),
            "ok": found.lacks.is_none(),
            "why": found.lacks,
            "advice": found.lacks.as_ref().map(|_| found.check.advice()),
        })
    };
    let findings: Vec<_> = report.findings.iter().map(finding).collect();
    serde_json::json!({
        "fit": report.is_fit(),
        "findings": findings,
        "bytes_total": report.bytes_total,
        "bytes_free": report.bytes_free,
        "read_bytes_max": report.io_bytes_max.0,
        "write_bytes_max": report.io_bytes_max.1,
        "file_bytes_max": report.file_bytes_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_advice() {
        let report = ProbeReport {
            findings: vec![Finding {
                check: Check::RootIsRoot,
                lacks: Some("what root makes belongs to user 65534".to_owned()),
            }],
            bytes_total: 1 << 30,
            bytes_free: 1 << 20,
            io_bytes_max: (1 << 20, 1 << 16),
            file_bytes_max: 1 << 40,
        };
        let shown = text(&report);
        assert!(shown.contains("65534") && shown.contains("no_root_squash"));
        assert!(shown.contains("not tried"));
        assert_eq!(json(&report)["fit"], false);
    }
}
