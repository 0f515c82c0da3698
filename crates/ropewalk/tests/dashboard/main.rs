//! Goal: the dashboard works in a real browser, for whoever reads it and for whoever only has a keyboard, and gives the orders
//! that it says. Method: Chromium without a screen, and a server made up in [`mock`] that answers as the API does. It can be
//! replaced by a metadata server: the flows know its address, two tokens, and what it was asked.
//!
//! Without a browser there is nothing to test: that is said, and is a failure only where `CI=true`.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here is the failure of a test, and what it measures is told"
)]

mod browser;
#[path = "../../src/dashboard/mod.rs"]
mod dashboard;
mod mock;
mod real;
#[path = "../rig/mod.rs"]
mod rig;
mod week;

use browser::{Browser, DESKTOP};
use mock::{Mock, OPERATOR, VIEWER};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use thirtyfour::Key;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most bytes of the files of the page.
const PAGE_BYTES_MAX: u64 = 300_000;
/// The smallest screen, in pixels.
const PHONE: (u32, u32) = (360, 740);
/// Samples of the past for pictures.
const PICTURED_SECONDS: u64 = 600;

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_in_a_browser() {
    let missing = browser::missing();
    if !missing.is_empty() {
        let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!is_ci, "{missing:?} are missing; .ci/apt-packages has them");
        eprintln!(
            "skipped: {missing:?} are missing; `apt-get install chromium chromium-driver` brings them"
        );
        return;
    }
    let began = Instant::now();
    let profile = tempfile::tempdir().unwrap();
    let mut mock = Mock::start().await;
    if std::env::var_os("ROPEWALK_PICTURES").is_some() {
        mock.world().past = PICTURED_SECONDS;
    }
    let browser = Browser::start(profile.path()).await;
    signing_in(&browser, &mock).await;
    health_and_numbers(&browser, &mock).await;
    clients_and_eviction(&browser, &mock).await;
    drain(&browser, &mock).await;
    other_orders(&browser, &mock).await;
    events_and_the_busiest(&browser, &mock).await;
    an_event_between_the_list_and_the_stream(&browser, &mock).await;
    colours_and_a_phone(&browser).await;
    a_server_that_goes_away(&browser, &mut mock).await;
    a_revoked_token(&browser, &mock).await;
    a_viewer_with_a_keyboard(&browser, &mock).await;
    weight_and_time(&browser).await;
    week::a_page_that_stays_open(&browser, &mock).await;
    real::a_real_server(&browser).await;
    real::a_real_cluster(&browser).await;
    browser.stop().await;
    println!("dashboard: {} s", began.elapsed().as_secs());
}

/// Nothing went wrong in the page so far. Refused requests are no errors of the page.
async fn all_is_well(browser: &Browser) {
    assert_eq!(browser.wrong().await, json!([]));
}

async fn sign_in(browser: &Browser, token: &str) {
    browser
        .until("form", "document.activeElement.id === 'token'")
        .await;
    browser.fill("#token", token).await;
    browser.click("#sign-in-button").await;
}

const IS_IN: &str = "!document.getElementById('page').hidden";
const NUMBERS: &str = "document.querySelector('#tiles dd')?.textContent ?? '–'";

async fn signing_in(browser: &Browser, mock: &Mock) {
    browser.open(&mock.url()).await;
    sign_in(browser, "wrong").await;
    let said = "document.getElementById('sign-in-error').textContent";
    browser
        .until("refusal", &format!("{said}.includes('No such token.')"))
        .await;
    assert_eq!(browser.value("sessionStorage.length").await, 0);
    browser.picture("sign-in").await;
    sign_in(browser, OPERATOR).await;
    browser.until("page", IS_IN).await;
    assert_eq!(browser.text("#who").await, "operator-1 (operator)");
    // The token is kept in the tab alone.
    let kept = browser
        .value("[sessionStorage.length, localStorage.length, document.cookie]")
        .await;
    assert_eq!(kept, json!([1, 0, ""]));
    all_is_well(browser).await;
}

