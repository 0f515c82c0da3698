//! The data servers, and the copies of data, as the metadata server sees them.
//!
//! Pure: judges an answer of the metadata server. Asks nobody.

use super::row::Row;
use crate::status::redundancy::PlacesSummary;
use crate::status::{DataServerRow, MdsStatus, STATE_DRAINING, STATE_EXPELLED, STATE_SERVING};

const SERVERS: &str = "data servers";
const COPIES: &str = "copies";
const OTHERS: &str = "NFSv3 servers";

/// All that is to be said of them.
pub(super) fn check(mds: &MdsStatus) -> Vec<Row> {
    let mut rows = servers(&mds.data_servers);
    rows.push(copies(mds));
    rows.extend(others(mds));
    rows
}

fn servers(all: &[DataServerRow]) -> Vec<Row> {
    let members: Vec<&DataServerRow> = all.iter().filter(|ds| ds.state != STATE_EXPELLED).collect();
    if members.is_empty() {
        return vec![Row::warning(
            SERVERS,
            "no data server has joined: only small files can be stored",
            "`ropewalk token create` here, and `ropewalk setup ds` on a machine with disks",
        )];
    }
    let troubles: Vec<Row> = members.iter().flat_map(|ds| one(ds)).collect();
    match troubles.is_empty() {
        true => vec![Row::ok(SERVERS, format!("all {} serve", members.len()))],
        false => troubles,
    }
}

/// What is wrong with a data server; nothing as a rule.
fn one(ds: &DataServerRow) -> Vec<Row> {
    let (id, at) = (ds.id, ds.addresses.join(" "));
    let state = match ds.state.as_str() {
        STATE_SERVING => None,
        STATE_DRAINING => Some(Row::warning(
            SERVERS,
            format!(
                "data server {id} gives its data to others, {} places are left",
                ds.places
            ),
            format!("`ropewalk ds remove {id}` when none is left, or `ropewalk ds undrain {id}`"),
        )),
        "away" => Some(Row::failed(
            SERVERS,
            format!("data server {id} ({at}) is away"),
            "run `ropewalk doctor` on its machine, and see that it reaches `control_listen` of this one",
        )),
        state => Some(Row::warning(
            SERVERS,
            format!("data server {id} ({at}) is {state}"),
            "wait, and look again",
        )),
    };
    let refused = ds.refused.as_ref().map(|why| {
        Row::failed(
            SERVERS,
            format!("data server {id} was refused: {why}"),
            "docs/operate/disks.md says what to do",
        )
    });
    let closed = ds.closed_text().map(|text| {
        Row::failed(
            SERVERS,
            text,
            "put the newest state back, or see `ropewalk repair accept-state`",
        )
    });
    let full = ds.full.then(|| {
        Row::warning(
            SERVERS,
            format!("data server {id} is full: new files avoid it"),
            "free space on its disk, add a data server, or `ropewalk ds rebalance`",
        )
    });
    let slow = ds.slow.as_ref().map(|why| {
        Row::warning(
            SERVERS,
            format!("data server {id} is slow: {why}"),
            "look at its disk and its network",
        )
    });
    let damaged = (ds.scrub.damaged_blocks > 0).then(|| {
        let blocks = ds.scrub.damaged_blocks;
        Row::failed(
            SERVERS,
            format!("data server {id} has {blocks} damaged blocks without a good copy"),
            "`ropewalk scrub` names the files: restore them, and replace the disk",
        )
    });
    [state, refused, closed, full, slow, damaged]
        .into_iter()
        .flatten()
        .collect()
}

fn copies(mds: &MdsStatus) -> Row {
    let sums = PlacesSummary::of(mds.groups.iter().flat_map(|group| &group.places));
    if sums.not_served > 0 {
        return Row::failed(
            COPIES,
            format!(
                "the data of {} places cannot be read or written now",
                sums.not_served
            ),
            "bring the data servers that are away back; `ropewalk repair status` names them",
        );
    }
    if sums.under_replicated > 0 {
        return Row::warning(
            COPIES,
            format!(
                "{} of {} places lack copies",
                sums.under_replicated, sums.replicated
            ),
            "`ropewalk repair status --watch` shows how they are made again",
        );
    }
    match mds.copies {
        0 | 1 => Row::ok(
            COPIES,
            "new files have one copy: a lost disk takes its data with it",
        ),
        copies => Row::ok(
            COPIES,
            format!("new files have {copies} copies, and no place lacks one"),
        ),
    }
}

