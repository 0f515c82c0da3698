//! Goal: whatever is done to a mirrored foreign file, by whom and with which servers away, it reads as what was acknowledged, and all
//! mirrors come to have that. Method: seeded steps beside a model; one server is dead at a time; as in foreign.rs.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::far::*;
use crate::rig::file::{File, patiently};
use crate::rig::real::{bytes_of, write};
use crate::rig::{Client, Rig};
use nfs4::{IoMode, NfsStatus, OpNum, StableHow};

/// Bytes of the file at most.
const LEN_MAX: usize = 60_000;

struct Steps {
    state: u64,
    model: Vec<u8>,
    dead: Option<usize>,
    clients: u32,
}

impl Steps {
    fn below(&mut self, limit: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        usize::try_from((x ^ (x >> 31)) % limit as u64).unwrap()
    }

    /// Bytes to write, which the model has.
    fn piece(&mut self) -> (usize, Vec<u8>) {
        let (at, len) = (self.below(LEN_MAX - 9000), 1 + self.below(9000));
        let piece = bytes(len, u8::try_from(self.below(30)).unwrap());
        if self.model.len() < at + len {
            self.model.resize(at + len, 0);
        }
        self.model[at..at + len].copy_from_slice(&piece);
        (at, piece)
    }

    /// Writes by a layout, as far as there is one. What fails is reported, and false is returned.
    async fn by_layout(
        &self,
        world: (&Rig, &Far),
        file: &File<'_>,
        (at, piece): (usize, &[u8]),
        commits: bool,
    ) -> bool {
        let layout = match patiently(|| try_far_layout(file, IoMode::Rw)).await {
            Err(NfsStatus::LayoutUnavailable) => return false,
            layout => layout.unwrap(),
        };
        let mut is_whole = true;
        for mirror in 0..layout.body.mirrors.0.len() {
            if layout.write_mirror(world, mirror, at, piece).await.is_err() {
                is_whole = false;
                let errors = vec![fault(&layout, mirror, OpNum::Write, NfsStatus::Io)];
                report(file, layout.stateid, errors).await.unwrap();
            }
        }
        if commits {
            if is_whole {
                let end = (at + piece.len()) as u64;
                patiently(|| file.layout_commit(layout.stateid, end))
                    .await
                    .unwrap();
            }
            give_back(file, layout.stateid, b"").await.unwrap();
        }
        is_whole
    }

    async fn step(&mut self, rig: &Rig, far: &Far, file: &File<'_>) {
        match self.below(8) {
            0 | 1 => {
                let (at, piece) = self.piece();
                let stable = [StableHow::Unstable, StableHow::FileSync][self.below(2)];
                write(file, at as u64, stable, &piece).await;
            }
            2 => {
                let (at, piece) = self.piece();
                let done = self.by_layout((rig, far), file, (at, &piece), true).await;
                if !done {
                    write(file, at as u64, StableHow::FileSync, &piece).await;
                }
            }
            3 => {
                let size = self.below(LEN_MAX);
                patiently(|| file.try_truncate(size as u64)).await.unwrap();
                self.model.resize(size, 0);
            }
            4 => match self.dead.take() {
                None => {
                    // A lost writer may have left one good mirror.
                    far.whole(rig, file, &self.model).await;
                    let index = self.below(far.fakes.len());
                    far.kill(index);
                    self.dead = Some(index);
                }
                Some(index) => {
                    far.start(index);
                    far.whole(rig, file, &self.model).await;
                }
            },
            5 => {
                // A client that says nothing of what it wrote, and is no more.
                self.clients += 1;
                let owner = format!("lost{}", self.clients);
                let (at, piece) = self.piece();
                let done = {
                    let lost: Client = rig.session(&owner).await;
                    let its = far_file(&lost, "f").await;
                    self.by_layout((rig, far), &its, (at, &piece), false).await
                };
                drop(rig.session_of(&owner, *b"boot0002", None).await);
                if !done {
                    write(file, at as u64, StableHow::FileSync, &piece).await;
                }
            }
            6 => pass(self.below(10) as u64).await,
            _ => {}
        }
        let seen = bytes_of(file, 0, usize::MAX).await;
        assert!(seen.len() == self.model.len() && seen == self.model);
    }
}

async fn runs(seed: u64, policy: &str) {
    let (mut rig, mut port, far) = far_cluster(4, policy).await;
    let mut steps = Steps {
        state: seed,
        model: Vec::new(),
        dead: None,
        clients: 0,
    };
    for _ in 0..4 {
        {
            let alice = rig.session("alice").await;
            let file = far_file(&alice, "f").await;
            for _ in 0..15 {
                steps.step(&rig, &far, &file).await;
            }
        }
        (rig, port) = far.restart(rig, port).await;
    }
    let alice = rig.session("alice").await;
    let file = far_file(&alice, "f").await;
    if let Some(index) = steps.dead {
        far.start(index);
    }
    far.whole(&rig, &file, &steps.model).await;
    assert!(bytes_of(&file, 0, usize::MAX).await == steps.model);
    drop(port);
}

#[tokio::test(start_paused = true)]
async fn a_mirrored_file_reads_as_what_was_acknowledged() {
    for seed in 0..6 {
        runs(seed, "copies=2").await;
        runs(100 + seed, "stripe_count=2 copies=2").await;
        runs(200 + seed, "copies=3").await;
    }
}
