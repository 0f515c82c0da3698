//! Goal: the promises of the cluster hold on some hundred seeds. The same seed is the same run. The checkers find
//! faults that are built in. A failing seed is named with the command that replays it.

use ropewalk_sim::{Config, InjectedBug, run};

/// Seeds that a built-in fault may take to be found.
const SEEDS: std::ops::Range<u64> = 0..20;
/// The same for a fault of the redo log, which shows after a crash of a data server.
const SEEDS_OF_RECORDS: std::ops::Range<u64> = 0..200;
/// The same for a fault of locks and opens.
const SEEDS_OF_LOCKS: std::ops::Range<u64> = 0..200;
/// The same for one that is met in one run of about sixty.
const RARE_CANARY_SEEDS: u64 = 300;
/// The same for one that is met in one run of about 600.
const VERY_RARE_CANARY_SEEDS: u64 = 4000;

/// Tries the seeds below `seeds`; `flag` is what tells `cargo xtask sim` of this configuration. A commit's CI runs the
/// same ones always; `cargo xtask sim --seed 1000 --seeds 1000` tries others.
fn try_seeds(seeds: u64, config: &Config, flag: &str) {
    let mut failed = Vec::new();
    for seed in 0..seeds {
        let mut report = run(seed, config);
        // A search that gives up proves nothing.
        if !report.decided {
            report.findings.push("a search gave up".into());
        }
        if !report.findings.is_empty() {
            let findings = report.findings.join("\n    ");
            failed.push(format!(
                "cargo xtask sim --seed {seed}{flag}\n    {findings}"
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Whether a checker finds the fault in these seeds, and says so in these words.
fn is_found(
    bug: InjectedBug,
    config: Config,
    mut seeds: std::ops::Range<u64>,
    words: &str,
) -> bool {
    let config = Config {
        bug: Some(bug),
        ..config
    };
    seeds.any(|seed| {
        let findings = run(seed, &config).findings;
        findings.iter().any(|text| text.contains(words))
    })
}

#[test]
fn promises_of_names_and_locks_hold_on_every_seed() {
    try_seeds(50, &Config::names(), " --names");
}

#[test]
fn promises_of_a_cluster_hold_on_every_seed() {
    try_seeds(50, &Config::cluster(), "");
}

fn with_nfs3(config: Config) -> Config {
    Config {
        nfs3: true,
        ..config
    }
}

#[test]
fn promises_to_clients_of_nfsv3_beside_others_hold_on_every_seed() {
    try_seeds(20, &with_nfs3(Config::names()), " --names --nfs3");
    try_seeds(15, &with_nfs3(Config::cluster()), " --nfs3");
    try_seeds(5, &with_nfs3(Config::contended()), " --contended --nfs3");
    try_seeds(5, &with_nfs3(Config::times()), " --times --nfs3");
    try_seeds(5, &with_nfs3(Config::replicated()), " --replicas 2 --nfs3");
}

#[test]
fn promises_to_clients_whose_delegated_files_are_changed_by_nfsv3_hold_on_every_seed() {
    let delegations = with_nfs3(Config::delegations());
    try_seeds(10, &delegations, " --delegations --nfs3");
}

#[test]
fn delegations_that_a_change_by_nfsv3_did_not_end_are_found() {
    // There is nobody else whose use could be against them.
    let alone = Config {
        holders: 1,
        ..with_nfs3(Config::delegations())
    };
    let words = "how: Changes";
    assert!(is_found(InjectedBug::KeepDelegations, alone, SEEDS, words));
}

#[test]
fn calls_of_nfsv3_that_are_done_twice_by_one_server_are_found() {
    let fault = InjectedBug::ForgetReplies;
    let names = || with_nfs3(Config::names());
    let words = "two replies to one call of client";
    assert!(is_found(fault, names(), SEEDS, words));
    let words = "no order of the name space explains";
    assert!(is_found(fault, names(), SEEDS, words));
}

#[test]
fn write_verifiers_of_nfsv3_that_outlive_lost_bytes_are_found() {
    let words = "which was replaced or never written";
    let fault = InjectedBug::KeepVerifier;
    let cluster = with_nfs3(Config::cluster());
    assert!(is_found(fault, cluster, 0..RARE_CANARY_SEEDS, words));
}

fn with_nfs40(config: Config) -> Config {
    Config {
        nfs40: true,
        ..config
    }
}

#[test]
fn promises_to_clients_of_nfsv40_beside_others_hold_on_every_seed() {
    try_seeds(20, &with_nfs40(Config::names()), " --names --nfs40");
    try_seeds(10, &with_nfs40(Config::cluster()), " --nfs40");
    let living = with_nfs40(Config::delegations());
    try_seeds(5, &living, " --delegations --nfs40");
}

#[test]
fn locks_that_do_not_exclude_others_are_found() {
    let words = "locks held at one time";
    for fault in [InjectedBug::ShareLocks, InjectedBug::KeepLocks] {
        let names = with_nfs40(Config::names());
        assert!(is_found(fault, names, SEEDS_OF_LOCKS, words), "{fault:?}");
    }
}

#[test]
fn opens_that_another_open_denies_are_found() {
    let words = "an open and what another denies";
    let (fault, names) = (InjectedBug::ForgetDeny, with_nfs40(Config::names()));
    assert!(is_found(fault, names, SEEDS_OF_LOCKS, words));
}

#[test]
fn bytes_that_the_next_holder_of_a_lock_does_not_see_are_found() {
    let words = "under a lock, what was replaced";
    let (fault, names) = (InjectedBug::MisplaceWrites, with_nfs40(Config::names()));
    assert!(is_found(fault, names, SEEDS_OF_LOCKS, words));
}

fn with_nlm(config: Config) -> Config {
    Config {
        nlm: true,
        ..with_nfs40(config)
    }
}

#[test]
fn promises_to_hosts_that_lock_by_nlm_beside_others_hold_on_every_seed() {
    try_seeds(30, &with_nlm(Config::names()), " --names --nfs40 --nlm");
    try_seeds(10, &with_nlm(Config::cluster()), " --nfs40 --nlm");
    let living = with_nlm(Config::delegations());
    try_seeds(5, &living, " --delegations --nfs40 --nlm");
}

#[test]
fn locks_of_nlm_that_do_not_exclude_others_are_found() {
    let words = "locks held at one time";
    let (fault, names) = (InjectedBug::ShareHostLocks, with_nlm(Config::names()));
    assert!(is_found(fault, names, SEEDS_OF_LOCKS, words));
}

#[test]
fn locks_of_nlm_that_cannot_be_reclaimed_are_found() {
    let words = "was not to be reclaimed: NLM4_DENIED_GRACE_PERIOD";
    let fault = InjectedBug::ForgetHostReclaims;
    let names = with_nlm(Config::names());
    assert!(is_found(fault, names, SEEDS_OF_LOCKS, words));
}

#[test]
fn locks_of_a_host_that_has_restarted_are_found() {
    let words = "finds a lock that this host does not hold";
    let (fault, names) = (InjectedBug::KeepHostLocks, with_nlm(Config::names()));
    assert!(is_found(fault, names, SEEDS_OF_LOCKS, words));
}

#[test]
fn calls_of_nfsv40_that_are_done_twice_by_one_server_are_found() {
    let words = "was done twice, or never";
    let (fault, names) = (InjectedBug::ForgetReplies, with_nfs40(Config::names()));
    assert!(is_found(fault, names, SEEDS_OF_LOCKS, words));
}

#[test]
fn promises_hold_where_objects_are_made_with_their_files() {
    let eager = Config {
        eager: true,
        ..Config::cluster()
    };
    try_seeds(20, &eager, " --eager");
    let contended = Config {
        eager: true,
        ..Config::contended()
    };
    try_seeds(5, &contended, " --contended --eager");
}

#[test]
fn promises_to_clients_that_want_the_same_file_hold_on_every_seed() {
    try_seeds(5, &Config::contended(), " --contended");
}

#[test]
fn promises_hold_where_servers_work_on_ranges_by_themselves() {
    try_seeds(15, &Config::copies(), " --copies");
    try_seeds(5, &Config::contended_copies(), " --contended --copies");
}

#[test]
fn promises_hold_where_stripes_have_copies_and_copies_are_equal_at_the_end() {
    try_seeds(20, &Config::replicated(), " --replicas 2");
    let three = Config {
        replicas: 3,
        ds: 4,
        ..Config::replicated()
    };
    try_seeds(10, &three, " --replicas 3 --ds 4");
    let ranges = Config {
        copies: true,
        ..Config::replicated()
    };
    try_seeds(10, &ranges, " --replicas 2 --copies");
}

#[test]
fn files_are_restriped_while_they_are_used_on_every_seed() {
    let two_copies = Config {
        moves: true,
        restripes: true,
        ds: 4,
        ..Config::replicated()
    };
    try_seeds(15, &two_copies, " --replicas 2 --moves --restripes --ds 4");
    let one_copy = Config {
        moves: true,
        restripes: true,
        ds: 4,
        ..Config::cluster()
    };
    try_seeds(15, &one_copy, " --moves --restripes --ds 4");
}

#[test]
fn nothing_is_promised_to_fewer_copies_than_must_be_in_sync() {
    // Ranges are left out: a client of the simulator gives up before the copies are there again.
    let flags = " --replicas 3 --copies-min 2 --ds 4";
    try_seeds(10, &Config::two_at_least(), flags);
}

#[test]
fn promises_to_one_copy_are_found() {
    let two = Config {
        ds: 3,
        replicas: 2,
        ..Config::two_at_least()
    };
    let words = "has synced it";
    assert!(is_found(InjectedBug::PromiseToOne, two, SEEDS, words));
}

#[test]
fn promises_hold_while_data_servers_are_drained_and_made_level() {
    let moved = Config {
        moves: true,
        ds: 4,
        ..Config::replicated()
    };
    try_seeds(20, &moved, " --replicas 2 --moves --ds 4");
    let one_copy = Config {
        moves: true,
        ds: 4,
        ..Config::cluster()
    };
    try_seeds(10, &one_copy, " --moves --ds 4");
}

#[test]
fn items_of_a_stream_that_members_drop_are_found() {
    let words = "differ";
    let fault = InjectedBug::DropItems;
    assert!(is_found(fault, Config::replicated(), SEEDS, words));
}

#[test]
fn forgotten_rows_are_found() {
    let words = "does not come to an end";
    let fault = InjectedBug::ForgetRows;
    assert!(is_found(fault, Config::replicated(), SEEDS, words));
}

#[test]
fn copies_that_are_not_synced_are_found() {
    let words = "acknowledged";
    let fault = InjectedBug::CommitWithoutSync;
    assert!(is_found(
        fault,
        Config::replicated(),
        SEEDS_OF_RECORDS,
        words
    ));
}

#[test]
fn write_verifiers_that_outlive_a_power_cut_are_found() {
    let words = "which was replaced or never written";
    let fault = InjectedBug::KeepVerifiers;
    assert!(is_found(fault, Config::replicated(), SEEDS, words));
}

#[test]
fn syncs_that_fail_and_are_taken_for_done_are_found() {
    let words = "which was replaced or never written";
    let fault = InjectedBug::IgnoreFailedSyncs;
    assert!(is_found(fault, Config::replicated(), 0..200, words));
}

#[test]
fn modification_times_that_were_set_stand_until_a_later_change_on_every_seed() {
    try_seeds(15, &Config::times(), " --times");
}

#[test]
fn news_of_writes_that_overrule_a_set_time_are_found() {
    let words = "though nothing was changed after SetTime";
    assert!(is_found(
        InjectedBug::WriteAgain,
        Config::times(),
        SEEDS,
        words
    ));
}

#[test]
fn copies_that_go_on_end_by_callback_by_question_and_by_another_try() {
    let stories: Vec<String> = (0..6)
        .flat_map(|seed| run(seed, &Config::copies()).lines)
        .collect();
    for words in [
        "OffloadStatus Ok",
        "OffloadStatus BadStateid",
        "= copied ",
        "= cloned ",
    ] {
        let told = stories.iter().filter(|line| line.contains(words)).count();
        assert!(told > 2, "{words}: {told}");
    }
}

#[test]
fn promises_to_clients_that_are_delegated_files_hold_on_every_seed() {
    try_seeds(20, &Config::delegations(), " --delegations");
}

#[test]
fn promises_to_clients_that_keep_to_their_credits_hold_whatever_others_do() {
    try_seeds(4, &Config::greedy(), " --greedy");
}

#[test]
fn gluttons_flood_servers_and_keep_credits_until_they_are_cut_off() {
    let stories: Vec<String> = (0..2)
        .flat_map(|seed| run(seed, &Config::greedy()).lines)
        .collect();
    for words in [
        ["greedy-", "has ended: rdma_credits_kept"],
        ["greedy-", "leaves with"],
        ["greedy-", "holds 1"],
        ["greedy-", "IsDeaf"],
        ["guest-", "rests for"],
    ] {
        let says = |line: &String| words.iter().all(|word| line.contains(word));
        assert!(stories.iter().any(says), "{words:?}");
    }
}

#[test]
fn receives_that_are_taken_from_others_are_found() {
    let words = "ms for an answer";
    assert!(is_found(
        InjectedBug::MixReceives,
        Config::greedy(),
        SEEDS,
        words
    ));
}

#[test]
fn guests_that_are_never_asked_for_credits_are_found() {
    let words = "ended the connection of guest";
    assert!(is_found(
        InjectedBug::NeverAskForSlots,
        Config::greedy(),
        SEEDS,
        words
    ));
}

#[test]
fn the_same_seed_is_the_same_run() {
    for (seed, config) in [
        (3, Config::names()),
        (14, Config::cluster()),
        (15, Config::contended()),
        (16, Config::delegations()),
        (17, Config::greedy()),
        (18, Config::copies()),
        (19, Config::times()),
        (45, Config::replicated()),
        (46, with_nfs3(Config::cluster())),
        (47, with_nfs3(Config::names())),
        (48, with_nfs40(Config::names())),
        (49, with_nlm(Config::names())),
    ] {
        let (a, b) = (run(seed, &config), run(seed, &config));
        let differs = a.lines.iter().zip(&b.lines).find(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((a.hash, a.events), (b.hash, b.events), "seed {seed}");
    }
}

#[test]
fn delegations_that_are_used_after_their_return_are_found() {
    let words = "a delegation and another's use at one time";
    assert!(is_found(
        InjectedBug::KeepDelegations,
        Config::delegations(),
        SEEDS,
        words
    ));
}

#[test]
fn connections_are_made_over_rdma_and_over_memory() {
    let over_rdma = |seed| {
        let lines = run(seed, &Config::names()).lines;
        let connects = |line: &&String| line.contains("connects to mds over RDMA");
        lines.iter().filter(connects).count()
    };
    let counts: Vec<usize> = (0..8).map(over_rdma).collect();
    assert!(counts.contains(&0), "{counts:?}");
    assert!(counts.iter().any(|count| *count > 0), "{counts:?}");
}

#[test]
fn replies_before_durability_are_found() {
    let words = "no order of the name space explains";
    assert!(is_found(
        InjectedBug::ReplyBeforeDurable,
        Config::names(),
        SEEDS,
        words
    ));
}

#[test]
fn commits_without_a_sync_are_found() {
    let found = |words| {
        is_found(
            InjectedBug::CommitWithoutSync,
            Config::cluster(),
            SEEDS,
            words,
        )
    };
    assert!(found("which was replaced or never written"));
}

#[test]
fn records_that_are_applied_over_newer_committed_bytes_are_found() {
    let words = "which was replaced or never written";
    let fault = InjectedBug::ApplyOldRecords;
    assert!(is_found(fault, Config::cluster(), SEEDS_OF_RECORDS, words));
}

#[test]
fn sums_that_outlive_the_bytes_are_found() {
    let fault = InjectedBug::KeepSums;
    assert!(is_found(fault, Config::replicated(), SEEDS, "input/output"));
}

#[test]
fn a_member_that_comes_back_and_is_not_given_what_it_missed_is_found() {
    let fault = InjectedBug::ForgetUnsettled;
    let config = Config {
        moves: true,
        ds: 4,
        ..Config::replicated()
    };
    assert!(is_found(fault, config, SEEDS, "differ ("));
}

#[test]
fn records_that_are_dropped_before_their_object_is_synced_are_found() {
    let words = "which was replaced or never written";
    let fault = InjectedBug::DropRecords;
    assert!(is_found(fault, Config::cluster(), SEEDS_OF_RECORDS, words));
}

#[test]
fn files_that_are_inline_and_placed_at_once_are_found() {
    let words = "has inline bytes and is not inline";
    let fault = InjectedBug::KeepInlineBytes;
    assert!(is_found(fault, Config::cluster(), SEEDS, words));
}

#[test]
fn what_a_failed_attempt_to_place_a_file_leaves_is_found() {
    let words = "which is removed";
    let fault = InjectedBug::ForgetPlacings;
    // An attempt must fail halfway, and the file be removed before the next one. About one seed in forty shows it.
    let seeds = 400..400 + RARE_CANARY_SEEDS;
    assert!(is_found(fault, Config::cluster(), seeds, words));
}

#[test]
fn objects_of_restriped_files_that_nobody_knows_any_more_are_found() {
    let words = "nothing tells whose its objects are";
    let config = Config {
        moves: true,
        restripes: true,
        ds: 4,
        ..Config::cluster()
    };
    assert!(is_found(InjectedBug::ForgetNames, config, SEEDS, words));
}

#[test]
fn writes_that_a_restriping_loses_are_found() {
    let words = "which was replaced or never written";
    let config = Config {
        moves: true,
        restripes: true,
        ds: 4,
        ..Config::cluster()
    };
    let fault = InjectedBug::LoseRewrites;
    assert!(is_found(fault, config, 0..200, words));
}

#[test]
fn sizes_that_are_seen_and_then_unseen_are_found() {
    let words = "cells at the end";
    let fault = InjectedBug::ForgetWriters;
    // The metadata server must lose power just after a report that it has not synced: one seed of 600 shows it. In the present order
    // of events seed 1362 does; a change of that order only makes the search longer.
    let seeds = 1362..1362 + VERY_RARE_CANARY_SEEDS;
    assert!(is_found(fault, Config::cluster(), seeds, words));
}

#[test]
fn copies_without_a_sync_are_found() {
    let words = "the last that was acknowledged is Copy(";
    let fault = InjectedBug::CommitWithoutSync;
    // Most seeds find the fault, few of them by a copy. In the present order of events seed 44 is the first that does; a change
    // of that order moves it.
    let seeds = 40..40 + RARE_CANARY_SEEDS;
    assert!(is_found(fault, Config::copies(), seeds, words));
}

#[test]
fn holes_that_leave_out_a_stripe_are_found() {
    let words = "the last that was acknowledged is Hole(";
    let fault = InjectedBug::SkipHoles;
    assert!(is_found(fault, Config::copies(), SEEDS, words));
}

#[test]
fn ignored_fences_are_found() {
    // A client must lose sight of the metadata server, not of a data server, with changes that are not committed.
    // One seed of a hundred shows it, all connections over memory; a change of the order of events moves it.
    let seeds = RARE_CANARY_SEEDS..3 * RARE_CANARY_SEEDS;
    assert!(is_found(
        InjectedBug::IgnoreFences,
        Config {
            rdma: Some(0),
            ..Config::contended()
        },
        seeds,
        "passed Client"
    ));
}

#[test]
fn forgotten_removals_are_found() {
    assert!(is_found(
        InjectedBug::ForgetRemovals,
        Config::cluster(),
        SEEDS,
        "which is removed"
    ));
}

#[test]
fn forgotten_holders_of_opens_are_found() {
    assert!(is_found(
        InjectedBug::ForgetHolders,
        Config::names(),
        SEEDS,
        "was not to be reclaimed"
    ));
}

#[test]
fn stateids_that_come_twice_are_found() {
    assert!(is_found(
        InjectedBug::ForgetStarts,
        Config::cluster(),
        SEEDS,
        "was issued to two requests"
    ));
}
