//! Credits (RFC 8166 §3.3, RFC 8167 §4.1): one account for each direction.
//!
//! A grant is treated as a window over the count of calls. A reply that is the n-th and carries the grant g allows the
//! peer n + g calls in all. The edge of that window says how many calls the peer may have outstanding.
//!
//! A lower grant moves the edge in two cases. Either enough replies have followed; until then the peer may have sent calls
//! under the older one. Or the peer has replied to a call that we sent after the lower grant, since messages of one connection
//! arrive in order. Calls that it had begun earlier may still arrive beyond the edge, up to the highest edge that it was ever
//! told of. Each of them finds a Receive, or is excused (R14).
//!
//! Which of the two depends on the provider. A provider that holds back what has no Receive must have one for each such call,
//! or later messages would wait with it. A Receive that only waits is no memory there. On a device it is pinned memory, which
//! could grow far beyond all that is lent. But a device holds nothing back: it takes excused calls by receives in reserve.

use std::collections::VecDeque;

use crate::credit_pool::CreditAccount;

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
    /// What the replies allow that the peer may still go by, oldest first. An entry has the number of the reply, and
    /// how many calls in all it allows. Of two the older one allows more, else it says nothing.
    windows: VecDeque<(u64, u64)>,
    /// The most calls that it was ever allowed.
    allowed: u64,
    /// Where grants are lent.
    account: Option<CreditAccount>,
    /// There: calls beyond [`Self::expected`] wait, instead of ending the connection.
    holds_back: bool,
}

impl Responder {
    pub(super) fn new(grant: u32, overrun: u32) -> Self {
        Self {
            grant: grant.clamp(1, CREDITS_MAX),
            requested: 1,
            overrun: overrun.min(CREDITS_MAX),
            received: 0,
            answered: 0,
            // RFC 8166 §3.3.3: one until the first reply.
            windows: VecDeque::from([(0, 1)]),
            allowed: 1,
            account: None,
            holds_back: false,
        }
    }

    /// Grants are lent from now on, on a provider that holds back what goes beyond them, or does not.
    pub(super) fn lend(&mut self, account: CreditAccount, holds_back: bool) {
        self.account = Some(account);
        self.holds_back = holds_back;
    }

    /// The next replies grant this many, at most.
    pub(super) fn set_grant(&mut self, grant: u32) {
        self.grant = grant.clamp(1, CREDITS_MAX);
    }

    /// Calls that the peer may have sent in all.
    fn edge(&self) -> u64 {
        self.windows.front().map_or(0, |(_, edge)| *edge)
    }

    /// A call came; `false` if the peer was never allowed to send it.
    pub(super) fn received(&mut self) -> bool {
        self.received += 1;
        let left = self.edge().saturating_sub(self.received);
        if let Some(account) = &mut self.account {
            account.called(self.received - self.answered, left);
        }
        self.received <= self.most()
    }

    /// A call asked for this many. 0 counts as 1.
    pub(super) fn requested(&mut self, credits: u32) {
        self.requested = credits.max(1);
    }

    /// A reply leaves; returns the grant that it carries.
    pub(super) fn answer(&mut self) -> u32 {
        self.answered += 1;
        let most = self.grant.min(self.requested);
        let still = self.outstanding();
        let granted = match &mut self.account {
            Some(account) => account.answer(still, most),
            None => most,
        };
        let edge = self.answered + u64::from(granted);
        while self.windows.back().is_some_and(|(_, older)| *older <= edge) {
            self.windows.pop_back();
        }
        self.windows.push_back((self.answered, edge));
        self.allowed = self.allowed.max(edge);
        granted
    }

    /// Replies that granted less than the peer makes use of.
    pub(super) fn short(&self) -> u64 {
        self.account.as_ref().map_or(0, CreditAccount::short)
    }

    /// Replies that have left.
    pub(super) const fn answered(&self) -> u64 {
        self.answered
    }

    /// The peer has shown that it has the first `answered` replies. It begins no call by a grant before the last of them, and what
    /// that takes away may be lent to others. Calls that it had begun may follow all the same: see [`Self::covered`]. Where nothing
    /// is lent, nothing is concluded.
    pub(super) fn seen(&mut self, answered: u64) {
        if self.account.is_none() {
            return;
        }
        let edge = self.edge();
        while self.windows.len() > 1 && self.windows[0].0 < answered {
            self.windows.pop_front();
        }
        let (still, fell) = (self.outstanding(), self.edge() < edge);
        if let Some(account) = self.account.as_mut().filter(|_| fell) {
            account.settle(still);
        }
    }

    /// Calls that the peer may have outstanding: sent and not answered, or not sent yet.
    pub(super) fn outstanding(&self) -> u32 {
        let sent_at_most = self.edge().max(self.received);
        u32::try_from(sent_at_most - self.answered).unwrap_or(u32::MAX)
    }

    /// As many calls in all as are not too many.
    fn most(&self) -> u64 {
        self.allowed + u64::from(self.overrun)
    }

    /// How many calls in all have receives, before another reply leaves. Nobody knows how many the peer had begun before it heard
    /// of a lower grant ([`Self::seen`]): up to as many as it was ever allowed. Where grants are lent, calls beyond those that are
    /// covered wait at the provider, or are excused.
    fn covered(&self) -> u64 {
        match &self.account {
            None => self.most(),
            Some(_) if self.holds_back => self.allowed,
            Some(_) => self.edge(),
        }
    }

    /// Calls that can still arrive before another reply leaves, and must find a receive.
    pub(super) fn expected(&self) -> u64 {
        self.covered().saturating_sub(self.received)
    }

    /// Calls that can come beyond those without being too many.
    pub(super) fn excused(&self) -> u64 {
        let covered = self.covered().max(self.received);
        self.most().saturating_sub(covered)
    }
}
