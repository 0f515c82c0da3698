//! Judges which data servers are slow, from what heartbeats say of syncs and of members that are behind (rule P25).
//!
//! ```text
//!            evidence for HOLD              still evidence, and it may be left out
//!   well ────────────────────────► slow ─────────────────────────────────────────► out
//!    ▲                              │ ▲                                             │ a pause that grows
//!    └──── no evidence for a pause ─┘ └───────────────── on trial: it is filled ◄───┘
//! ```
//! Owns what is known of each data server: since when there is evidence, and how often it was slow. It reads no clock, no
//! table and no row: numbers and the time come in, a verdict goes out. `slow` does what follows from it.
//!
//! # Evidence
//! A number says nothing by itself: all disks of a cluster may be slow. It must be above a limit, and several times the
//! median of the others. Three kinds count: the own syncs of a data server; the complaints of several others; and that it
//! complains of several of whom another one does not.
//!
//! # Failure
//! What is known is lost with the process: then evidence is taken anew. No evidence is no proof of health, since nobody
//! may have written: so pauses grow, and it is slow no more when they are over.

use control::MemberLag;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// A mean time of syncs below this is never evidence, in milliseconds.
const SYNC_MS: u64 = 1_000;
/// An oldest item that waits for less is never evidence, in milliseconds.
const LAG_MS: u64 = 2_000;
/// So many times the median of the others is far beyond that of others.
const FAR: u64 = 5;
/// One that is slow stays so down to this part of the limits.
const STAYS_AT: u64 = 2;
/// So many are several.
const SEVERAL: usize = 2;
/// Evidence must last so long, with no word of the contrary: longer than what a single sync of 4 s leaves.
pub(crate) const HOLD: Duration = Duration::from_secs(10);
/// Evidence is forgotten when nothing is known of it for so long. Numbers are known while somebody writes.
const SILENCE: Duration = Duration::from_secs(20);
/// A slow one is left out of places if it is so long after it was to hand over its primaries.
const OUT_AFTER: Duration = Duration::from_secs(5);
/// Pause between two data servers that are left out.
const OUT_PAUSE: Duration = Duration::from_secs(60);
/// How long one stays out, and without evidence afterwards, the first time; doubled each further time.
const PAUSE: Duration = Duration::from_secs(60);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(16 * 60);
/// Pauses begin anew for one that was well for so long.
const FORGET: Duration = Duration::from_secs(60 * 60);

/// What one data server that serves has said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) ds: u32,
    /// Mean time of its own syncs in microseconds; 0 when there was none lately.
    pub(crate) sync_us: u32,
    pub(crate) lags: &'a [MemberLag],
    /// Whether it is being filled at some place: then it has much to write that nobody waits for.
    pub(crate) is_filling: bool,
}

/// Why a data server counts as slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhySlow {
    /// Its own syncs take so long, and those of others usually so long, in milliseconds.
    Disk {
        /// Its own.
        sync_ms: u64,
        /// Those of others.
        usual_ms: u64,
    },
    /// Others complain of it.
    Others {
        /// How many.
        count: usize,
        /// How long the slowest answer takes, in milliseconds.
        worst_ms: u64,
    },
    /// It complains of others, of whom nobody else does.
    Link {
        /// How many.
        count: usize,
        /// How long the slowest answer takes, in milliseconds.
        worst_ms: u64,
    },
}

impl std::fmt::Display for WhySlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |ms: &u64| Duration::from_millis(*ms).as_secs_f64();
        match self {
            Self::Disk { sync_ms, usual_ms } => {
                let (own, usual) = (seconds(sync_ms), seconds(usual_ms));
                write!(f, "its syncs take {own:.1} s, usual are {usual:.2} s")
            }
            Self::Others { count, worst_ms } => {
                let worst = seconds(worst_ms);
                write!(f, "{count} others wait for it, up to {worst:.1} s")
            }
            Self::Link { count, worst_ms } => {
                let worst = seconds(worst_ms);
                write!(
                    f,
                    "it waits up to {worst:.1} s for {count} others, of which nobody else complains"
                )
            }
        }
    }
}

