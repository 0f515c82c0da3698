//! Goal: what a data server cannot rightly say of a place is refused with its reason, and no row changes.
//! Method: data servers that speak the control program alone, over the memory transport, time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::placement::set_policy;
use crate::rig::Rig;
use crate::rig::cluster::{FakeDs, cluster};
use crate::rig::file::File;
use control::{FilledArgs, GroupVersion, OutArgs, PlaceReign, PlaceRow, Refusal, Status};
use layout::MemberState;
use nfs4::IoMode;
use std::time::Duration;

/// A place with two members, as its primary knows it.
struct Place<'a> {
    servers: &'a [FakeDs],
    group: u32,
}

impl Place<'_> {
    fn server(&self, id: u32) -> &FakeDs {
        self.servers.iter().find(|ds| ds.id == id).unwrap()
    }

    /// The newest row that a data server was told.
    fn row(&self) -> PlaceRow {
        let mut rows: Vec<PlaceRow> = Vec::new();
        for ds in self.servers {
            rows.extend(ds.told.lock().rows.iter().cloned());
        }
        let is_it = |row: &PlaceRow| (row.group, row.place) == (self.group, 0);
        let newest = rows.into_iter().filter(is_it).max_by_key(|row| row.version);
        newest.unwrap()
    }

    fn reign(&self, reign: u32) -> PlaceReign {
        PlaceReign {
            group: self.group,
            place: 0,
            reign,
        }
    }

    async fn out(&self, caller: u32, ds_id: u32, place: PlaceReign) -> Result<(), Refusal> {
        let places = vec![place].into();
        let args = OutArgs { ds_id, places };
        self.server(caller).says(&args).await.map(drop)
    }

    async fn filled(
        &self,
        caller: u32,
        ds_id: u32,
        place: PlaceReign,
        era: u32,
    ) -> Result<(), Refusal> {
        let args = FilledArgs { ds_id, place, era };
        self.server(caller).says(&args).await.map(drop)
    }
}

fn rows(rig: &Rig) -> String {
    format!("{:?}", rig.nfsd.role().fs().cluster().status().places)
}

fn refused(said: Result<(), Refusal>, why: &str) {
    let refusal = said.unwrap_err();
    assert_eq!(refusal.status, Status::NotPrimary);
    assert!(refusal.detail.as_str().contains(why), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_so_is_refused_and_changes_no_row() {
    let (rig, _port, servers) = cluster(3).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alice = rig.session("alice").await;
    let root = alice.lookup(&[]).await.unwrap();
    let set = set_policy(&alice, &root, "copies=2 inline_max=0");
    set.await.unwrap();
    let file = File::create(&alice, "file").await;
    file.layout(IoMode::Rw).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let places = rig.nfsd.role().fs().cluster().status().places;
    let group = places.iter().find(|p| p.copies == 2).unwrap().group;
    let place = Place {
        servers: &servers,
        group,
    };
    let row = place.row().row;
    let (primary, reign) = (row.primary, row.reign);
    let member = row.takers().find(|ds| *ds != primary).unwrap();
    let stranger = (1..=3).find(|ds| row.state_of(*ds).is_none()).unwrap();
    let now = place.reign(reign);

    let before = rows(&rig);
    refused(place.out(member, primary, now).await, "another data server");
    refused(
        place.out(stranger, member, now).await,
        "another data server",
    );
    refused(place.out(primary, primary, now).await, "itself");
    let later = place.reign(reign + 1);
    refused(place.out(primary, member, later).await, "not begun");
    let nowhere = PlaceReign { place: 99, ..now };
    refused(place.out(primary, member, nowhere).await, "no such place");
    let era = row.era;
    let healthy = place.filled(primary, member, now, era);
    refused(healthy.await, "not being filled");
    assert_eq!(rows(&rig), before);

    // The primary may, and the member is filled then.
    place.out(primary, member, now).await.unwrap();
    assert_ne!(rows(&rig), before);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let row = place.row().row;
    assert_eq!(row.state_of(member), Some(MemberState::Filling));
    let before = rows(&rig);
    let by_itself = place.filled(member, member, now, row.era);
    refused(by_itself.await, "another data server");
    let by_other = place.filled(stranger, member, now, row.era);
    refused(by_other.await, "another data server");
    let of_other = place.filled(primary, stranger, now, row.era);
    refused(of_other.await, "not being filled");
    let of_later = place.filled(primary, member, now, row.era + 1);
    refused(of_later.await, "not begun");
    // Late is no lie: it is told the row, and nothing changes.
    place.filled(primary, member, now, era).await.unwrap();
    assert_eq!(rows(&rig), before);
    place.filled(primary, member, now, row.era).await.unwrap();
    assert_eq!(place.row().row.state_of(member), Some(MemberState::Sync));
}

#[tokio::test(start_paused = true)]
async fn groups_that_never_were_cost_no_file_its_place() {
    let (rig, port, mut servers) = cluster(2).await;
    let alice = rig.session("alice").await;
    servers[0].go_away().await;
    let claimed = [0, 9_000, (1 << 31) - 1, u32::MAX];
    let version = |group| GroupVersion { group, version: 7 };
    servers[0].groups = claimed.map(version).to_vec();
    servers[0].say_hello(&rig, &port).await.unwrap();
    let cluster = rig.nfsd.role().fs().cluster();
    assert_eq!(cluster.status().servers[0].closed_groups, claimed);
    for name in ["one", "other"] {
        File::create(&alice, name).await.layout(IoMode::Rw).await;
    }
    // Groups of other data servers are made as ever.
    let third = FakeDs::joined(&rig, &port, 3).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let groups = cluster.status().groups;
    let newest = groups
        .iter()
        .find(|(_, members)| members.contains(&third.id));
    assert!(newest.is_some_and(|(id, _)| *id < 10), "{groups:?}");
    // Accepting the state forgets such claims.
    assert_eq!(cluster.accept_state().await.unwrap(), claimed.len());
    assert_eq!(cluster.status().servers[0].closed_groups, []);
}