async fn health_and_numbers(browser: &Browser, mock: &Mock) {
    browser
        .until(
            "health",
            "document.getElementById('health').dataset.level === 'yellow'",
        )
        .await;
    assert_eq!(browser.text("#health-word").await, "yellow");
    let reasons = browser.text("#health-reasons").await;
    assert!(
        reasons.contains("Data server 2 has less than 10 % left"),
        "{reasons}"
    );
    assert!(
        reasons.contains("Add data servers or remove data before it is full."),
        "{reasons}"
    );
    assert_eq!(browser.value("document.title").await, "Yellow – Ropewalk");
    // Live: the number changes, and more than once.
    browser
        .until("rates", &format!("({NUMBERS}).includes('iB/s')"))
        .await;
    for _ in 0..2 {
        let now = browser.value(NUMBERS).await;
        browser
            .until("another number", &format!("({NUMBERS}) !== {now}"))
            .await;
    }
    browser
        .until(
            "a line",
            "document.querySelector('#throughput .line.s1').getAttribute('d')?.length > 20",
        )
        .await;
    browser
        .until(
            "words of a chart",
            "/Read: now .*, highest/.test(document.querySelector('#throughput svg').ariaLabel)",
        )
        .await;
    browser.until("latencies", "/Read.*rdma.*[µm]s/.test(document.getElementById('latency').innerText.replaceAll('\\n', ' '))").await;
    let servers = browser.text("#data-servers tbody").await;
    assert!(
        servers.contains("catching up") && !servers.contains("expelled"),
        "{servers}"
    );
    // Red comes by itself, and is announced.
    mock.world().health = Some(json!({"state": "red", "reasons": [
        {"level": "red", "text": "2 places on the last copy <b>x</b>", "action": "Bring back data server 4."},
    ]}));
    browser
        .until(
            "red",
            "document.getElementById('health').dataset.level === 'red'",
        )
        .await;
    let live = browser.text("#live").await;
    assert_eq!(live, "Health is red. 2 places on the last copy <b>x</b>.");
    browser.picture("red").await;
    mock.world().health = None;
    browser
        .until(
            "yellow",
            "document.getElementById('health').dataset.level === 'yellow'",
        )
        .await;
    all_is_well(browser).await;
}

async fn clients_and_eviction(browser: &Browser, mock: &Mock) {
    let first = "document.querySelector('#clients-table tbody th').textContent";
    let rows = "document.querySelectorAll('#clients-table tbody tr').length";
    browser
        .until(
            "a page",
            &format!("{rows} === 20 && {first} === '700000001'"),
        )
        .await;
    assert_eq!(
        browser
            .value("document.getElementById('clients-prev').disabled")
            .await,
        true
    );
    browser.click("#clients-next").await;
    browser
        .until("page 2", &format!("{first} === '700000015'"))
        .await;
    browser.click("#clients-next").await;
    browser
        .until(
            "page 3",
            &format!("{rows} === 20 && {first} === '700000029' && document.getElementById('clients-next').disabled"),
        )
        .await;
    browser.click("#clients-prev").await;
    browser.click("#clients-prev").await;
    browser
        .until("page 1", &format!("{first} === '700000001'"))
        .await;
    // What comes from the server is text.
    assert!(
        browser
            .text("#clients-table")
            .await
            .contains("<img src=x onerror=alert(1)>")
    );
    browser
        .click("#clients-table tbody tr:nth-child(3) button")
        .await;
    browser
        .until(
            "details",
            "document.getElementById('details').innerText.includes('frames.db')",
        )
        .await;
    browser
        .until("evict", "document.getElementById('evict')")
        .await;
    browser.picture("client").await;
    browser.click("#evict").await;
    browser
        .until("question", "document.getElementById('confirm').open")
        .await;
    assert!(browser.text("#confirm").await.contains("may be lost"));
    assert_eq!(mock.asked("POST"), []);
    browser.click("#confirm-go").await;
    browser
        .until(
            "done",
            "document.getElementById('toast').textContent.includes('evicted: 3 opens')",
        )
        .await;
    assert_eq!(mock.asked("POST").len(), 1);
    assert_eq!(mock.asked("POST /api/v1/clients/700000003/evict").len(), 1);
    all_is_well(browser).await;
}

