//! Goal: once a data server has the memory that it needs, its data path registers none, and it never lets a client into its
//! memory. Method: the fabric in memory, which counts what a device would have registered, and bulk data of every size.

use super::rdma::Rig;
use super::real::daemon;
use super::*;

/// One below and above what fits a message, and those of Linux's requests.
const SIZES: [u32; 6] = [1_000, 5_000, 65_536, 131_072, 262_144, 1_048_576];
const WARM_UP: u32 = 3;
const ROUNDS: u32 = 20;

/// Writes and reads of every size, one after the other.
async fn exchange(client: &Client, rounds: u32) {
    let fh = Grant::to(b"a").fh();
    for round in 0..rounds {
        for (place, len) in (0..).zip(SIZES) {
            let offset = place << 21;
            let data = vec![round.to_le_bytes()[0]; len as usize];
            let written = client.write(&fh, offset, &data, StableHow::Unstable);
            assert_eq!(written.await.unwrap().count, len);
            let (_, read) = client.read(&fh, offset, len).await.unwrap();
            assert!(read == data);
        }
    }
}

async fn registers_nothing_once_it_is_warm(world: World) {
    let rig = Rig::new(world).await;
    let client = rig.client().await;
    exchange(&client, WARM_UP).await;
    let (before, by_client) = (rig.counters(), rig.client_counters());
    assert!(before.rdma_registrations > 0, "what it uses is counted");
    exchange(&client, ROUNDS).await;
    let after = rig.counters();
    assert_eq!(after.rdma_registrations, before.rdma_registrations);
    assert_eq!(after.rdma_exposures, 0, "clients get into nothing");
    // They let the server into what each of their calls is about.
    let exposed = rig.client_counters().rdma_exposures - by_client.rdma_exposures;
    assert!(
        exposed > u64::from(ROUNDS) * SIZES.len() as u64,
        "{exposed}"
    );
}

#[tokio::test]
async fn a_data_server_with_files_registers_nothing_once_it_is_warm() {
    let dir = tempfile::tempdir().unwrap();
    registers_nothing_once_it_is_warm(daemon(dir.path()).await).await;
}

#[tokio::test]
async fn a_data_server_in_memory_registers_nothing_once_it_is_warm() {
    registers_nothing_once_it_is_warm(World::new().await).await;
}

#[tokio::test(start_paused = true)]
async fn who_connects_again_after_an_idle_hour_costs_no_registration() {
    let rig = Rig::new(World::new().await).await;
    exchange(&rig.client().await, WARM_UP).await;
    let before = rig.counters();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    exchange(&rig.client().await, ROUNDS).await;
    let after = rig.counters();
    assert!(after.connections_accepted > before.connections_accepted);
    assert_eq!(after.rdma_registrations, before.rdma_registrations);
}

#[tokio::test]
async fn a_store_in_memory_that_grows_costs_a_registration_in_eight_writes() {
    const LEN: u32 = 131_072;
    const COUNT: u32 = 64;
    let rig = Rig::new(World::new().await).await;
    let (client, fh) = (rig.client().await, Grant::to(b"a").fh());
    exchange(&client, WARM_UP).await;
    let before = rig.counters();
    for n in 0..COUNT {
        let offset = (u64::from(n) + 1000) * u64::from(LEN);
        let data = vec![7; LEN as usize];
        let written = client.write(&fh, offset, &data, StableHow::Unstable);
        assert_eq!(written.await.unwrap().count, LEN);
    }
    let after = rig.counters();
    assert_eq!(after.rdma_copied_bytes, before.rdma_copied_bytes);
    let registered = after.rdma_registrations - before.rdma_registrations;
    assert!(
        (1..=u64::from(COUNT) / 8 + 1).contains(&registered),
        "{registered}"
    );
}
