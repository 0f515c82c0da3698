//! The host's part of `drain`: places of a cluster with two copies move between data servers, by an administrator's orders.
//!
//! The guest says when its workers are under way. The host gives one order after the other, waits until each is done, and
//! counts what went through the MDS meanwhile. Entry point: [`drain`].

use std::time::Instant;

use serde_json::{Value, json};

use super::cluster::{Cluster, await_state};
use super::error::{Failure, Result};
use super::failover::await_level;
use super::hosted::{Finding, Stage, await_cluster};

/// What an administrator orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// `ropewalk ds drain`.
    Drain(u64),
    /// `ropewalk ds undrain`.
    Undrain(u64),
    /// `ropewalk ds rebalance`, after which this data server has places again.
    Rebalance(u64),
    /// `ropewalk ds replace`: the first gives its places to the second.
    Replace(u64, u64),
    /// `ropewalk ds remove`.
    Remove(u64),
}

/// The orders, for a cluster of four data servers.
const ORDERS: [Order; 5] = [
    Order::Drain(2),
    Order::Undrain(2),
    Order::Rebalance(2),
    Order::Replace(3, 1),
    Order::Remove(3),
];

/// Gives one order after the other while the guest works.
pub(crate) fn drain(stage: &mut Stage<'_>) -> Result<Finding> {
    let cluster = stage.cluster()?;
    let mds = cluster.mds()?;
    if mds["copies"].as_u64().unwrap_or(0) < 2 {
        let why = "this scenario needs two copies of each stripe: ropewalk up --copies 2";
        return Err(Failure::new(why));
    }
    let is_first = (1..=4).all(|id| row(&mds, id).is_some_and(|ds| ds["state"] != "expelled"));
    if !is_first {
        let why = "this scenario needs four data servers; it removes one, so it runs once";
        return Err(Failure::new(why));
    }
    await_cluster(&cluster)?;
    for (number, order) in ORDERS.iter().enumerate() {
        if !under_way(stage, "step", number)? {
            return Ok(None);
        }
        order.play(&cluster, number)?;
        stage.guest.signal(&format!("done{number}"))?;
    }
    if under_way(stage, "step", ORDERS.len())? {
        await_level(&cluster)?;
        stage.guest.signal("end")?;
        under_way(stage, "ended", ORDERS.len())?;
    }
    Ok(None)
}

/// Waits until the guest says the word of this step. Otherwise it does not get as far, and says why when it is answered.
fn under_way(stage: &mut Stage<'_>, word: &str, number: usize) -> Result<bool> {
    let words = [format!("{word}{number}"), format!("stuck{number}")];
    let said = stage.guest.await_any(&words)?;
    if said == Some(1) {
        stage.guest.signal(&format!("back{number}"))?;
    }
    Ok(said == Some(0))
}

impl Order {
    /// Gives the order and waits until it is done.
    fn play(self, cluster: &Cluster, number: usize) -> Result<()> {
        let before = cluster.proxied()?;
        let since = Instant::now();
        let (request, fields) = self.request();
        cluster.ask("mds", &request, fields.as_ref())?;
        let what = format!("{self:?} was not done");
        await_state(&what, || self.is_done(&cluster.mds()?))?;
        let seconds = since.elapsed().as_secs_f64();
        let proxied = (cluster.proxied()? - before) >> 10;
        let mds = cluster.mds()?;
        let places: Vec<u64> = (1..=4).map(|id| places(&mds, id)).collect();
        println!(
            "    # step {number}: {self:?} was done after {seconds:.1} s, {proxied} KiB through the MDS; places {places:?}"
        );
        Ok(())
    }

    /// As the MDS takes it: method and path, and fields.
    fn request(self) -> (String, Option<Value>) {
        let drain = |id: u64, substitute: Option<u64>| {
            let fields = json!({"substitute": substitute, "dry_run": false});
            (format!("POST /data-servers/{id}/drain"), Some(fields))
        };
        match self {
            Self::Drain(id) => drain(id, None),
            Self::Replace(id, substitute) => drain(id, Some(substitute)),
            Self::Undrain(id) => (format!("POST /data-servers/{id}/undrain"), None),
            Self::Rebalance(_) => ("POST /rebalance".to_owned(), Some(json!({"wanted": true}))),
            Self::Remove(id) => (format!("DELETE /data-servers/{id}"), None),
        }
    }

    /// Whether the MDS says so. A state that the order cannot come out of is a failure.
    fn is_done(self, mds: &Value) -> Result<bool> {
        let is = |id, state: &str| row(mds, id).is_some_and(|ds| ds["state"] == state);
        match self {
            Self::Drain(id) | Self::Replace(id, _) => {
                let left = places(mds, id);
                if left > 0 && is(id, "serving") {
                    let why = format!("data server {id} is drained no more, with {left} places");
                    return Err(Failure::new(why));
                }
                Ok(left == 0)
            }
            Self::Undrain(id) => Ok(is(id, "serving")),
            Self::Rebalance(id) if mds["rebalancing"] == false && places(mds, id) == 0 => {
                let why = format!("data server {id} has no places after a rebalance");
                Err(Failure::new(why))
            }
            Self::Rebalance(_) => Ok(mds["rebalancing"] == false),
            Self::Remove(id) => Ok(is(id, "expelled")),
        }
    }
}

/// What the MDS says of a data server.
fn row(mds: &Value, id: u64) -> Option<&Value> {
    mds["data_servers"]
        .as_array()?
        .iter()
        .find(|ds| ds["id"] == id)
}

/// Of how many places it is a member.
fn places(mds: &Value, id: u64) -> u64 {
    row(mds, id)
        .and_then(|ds| ds["places"].as_u64())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! When an order counts as done.

    use super::*;

    fn mds(state: &str, places: u64, rebalancing: bool) -> Value {
        let row = json!({"id": 2, "state": state, "places": places});
        json!({"data_servers": [row], "rebalancing": rebalancing})
    }

    #[test]
    fn a_drain_is_done_when_nothing_is_left() {
        for order in [Order::Drain(2), Order::Replace(2, 1)] {
            assert!(!order.is_done(&mds("draining", 1, false)).unwrap());
            assert!(order.is_done(&mds("draining", 0, false)).unwrap());
            assert!(order.is_done(&mds("serving", 1, false)).is_err());
        }
    }

    #[test]
    fn a_rebalance_is_done_when_it_has_ended_and_given_places() {
        let order = Order::Rebalance(2);
        assert!(!order.is_done(&mds("serving", 0, true)).unwrap());
        assert!(order.is_done(&mds("serving", 1, false)).unwrap());
        assert!(order.is_done(&mds("serving", 0, false)).is_err());
    }
}