async fn drain(browser: &Browser, mock: &Mock) {
    let button = "[aria-label='Drain data server 2']";
    let asked = || mock.asked("POST /api/v1/data-servers/2/drain");
    // The server would refuse it: the dry run says so before anything is ordered.
    mock.world().no_drain = Some("Too few data servers have room.");
    browser.click(button).await;
    browser
        .until(
            "refusal",
            "document.querySelector('#confirm .error').textContent.includes('Too few')",
        )
        .await;
    assert_eq!(
        browser
            .value("document.getElementById('confirm-go').disabled")
            .await,
        true
    );
    browser.keys(&Key::Escape.value().to_string()).await;
    browser
        .until("closed", "!document.getElementById('confirm').open")
        .await;
    browser
        .until(
            "the focus is back",
            "document.activeElement.ariaLabel === 'Drain data server 2'",
        )
        .await;
    mock.world().no_drain = None;
    the_answer_about_an_earlier_choice_comes_late(browser, mock).await;
    browser.click(button).await;
    browser
        .until(
            "allowed",
            "document.getElementById('confirm-go')?.disabled === false",
        )
        .await;
    let told = browser.text("#confirm").await;
    assert!(
        told.contains("24 places") && told.contains("gets no new ones"),
        "{told}"
    );
    browser.picture("drain").await;
    assert!(asked().iter().all(|order| order.body["dry_run"] == true));
    browser.click("#confirm-go").await;
    browser
        .until(
            "draining",
            "document.querySelector(\"[aria-label='Undrain data server 2']\")",
        )
        .await;
    let last = asked().pop().unwrap();
    assert_eq!(last.body, json!({"substitute": null, "dry_run": false}));
    all_is_well(browser).await;
}

/// Data server 3 cannot take the places, and "any" can, which takes the server longer to say.
async fn the_answer_about_an_earlier_choice_comes_late(browser: &Browser, mock: &Mock) {
    let is_off = "document.getElementById('confirm-go')?.disabled";
    mock.world().cannot_take = Some(3);
    browser.click("[aria-label='Drain data server 2']").await;
    browser
        .until("question", "document.getElementById('confirm').open")
        .await;
    browser
        .value("(() => { const s = document.getElementById('substitute'); s.value = '3'; s.dispatchEvent(new Event('change')); })()")
        .await;
    let refusal = "document.querySelector('#confirm .error').textContent === 'It has no room.'";
    browser.until("refusal", refusal).await;
    tokio::time::sleep(mock::SLOW * 2).await;
    assert_eq!(browser.value(is_off).await, true);
    assert_eq!(browser.value(refusal).await, true);
    browser.click("#confirm-cancel").await;
    mock.world().cannot_take = None;
}

async fn other_orders(browser: &Browser, mock: &Mock) {
    for (button, line, body) in [
        (
            "[aria-label='Undrain data server 2']",
            "data-servers/2/undrain",
            json!({}),
        ),
        ("#scrub", "scrub", json!({})),
        ("#rebalance", "rebalance", json!({"wanted": true})),
    ] {
        browser.click(button).await;
        browser
            .until("question", "document.getElementById('confirm').open")
            .await;
        browser.click("#confirm-go").await;
        browser
            .until("answer", "!document.getElementById('confirm').open")
            .await;
        let asked = mock.asked(&format!("POST /api/v1/{line}"));
        assert_eq!(asked.len(), 1, "{line}");
        assert_eq!(asked[0].body, body, "{line}");
    }
    browser
        .until(
            "it runs",
            "document.getElementById('rebalance').textContent === 'Stop rebalance…'",
        )
        .await;
    let told = browser.text("#copies-facts").await;
    assert!(told.contains("runs, about 2.53 TiB to move"), "{told}");
    all_is_well(browser).await;
}

async fn events_and_the_busiest(browser: &Browser, mock: &Mock) {
    let rows = "document.querySelectorAll('#events-table tbody tr')";
    browser
        .until("events", &format!("{rows}.length === 100"))
        .await;
    mock.world().events.push(mock::event(133));
    let newest = "document.querySelector('#events-table tbody tr').innerText";
    browser
        .until(
            "a new one",
            &format!("{newest}.includes('its lease has ended')"),
        )
        .await;
    browser.value("(() => { const l = document.getElementById('events-level'); l.value = 'error'; l.onchange(); })()").await;
    browser
        .until("errors", &format!("{rows}.length === 13"))
        .await;
    browser.value("(() => { const l = document.getElementById('events-level'); l.value = 'info'; l.onchange(); })()").await;
    // The server did not tell of the busiest, and is not asked again before it is started again.
    assert_eq!(
        browser.value("document.getElementById('top').hidden").await,
        true
    );
    assert_eq!(mock.asked("GET /api/v1/top").len(), 1);
    all_is_well(browser).await;
}

/// The page reads what there is, and follows then. What happens in between is told as well.
async fn an_event_between_the_list_and_the_stream(browser: &Browser, mock: &Mock) {
    let mut event = mock::event(134);
    event["text"] = json!("in between");
    mock.world().after_events = Some(event);
    browser.reload().await;
    browser
        .until(
            "the event in between",
            "document.querySelector('#events-table tbody tr')?.innerText.includes('in between')",
        )
        .await;
    all_is_well(browser).await;
}

