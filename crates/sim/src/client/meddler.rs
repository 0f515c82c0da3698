//! A client of NFSv3 that changes and reads files which others are delegated: it knows of no delegation, the server recalls them.
//!
//! Each change takes effect at some moment of its call. So nobody relied on a delegation from before the call until after it.

use crate::check::Findings;
use crate::check::delegations::{How, Use};
use crate::check::linear::Moment;
use crate::connector::{Wires, verifier};
use crate::history::History;
use crate::rng::Rng;
use crate::trace::MDS_NAME;
use bytes::Bytes;
use client::{
    Client, ClientConfig, Error, NfsVersion, OpenOptions, SetAttrs, UserIdentity, V3Ports,
};
use std::time::Duration;
use transport::Address;

/// Longest rest between two changes in milliseconds.
const REST_MS_MAX: u64 = 6_000;
/// How long one try waits for its reply, and how long a call is tried.
const TRY_TIME: Duration = Duration::from_millis(1_500);
const GIVE_UP: Duration = Duration::from_secs(1_000);
/// Changes for each so many steps of others.
const STEPS_PER_CHANGE: u32 = 4;

/// What it is made of.
pub(crate) struct MeddlerParts {
    pub(crate) name: String,
    pub(crate) wires: Wires,
    pub(crate) rng: Rng,
    pub(crate) history: History,
    pub(crate) findings: Findings,
    /// Files that all share.
    pub(crate) files: u64,
}

/// A client with one thread.
pub(crate) struct Meddler {
    parts: MeddlerParts,
    client: Client,
}

impl Meddler {
    /// A client that is connected.
    pub(crate) async fn connect(mut parts: MeddlerParts) -> Result<Self, String> {
        let identity = UserIdentity {
            uid: 0,
            gid: 0,
            gids: Vec::new(),
            machine: parts.name.clone(),
        };
        let owner = parts.name.as_bytes().to_vec();
        let config = ClientConfig {
            version: NfsVersion::V3(V3Ports::default()),
            try_timeout: TRY_TIME,
            give_up: GIVE_UP,
            ..ClientConfig::new(owner, verifier(&mut parts.rng), identity)
        };
        let is_rdma = parts.rng.chance(500);
        let connector = parts.wires.one_way(&parts.name, is_rdma);
        let addresses = vec![Address::Memory(MDS_NAME.into())];
        let client = Client::connect(addresses, connector, config).await;
        Ok(Self {
            client: client.map_err(|e| format!("{}: {e}", parts.name))?,
            parts,
        })
    }

    /// Does as others that do `steps` operations.
    pub(crate) async fn work(mut self, steps: u32) {
        for _ in 0..steps / STEPS_PER_CHANGE {
            let rest = self.parts.rng.within(0, REST_MS_MAX);
            tokio::time::sleep(Duration::from_millis(rest)).await;
            let file = self.parts.rng.below(self.parts.files);
            let (index, path) = (usize::try_from(file).unwrap_or(0), format!("/g{file}"));
            let done = match self.parts.rng.below(3) {
                0 => self.set_mode(index, &path).await,
                1 => self.write(index, &path).await,
                _ => self.client.metadata(&path).await.map(drop),
            };
            // Nobody has made it yet.
            if let Err(e) = done
                && !e.is_not_found()
            {
                let text = format!("{}: a change of {path} failed: {e}", self.parts.name);
                self.parts.findings.add(text);
            }
        }
        let _ = self.client.close().await;
    }

    fn changed(&self, file: usize, from: Moment) {
        self.parts.history.used(Use {
            who: self.parts.name.clone(),
            file,
            how: How::Changes,
            from,
            to: self.parts.history.now(),
        });
    }

    async fn set_mode(&mut self, file: usize, path: &str) -> Result<(), Error> {
        let mode = 0o644 | u32::try_from(self.parts.rng.below(2)).unwrap_or(0) << 4;
        let attrs = SetAttrs {
            mode: Some(mode),
            ..SetAttrs::default()
        };
        let from = self.parts.history.now();
        self.client.set_attrs(path, &attrs).await?;
        self.changed(file, from);
        Ok(())
    }

    async fn write(&mut self, file: usize, path: &str) -> Result<(), Error> {
        let opened = self.client.open(path, OpenOptions::read_write()).await?;
        let data = Bytes::from(self.parts.rng.bits().to_be_bytes().to_vec());
        let from = self.parts.history.now();
        opened.write_at(0, data.clone()).await?;
        self.changed(file, from);
        opened.flush().await?;
        // Nobody else writes data.
        let len = u32::try_from(data.len()).unwrap_or(0);
        if opened.read_at(0, len).await?.into_bytes() != data {
            let text = format!(
                "{}: {path} has other bytes than were written",
                self.parts.name
            );
            self.parts.findings.add(text);
        }
        opened.close().await
    }
}