/// What has become of a data server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// It is slow: others become primary of its places.
    Slow(WhySlow),
    /// It is left out of places, for so long.
    Out(WhySlow, Duration),
    /// It may be filled again.
    OnTrial,
    /// It is slow no more.
    Well,
}

/// A data server that is slow.
#[derive(Debug, Clone, Copy)]
struct Slow {
    since: Instant,
    why: WhySlow,
    /// Since when there is no evidence, or it is on trial.
    quiet: Instant,
    /// Until when it is left out, if it is.
    out_until: Option<Instant>,
    is_on_trial: bool,
}

/// What is known of a data server.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Since when there is evidence, and when there was last, with no word of the contrary.
    suspected: Option<(Instant, Instant)>,
    slow: Option<Slow>,
    /// How often it was found slow in a row.
    strikes: u32,
    /// When it was slow last.
    ended: Option<Instant>,
}

/// One number of each data server, in milliseconds: as the one says that sees it best.
#[derive(Debug, Default)]
struct Numbers {
    of: BTreeMap<u32, u64>,
    sorted: Vec<u64>,
}

impl Numbers {
    fn new(numbers: impl Iterator<Item = (u32, u64)>) -> Self {
        let mut of: BTreeMap<u32, u64> = BTreeMap::new();
        for (ds, ms) in numbers {
            of.entry(ds)
                .and_modify(|best| *best = ms.min(*best))
                .or_insert(ms);
        }
        let mut sorted: Vec<u64> = of.values().copied().collect();
        sorted.sort_unstable();
        Self { of, sorted }
    }

    /// The lower median of the others; `None` when there are none.
    fn usual_but(&self, ds: u32) -> Option<u64> {
        let own = self
            .of
            .get(&ds)
            .map(|ms| self.sorted.partition_point(|other| other < ms));
        let others = self.sorted.len() - usize::from(own.is_some());
        let middle = others.checked_sub(1)? / 2;
        let is_after = own.is_some_and(|own| middle >= own);
        self.sorted.get(middle + usize::from(is_after)).copied()
    }
}

/// What is usual in the cluster.
struct Usual {
    disks: Numbers,
    members: Numbers,
    lags: Numbers,
}

impl Usual {
    fn of(said: &[Said<'_>]) -> Self {
        let known = |ds: u32, us: u32| (us > 0).then(|| (ds, u64::from(us) / 1000));
        let lags = || said.iter().flat_map(|one| one.lags);
        Self {
            disks: Numbers::new(said.iter().filter_map(|one| known(one.ds, one.sync_us))),
            members: Numbers::new(lags().filter_map(|lag| known(lag.ds_id, lag.sync_us))),
            lags: Numbers::new(lags().map(|lag| (lag.ds_id, u64::from(lag.oldest_ms)))),
        }
    }
}

/// What one says of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opinion {
    /// An answer takes so long in milliseconds, which is far beyond others.
    Complains(u64),
    IsContent,
    Unknown,
}

/// What all say of one.
#[derive(Debug, Clone, Copy, Default)]
struct Opinions {
    complain: usize,
    are_content: usize,
    worst_ms: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sick {
    known: BTreeMap<u32, Known>,
    /// When one was last left out.
    last_out: Option<Instant>,
}

impl Sick {
    /// Whether it is to have no primaries.
    pub(crate) fn is_slow(&self, ds: u32) -> bool {
        self.slow(ds).is_some()
    }

    /// Whether it is to be left out of the places that can do without it.
    pub(crate) fn is_out(&self, ds: u32, now: Instant) -> bool {
        let until = self.slow(ds).and_then(|slow| slow.out_until);
        until.is_some_and(|until| now < until)
    }

    /// Why it is slow, if it is.
    pub(crate) fn why(&self, ds: u32) -> Option<WhySlow> {
        self.slow(ds).map(|slow| slow.why)
    }

    /// Since when it is slow, if it is.
    pub(crate) fn slow_since(&self, ds: u32) -> Option<Instant> {
        self.slow(ds).map(|slow| slow.since)
    }

    /// Those that are slow, ascending.
    pub(crate) fn all_slow(&self) -> impl Iterator<Item = u32> + '_ {
        let slow = self.known.iter().filter(|(_, known)| known.slow.is_some());
        slow.map(|(ds, _)| *ds)
    }

