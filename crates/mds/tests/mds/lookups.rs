//! Goal: names are bytes, LOOKUPP and the SECINFO pair answer as RFC 8881 §18.14, §18.29 and §18.45 say, and only locks wait for
//! RECLAIM_COMPLETE.
//! Method: one metadata server over the memory transport, COMPOUNDs by hand.
#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use crate::rig;
use crate::rig::{Client, Rig};
use nfs4::attr::{self, Attrs};
use nfs4::ops::*;
use nfs4::{Bitmap, CompoundBuilder, Fattr, FileHandle, NfsStatus};
use xdr::Opaque;

/// The status of operations after PUTFH.
async fn end(
    client: &Client,
    fh: &FileHandle,
    build: impl Fn(&mut CompoundBuilder) + Send + Sync,
) -> NfsStatus {
    client.on(fh, build).await.results().unwrap().status
}

async fn mkdir(client: &Client, dir: &FileHandle, name: &[u8]) -> NfsStatus {
    let make = |b: &mut CompoundBuilder| {
        b.push(&CreateArgs {
            object_type: CreateType::Dir,
            name: Opaque(name),
            attrs: Fattr::new(&Attrs {
                mode: Some(0o755),
                ..Attrs::default()
            }),
        });
    };
    end(client, dir, make).await
}

async fn lookup(client: &Client, dir: &FileHandle, name: &[u8]) -> NfsStatus {
    let look = |b: &mut CompoundBuilder| {
        b.push(&LookupArgs { name: Opaque(name) });
    };
    end(client, dir, look).await
}

#[tokio::test]
async fn a_name_is_up_to_255_bytes_of_any_kind() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    let (longest, too_long) = ([b'x'; 255], [b'x'; 256]);
    for (name, status) in [
        (&b"plain"[..], NfsStatus::Ok),
        (b"Plain", NfsStatus::Ok),
        ("gr\u{fc}n".as_bytes(), NfsStatus::Ok),
        // The same word in another normal form is another name.
        ("gru\u{308}n".as_bytes(), NfsStatus::Ok),
        // Not UTF-8, which fs_charset_cap announces (RFC 8881 §14.4).
        (b"\xff\xfe", NfsStatus::Ok),
        (&longest, NfsStatus::Ok),
        (&too_long, NfsStatus::NameTooLong),
        (b"", NfsStatus::Inval),
        (b".", NfsStatus::BadName),
        (b"..", NfsStatus::BadName),
        (b"a/b", NfsStatus::BadName),
    ] {
        assert_eq!(mkdir(&client, &root, name).await, status, "{name:?}");
        assert_eq!(lookup(&client, &root, name).await, status, "{name:?}");
    }
    assert_eq!(mkdir(&client, &root, b"Plain").await, NfsStatus::Exist);
    let done = client
        .on(&root, |b| {
            b.push(&GetAttrArgs {
                attr_request: Bitmap::of(&[
                    attr::FS_CHARSET_CAP,
                    attr::CASE_PRESERVING,
                    attr::CASE_INSENSITIVE,
                    attr::MAXNAME,
                ]),
            });
        })
        .await;
    let mut reply = rig::after_putfh(&done);
    let attrs = reply.take::<GetAttrRes<'_>>().unwrap().attributes;
    let attrs = attrs.attrs().unwrap();
    assert_eq!(attrs.fs_charset_cap, Some(nfs4::CHARSET_CONTAINS_NON_UTF8));
    assert_eq!(attrs.case_preserving, Some(true));
    assert_eq!(attrs.case_insensitive, Some(false));
    assert_eq!(attrs.maxname, Some(255));
}

#[tokio::test]
async fn lookupp_climbs_to_the_root_and_no_further() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    mkdir(&client, &root, b"a").await;
    let a = client.lookup(&["a"]).await.unwrap();
    let up = |b: &mut CompoundBuilder| {
        b.push(&LookupPArgs {}).push(&GetFhArgs {});
    };
    let done = client.on(&a, up).await;
    let mut reply = rig::after_putfh(&done);
    reply.take::<LookupPRes>().unwrap();
    let parent = reply.take::<GetFhRes<'_>>().unwrap();
    assert_eq!(parent.object.0, &root.0[..]);
    assert_eq!(end(&client, &root, up).await, NfsStatus::NoEnt);
}

#[tokio::test]
async fn secinfo_names_auth_sys_and_consumes_the_handle() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    mkdir(&client, &root, b"a").await;
    let a = client.lookup(&["a"]).await.unwrap();
    let by_name = |name: &'static [u8]| {
        move |b: &mut CompoundBuilder| {
            b.push(&SecInfoArgs { name: Opaque(name) })
                .push(&GetFhArgs {});
        }
    };
    let without_name = |style| {
        move |b: &mut CompoundBuilder| {
            b.push(&SecInfoNoNameArgs { style }).push(&GetFhArgs {});
        }
    };
    // GETFH after it finds no handle (RFC 8881 §2.6.3.1.1.8).
    let consumed = NfsStatus::NoFileHandle;
    assert_eq!(end(&client, &root, by_name(b"a")).await, consumed);
    let missing = end(&client, &root, by_name(b"none")).await;
    assert_eq!(missing, NfsStatus::NoEnt);
    let current = without_name(SecInfoStyle::CurrentFh);
    assert_eq!(end(&client, &root, current).await, consumed);
    let parent = without_name(SecInfoStyle::Parent);
    assert_eq!(end(&client, &a, parent).await, consumed);
    let above = end(&client, &root, parent).await;
    assert_eq!(above, NfsStatus::NoEnt);
    let done = client.on(&root, by_name(b"a")).await;
    let mut reply = rig::after_putfh(&done);
    let flavors = reply.take::<SecInfoRes>().unwrap().flavors;
    assert_eq!(flavors.0, vec![SecInfo::Flavor(FLAVOR_SYS)]);
}