/// The first three numbers of a colour: whether it is light.
async fn is_light(browser: &Browser) -> bool {
    let colour = browser
        .value("getComputedStyle(document.body).backgroundColor")
        .await;
    let colour = colour.as_str().unwrap().to_owned();
    let digits = colour
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse::<u32>().ok());
    digits.take(3).sum::<u32>() > 380
}

async fn colours_and_a_phone(browser: &Browser) {
    for (system, choice, light) in [
        ("light", "auto", true),
        ("dark", "auto", false),
        ("dark", "light", true),
        ("light", "dark", false),
        ("light", "auto", true),
    ] {
        browser.prefers(system).await;
        let choose = format!(
            "(() => {{ const t = document.getElementById('theme'); t.value = '{choice}'; t.dispatchEvent(new Event('change')); }})()"
        );
        browser.value(&choose).await;
        assert_eq!(is_light(browser).await, light, "{system} {choice}");
        if choice == "auto" {
            browser
                .long_picture(&format!("desktop-{system}"), DESKTOP.0)
                .await;
        }
    }
    browser.screen(PHONE).await;
    let width = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)";
    let fits = format!("innerWidth === {0} && {width} <= {0}", PHONE.0);
    browser.until("no scrolling to the side", &fits).await;
    browser.long_picture("phone", PHONE.0).await;
    browser.screen(PHONE).await;
    browser.click("[aria-label='Drain data server 1']").await;
    let fits = "document.getElementById('confirm').getBoundingClientRect().right <= innerWidth";
    browser.until("a dialog that fits", fits).await;
    browser.picture("phone-dialog").await;
    browser.click("#confirm-cancel").await;
    browser.screen(DESKTOP).await;
    all_is_well(browser).await;
}

async fn a_server_that_goes_away(browser: &Browser, mock: &mut Mock) {
    mock.go_away();
    browser
        .until("banner", "!document.getElementById('lost').hidden")
        .await;
    let said = browser.text("#lost").await;
    assert!(
        said.contains("No connection to the metadata server since"),
        "{said}"
    );
    assert_eq!(
        browser.value("document.title").await,
        "Not connected – Ropewalk"
    );
    browser
        .until(
            "a second try",
            "/Next try in [23] s/.test(document.getElementById('lost-next').textContent)",
        )
        .await;
    browser.picture("lost").await;
    // Another process: its counters begin anew, and it has learned to tell of the busiest.
    {
        let mut world = mock.world();
        world.boot += 1;
        world.has_top = true;
    }
    mock.resume().await;
    browser
        .until(
            "it goes on by itself",
            "document.getElementById('lost').hidden",
        )
        .await;
    browser
        .until(
            "busiest",
            "document.getElementById('top-clients').innerText.includes('node41')",
        )
        .await;
    the_busiest(browser).await;
    browser
        .until("title", "document.title === 'Yellow – Ropewalk'")
        .await;
    browser
        .until("rates", &format!("({NUMBERS}).includes('iB/s')"))
        .await;
    all_is_well(browser).await;
}

/// The busiest in both themes and on a phone, as tables for who does not see them.
async fn the_busiest(browser: &Browser) {
    let clients = browser.text("#top-clients").await;
    assert!(clients.contains("192.0.2.7"), "{clients}");
    let directories = browser.text("#top-directories").await;
    for part in ["/projects/render/scene-12", "7,999/s", "inode 815"] {
        assert!(directories.contains(part), "{part}: {directories}");
    }
    let about = browser.text("#top-about").await;
    assert!(
        about.contains("last 48 s") && about.contains("one operation in 16"),
        "{about}"
    );
    let tables = "[...document.querySelectorAll('#top table')].map((t) => [t.getAttribute('role'), t.caption.textContent, \
                  t.querySelectorAll('[role=columnheader]').length, t.querySelectorAll('[role=rowheader]').length])";
    assert_eq!(
        browser.value(tables).await,
        json!([
            ["table", "Busiest clients", 5, 2],
            ["table", "Busiest directories", 2, 2]
        ])
    );
    for system in ["light", "dark"] {
        browser.prefers(system).await;
        let reds = "[...document.querySelectorAll('#top td, #top-about')].map((n) => Number(getComputedStyle(n).color.match(/[0-9]+/)[0]))";
        let reds = browser.value(reds).await;
        let mut reds = reds
            .as_array()
            .unwrap()
            .iter()
            .map(|red| red.as_u64().unwrap());
        assert!(
            reds.all(|red| (red > 128) == (system == "dark")),
            "{system}"
        );
    }
    browser.prefers("light").await;
    browser.screen(PHONE).await;
    let width = "Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)";
    let fits = format!("innerWidth === {0} && {width} <= {0}", PHONE.0);
    browser.until("no scrolling to the side", &fits).await;
    browser.long_picture("phone-busiest", PHONE.0).await;
    browser.screen(DESKTOP).await;
}