    fn slow(&self, ds: u32) -> Option<&Slow> {
        self.known.get(&ds)?.slow.as_ref()
    }

    /// Takes in what the data servers that serve have said. `may_leave` says whether some place can do without one.
    /// Returns what has become of some.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        said: &[Said<'_>],
        may_leave: impl Fn(u32) -> bool,
    ) -> Vec<(u32, News)> {
        let (evidence, known) = self.all_evidence(said);
        let filling = said.iter().filter(|one| one.is_filling).map(|one| one.ds);
        let filling: BTreeSet<u32> = filling.collect();
        let ids: BTreeSet<u32> = self.known.keys().chain(evidence.keys()).copied().collect();
        let mut news = Vec::new();
        for ds in ids {
            let seen = Seen {
                evidence: evidence.get(&ds).copied(),
                is_known: known.contains(&ds),
                is_filling: filling.contains(&ds),
                may_go: self.is_turn_of(ds, now) && may_leave(ds),
            };
            let known = self.known.entry(ds).or_default();
            let told = known.judge(seen, now);
            if matches!(told, Some(News::Out(..))) {
                self.last_out = Some(now);
            }
            news.extend(told.map(|told| (ds, told)));
        }
        self.known.retain(|_, known| !known.is_blank());
        news
    }

    /// At most one is left out at a time, and one a minute.
    fn is_turn_of(&self, ds: u32, now: Instant) -> bool {
        let mut others = self.known.keys().filter(|other| **other != ds);
        let is_alone = others.all(|other| !self.is_out(*other, now));
        is_alone && self.last_out.is_none_or(|last| now >= last + OUT_PAUSE)
    }

    /// By data server, what speaks against it; and of which something is known.
    fn all_evidence(&self, said: &[Said<'_>]) -> (BTreeMap<u32, WhySlow>, BTreeSet<u32>) {
        let usual = Usual::of(said);
        let filling: BTreeSet<u32> = {
            let filling = said.iter().filter(|one| one.is_filling);
            filling.map(|one| one.ds).collect()
        };
        let opinion = |by: u32, lag: &MemberLag| {
            let part = self.part_of(by).max(self.part_of(lag.ds_id));
            // One that is filled has a long queue by that.
            let oldest_ms = match filling.contains(&lag.ds_id) {
                true => 0,
                false => lag.oldest_ms,
            };
            usual.opinion(lag.ds_id, lag.sync_us, oldest_ms, part)
        };
        let mut opinions: BTreeMap<u32, Opinions> = BTreeMap::new();
        for (by, lag) in said
            .iter()
            .flat_map(|one| one.lags.iter().map(|l| (one.ds, l)))
        {
            let of = opinions.entry(lag.ds_id).or_default();
            match opinion(by, lag) {
                Opinion::Complains(ms) => {
                    of.complain += 1;
                    of.worst_ms = of.worst_ms.max(ms);
                }
                Opinion::IsContent => of.are_content += 1,
                Opinion::Unknown => {}
            }
        }
        let evidence = said.iter().filter_map(|one| {
            // What a well one writes while it is filled is much, and nobody waits for it.
            if one.is_filling && !self.is_slow(one.ds) {
                return None;
            }
            let alone = one
                .lags
                .iter()
                .filter_map(|lag| match opinion(one.ds, lag) {
                    Opinion::Complains(ms) => {
                        let of = opinions.get(&lag.ds_id).copied().unwrap_or_default();
                        (of.complain == 1 && of.are_content > 0).then_some(ms)
                    }
                    _ => None,
                });
            let of_it = opinions.get(&one.ds).copied().unwrap_or_default();
            let disk = usual.disk(one.ds, one.sync_us, self.part_of(one.ds));
            let why = disk.or_else(|| of_it.why()).or_else(|| link(alone))?;
            Some((one.ds, why))
        });
        let evidence = evidence.collect();
        let of_others = |ds: u32| {
            opinions
                .get(&ds)
                .is_some_and(|of| of.complain + of.are_content > 0)
        };
        let known = said
            .iter()
            .filter(|one| one.sync_us > 0 || one.is_filling || of_others(one.ds));
        (evidence, known.map(|one| one.ds).collect())
    }

    /// Limits are divided by it.
    fn part_of(&self, ds: u32) -> u64 {
        match self.is_slow(ds) {
            true => STAYS_AT,
            false => 1,
        }
    }
}

