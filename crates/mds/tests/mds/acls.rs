//! Goal: access control lists over the wire are set, read, refused where they make no sense, enforced by OPEN and
//! answered by ACCESS. How they are judged and inherited is tested in the name space. Method: COMPOUNDs over the memory
//! transport, by users of one client; time paused.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig::cluster::{FakeDs, Port};
use crate::rig::file::{File, patiently};
use crate::rig::{Client, Rig, after_putfh};
use nfs4::attr::{self, Attrs};
use nfs4::ops::{
    ACCESS_EXTEND, ACCESS_MODIFY, ACCESS_READ, AccessArgs, AccessRes, GetAttrArgs, GetAttrRes,
    SHARE_ACCESS_READ, SHARE_ACCESS_WRITE,
};
use nfs4::{
    ACE_APPEND_DATA, ACE_FILE_INHERIT, ACE_IDENTIFIER_GROUP, ACE_INHERITED, ACE_READ_ACL,
    ACE_READ_DATA, ACE_TYPE_ALLOW, ACE_TYPE_AUDIT, ACE_TYPE_DENY, ACE_WRITE_DATA, Ace, Acl, Bitmap,
    NfsStatus,
};
use xdr::List;

fn ace(ace_type: u32, flag: u32, access_mask: u32, who: &str) -> Ace {
    Ace {
        ace_type,
        flag,
        access_mask,
        who: who.as_bytes().into(),
    }
}

fn allow(mask: u32, who: &str) -> Ace {
    ace(ACE_TYPE_ALLOW, 0, mask, who)
}

fn as_acl(aces: &[Ace]) -> Attrs {
    Attrs {
        acl: Some(List(aces.to_vec())),
        ..Attrs::default()
    }
}

fn as_dacl(flag: u32, aces: &[Ace]) -> Attrs {
    Attrs {
        dacl: Some(Acl {
            flag,
            aces: List(aces.to_vec()),
        }),
        ..Attrs::default()
    }
}

async fn lists(client: &Client, file: &File<'_>) -> Result<Attrs, NfsStatus> {
    let wanted = [attr::ACL, attr::ACLSUPPORT, attr::DACL, attr::MODE];
    let done = client
        .on(&file.fh, |b| {
            b.push(&GetAttrArgs {
                attr_request: Bitmap::of(&wanted),
            });
        })
        .await;
    let got = after_putfh(&done).take::<GetAttrRes<'_>>();
    let got = got.map_err(|e| e.status().unwrap())?;
    Ok(got.attributes.attrs().unwrap())
}

async fn access(client: &Client, file: &File<'_>) -> u32 {
    let done = client
        .on(&file.fh, |b| {
            b.push(&AccessArgs { access: 0x3f });
        })
        .await;
    after_putfh(&done).take::<AccessRes>().unwrap().access
}

