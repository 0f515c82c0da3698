//! A connection whose completions are awaited one at a time.

use bytes::Bytes;
use fabric::{
    Buffer, Completion, Connected, Done, Ended, Endpoint, EndpointConfig, Memory, Part, Pool,
    PoolConfig, Receive, Remote, Work, WorkStatus,
};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Largest ping.
pub(crate) const PING_BYTES_MAX: usize = 1 << 20;
/// As rping has it: one read at a time.
pub(crate) const CONFIG: EndpointConfig = EndpointConfig {
    send_depth: 16,
    receive_depth: 8,
    exposed_max: 8,
    ird: 1,
    ord: 1,
    crc: true,
    exposed_is_scratch: false,
};
/// Messages have 16 octets; that a longer one comes is to be seen, not to end the connection.
const MESSAGE_BYTES_MAX: usize = 64;
const RECEIVES: u64 = 4;

pub(crate) struct Peer {
    endpoint: Box<dyn Endpoint>,
    data: Pool,
    done: VecDeque<Completion>,
    messages: VecDeque<Vec<u8>>,
}

/// Receives for a connection that begins.
pub(crate) fn receives() -> Vec<Receive> {
    let pool = pool(MESSAGE_BYTES_MAX);
    let receive = |id| {
        let buffer = pool.take()?;
        Some(Receive { id, buffer })
    };
    (0..RECEIVES).map_while(receive).collect()
}

fn pool(buffer_bytes: usize) -> Pool {
    Pool::new(PoolConfig {
        buffer_bytes,
        slab_bytes: 4 * buffer_bytes,
        bytes_max: 4 * buffer_bytes,
        free_bytes_max: usize::MAX,
    })
}

impl Peer {
    pub(crate) fn new(connected: Connected) -> Self {
        Self {
            endpoint: connected.endpoint,
            data: pool(PING_BYTES_MAX),
            done: VecDeque::new(),
            messages: VecDeque::new(),
        }
    }

    /// A buffer of this length, without what somebody else left in it.
    pub(crate) fn buffer(&self, len: usize) -> Result<Buffer> {
        let mut buffer = self.data.take().ok_or("no buffer is free")?;
        buffer.set_len(len);
        buffer.fill(0);
        Ok(buffer)
    }

    pub(crate) fn expose(&mut self, memory: Memory) -> Result<Remote> {
        let exposed = self.endpoint.expose(memory);
        exposed.map_err(|refused| refused.why.to_string().into())
    }

    /// Does one piece of work.
    async fn work(&mut self, work: Work) -> Result<Done> {
        let posted = self.endpoint.post(0, work, true);
        posted.map_err(|refused| refused.why.to_string())?;
        self.endpoint.ring();
        loop {
            if let Some(done) = self.done.pop_front() {
                return match done.status {
                    WorkStatus::Ok => Ok(done.done),
                    status => Err(format!("{:?}: {status:?}", done.done).into()),
                };
            }
            if let Some(ended) = self.step().await? {
                return Err(ended.into());
            }
        }
    }

    pub(crate) async fn send(&mut self, message: Vec<u8>) -> Result<()> {
        let (data, invalidate) = (vec![Bytes::from(message)], None);
        self.work(Work::Send { data, invalidate }).await.map(drop)
    }

    pub(crate) async fn write(&mut self, data: Bytes, remote: Remote) -> Result<()> {
        let data = vec![data];
        self.work(Work::Write { data, remote }).await.map(drop)
    }

    /// What the peer keeps there.
    pub(crate) async fn read(&mut self, remote: Remote) -> Result<Buffer> {
        let sink = self.buffer(usize::try_from(remote.len)?)?;
        let parts = vec![Part { at: 0, remote }];
        match self.work(Work::Read { sink, parts }).await? {
            Done::Read { sink } => Ok(sink),
            other => Err(format!("not a read: {other:?}").into()),
        }
    }

    /// Ends the peer's access.
    pub(crate) async fn withdraw(&mut self, key: u32) -> Result<Memory> {
        match self.work(Work::Invalidate { key }).await? {
            Done::Invalidate {
                memory: Some(memory),
            } => Ok(memory),
            other => Err(format!("not an invalidation: {other:?}").into()),
        }
    }

    /// The next message; `None` when the peer has closed.
    pub(crate) async fn message(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(Some(message));
            }
            match self.step().await? {
                Some(Ended::PeerClosed) => return Ok(None),
                Some(ended) => return Err(ended.into()),
                None => {}
            }
        }
    }

    /// Takes what is complete; why the connection has ended if it has.
    async fn step(&mut self) -> Result<Option<Ended>> {
        let mut seen = Vec::new();
        let endpoint = &mut self.endpoint;
        let ended = poll_fn(|cx| match endpoint.poll_completions(cx, &mut seen) {
            Poll::Pending if !seen.is_empty() => Poll::Ready(None),
            polled => polled.map(std::result::Result::err),
        })
        .await;
        for completion in seen {
            match completion {
                Completion {
                    status: WorkStatus::Ok,
                    done: Done::Receive { mut buffer, .. },
                    id,
                } => {
                    self.messages.push_back(buffer.to_vec());
                    buffer.set_len(MESSAGE_BYTES_MAX);
                    let posted = self.endpoint.post_receive(id, buffer);
                    posted.map_err(|refused| refused.why.to_string())?;
                }
                Completion {
                    done: Done::Receive { .. } | Done::Exposed { .. },
                    ..
                } => {}
                other => self.done.push_back(other),
            }
        }
        Ok(ended)
    }

    /// Closes once everything is sent, and waits for the end.
    pub(crate) async fn close(mut self) -> Result<()> {
        self.endpoint.close(fabric::Close::Drain);
        loop {
            match self.step().await? {
                None => {}
                Some(Ended::Closed | Ended::PeerClosed) => return Ok(()),
                Some(ended) => return Err(ended.into()),
            }
        }
    }
}
