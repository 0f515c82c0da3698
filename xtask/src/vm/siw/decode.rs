//! What tshark makes of recorded RDMA: MPA, DDP, RDMAP and RPC-over-RDMA without a malformed frame.

use std::path::Path;
use std::process::Command;

use super::super::capture::SEVERITY_ERROR;
use super::super::error::Result;
use super::super::process::output;

/// Fields that are read of each frame, in the order in which [`judge`] takes them.
const FIELDS: [&str; 6] = [
    "frame.number",
    "iwarp_rdma.opcode",
    "rpcordma.xid",
    "_ws.malformed",
    "_ws.expert.severity",
    "_ws.expert.message",
];

/// Operations that must be there: Write, Read Request, Read Response, Send (RFC 5040 §4.4).
const OPERATIONS: [(&str, &str); 4] = [
    ("Write", "0x00"),
    ("Read Request", "0x01"),
    ("Read Response", "0x02"),
    ("Send", "0x03"),
];

/// Fewest frames with RPC-over-RDMA in them. A run has many hundreds.
const FRAMES_MIN: usize = 200;

/// Findings that are shown.
const SHOWN_MAX: usize = 10;

/// What is wrong with a capture, if anything.
pub(super) fn judge_file(file: &Path) -> Result<Option<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-T", "fields"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=,"]);
    // Of NFS it wants the whole record, and RDMA Writes carry the bulk of it elsewhere. The capture over TCP is for NFS.
    command.args(["--disable-protocol", "nfs"]);
    command.args(["-Y", "iwarp_mpa || iwarp_ddp || rpcordma || _ws.malformed"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    Ok(judge(&output(&mut command)?))
}

fn judge(lines: &str) -> Option<String> {
    let (mut seen, mut frames, mut wrong) = ([0_u64; OPERATIONS.len()], 0, Vec::new());
    for line in lines.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [number, opcodes, xids, malformed, severities, messages] = fields[..] else {
            wrong.push(format!("tshark's line is not understood: {line}"));
            continue;
        };
        frames += usize::from(!xids.is_empty());
        for (seen, (_, code)) in seen.iter_mut().zip(OPERATIONS) {
            *seen += opcodes.split(',').filter(|opcode| *opcode == code).count() as u64;
        }
        let is_error = |text: &str| text.parse() == Ok(SEVERITY_ERROR);
        if !malformed.is_empty() || severities.split(',').any(is_error) {
            wrong.push(format!("frame {number}: {messages}"));
        }
    }
    if !wrong.is_empty() {
        let count = wrong.len();
        wrong.truncate(SHOWN_MAX);
        return Some(format!("{count} frames are wrong:\n{}", wrong.join("\n")));
    }
    if frames < FRAMES_MIN {
        return Some(format!(
            "only {frames} frames of RPC-over-RDMA were recorded"
        ));
    }
    let missing = seen.iter().zip(OPERATIONS).find(|(seen, _)| **seen == 0);
    missing.map(|(_, (name, _))| format!("no RDMA {name} was recorded"))
}

#[cfg(test)]
mod tests {
    //! The reading of tshark's lines, which decides between pass and fail.

    use super::*;

    fn good() -> String {
        let line = |n: usize| {
            format!("{n}\t0x00,0x01\t0x84df2c15\t\t6291456\tnote\n{n}\t0x02,0x03\t\t\t\t\n")
        };
        (0..FRAMES_MIN).map(line).collect()
    }

    #[test]
    fn a_capture_passes_only_when_all_is_there_and_nothing_is_wrong() {
        let good = good();
        assert_eq!(judge(&good), None);
        assert!(judge("").is_some());
        for (name, code) in OPERATIONS {
            let found = judge(&good.replace(code, "0x06"));
            assert!(found.is_some_and(|why| why.contains(name)), "{name}");
        }
        for bad in [
            "7\t0x03\t\t1\t8388608\tshort\n",
            "7\t0x03\t\t\t6291456,8388608\tbad\n",
            "no fields\n",
        ] {
            let found = judge(&format!("{good}{bad}"));
            assert!(
                found.is_some_and(|why| why.contains("1 frames are wrong")),
                "{bad}"
            );
        }
    }
}