/// What one look has brought for a data server.
#[derive(Debug, Clone, Copy)]
struct Seen {
    evidence: Option<WhySlow>,
    /// Whether anything is known of it now.
    is_known: bool,
    is_filling: bool,
    /// Whether it may be left out now.
    may_go: bool,
}

impl Known {
    fn judge(&mut self, seen: Seen, now: Instant) -> Option<News> {
        let first = self.suspected.map_or(now, |(first, _)| first);
        match (seen.evidence, self.suspected) {
            (Some(_), _) => self.suspected = Some((first, now)),
            (None, Some((_, last))) if seen.is_known || now >= last + SILENCE => {
                self.suspected = None;
            }
            (None, _) => {}
        }
        let is_held = now >= first + HOLD;
        let why = seen.evidence.filter(|_| is_held);
        let pause = self.pause();
        let Some(slow) = &mut self.slow else {
            if self.ended.is_some_and(|ended| now >= ended + FORGET) {
                (self.strikes, self.ended) = (0, None);
            }
            let why = why?;
            self.strikes = self.strikes.saturating_add(1);
            self.slow = Some(Slow {
                since: now,
                why,
                quiet: now,
                out_until: None,
                is_on_trial: false,
            });
            return Some(News::Slow(why));
        };
        if let Some(why) = seen.evidence {
            slow.why = why;
        }
        if seen.evidence.is_some() || seen.is_filling {
            slow.quiet = now;
        }
        if let Some(until) = slow.out_until {
            if now < until {
                return None;
            }
            (slow.out_until, slow.is_on_trial) = (None, true);
            slow.quiet = now;
            if why.is_none() {
                return Some(News::OnTrial);
            }
        }
        let is_due = now >= slow.since + OUT_AFTER;
        if let Some(why) = why.filter(|_| is_due && seen.may_go) {
            if slow.is_on_trial {
                self.strikes = self.strikes.saturating_add(1);
            }
            return Some(self.leave_out(why, now));
        }
        if now < slow.quiet + pause {
            return None;
        }
        (self.slow, self.ended) = (None, Some(now));
        Some(News::Well)
    }

    fn leave_out(&mut self, why: WhySlow, now: Instant) -> News {
        let pause = self.pause();
        if let Some(slow) = &mut self.slow {
            slow.out_until = Some(now + pause);
        }
        News::Out(why, pause)
    }

    /// How long it stays out, and must be quiet after that.
    fn pause(&self) -> Duration {
        let doubled = self.strikes.saturating_sub(1).min(16);
        PAUSE.saturating_mul(1 << doubled).min(PAUSE_MAX)
    }

    /// Whether nothing is known of it.
    fn is_blank(&self) -> bool {
        self.suspected.is_none() && self.slow.is_none() && self.strikes == 0
    }
}

impl Usual {
    fn opinion(&self, of: u32, sync_us: u32, oldest_ms: u32, part: u64) -> Opinion {
        let members_ms = self.members.usual_but(of).unwrap_or(0);
        let lags_ms = self.lags.usual_but(of).unwrap_or(0);
        let (sync_ms, oldest_ms) = (u64::from(sync_us) / 1000, u64::from(oldest_ms));
        let is_slow = sync_ms >= SYNC_MS.max(members_ms * FAR) / part;
        let is_behind = oldest_ms >= LAG_MS.max(lags_ms * FAR) / part;
        match (is_slow || is_behind, sync_us) {
            (true, _) => Opinion::Complains(sync_ms.max(oldest_ms)),
            (false, 0) => Opinion::Unknown,
            (false, _) => Opinion::IsContent,
        }
    }

    /// What the own syncs of a data server say against it. Nothing while those of no other are known.
    fn disk(&self, ds: u32, sync_us: u32, part: u64) -> Option<WhySlow> {
        let sync_ms = u64::from(sync_us) / 1000;
        let usual_ms = self.disks.usual_but(ds)?;
        let is_slow = sync_ms >= SYNC_MS.max(usual_ms * FAR) / part;
        is_slow.then_some(WhySlow::Disk { sync_ms, usual_ms })
    }
}

