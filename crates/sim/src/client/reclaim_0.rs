//! How a locker of NFSv4.0 recovers: a client id, then the opens and locks that it held when the server was started again.

use super::callbacks_0::Callbacks0;
use super::locker::{Again, FILES, HeldOpen};
use super::locker_0::{
    Answer, BuildSeq, Locker0, PAUSE_MS, PAUSES_MAX, Seqs, first_or_next, lock_args, open_owner,
    put,
};
use crate::mds_node::LEASE_MS;
use nfs4::ops::{
    CbClient, ClientAddr, CloseArgs, DelegationType, LockRes, OpenArgs, OpenClaim, OpenHow,
    OpenRes, SetClientIdArgs, SetClientIdConfirmArgs, SetClientIdRes,
};
use nfs4::{ClientOwner, FileHandle, NfsStatus, Stateid, Verifier};
use std::time::Duration;
use xdr::Opaque;

impl Locker0 {
    /// A client id, and what was held before a restart of the server.
    pub(super) async fn recover(&mut self) -> Result<(), Again> {
        let renewed = self.held.renewed;
        for file in 0..FILES {
            // Delegations are not reclaimed.
            self.held.drop_delegation(file, renewed);
        }
        loop {
            self.set_client_id().await?;
            if self.reclaim().await? {
                return Ok(());
            }
        }
    }

    async fn set_client_id(&mut self) -> Result<(), Again> {
        let who = self.held.who.clone();
        let uaddr = self.uaddr.clone();
        let verifier = Verifier {
            bytes: (self.incarnation + 1).to_be_bytes(),
        };
        for _ in 0..PAUSES_MAX {
            let sent = self.held.history.now();
            let answer = self
                .raw(&|b| {
                    b.push(&SetClientIdArgs {
                        client: ClientOwner {
                            verifier,
                            ownerid: Opaque(who.as_bytes()),
                        },
                        callback: CbClient {
                            program: Callbacks0::PROGRAM,
                            location: ClientAddr {
                                netid: Opaque(b"tcp"),
                                uaddr: Opaque(uaddr.as_bytes()),
                            },
                        },
                        callback_ident: Callbacks0::IDENT,
                    });
                })
                .await?;
            let set = answer.reply().and_then(|mut reply| reply.take());
            let (clientid, confirm) = match set {
                Ok(SetClientIdRes::Ok(set)) => (set.clientid, set.confirm),
                Ok(SetClientIdRes::InUse(_)) => return Err(self.odd("SETCLIENTID", &"in use")),
                Err(e) if e.status() == Some(NfsStatus::Delay) => {
                    tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
                    continue;
                }
                Err(e) => return Err(self.odd("SETCLIENTID", &e)),
            };
            let confirmed = self
                .raw(&|b| {
                    b.push(&SetClientIdConfirmArgs { clientid, confirm });
                })
                .await?;
            match confirmed.status() {
                NfsStatus::Ok => {
                    self.client = Some(clientid);
                    // Whatever is reclaimed is held since before. The lease is new.
                    if self.held.is_empty() {
                        self.held.renewed = sent;
                    }
                    return Ok(());
                }
                // The server was started again in between.
                NfsStatus::StaleClientId | NfsStatus::Delay => {
                    tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
                }
                status => return Err(self.odd("SETCLIENTID_CONFIRM", &status)),
            }
        }
        Err(self.odd("SETCLIENTID", &"told to wait for ever"))
    }

    /// Reclaims what is held. False: the server was started again meanwhile.
    async fn reclaim(&mut self) -> Result<bool, Again> {
        for file in 0..FILES {
            let Some(open) = self.held.open(file).cloned() else {
                continue;
            };
            let sent = self.held.history.now();
            match self.reclaim_open(file, &open).await? {
                Ok(()) => self.held.renewed = sent,
                Err(NfsStatus::StaleClientId | NfsStatus::StaleStateid) => return Ok(false),
                Err(status) => self.not_reclaimed(file, status).await?,
            }
        }
        Ok(true)
    }

