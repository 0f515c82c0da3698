//! A page that stays open for a week. The time passes as fast as the page takes what happens in it: it draws each sample, and
//! each event. Whatever it keeps has a limit, so that after all limits are reached it weighs what it weighed before.

use crate::all_is_well;
use crate::browser::Browser;
use crate::mock::Mock;
use serde_json::json;

/// Seconds that pass at a time. The page draws them within the patience of one wait.
const STEP_S: u64 = 250;
/// After so many steps all is full: charts have 660 points, and of events 512 are kept.
const STEPS_TO_FILL: u64 = 4;
/// Steps after that: six times as much as the largest limit.
const STEPS: u64 = 16;
/// The heap may differ by so much: what runs warm takes some. Events that were kept for ever would take twice as much.
const HEAP_BYTES_MAX: f64 = 300_000.0;
/// What the page is made of may differ by so much: rows come and go.
const PARTS_MAX: f64 = 100.0;

/// What the page weighs.
#[derive(Debug, Clone, Copy)]
struct Weight {
    heap_bytes: f64,
    nodes: f64,
    listeners: f64,
    /// Rows of events that are drawn.
    rows: u64,
}

/// After garbage is collected.
async fn weigh(browser: &Browser) -> Weight {
    browser.devtools("Performance.enable", json!({})).await;
    for _ in 0..2 {
        browser
            .devtools("HeapProfiler.collectGarbage", json!({}))
            .await;
    }
    let told = browser.devtools("Performance.getMetrics", json!({})).await;
    let metric = |name: &str| {
        let all = told["metrics"].as_array().unwrap();
        let found = all.iter().find(|metric| metric["name"] == name);
        found.unwrap()["value"].as_f64().unwrap()
    };
    let rows = "document.querySelectorAll('#events-table tbody tr').length";
    Weight {
        heap_bytes: metric("JSHeapUsedSize"),
        nodes: metric("Nodes"),
        listeners: metric("JSEventListeners"),
        rows: browser.value(rows).await.as_u64().unwrap(),
    }
}

async fn pass(browser: &Browser, mock: &Mock, steps: u64) {
    for _ in 0..steps {
        let last = mock.pass(STEP_S);
        let newest = "document.querySelector('#events-table tbody tr').innerText";
        browser
            .until("the last event", &format!("{newest}.includes('{last}')"))
            .await;
    }
}

/// Fills all that has a limit, and then lets more happen than all of it together.
pub async fn a_page_that_stays_open(browser: &Browser, mock: &Mock) {
    pass(browser, mock, STEPS_TO_FILL).await;
    let before = weigh(browser).await;
    pass(browser, mock, STEPS).await;
    let after = weigh(browser).await;
    println!(
        "dashboard: {} more samples and events: heap {:.0} KiB, then {:.0} KiB; {} nodes, then {}",
        STEPS * STEP_S,
        before.heap_bytes / 1024.0,
        after.heap_bytes / 1024.0,
        before.nodes,
        after.nodes
    );
    assert!(
        after.heap_bytes - before.heap_bytes < HEAP_BYTES_MAX,
        "{before:?} {after:?}"
    );
    assert!(
        after.nodes - before.nodes < PARTS_MAX,
        "{before:?} {after:?}"
    );
    assert!(
        after.listeners - before.listeners < PARTS_MAX,
        "{before:?} {after:?}"
    );
    assert_eq!((before.rows, after.rows), (100, 100));
    all_is_well(browser).await;
}
