//! Programs of this machine that are asked something: with an end to the time and to what they may say.
//!
//! Knows no answer. A program that is not there, fails or takes too long gives none.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(10);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// What a program prints. None without a good end.
pub(super) fn ask(program: &str, arguments: &[&str]) -> Option<String> {
    ask_within(PATIENCE, program, arguments)
}

fn ask_within(patience: Duration, program: &str, arguments: &[&str]) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    // A thread, since the program may say nothing and not end. It is left behind then.
    let (told, answer) = channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
        let _ = told.send(read.ok().map(|_| text));
    });
    let end = Instant::now() + patience;
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if Instant::now() < end => std::thread::sleep(POLL),
            None => {
                // One that waits for a disk does not end by this.
                let _ = child.kill();
                return None;
            }
        }
    };
    if !status.success() {
        return None;
    }
    // A program that it has started may have kept its output open.
    let left = end.saturating_duration_since(Instant::now());
    answer.recv_timeout(left.max(POLL)).ok()?
}

#[cfg(test)]
mod tests {
    //! Goal: an answer comes, or none does; nobody waits long.
    use super::*;

    #[test]
    fn programs_answer_or_do_not() {
        assert_eq!(ask("echo", &["yes"]).as_deref(), Some("yes\n"));
        assert_eq!(ask("false", &[]), None);
        assert_eq!(ask("no-such-program-here", &[]), None);
        let begun = Instant::now();
        assert_eq!(
            ask_within(Duration::from_millis(50), "sleep", &["60"]),
            None
        );
        let holds_output = ["-c", "sleep 60 & echo yes"];
        let patience = Duration::from_millis(200);
        assert_eq!(ask_within(patience, "sh", &holds_output), None);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
