//! Data servers: no I/O under a fenced handle (rules R3, R5, R6).
//!
//! Once a data server has acknowledged a floor, I/O that is first sent later must not succeed below it, its own restarts
//! included. Floors come by FENCE, FLOORS, SET_SIZE and REMOVE.

use crate::wire::{Ask, Reply, Request};
use control::{Answer, ItemStatuses, Status, ToDs};
use layout::{DS_HANDLE_BYTES, Floor};
use nfs4::{NfsStatus, OpNum};
use std::collections::BTreeMap;
use xdr::{Decode, Decoder};

/// What a handle says, read without its key (docs/formats.md, "File handles").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handle {
    file_id: u64,
    generation: u32,
    epoch: u64,
    client: [u8; 12],
}

impl Handle {
    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != DS_HANDLE_BYTES {
            return None;
        }
        let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_be_bytes);
        Some(Self {
            file_id: number(16).ok()?,
            generation: u32::from_be_bytes(bytes[24..28].try_into().ok()?),
            epoch: number(28).ok()?,
            client: bytes[36..48].try_into().ok()?,
        })
    }

    fn is_below(&self, floor: &Floor) -> bool {
        match floor {
            Floor::Cluster { epoch } => self.epoch < epoch.as_u64(),
            Floor::File { file_id, epoch, .. } => {
                *file_id == self.file_id && self.epoch < epoch.as_u64()
            }
            Floor::Client {
                file_id,
                client,
                epoch,
                ..
            } => {
                *file_id == self.file_id
                    && *client.as_bytes() == self.client
                    && self.epoch < epoch.as_u64()
            }
            Floor::Tombstone {
                file_id,
                generation,
                ..
            } => *file_id == self.file_id && self.generation < *generation,
        }
    }
}

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// By data server: floors that it acknowledged, and when.
    floors: BTreeMap<String, Vec<(u64, Floor)>>,
}

impl Checker {
    /// A reply of the control program at event `now`, with its call: procedure number and arguments.
    pub(crate) fn control_reply(&mut self, ds: &str, call: &[u8], answer: &[u8], now: u64) {
        let Some((procedure, args)) = call.split_first_chunk::<4>() else {
            return;
        };
        let Ok(call) = ToDs::decode(u32::from_be_bytes(*procedure), args) else {
            return;
        };
        let floors = acknowledged(call, answer);
        let known = self.floors.entry(ds.to_owned()).or_default();
        known.extend(floors.into_iter().map(|floor| (now, floor)));
    }

    /// A reply of a data server to a request that was first sent at event `sent`.
    pub(crate) fn ds_reply(
        &self,
        ds: &str,
        request: &Request,
        reply: &Reply,
        sent: u64,
    ) -> Vec<String> {
        let Some(floors) = self.floors.get(ds) else {
            return Vec::new();
        };
        let mut handle = None;
        let mut found = Vec::new();
        for ((_, ask), (op, status, _)) in request.ops.iter().zip(&reply.ops) {
            if let Ask::Fh(bytes) = ask {
                handle = Handle::parse(bytes);
            }
            let is_io = matches!(op, OpNum::Read | OpNum::Write | OpNum::Commit);
            let Some(handle) = handle.filter(|_| is_io && *status == NfsStatus::Ok) else {
                continue;
            };
            let broken = floors
                .iter()
                .find(|(at, f)| *at < sent && handle.is_below(f));
            if let Some((at, floor)) = broken {
                found.push(format!(
                    "{ds}: {op:?} of {handle:?}, sent at event {sent}, passed {floor:?} of event {at}"
                ));
            }
        }
        found
    }
}

/// The floors that an answer acknowledges.
fn acknowledged(call: ToDs, answer: &[u8]) -> Vec<Floor> {
    let is_ok = || {
        matches!(
            Answer::<()>::decode(&mut Decoder::new(answer)),
            Ok(Answer::Ok(()))
        )
    };
    let items = || match Answer::<ItemStatuses>::decode(&mut Decoder::new(answer)) {
        Ok(Answer::Ok(list)) => list.0,
        _ => Vec::new(),
    };
    let done = |statuses: Vec<Status>| statuses.into_iter().map(|s| s == Status::Ok);
    match call {
        ToDs::Fence(args) if is_ok() => args.floors.0,
        ToDs::Floors(args) if is_ok() => args.floors.0,
        ToDs::SetSize(args) => (args.items.0.into_iter().zip(done(items())))
            .filter(|(_, ok)| *ok)
            .map(|(item, _)| Floor::File {
                file_id: item.object.file_id,
                epoch: item.floor,
                through_key: item.through_key,
            })
            .collect(),
        ToDs::Remove(args) => (args.items.0.into_iter().zip(done(items())))
            .filter(|(_, ok)| *ok)
            .map(|(item, _)| Floor::Tombstone {
                file_id: item.file_id,
                generation: item.generation,
                through_key: item.through_key,
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the checker sees I/O below an acknowledged floor and lets all other I/O pass.

    use super::*;
    use crate::wire::Got;
    use control::{FenceArgs, Proc};
    use layout::{ClientTag, Epoch};

    const CLIENT: [u8; 12] = [7; 12];

    fn io(epoch: u64, client: [u8; 12]) -> (Request, Reply) {
        let mut fh = vec![0; DS_HANDLE_BYTES];
        fh[16..24].copy_from_slice(&5_u64.to_be_bytes());
        fh[28..36].copy_from_slice(&epoch.to_be_bytes());
        fh[36..48].copy_from_slice(&client);
        let io = Ask::Io {
            offset: 0,
            len: 1,
            is_stable: false,
        };
        let request = Request {
            key: None,
            ops: vec![(OpNum::PutFh, Ask::Fh(fh)), (OpNum::Write, io)],
        };
        let ok = |op| (op, NfsStatus::Ok, Got::Plain);
        let ops = vec![ok(OpNum::PutFh), ok(OpNum::Write)];
        (request, Reply { ops })
    }

    fn fenced() -> Checker {
        let floor = Floor::Client {
            file_id: 5,
            client: ClientTag::from_bytes(CLIENT),
            epoch: Epoch::from_u64(10),
            through_key: 1,
        };
        let args = FenceArgs {
            floors: vec![floor].into(),
        };
        let mut call = (Proc::Fence as u32).to_be_bytes().to_vec();
        call.extend(xdr::encode_to_vec(&args));
        let mut checker = Checker::default();
        checker.control_reply("ds-0", &call, &xdr::encode_to_vec(&Answer::Ok(())), 100);
        checker
    }

    #[test]
    fn io_below_an_acknowledged_floor_is_found() {
        let (request, reply) = io(9, CLIENT);
        let found = fenced().ds_reply("ds-0", &request, &reply, 101);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn io_that_was_sent_before_or_is_above_or_of_others_passes() {
        let checker = fenced();
        for (epoch, client, sent, ds) in [
            (9, CLIENT, 99, "ds-0"),
            (10, CLIENT, 101, "ds-0"),
            (9, [8; 12], 101, "ds-0"),
            (9, CLIENT, 101, "ds-1"),
        ] {
            let (request, reply) = io(epoch, client);
            assert_eq!(checker.ds_reply(ds, &request, &reply, sent), [""; 0]);
        }
    }
}
