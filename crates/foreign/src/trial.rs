//! A trial on a server: each check, and what it says when it fails.

use crate::error::{ProbeError, doing};
use crate::ids::{Ids, caller};
use crate::report::{Check, Finding};
use bytes::Bytes;
use nfs3::procs::{CreateHow, FsInfoOk};
use nfs3::{Fattr3, Nfs3Status, Sattr3, StableHow};
use nfs3_client::{CallerAuth, Fh, MadeObject, Nfs3Client, Nfs3Error};

/// Bytes of a READ and of a WRITE that a data server should take.
const IO_BYTES: u32 = 64 << 10;
/// Nobody but root may search the directory: clients have handles.
const DIR_MODE: u32 = 0o700;
/// RFC 8435 §2.2.
const FILE_MODE: u32 = 0o640;
const FILE: &[u8] = b"data";
/// Where the second piece of data lies; before it is a hole.
const FAR: u64 = 1 << 20;

/// One trial, in a directory of its own.
pub(crate) struct Trial<'n> {
    nfs: &'n Nfs3Client,
    root: &'n Fh,
    admin: CallerAuth,
    random: u32,
    name: Vec<u8>,
    dir: Fh,
    findings: Vec<Finding>,
}

/// What a check says when it fails.
type Checked<T = ()> = Result<T, String>;

impl<'n> Trial<'n> {
    /// Makes the directory.
    pub(crate) async fn begin(
        nfs: &'n Nfs3Client,
        root: &'n Fh,
        random: u32,
    ) -> Result<Self, ProbeError> {
        let admin = caller(0, 0);
        let name = format!(".ropewalk-probe-{random:08x}").into_bytes();
        let attributes = Sattr3 {
            mode: Some(DIR_MODE),
            ..Sattr3::default()
        };
        let made = nfs.mkdir(&admin, root, &name, attributes).await;
        let made = doing("make a directory for the probe", made)?;
        let dir = doing(
            "find the directory of the probe",
            handle_of(nfs, &admin, (root, &name), made).await,
        )?;
        Ok(Self {
            nfs,
            root,
            admin,
            random,
            name,
            dir,
            findings: Vec::new(),
        })
    }

    /// Removes what the trial has made. Returns what was found.
    pub(crate) async fn end(self) -> Vec<Finding> {
        // An administrator finds what could not be removed by its name.
        let _ = self.nfs.remove(&self.admin, &self.dir, FILE).await;
        let _ = self.nfs.rmdir(&self.admin, self.root, &self.name).await;
        self.findings
    }

    /// Tries all, up to what cannot be tried without what failed.
    pub(crate) async fn run(&mut self, info: &FsInfoOk) {
        let lacks = (info.rtmax < IO_BYTES || info.wtmax < IO_BYTES)
            .then(|| format!("READ takes {} bytes, WRITE {}", info.rtmax, info.wtmax));
        let made = self.make_file().await;
        let Some(file) = self.noted(Check::RootIsRoot, made) else {
            return self.note(Check::LargeRequests, lacks);
        };
        let [owner, heir, stranger] = [0, 1, 2].map(|n| Ids::synthetic(self.random, n));
        let given = self.give(&file, owner).await;
        if self.noted(Check::GivesFiles, given).is_some() {
            let wrote = self.owner_writes(&file, owner).await;
            if let Some(verifiers) = self.noted(Check::OwnerWrites, wrote) {
                let read = self.group_reads(&file, (owner, stranger)).await;
                self.noted(Check::GroupReads, read);
                let kept_out = self.others_are_kept_out(&file, stranger).await;
                self.noted(Check::OthersAreKeptOut, kept_out);
                self.noted(Check::KeepsVerifier, same_verifiers(&verifiers));
                let kept = self.keeps_data(&file).await;
                self.noted(Check::KeepsData, kept);
                let fenced = self.is_fenced(&file, (owner, heir)).await;
                self.noted(Check::IsFenced, fenced);
            }
        }
        self.note(Check::LargeRequests, lacks);
    }

    fn note(&mut self, check: Check, lacks: Option<String>) {
        self.findings.push(Finding { check, lacks });
    }

    fn noted<T>(&mut self, check: Check, checked: Checked<T>) -> Option<T> {
        match checked {
            Ok(found) => {
                self.note(check, None);
                Some(found)
            }
            Err(why) => {
                self.note(check, Some(why));
                None
            }
        }
    }

    async fn make_file(&self) -> Checked<Fh> {
        let how = CreateHow::Guarded(Sattr3 {
            mode: Some(FILE_MODE),
            ..Sattr3::default()
        });
        let made = self.nfs.create(&self.admin, &self.dir, FILE, how).await;
        let made = made.map_err(|e| format!("root cannot make a file: {e}"))?;
        let found = handle_of(self.nfs, &self.admin, (&self.dir, FILE), made).await;
        let file = found.map_err(|e| format!("root cannot find its file: {e}"))?;
        match self.attributes(&file).await?.uid {
            0 => Ok(file),
            uid => Err(format!("what root makes belongs to user {uid}")),
        }
    }

    async fn attributes(&self, file: &Fh) -> Checked<Fattr3> {
        let got = self.nfs.getattr(&self.admin, file).await;
        got.map_err(|e| format!("root cannot look at its file: {e}"))
    }

