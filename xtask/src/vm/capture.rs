//! The traffic of a guest under the eyes of other people's software: dumpcap records it, tshark decodes it.
//!
//! Fails when a frame is malformed, or when the dissectors of RPC or NFS find an error. It also fails when an operation
//! of interest was not seen: it cannot pass on nothing. Entry point: [`capture`].

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use super::cluster::Cluster;
use super::error::{Context, Failure, Result};
use super::hosted::{Finding, Stage};
use super::net::Net;
use super::process::{kill_family, output, signal, wait_at_most};

/// The size of the file of `pnfs` while traffic is recorded, MiB; the script reads it from here.
pub(crate) const CAPTURE_MIB: u64 = 9;

/// How long dumpcap may take to write its last packets.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Fewest frames with NFS in them. A run has some thousands.
const NFS_FRAMES_MIN: u64 = 1000;

/// Operations that must be there, calls and replies together, and their numbers (RFC 8881 §18, RFC 7862 §15).
const OPERATIONS: &[(&str, u32)] = &[
    ("CLOSE", 4),
    ("COMMIT", 5),
    ("CREATE", 6),
    ("GETATTR", 9),
    ("LINK", 11),
    ("LOCK", 12),
    ("LOCKU", 14),
    ("LOOKUP", 15),
    ("OPEN", 18),
    ("READ", 25),
    ("READDIR", 26),
    ("READLINK", 27),
    ("REMOVE", 28),
    ("RENAME", 29),
    ("SETATTR", 34),
    ("WRITE", 38),
    ("EXCHANGE_ID", 42),
    ("CREATE_SESSION", 43),
    ("DESTROY_SESSION", 44),
    ("GETDEVICEINFO", 47),
    ("LAYOUTCOMMIT", 49),
    ("LAYOUTGET", 50),
    ("LAYOUTRETURN", 51),
    ("SEQUENCE", 53),
    ("DESTROY_CLIENTID", 57),
    ("RECLAIM_COMPLETE", 58),
];

/// Procedures of NFSv3, MOUNT 3 and NLM 4 that must be there, calls and replies together: by which field tshark shows them, and their
/// numbers (RFC 1813 §3.3, §5.2, §6.3).
const PROCEDURES: &[(&str, &str, u32)] = &[
    ("GETATTR", "nfs.procedure_v3", 1),
    ("SETATTR", "nfs.procedure_v3", 2),
    ("LOOKUP", "nfs.procedure_v3", 3),
    ("ACCESS", "nfs.procedure_v3", 4),
    ("READLINK", "nfs.procedure_v3", 5),
    ("READ", "nfs.procedure_v3", 6),
    ("WRITE", "nfs.procedure_v3", 7),
    ("CREATE", "nfs.procedure_v3", 8),
    ("MKDIR", "nfs.procedure_v3", 9),
    ("SYMLINK", "nfs.procedure_v3", 10),
    ("MKNOD", "nfs.procedure_v3", 11),
    ("REMOVE", "nfs.procedure_v3", 12),
    ("RMDIR", "nfs.procedure_v3", 13),
    ("RENAME", "nfs.procedure_v3", 14),
    ("LINK", "nfs.procedure_v3", 15),
    ("READDIRPLUS", "nfs.procedure_v3", 17),
    ("FSINFO", "nfs.procedure_v3", 19),
    ("PATHCONF", "nfs.procedure_v3", 20),
    ("COMMIT", "nfs.procedure_v3", 21),
    ("MNT", "mount.procedure_v3", 1),
    ("TEST", "nlm.procedure_v4", 1),
    ("LOCK", "nlm.procedure_v4", 2),
    ("CANCEL", "nlm.procedure_v4", 3),
    ("UNLOCK", "nlm.procedure_v4", 4),
    ("GRANTED", "nlm.procedure_v4", 5),
];

/// Calls whose replies may be missing, and the other way round: those on their way at the end.
const UNPAIRED_MAX: u64 = 64;

/// Fields that are read of each frame, in the order in which [`judge`] takes them.
const FIELDS: [&str; 11] = [
    "frame.number",
    "rpc.msgtyp",
    "nfs.opcode",
    "nfs.procedure_v3",
    "mount.procedure_v3",
    "nlm.procedure_v4",
    "tcp.analysis.keep_alive",
    "_ws.malformed",
    "_ws.expert.severity",
    "_ws.expert.message",
    "_ws.col.Info",
];

/// Severity of an error in tshark's words: a number (PI_ERROR).
pub(crate) const SEVERITY_ERROR: u32 = 0x0080_0000;

/// `msg_type` of RFC 5531 §9 as tshark shows it.
pub(crate) const CALL: &str = "0";
const REPLY: &str = "1";

/// Findings that are shown.
const SHOWN_MAX: usize = 10;