#[tokio::test]
async fn names_change_without_reclaim_complete() {
    let rig = Rig::new().await;
    let client = rig.stranger("alice", *b"boot0001", None);
    client.session.establish().await.unwrap();
    let root = client.lookup(&[]).await.unwrap();
    assert_eq!(mkdir(&client, &root, b"a").await, NfsStatus::Ok);
    let rename = |from: &'static [u8], to: &'static [u8]| {
        move |b: &mut CompoundBuilder| {
            b.push(&SaveFhArgs {}).push(&RenameArgs {
                old_name: Opaque(from),
                new_name: Opaque(to),
            });
        }
    };
    assert_eq!(
        end(&client, &root, rename(b"", b"b")).await,
        NfsStatus::Inval
    );
    assert_eq!(end(&client, &root, rename(b"a", b"b")).await, NfsStatus::Ok);
    let remove = |b: &mut CompoundBuilder| {
        b.push(&RemoveArgs {
            target: Opaque(b"b"),
        });
    };
    assert_eq!(end(&client, &root, remove).await, NfsStatus::Ok);
}

#[tokio::test]
async fn handles_are_put_saved_and_restored() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    mkdir(&client, &root, b"a").await;
    let a = client.lookup(&["a"]).await.unwrap();
    let done = client
        .run(|b| {
            b.push(&PutPubFhArgs {}).push(&SaveFhArgs {});
            b.push(&PutFhArgs {
                object: Opaque(&a.0),
            });
            b.push(&RestoreFhArgs {}).push(&GetFhArgs {});
        })
        .await;
    let mut reply = done.results().unwrap();
    reply.take::<PutPubFhRes>().unwrap();
    reply.take::<SaveFhRes>().unwrap();
    reply.take::<PutFhRes>().unwrap();
    reply.take::<RestoreFhRes>().unwrap();
    let restored = reply.take::<GetFhRes<'_>>().unwrap();
    assert_eq!(
        restored.object.0,
        &root.0[..],
        "the public handle is the root"
    );
    let nothing = |b: &mut CompoundBuilder| {
        b.push(&RestoreFhArgs {});
    };
    assert_eq!(end(&client, &a, nothing).await, NfsStatus::NoFileHandle);
    let altered = FileHandle::from(&[7_u8; 20][..]);
    let get = |b: &mut CompoundBuilder| {
        b.push(&GetFhArgs {});
    };
    assert_eq!(end(&client, &altered, get).await, NfsStatus::BadHandle);
}

#[tokio::test]
async fn links_are_made_and_read() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    let make = |b: &mut CompoundBuilder| {
        b.push(&CreateArgs {
            object_type: CreateType::Lnk(Opaque(b"no/where")),
            name: Opaque(b"symbolic"),
            attrs: Fattr::default(),
        });
    };
    assert_eq!(end(&client, &root, make).await, NfsStatus::Ok);
    let symbolic = client.lookup(&["symbolic"]).await.unwrap();
    let read = |b: &mut CompoundBuilder| {
        b.push(&ReadLinkArgs {});
    };
    let done = client.on(&symbolic, read).await;
    let mut reply = rig::after_putfh(&done);
    assert_eq!(reply.take::<ReadLinkRes<'_>>().unwrap().link.0, b"no/where");
    assert_eq!(end(&client, &root, read).await, NfsStatus::WrongType);
    let link = |b: &mut CompoundBuilder| {
        b.push(&SaveFhArgs {})
            .push(&PutRootFhArgs {})
            .push(&LinkArgs {
                new_name: Opaque(b"hard"),
            });
    };
    assert_eq!(end(&client, &symbolic, link).await, NfsStatus::Ok);
    assert_eq!(client.lookup(&["hard"]).await.unwrap().0, symbolic.0);
    assert_eq!(end(&client, &root, link).await, NfsStatus::IsDir);
}

#[tokio::test]
async fn attributes_are_verified() {
    let rig = Rig::new().await;
    let client = rig.session("alice").await;
    let root = client.lookup(&[]).await.unwrap();
    let of = |numlinks| {
        Fattr::new(&Attrs {
            numlinks: Some(numlinks),
            ..Attrs::default()
        })
    };
    for (numlinks, same, differs) in [
        (2, NfsStatus::Ok, NfsStatus::Same),
        (9, NfsStatus::NotSame, NfsStatus::Ok),
    ] {
        let verify = |b: &mut CompoundBuilder| {
            b.push(&VerifyArgs {
                attrs: of(numlinks),
            });
        };
        let nverify = |b: &mut CompoundBuilder| {
            b.push(&NVerifyArgs {
                attrs: of(numlinks),
            });
        };
        assert_eq!(end(&client, &root, verify).await, same);
        assert_eq!(end(&client, &root, nverify).await, differs);
    }
}