    async fn give(&self, file: &Fh, to: Ids) -> Checked {
        let wanted = Sattr3 {
            mode: Some(FILE_MODE),
            uid: Some(to.uid),
            gid: Some(to.gid),
            ..Sattr3::default()
        };
        let set = self.nfs.setattr(&self.admin, file, &wanted, None).await;
        set.map_err(|e| format!("root cannot give a file away: {e}"))?;
        let now = self.attributes(file).await?;
        match (now.uid, now.gid, now.mode & 0o7777) == (to.uid, to.gid, FILE_MODE) {
            true => Ok(()),
            false => Err(format!(
                "a file that was given to {}:{} is {}:{} with mode {:o}",
                to.uid, to.gid, now.uid, now.gid, now.mode
            )),
        }
    }

    /// Two writes and a COMMIT by the owner. Returns their verifiers.
    async fn owner_writes(&self, file: &Fh, owner: Ids) -> Checked<Vec<[u8; 8]>> {
        let who = owner.caller();
        let mut verifiers = Vec::new();
        for (offset, data) in pieces() {
            let wrote = self
                .nfs
                .write(&who, file, offset, StableHow::Unstable, &data);
            let wrote = wrote
                .await
                .map_err(|e| format!("its owner cannot write it: {e}"))?;
            if wrote.count as usize != data.len() {
                return Err(format!(
                    "{} of {} bytes were written",
                    wrote.count,
                    data.len()
                ));
            }
            // What is stable already needs no COMMIT, and its verifier no equal.
            if wrote.committed == StableHow::Unstable {
                verifiers.push(wrote.verf);
            }
        }
        let committed = self.nfs.commit(&who, file, 0, 0).await;
        let committed = committed.map_err(|e| format!("its owner cannot commit it: {e}"))?;
        verifiers.push(committed.verf);
        Ok(verifiers)
    }

    async fn group_reads(&self, file: &Fh, (owner, stranger): (Ids, Ids)) -> Checked {
        let who = caller(stranger.uid, owner.gid);
        let read = self.nfs.read(&who, file, 0, 16).await;
        read.map_err(|e| format!("its group cannot read it: {e}"))?;
        self.is_refused(&who, file).await
    }

    async fn others_are_kept_out(&self, file: &Fh, stranger: Ids) -> Checked {
        let who = stranger.caller();
        match self.nfs.read(&who, file, 0, 16).await {
            Ok(_) => return Err("a stranger can read it".to_owned()),
            Err(error) => refused(&error)?,
        }
        self.is_refused(&who, file).await
    }

    /// A WRITE that must be refused.
    async fn is_refused(&self, who: &CallerAuth, file: &Fh) -> Checked {
        let data = Bytes::from_static(b"must not be there");
        match self
            .nfs
            .write(who, file, 0, StableHow::FileSync, &data)
            .await
        {
            Ok(_) => Err("who is not its owner can write it".to_owned()),
            Err(error) => refused(&error),
        }
    }

    async fn is_fenced(&self, file: &Fh, (owner, heir): (Ids, Ids)) -> Checked {
        self.give(file, heir).await?;
        self.is_refused(&owner.caller(), file).await?;
        let data = Bytes::from_static(b"by the heir");
        let who = heir.caller();
        let wrote = self.nfs.write(&who, file, 0, StableHow::FileSync, &data);
        let wrote = wrote.await.map(drop);
        wrote.map_err(|e| format!("its new owner cannot write it: {e}"))
    }

    /// What the owner wrote is there for root, with a hole between, and a cut ends it.
    async fn keeps_data(&self, file: &Fh) -> Checked {
        for (offset, data) in pieces() {
            let read = self.read(file, offset, data.len()).await?;
            if read != data {
                return Err(format!("at {offset} are other bytes than were written"));
            }
        }
        let hole = self.read(file, FAR / 2, 4096).await?;
        if hole.len() != 4096 || hole.iter().any(|byte| *byte != 0) {
            return Err("a hole is not read as zeros".to_owned());
        }
        let cut = Sattr3 {
            size: Some(3),
            ..Sattr3::default()
        };
        let set = self.nfs.setattr(&self.admin, file, &cut, None).await;
        set.map_err(|e| format!("root cannot cut it: {e}"))?;
        match self.attributes(file).await?.size {
            3 => Ok(()),
            size => Err(format!("it has {size} bytes after it was cut to 3")),
        }
    }

    async fn read(&self, file: &Fh, offset: u64, len: usize) -> Checked<Bytes> {
        let count = u32::try_from(len).unwrap_or(u32::MAX);
        let read = self.nfs.read(&self.admin, file, offset, count).await;
        let read = read.map_err(|e| format!("root cannot read it: {e}"))?;
        Ok(read.data)
    }
}

fn pieces() -> [(u64, Bytes); 2] {
    [
        (0, Bytes::from_static(b"first piece of a probe")),
        (FAR, Bytes::from_static(b"second piece of a probe")),
    ]
}

fn same_verifiers(verifiers: &[[u8; 8]]) -> Checked {
    let is_same = verifiers.windows(2).all(|two| two[0] == two[1]);
    is_same.then_some(()).ok_or_else(|| {
        "the verifier changed while the server ran: it restarts, or it does not keep the rule"
            .to_owned()
    })
}

/// Whether it is a refusal for want of permission, and nothing else.
fn refused(error: &Nfs3Error) -> Checked {
    match error {
        Nfs3Error::Status(Nfs3Status::Access | Nfs3Status::Perm) => Ok(()),
        other => Err(format!("who must not is not told so: {other}")),
    }
}

/// The handle of a new object. A server may leave it out.
async fn handle_of(
    nfs: &Nfs3Client,
    who: &CallerAuth,
    (dir, name): (&Fh, &[u8]),
    made: MadeObject,
) -> Result<Fh, Nfs3Error> {
    match made.fh {
        Some(fh) => Ok(fh),
        None => Ok(nfs.lookup(who, dir, name).await?.fh),
    }
}