impl Opinions {
    /// What others say against it: several, and more than are content.
    fn why(&self) -> Option<WhySlow> {
        let is_so = self.complain >= SEVERAL && self.complain > self.are_content;
        is_so.then_some(WhySlow::Others {
            count: self.complain,
            worst_ms: self.worst_ms,
        })
    }
}

/// What it says against one that it alone complains of several, after so many milliseconds each.
fn link(alone: impl Iterator<Item = u64>) -> Option<WhySlow> {
    let waits: Vec<u64> = alone.collect();
    let worst_ms = waits.iter().copied().max()?;
    (waits.len() >= SEVERAL).then_some(WhySlow::Link {
        count: waits.len(),
        worst_ms,
    })
}

#[cfg(test)]
mod tests {
    //! Goal: who is far beyond others is found, by each kind of evidence, and nobody else; nothing flaps.

    use super::*;

    /// By data server: its own syncs in ms, and the members that it tells of: syncs and oldest item in ms.
    type Told = Vec<(u32, u32, Vec<(u32, u32, u32)>)>;

    /// So many data servers, each of which tells of all others. Every number is 8 ms, or what `ms` says of who tells and
    /// of whom; of itself it is the own sync.
    fn all(count: u32, ms: impl Fn(u32, u32) -> Option<u32>) -> Told {
        let told = |by: u32, of: u32| (of, ms(by, of).unwrap_or(8), 0);
        let one = |by: u32| {
            let others = (1..=count).filter(|of| *of != by);
            let lags = others.map(|of| told(by, of)).collect();
            (by, told(by, by).1, lags)
        };
        (1..=count).map(one).collect()
    }

    fn lags_of(told: &Told) -> Vec<Vec<MemberLag>> {
        let lag = |(ds_id, sync_ms, oldest_ms): &(u32, u32, u32)| MemberLag {
            ds_id: *ds_id,
            oldest_ms: *oldest_ms,
            sync_us: sync_ms * 1000,
            ..MemberLag::default()
        };
        told.iter()
            .map(|(.., lags)| lags.iter().map(lag).collect())
            .collect()
    }

    fn look(sick: &mut Sick, now: Instant, told: &Told, filling: &[u32]) -> Vec<(u32, News)> {
        let lags = lags_of(told);
        let said = told.iter().zip(&lags).map(|((ds, sync_ms, _), lags)| Said {
            ds: *ds,
            sync_us: sync_ms * 1000,
            lags,
            is_filling: filling.contains(ds),
        });
        let said: Vec<_> = said.collect();
        sick.look(now, &said, |_| true)
    }

    /// Who is found slow when this is said for long enough.
    fn found(told: &Told) -> Vec<(u32, WhySlow)> {
        let (mut sick, start) = (Sick::default(), Instant::now());
        assert_eq!(look(&mut sick, start, told, &[]), [], "at once");
        look(&mut sick, start + HOLD, told, &[]);
        sick.all_slow()
            .filter_map(|ds| Some((ds, sick.why(ds)?)))
            .collect()
    }

    #[test]
    fn one_whose_numbers_are_far_beyond_those_of_others_is_found() {
        let disk = WhySlow::Disk {
            sync_ms: 3000,
            usual_ms: 8,
        };
        let slow_disk = |by: u32, of: u32| (of == 2).then_some(if by == 2 { 3000 } else { 3010 });
        for count in [2, 3, 4, 9] {
            assert_eq!(
                found(&all(count, slow_disk)),
                [(2, disk)],
                "{count} data servers"
            );
        }
        let others = |count| WhySlow::Others {
            count,
            worst_ms: 3000,
        };
        let on_the_way_there = |by: u32, of: u32| (of == 2 && by != 2).then_some(3000);
        assert_eq!(found(&all(4, on_the_way_there)), [(2, others(3))]);
        let on_its_way = |by: u32, of: u32| (by == 2 && of != 2).then_some(3000);
        let link = WhySlow::Link {
            count: 3,
            worst_ms: 3000,
        };
        assert_eq!(found(&all(4, on_its_way)), [(2, link)]);
        let both = |by: u32, of: u32| ((by == 2) != (of == 2)).then_some(3000);
        assert_eq!(found(&all(4, both)), [(2, others(3))]);
        let two = |by: u32, of: u32| (by != of && [2, 3].contains(&of)).then_some(3000);
        assert_eq!(found(&all(6, two)), [(2, others(5)), (3, others(5))]);
        // Those that it was primary of have others: nobody tells of the members that it had.
        let mut handed = all(3, slow_disk);
        handed[1].2.clear();
        handed[1].1 = 0;
        let others = |count| WhySlow::Others {
            count,
            worst_ms: 3010,
        };
        assert_eq!(found(&handed), [(2, others(2))]);
    }

