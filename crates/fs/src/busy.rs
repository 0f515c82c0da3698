//! Notes of sampled operations: in which directories, and for which client.
//!
//! An operation counts for the directory that its handle names. One on anything else counts for the directory where that has its
//! first name, which its inode has. So no name is looked up.
//!
//! May call the tables and the name space. A note changes nothing, and no reply waits for what it has looked at.

use crate::actor::Actor;
use crate::busy_tables::{Busiest, BusyClient};
use crate::fs::Fs;
use crate::sampling::is_sampled;
use namespace::{FileId, Op, Time};

/// Notes an operation that [`is_sampled`] has chosen, with the handles of what it is about.
#[cold]
pub fn note_operation(fs: &Fs, actor: &Actor, handles: [Option<&[u8]>; 2]) {
    let [first, second] = handles.map(|handle| directory_of(fs, actor, handle?));
    let second = second.filter(|directory| first != Some(*directory));
    fs.busy.note(client_of(actor), [first, second]);
}

/// Notes what a READ has given, where it is sampled.
#[inline]
pub fn note_read(fs: &Fs, actor: &Actor, bytes: u32) {
    if is_sampled() {
        note_moved(fs, actor, u64::from(bytes), 0);
    }
}

/// Notes what a WRITE has taken, where it is sampled.
#[inline]
pub fn note_written(fs: &Fs, actor: &Actor, bytes: u32) {
    if is_sampled() {
        note_moved(fs, actor, 0, u64::from(bytes));
    }
}

#[cold]
fn note_moved(fs: &Fs, actor: &Actor, read: u64, written: u64) {
    if let Some(client) = client_of(actor) {
        fs.busy.note_moved(client, read, written);
    }
}

/// The directories and clients that are busiest lately, at most `max` of each.
pub fn busiest(fs: &Fs, max: usize) -> Busiest {
    fs.busy.busiest(fs.clients.now_ms(), max)
}

fn client_of(actor: &Actor) -> Option<BusyClient> {
    match actor.client_id() {
        // None of NFSv4 has the id 0.
        Some(client) if client.value != 0 => Some(BusyClient::Known(client)),
        _ => actor.peer.map(BusyClient::Address),
    }
}

fn directory_of(fs: &Fs, actor: &Actor, handle: &[u8]) -> Option<u64> {
    let handle = fs.parse_handle(handle).ok()?;
    let mut op = Op::new(&actor.cred, Time::default());
    let file = FileId(handle.file_id);
    let inode = fs.ns.resolve(&mut op, file, handle.generation).ok()?;
    match inode.is_dir() {
        true => Some(inode.id.0),
        false => Some(inode.parent.0),
    }
}