/// Records the guest's traffic and judges it.
pub(crate) fn capture(stage: &mut Stage<'_>) -> Result<Finding> {
    if !stage.guest.await_signal("ready")? {
        return Ok(None);
    }
    let name = format!("logs/capture-{}.pcapng", std::process::id());
    let file = stage.tools.dir().join(name);
    let recorder = Recorder::start(stage.net, &file)?;
    stage.guest.signal("go")?;
    let done = stage.guest.await_signal("done")?;
    let words = recorder.stop()?;
    if !done {
        return Ok(None);
    }
    let ports = ports(stage.victim.cluster().as_ref())?;
    let found = judge(&decode(&file, &ports)?);
    if found.is_none() {
        fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
    }
    let words = words.trim();
    Ok(found.map(|found| format!("{found}\n{}: {words}", file.display())))
}

/// A running dumpcap. Dropping it kills it.
pub(crate) struct Recorder {
    child: Child,
    words: BufReader<ChildStderr>,
}

impl Recorder {
    /// Starts to record what crosses the bridge; when this returns, packets are taken.
    pub(crate) fn start(net: &Net, file: &Path) -> Result<Self> {
        Self::start_on(net.command("dumpcap"), "br0", file)
    }

    /// The same of an interface, by a dumpcap that is called so.
    pub(crate) fn start_on(mut dumpcap: Command, interface: &str, file: &Path) -> Result<Self> {
        // The buffer holds what a slow machine has not written yet; a lost packet would look like an error.
        let mut child = dumpcap
            .args(["-q", "-i", interface, "-B", "128", "-w"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context(|| "cannot start dumpcap (package tshark)".into())?;
        let stderr = child.stderr.take().expect("its words are a pipe");
        let mut recorder = Self {
            child,
            words: BufReader::new(stderr),
        };
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let read = recorder.words.read_line(&mut line);
            if read.context(|| "cannot read what dumpcap says".into())? == 0 {
                return Err(Failure::new(format!("dumpcap ended: {}", said.trim())));
            }
            // It names the file when the first packet can come.
            if line.starts_with("File: ") {
                return Ok(recorder);
            }
            said.push_str(&line);
        }
    }

    /// Ends it, and returns its count of packets.
    pub(crate) fn stop(mut self) -> Result<String> {
        signal(&[self.child.id()], "INT");
        if wait_at_most(&mut self.child, END_LIMIT)?.is_none() {
            return Err(Failure::new("dumpcap does not end"));
        }
        let mut words = String::new();
        while self
            .words
            .read_line(&mut words)
            .context(|| "cannot read what dumpcap says".into())?
            > 0
        {}
        Ok(words)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        kill_family(&mut self.child);
    }
}

/// The ports that servers of the cluster listen on for NFS.
pub(crate) fn ports(cluster: Option<&Cluster>) -> Result<Vec<String>> {
    let cluster = cluster.ok_or_else(|| Failure::new("this scenario needs --cluster-dir"))?;
    let mut ports = Vec::new();
    for name in std::iter::once("mds".to_owned()).chain(cluster.ds_names()) {
        let status = cluster.status(&name)?;
        for address in status["listen"].as_array().into_iter().flatten() {
            let port = address.as_str().and_then(|text| text.rsplit_once(':'));
            ports.extend(port.map(|(_, port)| port.to_owned()));
        }
    }
    Ok(ports)
}

/// What tshark says of each frame that has RPC in it or is malformed, a line each.
fn decode(file: &Path, ports: &[String]) -> Result<String> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-n", "-T", "fields"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=,"]);
    command.args(["-Y", "rpc || _ws.malformed"]);
    for port in ports {
        command.args(["-d", &format!("tcp.port=={port},rpc")]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    output(&mut command)
}

/// What was seen of a recording.
#[derive(Default)]
struct Seen {
    /// Frames with NFSv4 in them.
    frames: u64,
    calls: u64,
    replies: u64,
    /// How often a number was seen in a field.
    numbers: BTreeMap<(&'static str, u32), u64>,
    /// Frames with a fault.
    wrong: Vec<String>,
}

impl Seen {
    /// Takes in a line of [`decode`].
    fn line(&mut self, line: &str) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [
            number,
            types,
            numbers @ ..,
            keep_alive,
            malformed,
            severities,
            messages,
            info,
        ] = &fields[..]
        else {
            return self.not_understood(line);
        };
        if fields.len() != FIELDS.len() {
            return self.not_understood(line);
        }
        self.frames += u64::from(!numbers[0].is_empty());
        for text in types.split(',') {
            self.calls += u64::from(text == CALL);
            self.replies += u64::from(text == REPLY);
        }
        for (field, texts) in FIELDS[2..].iter().zip(numbers) {
            for number in texts.split(',').filter_map(|text| text.parse().ok()) {
                *self.numbers.entry((*field, number)).or_default() += 1;
            }
        }
        let is_error = severities
            .split(',')
            .any(|text| text.parse() == Ok(SEVERITY_ERROR));
        // A keep-alive may repeat one octet of any value (RFC 9293 §3.8.4), which no receiver takes; tshark does.
        let is_waived = !keep_alive.is_empty() && types.is_empty();
        if (!malformed.is_empty() || is_error) && !is_waived {
            self.wrong
                .push(format!("frame {number}: {messages} ({info})"));
        }
    }

    fn not_understood(&mut self, line: &str) {
        let why = format!("tshark's line is not understood: {line}");
        self.wrong.push(why);
    }

    /// What was not seen as a call and as a reply.
    fn missing(&self) -> Vec<&'static str> {
        let operations = OPERATIONS
            .iter()
            .map(|(name, number)| (*name, "nfs.opcode", *number));
        let all = operations.chain(PROCEDURES.iter().copied());
        let count = |field, number| self.numbers.get(&(field, number)).copied().unwrap_or(0);
        all.filter(|(_, field, number)| count(*field, *number) < 2)
            .map(|(name, _, _)| name)
            .collect()
    }
}

