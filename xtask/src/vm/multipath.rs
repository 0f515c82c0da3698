//! The host's part of `multipath`: data servers at addresses of two networks, of which one is cut.
//!
//! The proof is in the bytes that each network carries while the guest works, and in what the MDS counts of it. The networks are
//! [`RAILS`]; the MDS is on neither. Entry point: [`multipath`].

use std::thread;
use std::time::{Duration, Instant};

use super::cluster::{Cluster, await_state};
use super::error::{Failure, Result};
use super::hosted::{Finding, Stage};
use super::net::{Net, RAILS};

/// When a network is cut. No cut is announced to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Never,
    /// Before the mount.
    Before,
    /// Under work. Linux takes minutes, so this is asked for by `--env SILENT=yes`.
    Under,
}

impl When {
    /// Its name in the guest.
    fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Before => "before",
            Self::Under => "under",
        }
    }
}

/// What is cut, and when. Rail 0 is that of the address that clients are told first.
const CASES: [(When, usize); 5] = [
    (When::Never, 0),
    (When::Before, 0),
    (When::Before, 1),
    (When::Under, 0),
    (When::Under, 1),
];

/// How long a client may take to use a mended network again, and how often the host looks.
const AGAIN_LIMIT: Duration = Duration::from_secs(450);
const AGAIN_POLL: Duration = Duration::from_secs(2);

/// What `ropewalk up` says when a server of it may be killed.
const READY: &str = "ropewalk is ready";

/// Fewest bytes that a way in use carries while it is counted; the guest moves some 48 MiB.
const BYTES_MIN: u64 = 4 << 20;

/// Most bytes of a network that is not in use: what the kernels say by themselves.
const BYTES_IDLE: u64 = 64 << 10;

/// Gives the data servers their addresses, plays, and takes them away again.
pub(crate) fn multipath(stage: &mut Stage<'_>) -> Result<Finding> {
    if !stage.guest.await_signal("booted")? {
        return Ok(None);
    }
    let cluster = stage.cluster()?;
    await_state("the cluster was not ready", || {
        Ok(stage.victim.words().contains(READY))
    })?;
    let mut before = Vec::new();
    for name in cluster.ds_names() {
        let listen = listen(&cluster, &name, RAILS.len())?;
        before.push((
            name.clone(),
            cluster.configure(&name, &[("listen", &listen)])?,
        ));
    }
    let played = play(stage, &cluster);
    for rail in 0..RAILS.len() {
        stage.net.set_rail(rail, true)?;
    }
    for (name, config) in before {
        cluster.restart_with(&name, &config)?;
    }
    if matches!(played, Ok((_, None))) {
        stage.guest.signal("over")?;
    }
    let (number, found) = played?;
    stage.guest.signal(&format!("next{number}"))?;
    Ok(found)
}

/// The addresses of a data server on the first `count` rails, as its file has them.
pub(super) fn listen(cluster: &Cluster, name: &str, count: usize) -> Result<String> {
    let status = cluster.status(name)?;
    let address = status["listen"][0].as_str();
    let port = address.and_then(|text| text.rsplit_once(':'));
    let (_, port) =
        port.ok_or_else(|| Failure::new(format!("{name} does not say where it listens")))?;
    let rails = (0..count).map(|rail| format!("\"{}:{port}\"", Net::rail_ip(rail)));
    Ok(format!("[{}]", rails.collect::<Vec<_>>().join(", ")))
}

/// Returns how many cases were played too.
fn play(stage: &mut Stage<'_>, cluster: &Cluster) -> Result<(usize, Finding)> {
    let is_long = stage.guest.has_signalled("silent");
    let cases = CASES
        .iter()
        .filter(|(when, _)| is_long || *when != When::Under);
    let mut played = 0;
    for (number, (when, rail)) in cases.enumerate() {
        let case = Case {
            number,
            rail: *rail,
            when: *when,
        };
        if let Some(found) = case.play(stage, cluster)? {
            let which = format!("{when:?}, rail {rail}");
            return Ok((number, found.map(|found| format!("{which}: {found}"))));
        }
        played = number + 1;
    }
    Ok((played, None))
}

struct Case {
    number: usize,
    rail: usize,
    when: When,
}