#[tokio::test(start_paused = true)]
async fn lists_are_set_and_read_and_those_that_make_no_sense_are_refused() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    let root = rig.session("alice").await;
    let file = File::create(&root, "f").await;
    let set = |attrs: Attrs| {
        let file = &file;
        async move { patiently(|| file.try_set(&attrs)).await }
    };
    let got = lists(&root, &file).await.unwrap();
    assert_eq!((got.mode, got.aclsupport), (Some(0o644), Some(3)));
    let of_mode = got.acl.unwrap().0;
    assert!(
        of_mode.iter().all(|a| a.who.0.ends_with(b"@")),
        "{of_mode:?}"
    );

    let mine = [
        ace(ACE_TYPE_DENY, 0, ACE_WRITE_DATA, "1001"),
        ace(ACE_TYPE_ALLOW, ACE_IDENTIFIER_GROUP, ACE_READ_DATA, "70"),
        allow(ACE_READ_DATA, "OWNER@"),
    ];
    set(as_acl(&mine)).await.unwrap();
    let got = lists(&root, &file).await.unwrap();
    assert_eq!(got.acl.unwrap().0, mine);
    let dacl = got.dacl.unwrap();
    assert_eq!((dacl.flag, got.mode), (2, Some(0o400)), "protected");

    let inherited = [
        ace(ACE_TYPE_ALLOW, ACE_INHERITED, ACE_READ_DATA, "1001"),
        ace(ACE_TYPE_ALLOW, ACE_FILE_INHERIT, ACE_READ_DATA, "1002"),
    ];
    set(as_dacl(1, &inherited)).await.unwrap();
    let got = lists(&root, &file).await.unwrap();
    let dacl = got.dacl.unwrap();
    let flags: Vec<_> = dacl.aces.0.iter().map(|a| a.flag).collect();
    assert_eq!(
        (dacl.flag, flags),
        (1, vec![ACE_INHERITED, 0]),
        "a file hands nothing down"
    );
    assert!(got.acl.unwrap().0.iter().all(|a| a.flag == 0));

    let both = Attrs {
        acl: Some(List(vec![])),
        ..as_dacl(0, &[])
    };
    for (attrs, status) in [
        (both, NfsStatus::AttrNotSupp),
        (as_dacl(8, &[]), NfsStatus::Inval),
        (
            as_acl(&[ace(ACE_TYPE_AUDIT, 0, 1, "EVERYONE@")]),
            NfsStatus::AttrNotSupp,
        ),
        (as_acl(&[ace(9, 0, 1, "EVERYONE@")]), NfsStatus::Inval),
        (as_acl(&[allow(0x200, "EVERYONE@")]), NfsStatus::AttrNotSupp),
        (as_acl(&[allow(1, "nobody here")]), NfsStatus::BadOwner),
        (as_acl(&[allow(1, "INTERACTIVE@")]), NfsStatus::BadOwner),
    ] {
        assert_eq!(set(attrs.clone()).await, Err(status), "{attrs:?}");
    }
    let many = vec![allow(1, "1"); 257];
    assert_eq!(set(as_acl(&many)).await, Err(NfsStatus::BadXdr));
    set(as_acl(&many[1..])).await.unwrap();
    assert_eq!(lists(&root, &file).await.unwrap().acl.unwrap().0.len(), 256);
}

#[tokio::test(start_paused = true)]
async fn open_and_access_obey_the_list_and_a_private_list_is_not_shown() {
    let rig = Rig::new().await;
    let port = Port::open(&rig);
    let _ds = FakeDs::joined(&rig, &port, 1).await;
    let root = rig.session("alice").await;
    let file = File::create(&root, "f").await;
    let write = ACE_WRITE_DATA | ACE_APPEND_DATA;
    let list = as_acl(&[
        ace(ACE_TYPE_DENY, 0, ACE_READ_ACL | write, "1001"),
        allow(ACE_READ_DATA, "1001"),
        allow(ACE_READ_DATA | write | ACE_READ_ACL, "1002"),
    ]);
    patiently(|| file.try_set(&list)).await.unwrap();
    let (reader, writer, other) = (root.user(1001), root.user(1002), root.user(1003));
    let opens = |client, access| async move { File::open(client, "f", access).await.err() };
    let denied = Some(NfsStatus::Access);
    assert_eq!(opens(&reader, SHARE_ACCESS_READ).await, None);
    assert_eq!(opens(&reader, SHARE_ACCESS_WRITE).await, denied);
    assert_eq!(opens(&writer, SHARE_ACCESS_WRITE).await, None);
    assert_eq!(opens(&other, SHARE_ACCESS_READ).await, denied);
    assert_eq!(access(&reader, &file).await, ACCESS_READ);
    assert_eq!(
        access(&writer, &file).await,
        ACCESS_READ | ACCESS_MODIFY | ACCESS_EXTEND
    );
    assert_eq!(access(&other, &file).await, 0);
    assert_eq!(lists(&reader, &file).await.err(), denied);
    assert!(lists(&writer, &file).await.is_ok());
}