/// What the lines of [`decode`] come to.
fn judge(lines: &str) -> Finding {
    let mut seen = Seen::default();
    lines.lines().for_each(|line| seen.line(line));
    let Seen {
        frames,
        calls,
        replies,
        ..
    } = seen;
    if !seen.wrong.is_empty() {
        let count = seen.wrong.len();
        seen.wrong.truncate(SHOWN_MAX);
        let shown = seen.wrong.join("\n");
        return Some(format!("{count} frames are wrong:\n{shown}"));
    }
    if frames < NFS_FRAMES_MIN {
        return Some(format!("only {frames} frames of NFS were recorded"));
    }
    if calls.abs_diff(replies) > UNPAIRED_MAX {
        return Some(format!("{calls} calls but {replies} replies were decoded"));
    }
    let missing = seen.missing();
    (!missing.is_empty()).then(|| format!("never seen with its reply: {}", missing.join(", ")))
}

#[cfg(test)]
mod tests {
    //! The reading of tshark's lines, which decides between pass and fail.

    use super::*;

    /// A call and a reply with every operation, often enough.
    fn good() -> String {
        let all: Vec<String> = OPERATIONS.iter().map(|(_, n)| n.to_string()).collect();
        let all = all.join(",");
        let of = |field| {
            let numbers = PROCEDURES.iter().filter(|(_, of, _)| *of == field);
            let numbers: Vec<String> = numbers.map(|(_, _, n)| n.to_string()).collect();
            numbers.join(",")
        };
        let [nfs, mount, nlm] = ["nfs", "mount", "nlm"]
            .map(|program| FIELDS[3..6].iter().find(|f| f.starts_with(program)))
            .map(|field| of(*field.expect("a field of each program")));
        (0..NFS_FRAMES_MIN)
            .map(|n| {
                let (kind, numbers) = (n % 2, format!("{all}\t{nfs}\t{mount}\t{nlm}"));
                format!("{n}\t{kind}\t{numbers}\t\t\t2097152,6291456\tnote,warn\tinfo\n")
            })
            .collect()
    }

    #[test]
    fn a_capture_passes_only_when_all_is_there_and_nothing_is_wrong() {
        let good = good();
        assert_eq!(judge(&good), None);
        assert!(judge("").is_some());
        for (number, name) in [
            (",49,", "LAYOUTCOMMIT"),
            (",17,", "READDIRPLUS"),
            (",4,5", "GRANTED"),
        ] {
            let without = judge(&good.replace(number, ","));
            assert!(without.is_some_and(|why| why.contains(name)), "{name}");
        }
        assert!(judge(&good.replace("\t1\t", "\t0\t")).is_some_and(|why| why.contains("replies")));
        for bad in [
            "7\t0\t53\t\t\t\t\t1\t8388608\tshort\tinfo\n",
            "7\t0\t\t7\t\t\t\t\t8388608\tbad field\tinfo\n",
            "7\t0\t53\t\t\t\t1\t1\t8388608\tshort, in a keep-alive with RPC in it\tinfo\n",
            "7\t\t\t\t\t\t\t1\t8388608\tshort\tinfo\n",
            "7\t0\t53\t\t\t8388608\tfields are missing\tinfo\n",
            "no fields\n",
        ] {
            let found = judge(&format!("{good}{bad}"));
            assert!(
                found.is_some_and(|why| why.contains("1 frames are wrong")),
                "{bad}"
            );
        }
        let keep_alive = "7\t\t\t\t\t\t1\t1\t4194304\toverlaps\tinfo\n";
        assert_eq!(judge(&format!("{good}{keep_alive}")), None);
    }
}