async fn a_revoked_token(browser: &Browser, mock: &Mock) {
    mock.world().revoked.insert(OPERATOR);
    browser.click("#clients-next").await;
    browser
        .until("signed out", "!document.getElementById('sign-in').hidden")
        .await;
    let said = browser.text("#sign-in-error").await;
    assert_eq!(said, "You were signed out. The token is revoked.");
    assert_eq!(browser.value("sessionStorage.length").await, 0);
    mock.world().revoked.clear();
    all_is_well(browser).await;
}

/// Anew with each sample.
async fn the_time_left_is_told(browser: &Browser) {
    let footer = "document.getElementById('footer').textContent";
    let ends = browser.value(footer).await;
    assert!(
        ends.as_str().unwrap().contains("The token ends in "),
        "{ends}"
    );
    let counts_down =
        format!("({footer}) !== {ends} && document.getElementById('who').title !== ''");
    browser.until("less time", &counts_down).await;
}

/// The order of the focus, from the top of the page, and what a viewer finds there.
async fn a_viewer_with_a_keyboard(browser: &Browser, mock: &Mock) {
    // Some minutes are left, of which seconds are told.
    mock.world().expires_at -= 6900;
    browser.open(&mock.url()).await;
    browser
        .until(
            "the field has the focus",
            "document.activeElement.id === 'token'",
        )
        .await;
    browser.keys(VIEWER).await;
    browser.keys(&Key::Enter.value().to_string()).await;
    browser.until("page", IS_IN).await;
    browser.until("rows", "document.querySelector('#data-servers tbody tr') && document.querySelector('#clients-table tbody button')").await;
    the_time_left_is_told(browser).await;
    let orders = "[...document.querySelectorAll('button')].filter((b) => /drain|scrub|rebalance|evict/i.test(b.ariaLabel ?? b.textContent)).length";
    assert_eq!(browser.value(orders).await, 0);
    // Backwards out of the content, to the link that leads into it.
    browser
        .value("document.querySelector('.skip').focus()")
        .await;
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    let mut seen = Vec::new();
    for _ in 0..10 {
        browser.keys(&Key::Tab.value().to_string()).await;
        seen.push(browser.value("document.activeElement.id || document.activeElement.textContent.trim() || document.activeElement.tagName").await);
        assert_eq!(browser.value(outline).await, "solid", "{seen:?}");
    }
    let wanted: Vec<Value> = [
        "Health",
        "Performance",
        "Servers",
        "Copies",
        "Clients",
        "Events",
        "theme",
        "sign-out",
    ]
    .map(Value::from)
    .to_vec();
    assert_eq!(seen[..8], wanted);
    let all = browser
        .value("[...document.querySelectorAll('main, nav, header, footer')].length")
        .await;
    assert_eq!(all, 4);
    // A dialog by the keyboard: open, read, close.
    browser
        .value("document.querySelector('#clients-table tbody button').focus()")
        .await;
    browser.keys(&Key::Enter.value().to_string()).await;
    browser
        .until(
            "details",
            "document.getElementById('details').innerText.includes('frames.db')",
        )
        .await;
    assert_eq!(
        browser.value("document.getElementById('evict')").await,
        Value::Null
    );
    browser.keys(&Key::Enter.value().to_string()).await;
    browser
        .until("closed", "!document.getElementById('details').open")
        .await;
    assert_eq!(mock.asked("POST /api/v1/clients").len(), 1);
    all_is_well(browser).await;
}

/// What the page weighs, and how long it takes from navigation until the first numbers are drawn. The time is told, not judged.
async fn weight_and_time(browser: &Browser) {
    browser.reload().await;
    browser
        .until("drawn", "performance.getEntriesByName('drawn').length")
        .await;
    let bytes = browser
        .value("performance.getEntries().filter((e) => e.decodedBodySize && !e.name.includes('/api/')).reduce((n, e) => n + e.decodedBodySize, 0)")
        .await;
    let bytes = bytes.as_u64().unwrap();
    assert!((30_000..=PAGE_BYTES_MAX).contains(&bytes), "{bytes}");
    let drawn_ms = browser
        .value("Math.round(performance.getEntriesByName('drawn')[0].startTime)")
        .await;
    println!("dashboard: {bytes} bytes; {drawn_ms} ms from navigation to drawn");
    all_is_well(browser).await;
}
