//! Injected faults in the memory transport, under simulated time.

use super::*;
use crate::CallError;
use crate::memory::{Fate, Faults, MemoryNetwork, Passage};
use tokio::time::Instant;

struct Script(fn(&Passage<'_>) -> Fate);

impl Faults for Script {
    fn fate(&self, passage: &Passage<'_>) -> Fate {
        (self.0)(passage)
    }
    fn may_connect(&self, from: &str, _to: &str) -> bool {
        from != "banned"
    }
}

async fn connect(script: fn(&Passage<'_>) -> Fate) -> (Arc<Situations>, Context, ConnHandle) {
    let network = MemoryNetwork::new(Arc::new(Script(script)));
    let (service, context) = (Situations::new(), Context::new(TransportLimits::default()));
    let listener = network.listen("server").unwrap();
    assert!(network.listen("server").is_err());
    let shutdown = Shutdown::new();
    let signal = shutdown.signal();
    let server = Context::new(TransportLimits::default());
    let serving = service.clone();
    tokio::spawn(async move {
        let _shutdown = shutdown;
        listener.serve(serving, server, signal).await;
    });
    let address = Address::Memory("server".to_owned());
    let banned = network.connector("banned", context.clone());
    assert!(banned.connect(&address, Situations::new()).await.is_err());
    let connector = network.connector("client", context.clone());
    let conn = connector
        .connect(&address, Situations::new())
        .await
        .unwrap();
    (service, context, conn)
}

#[tokio::test(start_paused = true)]
async fn a_delayed_record_arrives_after_exactly_its_delay() {
    let (_, _, conn) = connect(|p| match p.to_listener {
        true => Fate::Delay(Duration::from_secs(3)),
        false => Fate::Deliver,
    })
    .await;
    let start = Instant::now();
    assert_eq!(ask(&conn, ECHO, b"x").await, b"x");
    let took = start.elapsed();
    assert!((3000..3010).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_record_times_its_call_out_and_the_connection_lives() {
    let (_, _, conn) = connect(|p| match (p.to_listener, p.number) {
        (true, 0) => Fate::Lose,
        _ => Fate::Deliver,
    })
    .await;
    assert_eq!(
        conn.call(call(ECHO, b""), SOON).await,
        Err(CallError::TimedOut)
    );
    assert_eq!(ask(&conn, ECHO, b"x").await, b"x");
}

#[tokio::test(start_paused = true)]
async fn a_doubled_call_is_executed_twice_and_one_reply_goes_unmatched() {
    let (service, context, conn) = connect(|p| match p.to_listener {
        true => Fate::Double,
        false => Fate::Deliver,
    })
    .await;
    service.gate.add_permits(2);
    assert_eq!(ask(&conn, GATED, b"x").await, b"x");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(service.waiting.load(SeqCst), 2);
    assert_eq!(context.counters().snapshot().replies_unmatched, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cut_ends_both_ends_and_loses_what_was_on_its_way() {
    let (service, _, conn) = connect(|p| match (p.to_listener, p.number) {
        (true, 0) => Fate::Delay(Duration::from_secs(1)),
        (true, 1) => Fate::Cut,
        _ => Fate::Deliver,
    })
    .await;
    let first = conn.call(call(GATED, b""), SOON);
    let second = conn.call(call(GATED, b""), SOON);
    let cut = Err(CallError::Closed(CloseReason::Injected));
    assert_eq!(tokio::join!(first, second), (cut.clone(), cut));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(service.waiting.load(SeqCst), 0);
    assert_eq!(*service.ended.lock(), [CloseReason::Injected]);
}
