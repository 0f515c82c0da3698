//! The beginning and the end of a client of NFSv3, and its calls on objects.

use super::attrs::private;
use super::ports::{ask_port, at_port, peer};
use super::state::{Client3, Inner3};
use crate::config::ClientConfig;
use crate::stats::Stats;
use crate::waits::{WaitReason, Waits};
use crate::{Error, FsStat, Metadata, SetAttrs, StatsSnapshot, V3Ports};
use nfs3_client::{CallerAuth, Nfs3Client};
use nfs4::FileHandle;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;
use transport::{Address, Connector};

/// How long the server may take to hear that the mounts have ended.
const UMNT_TIME: Duration = Duration::from_secs(2);

impl Client3 {
    pub(crate) async fn connect(
        addresses: Vec<Address>,
        connector: Arc<dyn Connector>,
        config: ClientConfig,
        ports: V3Ports,
    ) -> Result<Self, Error> {
        let mut addresses = addresses;
        if ports.asks_for_nfs
            && let Some(port) = ask_port(
                &connector,
                &config,
                &addresses,
                nfs3::PROGRAM,
                nfs3::VERSION,
            )
            .await
        {
            let of_tcp = |a: &mut Address| matches!(a, Address::Tcp(_)).then(|| a.clone());
            for address in &mut addresses {
                if let Some(told) = of_tcp(address).and_then(|a| at_port(&a, port)) {
                    *address = told;
                }
            }
        }
        let peer = peer(&connector, &config, addresses.clone());
        let client = Self(Arc::new(Inner3 {
            caller: CallerAuth::auth_sys(&config.identity.auth_sys()),
            nfs: Nfs3Client::new(peer),
            connector,
            addresses,
            ports,
            exports: tokio::sync::Mutex::default(),
            read_bytes_max: AtomicU32::new(config.io_bytes_max.max(1)),
            write_bytes_max: AtomicU32::new(config.io_bytes_max.max(1)),
            nodes: Mutex::default(),
            stats: Stats::default(),
            waits: Waits::default(),
            closing: Mutex::default(),
            next_verifier: AtomicU64::new(u64::from_be_bytes(config.verifier.bytes)),
            config,
        }));
        client.0.wait(client.0.nfs.null()).await?;
        Ok(client)
    }

    pub(crate) fn stats(&self) -> StatsSnapshot {
        self.0.stats.snapshot()
    }

    pub(crate) fn longest_wait(&self) -> Option<(Duration, WaitReason)> {
        self.0.waits.longest()
    }

    /// Waits for dropped files, and tells the server that the mounts have ended.
    pub(crate) async fn close(self) -> Result<(), Error> {
        let mut closing = std::mem::take(&mut *self.0.closing.lock());
        while closing.join_next().await.is_some() {}
        // Its list of mounts is for people only.
        let _ = tokio::time::timeout(UMNT_TIME, self.0.unmount()).await;
        self.0.nfs.peer().close();
        Ok(())
    }

    pub(crate) async fn metadata_of(&self, fh: &FileHandle) -> Result<Metadata, Error> {
        self.0.metadata_of(&private(fh)?).await
    }

    pub(crate) async fn set_attrs(&self, path: &[u8], attrs: &SetAttrs) -> Result<(), Error> {
        let fh = self.lookup(path).await?.fh;
        self.set_attrs_of(&fh, attrs).await
    }

    pub(crate) async fn set_attrs_of(
        &self,
        fh: &FileHandle,
        attrs: &SetAttrs,
    ) -> Result<(), Error> {
        let fh = private(fh)?;
        match self.0.node_in_use(&fh) {
            // What this client has written must not come after a new size or time.
            Some(node) => node.set_attrs(attrs).await,
            None => self.0.set_attrs_of(&fh, attrs).await,
        }
    }

    pub(crate) async fn statfs(&self) -> Result<FsStat, Error> {
        let fh = self.0.any_root().await?;
        let stat = self.0.wait(self.0.nfs.fsstat(&self.0.caller, &fh)).await?;
        Ok(FsStat {
            bytes_total: stat.tbytes,
            bytes_free: stat.fbytes,
            bytes_available: stat.abytes,
            files_total: stat.tfiles,
            files_free: stat.ffiles,
            files_available: stat.afiles,
        })
    }
}
