//! Byte-range locks of the MDS in memory. An owner's locks on a file have one stateid.

use super::*;

/// A locked range.
#[derive(Debug)]
pub(in crate::tests) struct Locked {
    stateid: Stateid,
    file: u64,
    owner: (ClientId, Vec<u8>),
    range: (u64, u64),
    is_exclusive: bool,
}

fn end(offset: u64, length: u64) -> u64 {
    offset.saturating_add(length)
}

fn denied(lock: &Locked) -> LockDenied<'_> {
    LockDenied {
        offset: lock.range.0,
        length: match lock.range.1 {
            u64::MAX => u64::MAX,
            end => end - lock.range.0,
        },
        lock_type: if lock.is_exclusive {
            LockType::Write
        } else {
            LockType::Read
        },
        owner: StateOwner {
            clientid: lock.owner.0,
            owner: Opaque(&lock.owner.1),
        },
    }
}

impl State {
    fn in_the_way(&self, wanted: &Locked) -> Option<&Locked> {
        self.locks.iter().find(|l| {
            l.file == wanted.file
                && l.owner != wanted.owner
                && (l.is_exclusive || wanted.is_exclusive)
                && l.range.0 < wanted.range.1
                && wanted.range.0 < l.range.1
        })
    }

    /// Takes a range from an owner.
    fn carve(&mut self, file: u64, owner: &(ClientId, Vec<u8>), range: (u64, u64)) {
        let mut left = Vec::new();
        for lock in self.locks.drain(..) {
            if lock.file != file || lock.owner != *owner {
                left.push(lock);
                continue;
            }
            for range in [
                (lock.range.0, lock.range.1.min(range.0)),
                (lock.range.0.max(range.1), lock.range.1),
            ] {
                if range.0 < range.1 {
                    let owner = lock.owner.clone();
                    left.push(Locked {
                        range,
                        owner,
                        ..lock
                    });
                }
            }
        }
        self.locks = left;
    }

    fn owner_of(&self, stateid: Stateid) -> Result<(ClientId, Vec<u8>), NfsStatus> {
        let found = self.lock_owners.get(&stateid.other);
        found.cloned().ok_or(NfsStatus::BadStateid)
    }
}

pub(super) fn lock_op(
    s: &mut State,
    client: ClientId,
    file: u64,
    op: OpNum,
    args: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    match op {
        OpNum::Lock => {
            let a: LockArgs<'_> = args.args().map_err(bad)?;
            return lock(s, client, file, &a, reply);
        }
        OpNum::LockT => {
            let a: LockTArgs<'_> = args.args().map_err(bad)?;
            let wanted = Locked {
                stateid: Stateid::default(),
                file,
                owner: (client, a.owner.owner.0.to_vec()),
                range: (a.offset, end(a.offset, a.length)),
                is_exclusive: a.lock_type.is_write(),
            };
            let res = s.in_the_way(&wanted).map(denied);
            let _ = answer(reply, Ok(res.map_or(LockTRes::Ok, LockTRes::Denied)));
        }
        _ => {
            let a: LockUArgs = args.args().map_err(bad)?;
            let owner = s.owner_of(a.lock_stateid)?;
            s.carve(file, &owner, (a.offset, end(a.offset, a.length)));
            let _ = reply.result(&LockURes {
                lock_stateid: a.lock_stateid,
            });
        }
    }
    Ok(())
}

fn lock(
    s: &mut State,
    client: ClientId,
    file: u64,
    a: &LockArgs<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    if a.reclaim && s.refuse_lock_reclaims {
        return Err(NfsStatus::NoGrace);
    }
    let (stateid, owner) = match &a.locker {
        Locker::New(new) => {
            s.check_open(new.open_stateid, file)?;
            (s.unique(2), (client, new.lock_owner.owner.0.to_vec()))
        }
        Locker::Exist(exist) => (exist.lock_stateid, s.owner_of(exist.lock_stateid)?),
    };
    let wanted = Locked {
        stateid,
        file,
        owner,
        range: (a.offset, end(a.offset, a.length)),
        is_exclusive: a.lock_type.is_write(),
    };
    if let Some(other) = s.in_the_way(&wanted) {
        let _ = answer(reply, Ok(LockRes::Denied(denied(other))));
        return Ok(());
    }
    s.lock_reclaims += u32::from(a.reclaim);
    let (lock_stateid, range) = (wanted.stateid, wanted.range);
    s.lock_owners
        .insert(lock_stateid.other, wanted.owner.clone());
    s.carve(file, &wanted.owner, range);
    s.locks.push(wanted);
    let _ = answer(reply, Ok(LockRes::Ok(LockGranted { lock_stateid })));
    Ok(())
}