impl Case {
    /// `None` when the play goes on.
    fn play(&self, stage: &mut Stage<'_>, cluster: &Cluster) -> Result<Option<Finding>> {
        let (number, when) = (self.number, self.when);
        for rail in 0..RAILS.len() {
            let is_cut = when == When::Before && rail == self.rail;
            stage.net.set_rail(rail, !is_cut)?;
        }
        stage.guest.signal(&format!("{}{number}", when.name()))?;
        stage.guest.signal(&format!("next{number}"))?;
        let wanted = [0, 1].map(|rail| when != When::Before || rail != self.rail);
        if let Some(found) = self.counted(stage, cluster, wanted)? {
            return Ok(Some(found));
        }
        if when == When::Under
            && let Some(found) = self.cut(stage, cluster)?
        {
            return Ok(Some(found));
        }
        let ended = stage.guest.await_signal(&format!("done{number}"))?;
        Ok((!ended).then_some(None))
    }

    /// Counts while the guest works: the rails that are wanted carry data, the others and the MDS none.
    fn counted(
        &self,
        stage: &mut Stage<'_>,
        cluster: &Cluster,
        wanted: [bool; 2],
    ) -> Result<Option<Finding>> {
        if !stage.guest.await_signal(&format!("begun{}", self.number))? {
            return Ok(Some(None));
        }
        let before = Carried::now(stage, cluster)?;
        stage.guest.signal(&format!("counting{}", self.number))?;
        if !stage
            .guest
            .await_signal(&format!("counted{}", self.number))?
        {
            return Ok(Some(None));
        }
        let carried = Carried::now(stage, cluster)?.since(&before);
        let is_right = |rail: usize| match wanted[rail] {
            true => carried.rails[rail] >= BYTES_MIN,
            false => carried.rails[rail] <= BYTES_IDLE,
        };
        let all_right = is_right(0) && is_right(1) && carried.proxied == 0;
        Ok((!all_right).then(|| Some(format!("rails {wanted:?} were wanted: {carried}"))))
    }

    /// Cuts the rail: nothing more goes over it, and the work goes on over the other or through the MDS. Then mends it.
    fn cut(&self, stage: &mut Stage<'_>, cluster: &Cluster) -> Result<Option<Finding>> {
        let (number, rail) = (self.number, self.rail);
        stage.net.set_rail(rail, false)?;
        let (before, since) = (Carried::now(stage, cluster)?, Instant::now());
        stage.guest.signal(&format!("cut{number}"))?;
        if !stage.guest.await_signal(&format!("went{number}"))? {
            return Ok(Some(None));
        }
        let carried = Carried::now(stage, cluster)?.since(&before);
        let seconds = since.elapsed().as_secs();
        println!("    # rail {rail} cut: all went on after {seconds} s; {carried}");
        let other = carried.rails[1 - rail] + carried.proxied;
        if carried.rails[rail] > BYTES_IDLE || other < BYTES_MIN {
            return Ok(Some(Some(format!("after the cut: {carried}"))));
        }
        stage.net.set_rail(rail, true)?;
        let (before, since) = (Carried::now(stage, cluster)?, Instant::now());
        loop {
            let carried = Carried::now(stage, cluster)?.since(&before);
            let seconds = since.elapsed().as_secs();
            if carried.rails.iter().all(|bytes| *bytes >= BYTES_MIN) {
                println!("    # rail {rail} mended: both in use after {seconds} s; {carried}");
                stage.guest.signal(&format!("both{number}"))?;
                return Ok(None);
            }
            if since.elapsed() >= AGAIN_LIMIT {
                return Ok(Some(Some(format!(
                    "{seconds} s after it was mended: {carried}"
                ))));
            }
            thread::sleep(AGAIN_POLL);
        }
    }
}

/// What went which way, bytes.
struct Carried {
    rails: [u64; 2],
    proxied: u64,
}

impl Carried {
    fn now(stage: &Stage<'_>, cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            rails: [stage.net.carried("rail0")?, stage.net.carried("rail1")?],
            proxied: cluster.traffic()?.proxied,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            rails: [0, 1].map(|rail| self.rails[rail] - before.rails[rail]),
            proxied: self.proxied - before.proxied,
        }
    }
}

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [first, second] = self.rails.map(|bytes| bytes >> 10);
        let proxied = self.proxied >> 10;
        write!(
            f,
            "{first} KiB over rail 0, {second} over rail 1, {proxied} through the MDS"
        )
    }
}
