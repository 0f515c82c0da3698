//! READ, WRITE, COMMIT: what is answered, what is reported, holes and the end of a file (R2, R8).

use super::*;

#[tokio::test(start_paused = true)]
async fn what_is_written_is_read_and_committed() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    world.mds.state.lock().sizes.insert(FILE, 11);
    let wrote = a
        .write(&fh, 0, b"hello world", StableHow::Unstable)
        .await
        .unwrap();
    assert_eq!((wrote.count, wrote.committed), (11, StableHow::Unstable));
    assert_eq!(a.commit(&fh).await.unwrap(), wrote.write_verifier);
    assert_eq!(a.read(&fh, 6, 5).await.unwrap(), (false, b"world".to_vec()));
    assert_eq!(
        a.read(&fh, 0, 100).await.unwrap(),
        (true, b"hello world".to_vec())
    );
    let status = world.ds().status();
    assert_eq!(
        (status.client_written_bytes, status.client_read_bytes),
        (11, 16)
    );
    assert_eq!(
        (
            status.reads,
            status.writes,
            status.commits,
            status.objects_count
        ),
        (2, 1, 1, 1)
    );
    assert_eq!(status.proxy_written_bytes, 0);
    assert!(
        world.mds.state.lock().wrote.is_empty(),
        "only FILE_SYNC is reported"
    );
}

#[tokio::test(start_paused = true)]
async fn a_data_server_says_that_it_is_one() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let established = a.session.established().unwrap();
    let roles = nfs4::ops::EXCHGID_USE_NON_PNFS
        | nfs4::ops::EXCHGID_USE_PNFS_MDS
        | nfs4::ops::EXCHGID_USE_PNFS_DS;
    assert_eq!(established.flags & roles, nfs4::ops::EXCHGID_USE_PNFS_DS);
    let owner = format!("ropewalk-ds-{:016x}", world.ds().store_id());
    assert_eq!(established.server_owner, owner.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn data_sync_stays_data_sync_and_is_not_reported() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let wrote = a.write(&fh, 0, b"x", StableHow::DataSync).await.unwrap();
    assert_eq!(wrote.committed, StableHow::DataSync);
    assert!(world.mds.state.lock().wrote.is_empty());
}

#[tokio::test(start_paused = true)]
async fn file_sync_is_reported_before_it_is_answered() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let hold = world.mds.wrote_gate.acquire().await.unwrap();
    let write = a.write(&fh, 100, b"abc", StableHow::FileSync);
    tokio::pin!(write);
    let early = tokio::time::timeout(Duration::from_secs(1), &mut write).await;
    assert!(early.is_err(), "answered before the MDS knew");
    drop(hold);
    assert_eq!(write.await.unwrap().committed, StableHow::FileSync);
    let wrote = world.mds.state.lock().wrote.clone();
    assert_eq!(wrote.len(), 1);
    assert_eq!((wrote[0].file_id, wrote[0].end_offset), (FILE, 103));
    assert_eq!(wrote[0].time.seconds, 1_700_000_000);
}

#[tokio::test(start_paused = true)]
async fn file_sync_that_the_mds_does_not_take_is_not_answered_so() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    for (refusal, told) in [
        (Status::TryLater, NfsStatus::Delay),
        (Status::Removed, NfsStatus::Stale),
        (Status::Io, NfsStatus::Io),
    ] {
        world.mds.state.lock().refuse_wrote = Some(refusal);
        let wrote = a.write(&fh, 0, b"abc", StableHow::FileSync).await;
        assert_eq!(wrote.unwrap_err(), told);
    }
}

