//! A network namespace that lives as long as its holder.

use super::words::last_words;
use crate::BenchError;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A namespace. Dropping it ends its holder; it is gone with the last process in it.
#[derive(Debug)]
pub(crate) struct NameSpace {
    holder: Child,
    file: File,
}

impl NameSpace {
    /// Makes one with nothing in it but a loopback device that is down.
    pub(crate) fn make() -> Result<Self, BenchError> {
        let mut holder = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in a terminal is for us: links stay until their users are gone.
            .process_group(0)
            .spawn()
            .map_err(BenchError::io("make a network namespace"))?;
        match held(&mut holder) {
            Ok(file) => Ok(Self { holder, file }),
            Err(_) => {
                // Both fail only when it has gone by itself.
                let _ = holder.kill();
                let output = holder.wait_with_output();
                let words = output
                    .map(|output| last_words(&output.stderr))
                    .unwrap_or_default();
                Err(BenchError::Links(format!(
                    "cannot make a network namespace: {words}"
                )))
            }
        }
    }

    pub(crate) fn holder_pid(&self) -> u32 {
        self.holder.id()
    }

    /// Brings the calling thread inside, with the processes and threads that it starts and the sockets that it makes, until the result is dropped.
    pub(crate) fn enter(&self) -> Result<Inside, BenchError> {
        let doing = BenchError::io("enter a network namespace");
        let home = File::open(OWN).map_err(&doing)?;
        enter(&self.file).map_err(&doing)?;
        Ok(Inside {
            home,
            thread: PhantomData,
        })
    }

    /// Runs a tool of iproute2 inside, with lines of commands.
    pub(crate) fn batch(&self, tool: &'static str, lines: &str) -> Result<(), BenchError> {
        let doing = BenchError::io("run ip or tc");
        let mut child = {
            let _inside = self.enter()?;
            Command::new(tool)
                .args(["-batch", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(&doing)?
        };
        let mut stdin = child.stdin.take().expect("standard input is a pipe");
        // One that has ended before says why.
        let _ = stdin.write_all(lines.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().map_err(&doing)?;
        if output.status.success() {
            return Ok(());
        }
        Err(BenchError::Links(format!(
            "{tool} said: {}",
            last_words(&output.stderr)
        )))
    }
}

/// Waits until the holder is inside: it says back what it hears.
fn held(holder: &mut Child) -> io::Result<File> {
    let pipes = (holder.stdin.as_mut(), holder.stdout.as_mut());
    let (Some(stdin), Some(stdout)) = pipes else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    stdin.write_all(b"\n")?;
    stdout.read_exact(&mut [0])?;
    File::open(format!("/proc/{}/ns/net", holder.id()))
}

fn enter(file: &File) -> io::Result<()> {
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

impl Drop for NameSpace {
    fn drop(&mut self) {
        // Both fail only when it has gone by itself.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A thread inside. Dropping it brings the thread home, so it stays on its thread.
#[derive(Debug)]
pub(crate) struct Inside {
    home: File,
    thread: PhantomData<*const ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        enter(&self.home).expect("a thread that could leave its namespace can return");
    }
}
