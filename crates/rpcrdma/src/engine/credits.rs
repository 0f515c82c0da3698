//! Credits (RFC 8166 §3.3, RFC 8167 §4.1): one account for each direction.
//!
//! A grant is treated as a window over the count of calls: a reply that is the n-th and carries the
//! grant g allows the peer n + g calls in all. A lower grant moves that edge only when enough replies
//! have followed, because until then the peer may have sent calls under the older one. So the edge
//! never goes back, tells exactly how many calls can still arrive, and with that how many Receives
//! must be posted (design R14).

/// Most credits that are granted or asked for, whatever the configuration says.
pub const CREDITS_MAX: u32 = 1024;

/// The account of our own calls.
#[derive(Debug)]
pub(super) struct Requester {
    requested: u32,
    granted: u32,
    in_use: u32,
}

impl Requester {
    pub(super) fn new(requested: u32) -> Self {
        Self {
            requested: requested.clamp(1, CREDITS_MAX),
            // RFC 8166 §3.3.3: one until the first reply.
            granted: 1,
            in_use: 0,
        }
    }

    pub(super) const fn requested(&self) -> u32 {
        self.requested
    }

    /// Calls that may be outstanding at once.
    pub(super) fn limit(&self) -> u32 {
        self.requested.min(self.granted)
    }

    pub(super) const fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Takes a credit, if there is one.
    pub(super) fn take(&mut self) -> bool {
        let free = self.in_use < self.limit();
        self.in_use += u32::from(free);
        free
    }

    pub(super) fn give_back(&mut self) {
        self.in_use -= 1;
    }

    /// A reply carried this grant. 0 would be a deadlock and counts as 1.
    pub(super) fn granted(&mut self, credits: u32) {
        self.granted = credits.max(1);
    }
}

/// The account of the peer's calls.
#[derive(Debug)]
pub(super) struct Responder {
    grant: u32,
    /// What the newest call asked for.
    requested: u32,
    overrun: u32,
    received: u64,
    answered: u64,
    edge: u64,
}

impl Responder {
    pub(super) fn new(grant: u32, overrun: u32) -> Self {
        Self {
            grant: grant.clamp(1, CREDITS_MAX),
            requested: 1,
            overrun: overrun.min(CREDITS_MAX),
            received: 0,
            answered: 0,
            edge: 1,
        }
    }

    /// The next replies grant this many.
    pub(super) fn set_grant(&mut self, grant: u32) {
        self.grant = grant.clamp(1, CREDITS_MAX);
    }

    /// A call came; `false` if the peer was never allowed to send it.
    pub(super) fn received(&mut self) -> bool {
        self.received += 1;
        self.received <= self.edge + u64::from(self.overrun)
    }

    /// A call asked for this many. 0 counts as 1.
    pub(super) fn requested(&mut self, credits: u32) {
        self.requested = credits.max(1);
    }

    /// A reply leaves; returns the grant that it carries.
    pub(super) fn answer(&mut self) -> u32 {
        self.answered += 1;
        let granted = self.grant.min(self.requested);
        self.edge = self.edge.max(self.answered + u64::from(granted));
        granted
    }

    /// Calls that can still arrive before another reply leaves.
    pub(super) fn expected(&self) -> u64 {
        (self.edge + u64::from(self.overrun)).saturating_sub(self.received)
    }
}
