//! Goal: with `manage_gids` a user has the groups of the directory, all of them; with a domain owners have names. A
//! client's own claims count only for users that the directory does not know. Method: a directory of this test, over
//! the memory transport; time is real, since the directory is asked on other threads.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::{Client, Rig, START_S, after_putfh};
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    ACCESS_READ, AccessArgs, AccessRes, CreateArgs, CreateRes, CreateType, GetAttrArgs, GetAttrRes,
};
use nfs4::{Bitmap, Fattr, FileHandle, NfsStatus, Owner, Stateid};
use ropewalk_mds::identities::{Directory, IdKind, IdentityConfig, NameAnswer, Question};
use server::exports::{Exports, Squash};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use xdr::Opaque;

/// User 1000, `ann`, is in groups 1000 and 5001 to 5040.
struct FortyGroups;

impl Directory for FortyGroups {
    fn ask(&self, question: &Question) -> std::io::Result<NameAnswer> {
        Ok(match question {
            Question::Groups(1000) => NameAnswer::Groups((5001..=5040).chain([1000]).collect()),
            Question::Name(IdKind::User, 1000) => NameAnswer::Name("ann".into()),
            Question::Name(IdKind::Group, 5040) => NameAnswer::Name("staff".into()),
            Question::Id(IdKind::User, name) if name == "ann" => NameAnswer::Id(1000),
            Question::Id(IdKind::Group, name) if name == "staff" => NameAnswer::Id(5040),
            _ => NameAnswer::Unknown,
        })
    }
}

async fn rig(manage_gids: bool, domain: Option<&str>) -> Rig {
    let config = IdentityConfig {
        directory: Some(Arc::new(FortyGroups)),
        manage_gids,
        domain: domain.map(str::to_owned),
    };
    let clock_s = Arc::new(AtomicI64::new(START_S));
    Rig::knowing(
        Arc::new(meta::MemStore::new()),
        clock_s,
        Exports::loopback(Squash::None),
        config,
    )
    .await
}

/// CREATE of a directory in the root.
async fn mkdir(client: &Client, name: &str, attrs: &Attrs) {
    let root = client.lookup(&[]).await.unwrap();
    let attrs = Fattr::new(attrs);
    let done = client
        .on(&root, |b| {
            b.push(&CreateArgs {
                object_type: CreateType::Dir,
                name: Opaque(name.as_bytes()),
                attrs: attrs.clone(),
            });
        })
        .await;
    after_putfh(&done).take::<CreateRes>().unwrap();
}

async fn set(client: &Client, fh: &FileHandle, attrs: &Attrs) -> NfsStatus {
    let set = client.set_attrs(fh, Stateid::default(), attrs).await;
    set.err().unwrap_or(NfsStatus::Ok)
}

fn owned(owner: &str, group: &str) -> Attrs {
    Attrs {
        mode: Some(0o750),
        owner: Some(Owner::from(owner.as_bytes())),
        owner_group: Some(Owner::from(group.as_bytes())),
        ..Attrs::default()
    }
}

async fn may_read(client: &Client, fh: &FileHandle) -> bool {
    let done = client
        .on(fh, |b| {
            b.push(&AccessArgs {
                access: ACCESS_READ,
            });
        })
        .await;
    after_putfh(&done).take::<AccessRes>().unwrap().access == ACCESS_READ
}

async fn owners(client: &Client, fh: &FileHandle) -> (String, String) {
    let done = client
        .on(fh, |b| {
            b.push(&GetAttrArgs {
                attr_request: Bitmap::of(&[attr::OWNER, attr::OWNER_GROUP]),
            });
        })
        .await;
    let got = after_putfh(&done).take::<GetAttrRes<'_>>().unwrap();
    let got = got.attributes.attrs().unwrap();
    let text = |owner: Option<Owner>| String::from_utf8(owner.unwrap().0).unwrap();
    (text(got.owner), text(got.owner_group))
}

#[tokio::test]
async fn the_fortieth_group_counts_and_what_a_client_claims_does_not() {
    for (manage_gids, by_directory) in [(true, true), (false, false)] {
        let rig = rig(manage_gids, None).await;
        let root = rig.session("alice").await;
        for (name, group) in [("fortieth", "5040"), ("claimed", "77")] {
            mkdir(&root, name, &owned("0", group)).await;
        }
        let fortieth = root.lookup(&["fortieth"]).await.unwrap();
        let claimed = root.lookup(&["claimed"]).await.unwrap();
        let ann = root.user(1000);
        assert_eq!(may_read(&ann, &fortieth).await, by_directory);
        let boasts = root.user_with(1000, vec![77]);
        assert_eq!(may_read(&boasts, &claimed).await, !by_directory);
        let unknown = root.user_with(1001, vec![77]);
        assert!(
            may_read(&unknown, &claimed).await,
            "who is unknown has what he claims"
        );
    }
}

#[tokio::test]
async fn with_a_domain_owners_have_names_and_numbers_are_taken_too() {
    let rig = rig(false, Some("example.org")).await;
    let root = rig.session("alice").await;
    mkdir(&root, "d", &owned("ann@example.org", "staff@Example.ORG")).await;
    let dir = root.lookup(&["d"]).await.unwrap();
    let named = ("ann@example.org".to_owned(), "staff@example.org".to_owned());
    assert_eq!(owners(&root, &dir).await, named);
    assert_eq!(set(&root, &dir, &owned("0", "5040")).await, NfsStatus::Ok);
    let half = ("0".to_owned(), named.1.clone());
    assert_eq!(
        owners(&root, &dir).await,
        half,
        "who has no name is a number"
    );
    for foreign in ["bob@example.org", "ann@example.com", "ann"] {
        let refused = set(&root, &dir, &owned(foreign, "0")).await;
        assert_eq!(refused, NfsStatus::BadOwner, "{foreign}");
    }
    assert_eq!(owners(&root, &dir).await, half);
}