/// NFSv3 servers of others that do not answer.
fn others(mds: &MdsStatus) -> Vec<Row> {
    let down = mds.foreign_servers.iter();
    let down =
        down.filter(|server| server.is_used() && !server.up && server.since_seconds.is_some());
    down.map(|server| {
        Row::failed(
            OTHERS,
            format!("{} ({}) does not answer", server.id, server.target),
            "see whether it runs and exports that directory to this machine",
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    //! Goal: each trouble of a data server has its verdict and what to do.
    use super::*;
    use crate::doctor::row::Verdict;
    use crate::status::foreign::ForeignServerRow;
    use crate::status::{GroupRow, PlaceRow, ScrubRow};

    fn ds(state: &str) -> DataServerRow {
        DataServerRow {
            id: 3,
            state: state.to_owned(),
            ..DataServerRow::default()
        }
    }

    #[test]
    fn data_servers_have_their_verdicts() {
        let scrub = ScrubRow {
            damaged_blocks: 2,
            ..ScrubRow::default()
        };
        for (row, verdict, says) in [
            (ds(STATE_SERVING), Verdict::Ok, "all 1 serve"),
            (
                ds(STATE_EXPELLED),
                Verdict::Warning,
                "no data server has joined",
            ),
            (ds(STATE_DRAINING), Verdict::Warning, "gives its data"),
            (ds("away"), Verdict::Failed, "is away"),
            (ds("catching up"), Verdict::Warning, "is catching up"),
            (
                DataServerRow {
                    full: true,
                    ..ds(STATE_SERVING)
                },
                Verdict::Warning,
                "is full",
            ),
            (
                DataServerRow {
                    slow: Some("8 s".into()),
                    ..ds(STATE_SERVING)
                },
                Verdict::Warning,
                "slow: 8 s",
            ),
            (
                DataServerRow {
                    refused: Some("too old".into()),
                    ..ds(STATE_SERVING)
                },
                Verdict::Failed,
                "too old",
            ),
            (
                DataServerRow {
                    closed_groups: vec![1],
                    ..ds(STATE_SERVING)
                },
                Verdict::Failed,
                "CLOSED",
            ),
            (
                DataServerRow {
                    scrub,
                    ..ds(STATE_SERVING)
                },
                Verdict::Failed,
                "2 damaged blocks",
            ),
        ] {
            let rows = servers(&[row]);
            assert_eq!(rows.len(), 1, "{rows:?}");
            assert_eq!(rows[0].verdict, verdict, "{rows:?}");
            assert!(rows[0].says.contains(says), "{rows:?}");
            assert_eq!(rows[0].action.is_none(), verdict == Verdict::Ok, "{rows:?}");
        }
        assert_eq!(servers(&[])[0].verdict, Verdict::Warning);
        let two = DataServerRow {
            full: true,
            ..ds("away")
        };
        assert_eq!(servers(&[two, ds(STATE_SERVING)]).len(), 2);
    }

    #[test]
    fn copies_that_lack_and_data_that_cannot_be_read_differ() {
        let place = |served, sync: &[u32]| PlaceRow {
            copies: 2,
            served,
            sync: sync.to_vec(),
            ..PlaceRow::default()
        };
        for (places, verdict) in [
            (vec![], Verdict::Ok),
            (vec![place(true, &[1])], Verdict::Ok),
            (vec![place(true, &[])], Verdict::Warning),
            (vec![place(true, &[]), place(false, &[1])], Verdict::Failed),
        ] {
            let groups = vec![GroupRow {
                places,
                ..GroupRow::default()
            }];
            let mds = MdsStatus {
                groups,
                ..MdsStatus::default()
            };
            assert_eq!(copies(&mds).verdict, verdict);
        }
    }

    #[test]
    fn servers_of_others_that_are_down_are_named() {
        let server = |up, since_seconds| ForeignServerRow {
            id: "f1".to_owned(),
            state: "active".to_owned(),
            up,
            since_seconds,
            ..ForeignServerRow::default()
        };
        let mds = MdsStatus {
            foreign_servers: vec![
                server(true, Some(1)),
                server(false, None),
                server(false, Some(9)),
            ],
            ..MdsStatus::default()
        };
        assert_eq!(others(&mds).len(), 1);
    }
}
