//! A server through our client library: one client, and so one session, for each worker.
//!
//! What a worker does at the same time are futures of one thread. It has several threads where the client of a
//! published figure had. Then each has its share of the tasks, and the runtime's own threads carry the connections.

use super::{Bypass, DIR_MODE, FILE_MODE, Files};
use crate::BenchError;
use crate::nfs::providers::{ADDRESSES_MAX, providers};
use bytes::Bytes;
use client::{
    Client, ClientConfig, Error, File, NfsUrl, OpenOptions, SetAttrs, UserIdentity, Verifier,
};
use futures_util::stream::{FuturesOrdered, TryStreamExt};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use transport::{Address, AnyConnector, Connector, Context, TransportLimits};

/// A server that does not answer for so long, a grace period included, ends the run.
const GIVE_UP: Duration = Duration::from_secs(180);

/// The adapter.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    client: Client,
    root: Vec<u8>,
    /// Threads of what is done at the same time.
    threads_count: u32,
}

impl Remote {
    /// Connects to the server of a URL, which names the folder to work in.
    pub(crate) async fn connect(url: &str) -> Result<Self, BenchError> {
        Self::connect_with(url, config()?).await
    }

    /// The same by a client that keeps so many written bytes before it commits them by itself.
    pub(crate) async fn connect_keeping(
        url: &str,
        uncommitted_bytes_max: u64,
    ) -> Result<Self, BenchError> {
        let config = ClientConfig {
            uncommitted_bytes_max,
            ..config()?
        };
        Self::connect_with(url, config).await
    }

    async fn connect_with(url: &str, config: ClientConfig) -> Result<Self, BenchError> {
        let url = NfsUrl::parse(url).map_err(BenchError::nfs("understand the URL"))?;
        let found = tokio::net::lookup_host((url.host.as_str(), 0)).await;
        let found = found.map_err(BenchError::io("find the server"))?;
        let found: Vec<_> = found.take(ADDRESSES_MAX).collect();
        let addresses = url.addresses(&found);
        let context = Context::new(TransportLimits::default());
        let any = found
            .first()
            .map_or(Ipv4Addr::LOCALHOST.into(), SocketAddr::ip);
        let connector = Arc::new(AnyConnector::new(&context, providers(any, true)));
        let mut config = config;
        url.configure(&mut config);
        Self::over(addresses, connector, config, url.path).await
    }

    /// The same over any transport.
    pub(crate) async fn over(
        addresses: Vec<Address>,
        connector: Arc<dyn Connector>,
        config: ClientConfig,
        root: Vec<u8>,
    ) -> Result<Self, BenchError> {
        let client = Client::connect(addresses, connector, config)
            .await
            .map_err(BenchError::nfs("connect to the server"))?;
        Ok(Self {
            client,
            root,
            threads_count: 1,
        })
    }

    /// The same with so many threads, on a runtime that has threads of its own.
    pub(crate) fn with_threads(self, threads_count: u32) -> Self {
        Self {
            threads_count,
            ..self
        }
    }

    /// The server's lease.
    pub(crate) fn lease(&self) -> Duration {
        self.client.lease()
    }

    /// Ends the session.
    pub(crate) async fn end(self) -> Result<(), BenchError> {
        let ended = self.client.close().await;
        ended.map_err(BenchError::nfs("end the session"))
    }

    fn path(&self, path: &str) -> Vec<u8> {
        let mut whole = self.root.clone();
        whole.push(b'/');
        whole.extend_from_slice(path.as_bytes());
        whole
    }
}

fn config() -> Result<ClientConfig, BenchError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(BenchError::nfs("get randomness"))?;
    let (name, verifier) = random.split_at(8);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(verifier);
    let hex: String = name.iter().map(|b| format!("{b:02x}")).collect();
    let identity = UserIdentity {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        gids: Vec::new(),
        machine: "ropewalk-bench".to_owned(),
    };
    let owner = format!("ropewalk bench {} {hex}", std::process::id()).into_bytes();
    let mut config = ClientConfig::new(owner, Verifier { bytes }, identity);
    config.give_up = GIVE_UP;
    Ok(config)
}

/// Runs tasks on threads, each of which has as many, and returns what they return in their order. Blocks the caller meanwhile.
fn on_threads<T: Send, Fut: Future<Output = Result<T, BenchError>>>(
    threads_count: u32,
    count: u32,
    task: impl Fn(u32) -> Fut + Sync,
) -> Result<Vec<T>, BenchError> {
    let runtime = Handle::current();
    // With one of a single thread nobody would be left for the connections.
    assert_eq!(runtime.runtime_flavor(), RuntimeFlavor::MultiThread);
    let (runtime, task) = (&runtime, &task);
    let share = count.div_ceil(threads_count.max(1));
    std::thread::scope(|scope| {
        let start = |first: u32| {
            scope.spawn(move || {
                let own = first..count.min(first + share);
                let tasks: FuturesOrdered<_> = own.map(task).collect();
                runtime.block_on(tasks.try_collect::<Vec<T>>())
            })
        };
        let firsts = (0..count).step_by(share.max(1) as usize);
        let threads: Vec<_> = firsts.map(start).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().expect("a task does not panic")?);
        }
        Ok(all)
    })
}

impl Files for Remote {
    type File = File;