    #[test]
    fn one_is_compared_with_the_median_of_the_others() {
        let of =
            |numbers: &[u64], ds| Numbers::new((1..).zip(numbers.iter().copied())).usual_but(ds);
        assert_eq!(of(&[], 1), None);
        assert_eq!((of(&[7], 1), of(&[7], 2)), (None, Some(7)));
        assert_eq!((of(&[7, 9], 1), of(&[7, 9], 2)), (Some(9), Some(7)));
        assert_eq!(
            (of(&[5, 9, 7], 1), of(&[5, 9, 7], 2), of(&[5, 9, 7], 3)),
            (Some(7), Some(5), Some(5))
        );
        assert_eq!(of(&[5, 5, 5, 9], 2), Some(5));
        let best = Numbers::new([(1, 3000), (1, 8), (2, 4)].into_iter());
        assert_eq!(best.usual_but(2), Some(8));
    }

    #[test]
    fn an_item_that_waits_for_long_is_evidence_too_but_not_while_it_is_filled() {
        let mut told = all(3, |_, _| None);
        for (by, _, lags) in &mut told {
            let of_two = lags.iter_mut().filter(|_| *by != 2).find(|lag| lag.0 == 2);
            of_two.into_iter().for_each(|lag| lag.2 = 2500);
        }
        let others = WhySlow::Others {
            count: 2,
            worst_ms: 2500,
        };
        assert_eq!(found(&told), [(2, others)]);
        let (mut sick, start) = (Sick::default(), Instant::now());
        for seconds in 0..60 {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(look(&mut sick, now, &told, &[2]), []);
        }
    }

    #[test]
    fn nobody_is_found_where_all_are_slow_or_it_is_not_known_who_is() {
        type Ms = fn(u32, u32) -> Option<u32>;
        let none: [(&str, u32, Ms); 7] = [
            ("all are well", 4, |_, _| None),
            ("all are slow", 4, |_, _| Some(3000)),
            ("all but one are slow", 5, |_, of| (of != 2).then_some(3000)),
            ("nobody wrote", 4, |_, _| Some(0)),
            ("slower, but no trouble", 4, |_, of| {
                (of == 2).then_some(900)
            }),
            ("not far beyond others", 4, |_, of| {
                Some(if of == 2 { 3000 } else { 700 })
            }),
            ("one complains of one", 4, |by, of| {
                ((by, of) == (1, 2)).then_some(3000)
            }),
        ];
        for (what, count, ms) in none {
            assert_eq!(found(&all(count, ms)), [], "{what}");
        }
        let link_of_two = all(2, |by, of| (by != of).then_some(3000));
        assert_eq!(found(&link_of_two), [], "either may be at fault");
    }

    #[test]
    fn a_stall_is_no_evidence_but_what_lasts_is() {
        let (well, slow) = (
            all(3, |_, _| None),
            all(3, |_, of| (of == 2).then_some(3000)),
        );
        let (mut sick, start) = (Sick::default(), Instant::now());
        for seconds in 0..120 {
            let told = if seconds % 10 < 9 { &slow } else { &well };
            let now = start + Duration::from_secs(seconds);
            assert_eq!(look(&mut sick, now, told, &[]), [], "{seconds} s");
        }
    }

