//! Steps that run beside each other, since each of them mostly waits.
//!
//! Each line that a program prints gets the name of its step, so that lines of several programs can be told apart.

use super::counts::{Counting, Counts, Done, Heard, judge};
use crate::repo::Result;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, pipe};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// A program that is a step.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) counting: Counting,
    pub(crate) command: Command,
}

/// Runs programs, at most `at_once` of them at a time, started in the order of the list; hands out what became of them in the
/// same order.
pub(super) fn run(at_once: usize, programs: Vec<Program>) -> Vec<Done> {
    let names: Vec<String> = programs
        .iter()
        .map(|program| program.name.clone())
        .collect();
    let waiting = Mutex::new(VecDeque::from(programs));
    let next = || {
        waiting
            .lock()
            .expect("no thread panics with it")
            .pop_front()
    };
    let worker = || {
        let mut done = Vec::new();
        while let Some(program) = next() {
            done.push(step(program));
        }
        done
    };
    let mut done: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once.max(1)).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended
            .flat_map(|done| done.expect("a step does not panic"))
            .collect()
    });
    done.sort_by_key(|done| names.iter().position(|other| *other == done.name));
    done
}

fn step(program: Program) -> Done {
    let Program {
        name,
        counting,
        command,
    } = program;
    let start = Instant::now();
    let (counts, failures) = match passed_on(&name, command, counting) {
        Ok((heard, success)) => (judge(heard.counts, success), heard.failures),
        Err(message) => {
            println!("{name}| {message}");
            (Counts::FAILED, vec![message])
        }
    };
    Done {
        name,
        counts,
        failures,
        time: start.elapsed(),
    }
}

fn passed_on(name: &str, mut command: Command, counting: Counting) -> Result<(Heard, bool)> {
    let unable = |e| format!("cannot run {:?}: {e}", command.get_program());
    let (printed, both) = pipe().map_err(unable)?;
    let other = both.try_clone().map_err(unable)?;
    let spawned = command.stdout(both).stderr(other).spawn();
    let mut child = spawned.map_err(|e| format!("cannot run {:?}: {e}", command.get_program()))?;
    // It has the writing ends of the pipe, which must not outlive the program.
    drop(command);
    let mut heard = Heard::default();
    for line in BufReader::new(printed).split(b'\n') {
        let line = line.map_err(|e| format!("cannot read what it prints: {e}"))?;
        let text = String::from_utf8_lossy(&line);
        println!("{name}| {text}");
        heard.line(counting, &text);
    }
    let status = child
        .wait()
        .map_err(|e| format!("cannot wait for it: {e}"))?;
    Ok((heard, status.success()))
}

#[cfg(test)]
mod tests {
    //! Goal: programs beside each other are counted as those one after the other.
    use super::*;

    #[test]
    fn each_program_has_its_counts_in_the_order_of_the_list() {
        let program = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let name = name.to_owned();
            Program {
                name,
                counting: Counting::ClosingLine,
                command,
            }
        };
        let list = vec![
            program(
                "slow",
                "sleep 0.2; echo '1 passed, 2 failed, 3 skipped' >&2",
            ),
            program("quick", "echo '4 passed, 0 failed, 0 skipped'"),
            program("fails", "exit 1"),
            Program {
                command: Command::new("no-such-program-of-ours"),
                ..program("absent", "")
            },
        ];
        let done = run(2, list);
        let seen: Vec<_> = done
            .iter()
            .map(|done| (&done.name[..], done.counts))
            .collect();
        let counts = |passed, failed, skipped| Counts {
            passed,
            failed,
            skipped,
        };
        assert_eq!(
            seen,
            [
                ("slow", counts(1, 2, 3)),
                ("quick", counts(4, 0, 0)),
                ("fails", Counts::FAILED),
                ("absent", Counts::FAILED),
            ]
        );
    }
}
