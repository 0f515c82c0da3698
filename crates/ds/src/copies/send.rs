//! Carries the stream of one member: connects, proves who calls, sends, and takes the answers.
//!
//! # Ownership
//! One task for each stream. The connection is made when there is something to send.
//!
//! # Failure
//! A broken connection is made again, and all that was not acknowledged is sent again. The member has failed when it is
//! another process, refuses an item, or makes no progress for 5 s. Then the MDS is asked to leave it out, until the MDS
//! has answered. One that has no room for an item is sent it again after a pause, and stays in sync (rule P24).

use std::sync::Arc;
use std::time::Duration;

use control::{OutArgs, PlaceReign, ReplyError, Status};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use layout::{MemberState, Row};
use parts::{GreetOk, Opening, PartsProc, PassOk, StreamOpenArgs, encode_call, read_answer};
use server::Nfsd;
use tokio::time::{Instant, sleep, timeout};
use transport::{Address, CloseReason, ConnHandle, Connector, NoService};

use super::stream::{Head, Sent, Stream};
use crate::Ds;
use crate::calls::rows::take_rows;

/// Items under way at once.
const UNDER_WAY_MAX: usize = 64;
/// How long GREET and OPEN may take, and a connection.
const OPEN_WAIT: Duration = Duration::from_secs(2);
/// How long an item may take. The stream looks at progress before that.
const ITEM_WAIT: Duration = Duration::from_secs(15);
/// Pause before another connection, and between two looks at progress.
const PAUSE: Duration = Duration::from_millis(200);
/// A connection on which nothing was done for so long is tried with a call that does nothing, and for how long. Both, and a
/// connection by another address, take less than a member may be without progress.
const PROBE_AFTER: Duration = Duration::from_secs(1);
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// How long the MDS may take to leave a member out.
const OUT_WAIT: Duration = Duration::from_secs(5);

/// What became of an item that was sent.
enum Answered {
    Done(PassOk),
    /// The member has no room for it.
    Full,
}

