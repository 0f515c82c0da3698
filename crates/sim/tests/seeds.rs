//! Goal: the promises of the cluster hold on some hundred seeds, the same seed is the same run, and the checkers find
//! faults that are built in. A failing seed is named with the command that replays it.

use ropewalk_sim::{Canary, Config, run};

/// Seeds of the whole-cluster test. A commit's CI runs the same ones; `cargo xtask sim --seeds` tries others.
const SEEDS: u64 = 120;
/// Seeds that a built-in fault may take to be found.
const CANARY_SEEDS: u64 = 20;

fn try_seeds(seeds: std::ops::Range<u64>, config: &Config, how: &str) {
    let mut failed = Vec::new();
    let mut undecided = 0;
    for seed in seeds {
        let report = run(seed, config);
        undecided += u64::from(!report.decided);
        if !report.findings.is_empty() {
            let findings = report.findings.join("\n    ");
            failed.push(format!(
                "seed {seed}: cargo xtask sim --seed {seed}{how}\n    {findings}"
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // A search that gives up proves nothing.
    assert_eq!(undecided, 0, "searches gave up");
}

fn found_in(canary: Canary, config: Config) -> u64 {
    let config = Config {
        canary: Some(canary),
        ..config
    };
    let found = |seed: &u64| !run(*seed, &config).findings.is_empty();
    (0..CANARY_SEEDS).filter(found).count() as u64
}

#[test]
fn promises_hold_on_every_seed() {
    try_seeds(0..SEEDS, &Config::names(), "");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 14, 159] {
        let (a, b) = (run(seed, &Config::names()), run(seed, &Config::names()));
        let differs = a.lines.iter().zip(&b.lines).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((a.hash, a.events), (b.hash, b.events), "seed {seed}");
    }
}

#[test]
fn replies_before_durability_are_found() {
    assert!(found_in(Canary::ReplyBeforeDurable, Config::names()) > 0);
}