    #[test]
    fn one_that_is_slow_whenever_somebody_writes_is_found_and_one_stall_is_forgotten() {
        let slow = all(3, |_, of| (of == 2).then_some(3000));
        let silent = all(3, |_, _| Some(0));
        for (every, is_found) in [(8, true), (16, true), (60, false)] {
            let (mut sick, start) = (Sick::default(), Instant::now());
            for seconds in 0..120 {
                let told = if seconds % every < 4 { &slow } else { &silent };
                look(&mut sick, start + Duration::from_secs(seconds), told, &[]);
            }
            assert_eq!(sick.is_slow(2), is_found, "every {every} s");
        }
    }

    /// What has become of data server 2 in so many seconds, with the second.
    fn history(
        seconds: u64,
        told: impl Fn(u64, &Sick) -> Told,
        may_leave: bool,
    ) -> Vec<(u64, &'static str)> {
        let (mut sick, start) = (Sick::default(), Instant::now());
        let mut history = Vec::new();
        for second in 0..seconds {
            let now = start + Duration::from_secs(second);
            let told = told(second, &sick);
            let lags = lags_of(&told);
            let said = told.iter().zip(&lags).map(|((ds, sync_ms, _), lags)| Said {
                ds: *ds,
                sync_us: sync_ms * 1000,
                lags,
                is_filling: false,
            });
            let said: Vec<_> = said.collect();
            for (ds, news) in sick.look(now, &said, |_| may_leave) {
                assert_eq!(ds, 2);
                let what = match news {
                    News::Slow(_) => "slow",
                    News::Out(..) => "out",
                    News::OnTrial => "on trial",
                    News::Well => "well",
                };
                history.push((second, what));
            }
        }
        history
    }

    fn slow_disk(_: u32, of: u32) -> Option<u32> {
        (of == 2).then_some(3000)
    }

    #[test]
    fn one_that_stays_slow_is_tried_after_pauses_that_grow() {
        // While it is out nobody passes anything to it.
        let start = std::cell::Cell::new(None);
        let told = |second: u64, sick: &Sick| {
            let first = start.get().unwrap_or_else(Instant::now);
            start.set(Some(first));
            match sick.is_out(2, first + Duration::from_secs(second)) {
                true => all(3, |_, of| (of == 2).then_some(0)),
                false => all(3, slow_disk),
            }
        };
        let history = history(700, told, true);
        let out: Vec<u64> = history
            .iter()
            .filter(|h| h.1 == "out")
            .map(|h| h.0)
            .collect();
        let pauses: Vec<u64> = out.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(out[0], 15, "{history:?}");
        assert!(
            pauses.windows(2).all(|two| two[1] > two[0] + 50),
            "{history:?}"
        );
        assert!(!history.iter().any(|h| h.1 == "well"), "{history:?}");
        assert!(out.len() <= 5, "{history:?}");
    }

    #[test]
    fn one_that_is_well_again_is_so_after_a_quiet_time_and_strikes_are_remembered() {
        let told = |second: u64, _: &Sick| match second {
            0..60 | 400..430 => all(3, slow_disk),
            _ => all(3, |_, _| None),
        };
        let events = history(900, told, true);
        let expected = [
            (10, "slow"),
            (15, "out"),
            (75, "on trial"),
            (135, "well"),
            (410, "slow"),
            (415, "out"),
            (535, "on trial"),
            (655, "well"),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn one_that_no_place_can_do_without_stays_in_and_has_no_primaries() {
        let told = |second: u64, _: &Sick| match second {
            0..200 => all(3, slow_disk),
            _ => all(3, |_, _| None),
        };
        assert_eq!(history(400, told, false), [(10, "slow"), (259, "well")]);
    }

    #[test]
    fn one_is_left_out_at_a_time() {
        let told = all(6, |_, of| [2, 3].contains(&of).then_some(3000));
        let (mut sick, start) = (Sick::default(), Instant::now());
        let mut last_out = None;
        for second in 0..2000 {
            let now = start + Duration::from_secs(second);
            for (_, news) in look(&mut sick, now, &told, &[]) {
                if matches!(news, News::Out(..)) {
                    assert!(last_out.is_none_or(|last| second >= last + 60), "{second}");
                    last_out = Some(second);
                }
            }
            assert!(!(sick.is_out(2, now) && sick.is_out(3, now)), "{second}");
        }
    }
}
