//! Seeing every call that changes files, by ptrace(2).
//!
//! # Ownership
//! The process that is recorded ends with the thread that records it (EXITKILL). Its threads belong to that thread alone,
//! which waits for no other children.
//!
//! # Failure
//! A call below the root that is not understood here (a mapping that writes, io_uring, an exchange of names) ends the
//! recording with a panic. Silence would be a cut that misses something.

mod calls;
mod memory;

use crate::Recording;
use calls::Call;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::io::{Error, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command};

/// Runs the command to its end, and records it from when it reads its first byte.
pub(crate) fn run(command: &mut Command, root: &Path) -> Result<Recording, Error> {
    let mut child = command.spawn()?;
    let recorded = follow(&mut child, root);
    // It has ended, or ends now; its status was taken already when it was waited for as a thread.
    let _ = child.kill();
    let _ = child.wait();
    recorded
}

fn follow(child: &mut Child, root: &Path) -> Result<Recording, Error> {
    let mut recording = Recording::new(std::fs::metadata(root)?.ino());
    recording.load(root)?;
    let leader = Pid::from_raw(child.id().cast_signed());
    let mut starting = seize(leader)?;
    let mut go = child.stdin.take();
    let mut under_way: HashMap<Pid, (usize, Call)> = HashMap::new();
    loop {
        let status = waitpid(
            Pid::from_raw(-1),
            Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD),
        )?;
        let signal = match status {
            WaitStatus::Exited(pid, 0) if pid == leader => return Ok(recording),
            WaitStatus::Exited(pid, code) if pid == leader => {
                return Err(Error::other(format!(
                    "the workload ended with status {code}"
                )));
            }
            WaitStatus::Signaled(pid, signal, _) if pid == leader => {
                return Err(Error::other(format!("the workload was ended by {signal}")));
            }
            WaitStatus::PtraceSyscall(pid) => {
                step(pid, &mut under_way, &mut recording, root)?;
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            _ => None,
        };
        let Some(pid) = status.pid() else { continue };
        starting.remove(&pid);
        if starting.is_empty()
            && let Some(mut stdin) = go.take()
        {
            stdin.write_all(&[1])?;
        }
        resume(pid, signal)?;
    }
}

/// Takes every thread of the process; those that come later are taken with the one that makes them.
fn seize(leader: Pid) -> Result<HashSet<Pid>, Error> {
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    let mut seized = HashSet::new();
    loop {
        let mut is_more = false;
        for task in std::fs::read_dir(format!("/proc/{leader}/task"))? {
            let name = task?.file_name();
            let Some(id) = name.to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            let pid = Pid::from_raw(id);
            if seized.contains(&pid) {
                continue;
            }
            match ptrace::seize(pid, options) {
                Ok(()) => {
                    ptrace::interrupt(pid)?;
                    seized.insert(pid);
                    is_more = true;
                }
                // Taken already with the one that made it, or gone.
                Err(Errno::EPERM | Errno::ESRCH) if !seized.is_empty() => {}
                Err(e) => {
                    let why = format!("ptrace(2), which this test needs: {e}");
                    return Err(Error::new(std::io::ErrorKind::PermissionDenied, why));
                }
            }
        }
        if !is_more {
            return Ok(seized);
        }
    }
}

fn resume(pid: Pid, signal: Option<Signal>) -> Result<(), Error> {
    match ptrace::syscall(pid, signal) {
        // Killed in the meantime, or it has ended just now.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Begin or end of a call, at which a thread has stopped.
enum Stop {
    /// Number and arguments.
    Begin(u64, [u64; 6]),
    /// The result; `None` for an error.
    End(Option<u64>),
}

fn stop_of(pid: Pid) -> Result<Option<Stop>, Error> {
    const NOTHING: libc::ptrace_syscall_info = {
        // SAFETY: the structure is plain numbers, for which zeros are a value.
        unsafe { std::mem::zeroed() }
    };
    let mut info = NOTHING;
    // Not by nix, which passes a size of 0 (0.30), so that nothing is filled in. SAFETY: the kernel writes at most as
    // many bytes as the address argument says. That is the size of what the data argument points to, which lives until
    // the call is over.
    let filled = unsafe {
        libc::ptrace(
            libc::PTRACE_GET_SYSCALL_INFO,
            pid.as_raw(),
            size_of::<libc::ptrace_syscall_info>(),
            &raw mut info,
        )
    };
    match Errno::result(filled) {
        Ok(_) => {}
        // It was killed.
        Err(Errno::ESRCH) => return Ok(None),
        Err(e) => return Err(e.into()),
    }
    Ok(match info.op {
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: `op` says that this is the field that was filled; it is plain numbers.
            let entry = unsafe { info.u.entry };
            Some(Stop::Begin(entry.nr, entry.args))
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: as above.
            let exit = unsafe { info.u.exit };
            Some(Stop::End(
                (exit.is_error == 0).then_some(exit.sval.cast_unsigned()),
            ))
        }
        _ => None,
    })
}

/// A thread has stopped at the begin or the end of a call.
fn step(
    pid: Pid,
    under_way: &mut HashMap<Pid, (usize, Call)>,
    recording: &mut Recording,
    root: &Path,
) -> Result<(), Error> {
    match stop_of(pid)? {
        Some(Stop::Begin(number, args)) => {
            if let Some(call) = Call::of(number.cast_signed(), args) {
                under_way.insert(pid, (recording.ended(), call));
            }
        }
        Some(Stop::End(result)) => {
            if let Some((begun, call)) = under_way.remove(&pid)
                && let Some(result) = result
            {
                call.record(pid, result, begun, recording, root)?;
            }
        }
        None => {}
    }
    Ok(())
}
