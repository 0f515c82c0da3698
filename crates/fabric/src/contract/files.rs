//! Writes straight out of files, where there are any.

use super::{BUFFER_BYTES, Pair, WHY, pattern};
use crate::{
    Done, Ended, EndpointConfig, Fabric, FileRange, Memory, Refused, Remote, Work, WorkRefusal,
    WorkStatus,
};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file of the pattern without a name.
fn file(len: usize) -> Arc<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("fabric-contract.{}.{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create_new(true).open(&path);
    let mut file = opened.expect("a temporary file");
    std::fs::remove_file(&path).expect("it was just made");
    file.write_all(&pattern(len, 3)).expect("there is room");
    Arc::new(file)
}

async fn pair(fabric: &dyn Fabric, address: SocketAddr) -> Pair {
    let config = EndpointConfig {
        crc: false,
        ..EndpointConfig::default()
    };
    Pair::with(fabric, address, config, super::RECEIVES).await
}

fn write(file: &Arc<File>, offset: u64, len: u32, remote: Remote, hold: &Arc<()>) -> Work {
    let range = FileRange {
        file: Arc::clone(file),
        offset,
        len,
        hold: hold.clone(),
    };
    Work::WriteFile { range, remote }
}

/// Bytes of files land like others, in the order of the queue; who keeps them there is told once they have left. A
/// connection that takes no files says so.
pub async fn files_are_written_from_where_they_lie(fabric: &dyn Fabric, address: SocketAddr) {
    const SIZES: [u32; 9] = [0, 1, 300, 4095, 4096, 65_521, 65_522, 131_072, 200_003];
    let mut pair = pair(fabric, address).await;
    let source = file(BUFFER_BYTES);
    let hold = Arc::new(());
    for (n, len) in (0_u64..).zip(SIZES) {
        let target = pair.b.expose_buffer(BUFFER_BYTES);
        let place = target.part(77, len).expect("inside");
        let work = write(&source, 1001, len, place, &hold);
        if !pair.a.endpoint.negotiated().files {
            let Err(Refused { why, .. }) = pair.a.endpoint.post(1, work, true) else {
                panic!("files are taken, yet not said to be");
            };
            assert_eq!(why, WorkRefusal::NoFiles);
            return;
        }
        let [first, second] = [10 * n + 1, 10 * n + 2];
        pair.a.write(0, vec![pair.a.filled(10, 9)], target);
        pair.a.post(first, work);
        pair.a.send(second, b"written");
        pair.until(|a, b| a.ids() == [0, first, second] && b.messages() == 1)
            .await;
        assert_eq!(Arc::strong_count(&hold), 1);
        assert!(pair.a.seen.iter().all(|c| c.status == WorkStatus::Ok));
        pair.a.seen.clear();
        drop(pair.b.message());
        let len = usize::try_from(len).expect("small");
        pair.b.post(9, Work::Invalidate { key: target.key });
        pair.until(|_, b| b.ids() == [9]).await;
        let Done::Invalidate {
            memory: Some(Memory::Buffer(buffer)),
        } = pair.b.take(9).done
        else {
            panic!("the buffer comes back");
        };
        assert!(buffer[..10] == pattern(10, 9));
        assert!(buffer[77..77 + len] == pattern(BUFFER_BYTES, 3)[1001..1001 + len]);
        assert!(buffer[77 + len..].iter().all(|byte| *byte == 0));
    }
    let counted = pair.a.endpoint.counters();
    let files: u64 = SIZES.into_iter().map(u64::from).sum();
    let others = SIZES.len() as u64 * (10 + 7);
    assert_eq!(counted.sent_bytes, files + others);
    let target = pair.b.expose_buffer(100);
    let work = write(&source, 0, 101, target, &hold);
    let refused = pair.a.endpoint.post(1, work, true).expect_err("too long");
    assert_eq!(refused.why, WorkRefusal::TooLong);
    drop(refused);
    pair.assert_works().await;
    pair.assert_all_back();
}

/// What was promised cannot be sent: the connection ends, and everything comes back.
pub async fn a_file_that_is_too_short_ends_the_connection(
    fabric: &dyn Fabric,
    address: SocketAddr,
) {
    let mut pair = pair(fabric, address).await;
    if !pair.a.endpoint.negotiated().files {
        return;
    }
    let target = pair.b.expose_buffer(BUFFER_BYTES);
    let hold = Arc::new(());
    let place = target.part(0, 150_000).expect(WHY);
    pair.a
        .post(1, write(&file(100_000), 0, 150_000, place, &hold));
    pair.a.send(2, b"never");
    pair.until_ended().await;
    assert_eq!(pair.a.ids(), [1, 2]);
    assert!(pair.a.seen.iter().all(|c| c.status != WorkStatus::Ok));
    assert_eq!(pair.a.ended, Some(Ended::FileShort));
    assert_eq!((pair.b.messages(), Arc::strong_count(&hold)), (0, 1));
    pair.assert_all_back();
}