    async fn reclaim_in_turn(&mut self, seqs: Seqs, build: BuildSeq<'_>) -> Result<Answer, Again> {
        for _ in 0..PAUSES_MAX {
            let (open, lock) = self.seqids(seqs);
            let answer = self.raw(&|b| build(b, open, lock)).await?;
            self.used(seqs, answer.status());
            if answer.status() != NfsStatus::Delay {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(PAUSE_MS)).await;
        }
        Err(self.odd("a reclaim", &"told to wait for ever"))
    }

    async fn reclaim_open(
        &mut self,
        file: usize,
        open: &HeldOpen,
    ) -> Result<Result<(), NfsStatus>, Again> {
        let (fh, clientid) = (self.fh(file), self.client.unwrap_or_default());
        let share = open.share;
        let answer = self
            .reclaim_in_turn(Seqs::Open, &|b, seqid, _| {
                put(b, &fh);
                b.push(&OpenArgs {
                    seqid,
                    share_access: share.access,
                    share_deny: share.deny,
                    owner: open_owner(clientid),
                    how: OpenHow::NoCreate,
                    claim: OpenClaim::Previous(DelegationType::None),
                });
            })
            .await?;
        let stateid = match answer.taken::<OpenRes>() {
            Ok(opened) => opened.stateid,
            Err(_) => return Ok(Err(answer.status())),
        };
        let mut lock_stateid = None;
        for lock in &open.locks {
            let owner = format!("l{file}");
            let (seqs, locker) = first_or_next(file, (clientid, &owner), stateid, lock_stateid);
            let answer = self
                .reclaim_in_turn(seqs, &|b, open_seqid, lock_seqid| {
                    put(b, &fh);
                    b.push(&lock_args(lock, true, locker(open_seqid, lock_seqid)));
                })
                .await?;
            match answer.taken::<LockRes<'_>>() {
                Ok(LockRes::Ok(granted)) => lock_stateid = Some(granted.lock_stateid),
                Ok(LockRes::Denied(_)) => {
                    self.odd("LOCK", &"a reclaimed lock was denied");
                    return Ok(Err(NfsStatus::Denied));
                }
                Err(_) => {
                    let status = answer.status();
                    if !matches!(status, NfsStatus::StaleClientId | NfsStatus::StaleStateid) {
                        // The grace period ended between the two.
                        self.close_again(&fh, stateid).await?;
                    }
                    return Ok(Err(status));
                }
            }
        }
        if let Some(held) = &mut self.held.files[file].open {
            (held.stateid, held.lock_stateid) = (stateid, lock_stateid);
        }
        Ok(Ok(()))
    }

    async fn close_again(&mut self, fh: &FileHandle, open_stateid: Stateid) -> Result<(), Again> {
        let closed = self
            .reclaim_in_turn(Seqs::Open, &|b, seqid, _| {
                put(b, fh);
                b.push(&CloseArgs {
                    seqid,
                    open_stateid,
                });
            })
            .await?;
        drop(closed);
        Ok(())
    }

    /// An open is lost. A client that has a record and comes in time may reclaim it.
    async fn not_reclaimed(&mut self, file: usize, status: NfsStatus) -> Result<(), Again> {
        let (renewed, now) = (self.held.renewed, self.held.history.now());
        let cuts = self.held.history.cuts_within((0, 0), now);
        let last = cuts.last().copied().unwrap_or_default();
        let before = cuts.len().checked_sub(2).map_or((0, 0), |at| cuts[at]);
        let was_there = renewed < last && renewed.0 + LEASE_MS >= last.0 && renewed > before;
        // Nobody knows of a later record, nor of one that went with its client.
        let has_record = self.recorded > before && self.recorded < last;
        let in_time = now.0 <= last.0 + LEASE_MS;
        if !cuts.is_empty() && was_there && has_record && in_time {
            self.odd("an open was not to be reclaimed", &status);
        }
        self.held.drop_open(file, renewed);
        Ok(())
    }
}
