//! Goal: a data server with two addresses is used by both. One that refuses or is silent costs no more than the time of one try,
//! and nothing goes through the MDS. At first that is one try for each data server, under work one in all. Method: the fake
//! cluster listens at two names for each data server, and one of them is cut.

use super::*;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long a silent address may hold up a request: one try, which is a third of `ds_give_up`, and a moment.
const ONE_TRY: Duration = Duration::from_millis(5100);
const ROUNDS: u64 = 40;
const DS_COUNT: u32 = 2;

/// How an address fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dead {
    Refuses,
    Silent,
}

/// The names of one address of each data server end with this.
type Side = char;
const FIRST: Side = 'a';
const SECOND: Side = 'b';

#[derive(Default)]
struct Ways {
    dead: Mutex<Option<(Side, Dead)>>,
    came: Mutex<HashMap<Side, u32>>,
}

impl Ways {
    fn cut(&self, side: Side, how: Dead) {
        *self.dead.lock() = Some((side, how));
    }

    fn came_to(&self, side: Side) -> u32 {
        self.came.lock().get(&side).copied().unwrap_or(0)
    }

    fn is(&self, name: &str, how: Dead) -> bool {
        let dead = *self.dead.lock();
        dead.is_some_and(|(side, h)| h == how && name.starts_with("ds") && name.ends_with(side))
    }
}

impl Faults for Ways {
    fn fate(&self, p: &Passage<'_>) -> Fate {
        let is = |how| self.is(p.from, how) || self.is(p.to, how);
        if is(Dead::Silent) {
            return Fate::Lose;
        }
        if is(Dead::Refuses) {
            return Fate::Cut;
        }
        if p.to.starts_with("ds") {
            let side = p.to.chars().next_back().unwrap();
            *self.came.lock().entry(side).or_default() += 1;
        }
        Fate::Deliver
    }

    fn may_connect(&self, _from: &str, to: &str) -> bool {
        !self.is(to, Dead::Refuses)
    }
}

async fn two_paths() -> (Cluster, Arc<Ways>, Client) {
    let ways = Arc::new(Ways::default());
    let cluster =
        Cluster::with_two_addresses(DS_COUNT as usize, Arc::clone(&ways) as Arc<dyn Faults>);
    let client = connect(&cluster, config("a")).await;
    (cluster, ways, client)
}

/// Writes and reads back at many places; returns the longest that a round took.
async fn work(file: &File, seed: u64) -> Duration {
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        let since = Instant::now();
        let data = pattern(seed + round, LEN);
        file.write_at(round * 1000, data.clone()).await.unwrap();
        let read = file.read_at(round * 1000, u32::try_from(LEN).unwrap());
        assert_eq!(read.await.unwrap().into_bytes(), data, "round {round}");
        longest = longest.max(since.elapsed());
    }
    file.flush().await.unwrap();
    longest
}

/// Each address, dead in each way.
const DEATHS: [(Side, Dead); 4] = [
    (FIRST, Dead::Refuses),
    (SECOND, Dead::Refuses),
    (FIRST, Dead::Silent),
    (SECOND, Dead::Silent),
];

fn nothing_by_the_mds(client: &Client) {
    let s = client.stats();
    let by_mds = (s.mds_read_bytes, s.mds_written_bytes, s.mds_fallbacks);
    assert_eq!(by_mds, (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_dead_at_first_costs_one_try_of_each_server() {
    for (side, how) in DEATHS {
        let (_cluster, ways, client) = two_paths().await;
        ways.cut(side, how);
        let (file, _) = new_file(&client).await;
        let longest = work(&file, 1).await;
        assert!(longest < DS_COUNT * ONE_TRY, "{side} {how:?}: {longest:?}");
        nothing_by_the_mds(&client);
        file.close().await.unwrap();
        client.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_dies_under_work_costs_one_try() {
    for (side, how) in DEATHS {
        let (_cluster, ways, client) = two_paths().await;
        let (file, _) = new_file(&client).await;
        work(&file, 1).await;
        for one in [FIRST, SECOND] {
            assert!(ways.came_to(one) > 20, "{one} has its part");
        }
        ways.cut(side, how);
        let before = (ways.came_to(FIRST), ways.came_to(SECOND));
        let longest = work(&file, 2).await;
        assert!(longest < ONE_TRY, "{side} {how:?}: {longest:?}");
        let more = (
            ways.came_to(FIRST) - before.0,
            ways.came_to(SECOND) - before.1,
        );
        let (lost, kept) = match side {
            FIRST => more,
            _ => (more.1, more.0),
        };
        assert!(lost == 0 && kept > 40, "{side} {how:?}: {more:?}");
        nothing_by_the_mds(&client);
        file.close().await.unwrap();
        client.close().await.unwrap();
    }
}