/// How a connection ended.
enum Ended {
    /// Another one may do better.
    Again(&'static str),
    /// Another one by another address may do better.
    Silent(&'static str),
    /// The member has failed.
    Failed(String),
    /// The stream is closed.
    Closed,
}

/// Carries a stream until it is closed.
pub(super) async fn carry(nfsd: Arc<Nfsd<Ds>>, connector: Arc<dyn Connector>, stream: Arc<Stream>) {
    let ds = nfsd.role();
    // How often a connection was silent: the list of addresses begins so far on.
    let mut silent = 0;
    loop {
        until_work(&stream).await;
        let ended = once(ds, &*connector, (&stream, silent)).await;
        silent += usize::from(matches!(ended, Ended::Silent(_)));
        let why = match ended {
            Ended::Closed => return,
            Ended::Failed(why) => why,
            Ended::Again(why) | Ended::Silent(why) if stream.is_stalled() => why.to_owned(),
            Ended::Silent(_) => continue,
            Ended::Again(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        tracing::warn!(member = stream.ds, why, "a member of places fails");
        leave_out(ds, &stream).await;
        return;
    }
}

async fn until_work(stream: &Stream) {
    while !stream.has_work() && !stream.is_closed() {
        stream.work.notified().await;
    }
}

/// One connection, from its beginning to its end. `silent` addresses are tried last.
async fn once(ds: &Ds, connector: &dyn Connector, (stream, silent): (&Stream, usize)) -> Ended {
    if stream.is_closed() {
        return Ended::Closed;
    }
    let Some(conn) = connect(ds, connector, (stream.ds, silent)).await else {
        return Ended::Again("no connection");
    };
    let ended = match open(ds, &conn, stream).await {
        Ok(()) => send(ds, &conn, stream).await,
        Err(ended) => ended,
    };
    conn.close(CloseReason::Asked);
    ended
}

/// Connects to the first address of a member that answers; so many of the list are tried last.
async fn connect(
    ds: &Ds,
    connector: &dyn Connector,
    (member, last): (u32, usize),
) -> Option<ConnHandle> {
    let known = ds.copies.addresses.lock().get(&member).cloned();
    let mut known = known.unwrap_or_default();
    let turn = last.checked_rem(known.len()).unwrap_or(0);
    known.rotate_left(turn);
    for told in known {
        let Some(address) = Address::of_told(told.netid.as_str(), told.uaddr.as_str()) else {
            continue;
        };
        let connected = timeout(OPEN_WAIT, connector.connect(&address, NoService::shared()));
        match connected.await {
            Ok(Ok(conn)) => return Some(conn),
            Ok(Err(error)) => tracing::debug!(member, %address, %error, "no connection"),
            Err(_) => tracing::debug!(member, %address, "no connection in time"),
        }
    }
    None
}

/// Proves to a member who calls.
async fn open(ds: &Ds, conn: &ConnHandle, stream: &Stream) -> Result<(), Ended> {
    let silent = |_| Ended::Silent("no answer");
    let greet = conn.call(encode_call(PartsProc::Greet, &()).into(), OPEN_WAIT);
    let greet: GreetOk = read_answer(&greet.await.map_err(silent)?)
        .map_err(|_| Ended::Again("the greeting is refused"))?;
    if greet.ds_id != stream.ds {
        return Err(Ended::Again("another data server answers there"));
    }
    {
        let mut known = stream.peer_nonce.lock();
        if known.is_some_and(|nonce| nonce != greet.nonce) {
            return Err(Ended::Failed("it was started again".to_owned()));
        }
        *known = Some(greet.nonce);
    }
    let keys = ds.gate.keys().ok_or(Ended::Again("no keys yet"))?;
    let (ring, membership) = keys;
    let key = ring.active().ok_or(Ended::Again("no key yet"))?;
    let opening = Opening {
        cluster_id: membership.cluster_id,
        from: membership.ds_id,
        from_nonce: ds.copies.nonce,
        to: greet.ds_id,
        to_nonce: greet.nonce,
        stream: stream.number,
        challenge: greet.challenge,
    };
    let args = StreamOpenArgs {
        from: opening.from,
        from_nonce: opening.from_nonce,
        stream: opening.stream,
        key_id: key.id(),
        mac: opening.mac(key),
    };
    let opened = conn.call(encode_call(PartsProc::Open, &args).into(), OPEN_WAIT);
    let opened = opened.await.map_err(silent)?;
    read_answer::<()>(&opened).map_err(|_| Ended::Again("the opening is refused"))
}

/// Sends items and takes answers.
async fn send(ds: &Ds, conn: &ConnHandle, stream: &Stream) -> Ended {
    stream.rewind();
    let mut under_way = FuturesUnordered::new();
    let mut left_out = FuturesUnordered::new();
    let mut probes = FuturesUnordered::new();
    loop {
        if stream.is_closed() {
            return Ended::Closed;
        }
        while under_way.len() < UNDER_WAY_MAX
            && let Some(next) = stream.next(|head| counts(ds, head, stream.ds))
        {
            under_way.push(pass(conn, next));
        }
        tokio::select! {
            biased;
            Some((lane, number, answer)) = under_way.next(), if !under_way.is_empty() => {
                match answer {
                    Ok((Answered::Done(answer), sync_begun)) => {
                        if let Some(begun) = sync_begun {
                            stream.sync_time.note(begun);
                        }
                        stream.acknowledge(lane, number, answer);
                    }
                    Ok((Answered::Full, _)) => {
                        let place = stream.note_full(lane, number);
                        let place = place.and_then(|head| filled_place(ds, &head, stream.ds));
                        if left_out.is_empty() {
                            left_out.extend(place.map(|place| out(ds, stream.ds, vec![place])));
                        }
                    }
                    Err(ended) => return ended,
                }
            }
            Some(()) = left_out.next(), if !left_out.is_empty() => {}
            Some(answered) = probes.next(), if !probes.is_empty() => {
                let answered: bool = answered;
                if !answered && stream.idle_for() >= PROBE_AFTER + PROBE_WAIT {
                    return Ended::Silent("the path is silent");
                }
            }
            () = stream.work.notified() => {}
            _ = conn.closed() => return Ended::Again("the connection broke"),
            () = sleep(PAUSE) => {
                if stream.is_stalled() {
                    return Ended::Failed("it makes no progress".to_owned());
                }
                if probes.is_empty() && stream.idle_for() >= PROBE_AFTER {
                    probes.push(probe(conn));
                }
            }
        }
    }
}

/// Whether the way there and back carries anything.
async fn probe(conn: &ConnHandle) -> bool {
    let null = encode_call(PartsProc::Null, &());
    conn.call(null.into(), PROBE_WAIT).await.is_ok()
}

/// Whether a member still counts at the place of an item; it does while this server does not serve, and knows no rows.
fn counts(ds: &Ds, head: &Head, member: u32) -> bool {
    let counts = ds.gate.with_rows(|rows, ds_id| {
        let row = rows.of(head.group, head.place).map(|own| &own.row);
        counts_at(row, (ds_id, head.reign), member)
    });
    counts.unwrap_or(true)
}

/// Whether a member counts at a place with this row. An item of an earlier reign, or of a place that its primary has left, is
/// for nobody: each member would refuse it, and it would hold up its lane.
fn counts_at(row: Option<&Row>, (primary, reign): (u32, u32), member: u32) -> bool {
    row.is_some_and(|row| {
        (row.primary, row.reign) == (primary, reign) && is_counted(row.state_of(member))
    })
}

const fn is_counted(state: Option<MemberState>) -> bool {
    matches!(state, Some(MemberState::Sync | MemberState::Filling))
}

/// The place of an item, if the member is only filled there: it is given up, since what it lacks it gets with another
/// filling.
fn filled_place(ds: &Ds, head: &Head, member: u32) -> Option<PlaceReign> {
    let is_filled = ds.gate.with_rows(|rows, ds_id| {
        let row = &rows.of(head.group, head.place)?.row;
        let is_own = (row.primary, row.reign) == (ds_id, head.reign);
        Some(is_own && row.state_of(member) == Some(MemberState::Filling))
    });
    is_filled??.then_some(PlaceReign {
        group: head.group,
        place: head.place,
        reign: head.reign,
    })
}

/// Sends an item. Returns its answer, and when it was sent if it is a sync.
async fn pass(
    conn: &ConnHandle,
    sent: Sent,
) -> (u32, u64, Result<(Answered, Option<Instant>), Ended>) {
    let sync_begun = sent.sync_begun;
    let answer = async {
        let record = conn.call(sent.message, ITEM_WAIT).await;
        let record = record.map_err(|_| Ended::Again("no answer to an item"))?;
        match read_answer::<PassOk>(&record) {
            Ok(answer) => Ok(Answered::Done(answer)),
            Err(ReplyError::Refused(refusal)) => match refusal.status {
                Status::NoSpace => Ok(Answered::Full),
                Status::TryLater | Status::NotReady | Status::NotPrimary => {
                    Err(Ended::Again("it does not take items now"))
                }
                _ => Err(Ended::Failed(refusal.to_string())),
            },
            Err(other) => Err(Ended::Failed(other.to_string())),
        }
    };
    let answer = answer.await.map(|answer| (answer, sync_begun));
    (sent.lane, sent.number, answer)
}

/// Has the MDS leave a member out of all places of which this server is primary, then closes the stream (rule P11).
async fn leave_out(ds: &Ds, stream: &Stream) {
    loop {
        let places = ds.gate.with_rows(|rows, ds_id| {
            let with_member = rows.all().filter(|(_, _, row)| {
                row.row.primary == ds_id && is_counted(row.row.state_of(stream.ds))
            });
            let place = |(group, place, row): (u32, u32, &Arc<crate::rows::OwnRow>)| PlaceReign {
                group,
                place,
                reign: row.row.reign,
            };
            let places = with_member.map(place);
            places
                .take(control::ROWS_PAGE_MAX as usize)
                .collect::<Vec<_>>()
        });
        match places {
            Some(places) if places.is_empty() => break,
            Some(places) => {
                out(ds, stream.ds, places).await;
            }
            // Not serving: nothing is promised now.
            None => {}
        }
        if stream.is_closed() {
            return;
        }
        sleep(PAUSE).await;
    }
    ds.copies.forget(stream);
}

/// Asks the MDS once to leave a member out of places.
async fn out(ds: &Ds, member: u32, places: Vec<PlaceReign>) {
    let args = OutArgs {
        ds_id: member,
        places: places.into(),
    };
    match ds.call_mds(&args, OUT_WAIT).await {
        Ok(told) => {
            if let Err(status) = take_rows(ds, told.rows.0).await {
                tracing::error!(?status, "rows of the MDS");
            }
        }
        Err(error) => tracing::warn!(%error, "the MDS leaves no member out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_of_a_place_that_its_primary_has_left_is_for_nobody() {
        let row = Row::new(&[1, 2], 5);
        assert!(counts_at(Some(&row), (1, 5), 2));
        assert!(!counts_at(Some(&row), (1, 5), 3), "no member");
        assert!(!counts_at(Some(&row), (1, 4), 2), "an earlier reign");
        assert!(!counts_at(Some(&row), (3, 5), 2), "another primary");
        assert!(!counts_at(None, (1, 5), 2), "left, and forgotten");
    }
}