    async fn at_once<T: Send, Fut: Future<Output = Result<T, BenchError>>>(
        &self,
        count: u32,
        task: impl Fn(u32) -> Fut + Sync,
    ) -> Result<Vec<T>, BenchError> {
        if self.threads_count > 1 {
            return on_threads(self.threads_count, count, task);
        }
        let tasks: FuturesOrdered<_> = (0..count).map(task).collect();
        tasks.try_collect().await
    }

    async fn make_dir(&self, path: &str) -> Result<(), BenchError> {
        let made = self.client.mkdir(self.path(path), DIR_MODE).await;
        made.map(drop).map_err(BenchError::nfs("make a directory"))
    }

    async fn remove_dir(&self, path: &str) -> Result<(), BenchError> {
        let removed = self.client.remove(self.path(path)).await;
        removed.map_err(BenchError::nfs("remove a directory"))
    }

    async fn create(&self, path: &str) -> Result<File, BenchError> {
        let options = OpenOptions::create(FILE_MODE);
        let opened = self.client.open(self.path(path), options).await;
        opened.map_err(BenchError::nfs("create a file"))
    }

    async fn create_uncached(
        &self,
        path: &str,
        _unit_bytes: u32,
    ) -> Result<(File, Option<Bypass>), BenchError> {
        // The library caches no data.
        Ok((self.create(path).await?, None))
    }

    async fn open(&self, path: &str) -> Result<File, BenchError> {
        let options = OpenOptions::read_write();
        let opened = self.client.open(self.path(path), options).await;
        opened.map_err(BenchError::nfs("open a file"))
    }

    async fn close(&self, file: File) -> Result<(), BenchError> {
        file.close().await.map_err(BenchError::nfs("close a file"))
    }

    async fn read(&self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize, BenchError> {
        let len = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let data = file.read_at(offset, len).await;
        let data = data.map_err(BenchError::nfs("read"))?;
        let mut count = 0;
        for chunk in &data.chunks {
            // The library never returns more than was asked for.
            buffer[count..count + chunk.len()].copy_from_slice(chunk);
            count += chunk.len();
        }
        Ok(count)
    }

    async fn write(&self, file: &File, offset: u64, data: Bytes) -> Result<(), BenchError> {
        let written = file.write_at(offset, data).await;
        written.map_err(BenchError::nfs("write"))
    }

    async fn sync(&self, file: &File) -> Result<(), BenchError> {
        file.flush().await.map_err(BenchError::nfs("sync a file"))
    }

    async fn forget(&self, _file: &File) -> Result<(), BenchError> {
        // The library caches no data.
        Ok(())
    }

    async fn stat(&self, path: &str) -> Result<bool, BenchError> {
        match self.client.lookup_link(self.path(path)).await {
            Ok(_) => Ok(true),
            Err(e) if Error::is_not_found(&e) => Ok(false),
            Err(e) => Err(BenchError::nfs("stat")(e)),
        }
    }

    async fn chmod(&self, path: &str, mode: u32) -> Result<(), BenchError> {
        let attrs = SetAttrs {
            mode: Some(mode),
            ..SetAttrs::default()
        };
        let set = self.client.set_attrs(self.path(path), &attrs).await;
        set.map_err(BenchError::nfs("chmod"))
    }

    async fn list(&self, path: &str) -> Result<u64, BenchError> {
        let doing = BenchError::nfs("read a directory");
        let mut dir = self
            .client
            .read_dir(self.path(path))
            .await
            .map_err(&doing)?;
        let mut count = 0;
        while let Some(page) = dir.next_page().await.map_err(&doing)? {
            count += page.len() as u64;
        }
        Ok(count)
    }

    async fn rename(&self, from: &str, to: &str) -> Result<(), BenchError> {
        let renamed = self.client.rename(self.path(from), self.path(to)).await;
        renamed.map_err(BenchError::nfs("rename"))
    }

    async fn remove(&self, path: &str) -> Result<(), BenchError> {
        let removed = self.client.remove(self.path(path)).await;
        removed.map_err(BenchError::nfs("remove a file"))
    }
}

#[cfg(test)]
mod tests {
    //! Tasks have the threads that they should have.
    use super::*;
    use crate::load;
    use std::sync::Barrier;

    #[test]
    fn tasks_run_on_threads_of_their_own() {
        let runtime = load::threads_runtime().unwrap();
        let meeting = Barrier::new(3);
        let meet = |index: u32| {
            let meeting = &meeting;
            async move {
                // Timers and sockets work there as elsewhere.
                tokio::time::sleep(Duration::from_millis(1)).await;
                // The first of each thread: with fewer threads they would wait for ever.
                if index.is_multiple_of(2) {
                    meeting.wait();
                }
                Ok((index, std::thread::current().id()))
            }
        };
        let done = runtime.block_on(async { on_threads(3, 6, meet) }).unwrap();
        let (order, threads): (Vec<u32>, Vec<_>) = done.into_iter().unzip();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        for pair in threads.chunks(2) {
            assert_eq!(pair[0], pair[1]);
            assert_eq!(threads.iter().filter(|id| **id == pair[0]).count(), 2);
        }
        let failing = |index| async move {
            match index {
                1 => Err(BenchError::Refused),
                _ => Ok(index),
            }
        };
        let result = runtime.block_on(async { on_threads(2, 3, failing) });
        assert!(matches!(result, Err(BenchError::Refused)));
        let few = |index| async move { Ok(index) };
        let done = runtime.block_on(async { on_threads(16, 4, few) });
        assert_eq!(done.unwrap(), [0, 1, 2, 3]);
    }
}