#[tokio::test(start_paused = true)]
async fn the_mds_itself_is_not_told_of_its_writes_nor_asked_for_sizes() {
    let world = World::new().await;
    let mds = world.client(b"mds").await;
    let fh = Grant::to(b"mds").fh();
    let wrote = mds
        .write(&fh, 0, b"abc", StableHow::FileSync)
        .await
        .unwrap();
    assert_eq!(wrote.committed, StableHow::FileSync);
    assert_eq!(mds.read(&fh, 1, 10).await.unwrap(), (true, b"bc".to_vec()));
    let anonymous = mds.read_as(&fh, Stateid::ANONYMOUS, 0, 1).await;
    assert_eq!(anonymous.unwrap(), (false, b"a".to_vec()));
    let state = world.mds.state.lock();
    assert!(state.wrote.is_empty());
    assert_eq!(state.asked_sizes, 0);
    let status = world.ds().status();
    assert_eq!(
        (status.proxy_written_bytes, status.proxy_read_bytes),
        (3, 3)
    );
    assert_eq!(status.client_written_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn past_the_object_are_zeros_up_to_the_size_of_the_file() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    world.mds.state.lock().sizes.insert(FILE, 10);
    a.write(&fh, 0, b"abcd", StableHow::Unstable).await.unwrap();
    assert_eq!(a.read(&fh, 0, 4).await.unwrap(), (false, b"abcd".to_vec()));
    assert_eq!(world.mds.state.lock().asked_sizes, 0, "asked without need");
    assert_eq!(
        a.read(&fh, 2, 4).await.unwrap(),
        (false, b"cd\0\0".to_vec())
    );
    assert_eq!(a.read(&fh, 6, 3).await.unwrap(), (false, vec![0; 3]));
    assert_eq!(
        a.read(&fh, 2, 8).await.unwrap(),
        (true, b"cd\0\0\0\0\0\0".to_vec())
    );
    assert_eq!(
        a.read(&fh, 2, 99).await.unwrap(),
        (true, b"cd\0\0\0\0\0\0".to_vec())
    );
    assert_eq!(a.read(&fh, 10, 1).await.unwrap(), (true, vec![]));
    assert_eq!(a.read(&fh, u64::MAX, 1).await.unwrap(), (true, vec![]));
    // An object that was never made is a hole.
    world.mds.state.lock().sizes.insert(FILE + 1, 3);
    let other = Grant::to(b"a").file(FILE + 1).fh();
    assert_eq!(a.read(&other, 0, 2).await.unwrap(), (false, vec![0; 2]));
    assert_eq!(a.read(&other, 0, 9).await.unwrap(), (true, vec![0; 3]));
    let unknown = Grant::to(b"a").file(FILE + 2).fh();
    assert_eq!(a.read(&unknown, 0, 1).await.unwrap_err(), NfsStatus::Stale);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_the_mds_does_not_know_of_yet_are_read() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    world.mds.state.lock().sizes.insert(FILE, 0);
    a.write(&fh, 0, b"abcd", StableHow::Unstable).await.unwrap();
    assert_eq!(a.read(&fh, 0, 9).await.unwrap(), (true, b"abcd".to_vec()));
}

#[tokio::test(start_paused = true)]
async fn the_size_is_asked_again_once_its_time_is_over() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    {
        let mut state = world.mds.state.lock();
        state.sizes.insert(FILE, 5);
        state.size_cache_ms = 500;
    }
    for _ in 0..3 {
        assert_eq!(a.read(&fh, 0, 9).await.unwrap(), (true, vec![0; 5]));
    }
    assert_eq!(world.mds.state.lock().asked_sizes, 1);
    world.mds.state.lock().sizes.insert(FILE, 6);
    tokio::time::sleep(Duration::from_millis(501)).await;
    assert_eq!(a.read(&fh, 0, 9).await.unwrap(), (true, vec![0; 6]));
    assert_eq!(world.mds.state.lock().asked_sizes, 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_store_says_so() {
    let objects = MemObjects::new(MemOptions {
        capacity_bytes: 8192,
        manual: false,
    });
    let world = World::with(Arc::new(MemStore::new()), Arc::new(objects), Mds::new()).await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    let wrote = a.write(&fh, 0, &[1; 9000], StableHow::Unstable).await;
    assert_eq!(wrote.unwrap_err(), NfsStatus::NoSpc);
    a.write(&fh, 0, &[1; 1000], StableHow::Unstable)
        .await
        .unwrap();
    assert_eq!(world.ds().status().no_space, 1);
    let wrote = a
        .write(&fh, u64::MAX - 2, b"abc", StableHow::Unstable)
        .await;
    assert_eq!(wrote.unwrap_err(), NfsStatus::FBig);
}

#[tokio::test(start_paused = true)]
async fn an_empty_write_makes_nothing() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    assert_eq!(
        a.write(&fh, 5, b"", StableHow::FileSync)
            .await
            .unwrap()
            .count,
        0
    );
    assert_eq!(world.ds().status().objects_count, 0);
}

#[tokio::test(start_paused = true)]
async fn reads_that_ask_for_a_size_share_calls_but_never_an_older_answer() {
    let world = World::new().await;
    let a = world.client(b"a").await;
    let fh = Grant::to(b"a").fh();
    world.mds.state.lock().sizes.insert(FILE, 1);
    let hold = world.mds.size_gate.acquire().await.unwrap();
    let first = a.read(&fh, 0, 9);
    tokio::pin!(first);
    let wait = Duration::from_millis(100);
    assert!(tokio::time::timeout(wait, &mut first).await.is_err());
    // The file grows, and readers who have seen that come now.
    world.mds.state.lock().sizes.insert(FILE, 5);
    let (second, third) = (a.read(&fh, 0, 9), a.read(&fh, 0, 9));
    tokio::pin!(second, third);
    assert!(tokio::time::timeout(wait, &mut second).await.is_err());
    assert!(tokio::time::timeout(wait, &mut third).await.is_err());
    drop(hold);
    assert_eq!(first.await.unwrap(), (true, vec![0; 1]));
    assert_eq!(second.await.unwrap(), (true, vec![0; 5]));
    assert_eq!(third.await.unwrap(), (true, vec![0; 5]));
    assert_eq!(world.mds.state.lock().asked_sizes, 2);
}
