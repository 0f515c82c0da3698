//! The page of a real metadata server: what the mock cannot prove, that both mean the same.

use crate::browser::Browser;
use crate::mock;
use crate::rig::{LoneMds, Up, address, connect, pid_of, quick, run, signal, status};
use crate::{IS_IN, PATIENCE, all_is_well, sign_in};
use client::OpenOptions;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use tokio::task::block_in_place;

/// Longest time from navigation until the numbers of a cluster are drawn.
const DRAWN_MS_MAX: f64 = 1000.0;
/// One of so many loads must keep it: the machine has other things to do.
const LOADS_MAX: usize = 5;
/// Bytes of one write, and of the file that is written again and again.
const WRITE_BYTES: usize = 1 << 20;
const FILE_BYTES: u64 = 32 << 20;
/// A data server that is drained here.
const DRAINED: u64 = 2;

/// Signs in at a real server, reads its health and numbers, gives an order, sees it told, and stays while it restarts.
pub async fn a_real_server(browser: &Browser) {
    let (nfs, control, admin) = (address(), address(), address());
    let mut server = LoneMds::start(
        64,
        &format!(
            "store = 'disk'\nlisten = ['{nfs}']\ncontrol_listen = ['{control}']\nadmin_listen = ['{admin}']\n"
        ),
    );
    let dir = server.dir.path().to_str().unwrap().to_owned();
    let made = run(&[
        "access", "create", "page", "--role", "operator", "--dir", &dir,
    ]);
    let token = String::from_utf8(made.stdout).unwrap();
    // As `ropewalk up --dashboard` prints it.
    let url = format!("http://{admin}/#token={}", token.trim());
    browser.open(&url).await;
    browser.until("page", IS_IN).await;
    assert_eq!(browser.value("location.hash").await, "");
    assert_eq!(browser.text("#who").await, "page (operator)");
    let level = "document.getElementById('health').dataset.level";
    browser
        .until(
            "health",
            &format!("['green', 'yellow', 'red'].includes({level})"),
        )
        .await;
    browser
        .until(
            "rates",
            "(document.querySelector('#tiles dd')?.textContent ?? '').includes('B/s')",
        )
        .await;
    browser
        .until("the busiest", "!document.getElementById('top').hidden")
        .await;
    the_mock_has_the_fields_of_the_schema(browser).await;
    browser.click("#scrub").await;
    browser
        .until("question", "document.getElementById('confirm').open")
        .await;
    browser.click("#confirm-go").await;
    browser
        .until("answer", "!document.getElementById('confirm').open")
        .await;
    let events = "document.getElementById('events-table').innerText";
    browser
        .until(
            "the order among the events",
            &format!("{events}.includes('audit: done')"),
        )
        .await;
    browser.picture("real").await;
    all_is_well(browser).await;
    it_goes_on_after_a_restart(browser, &mut server).await;
}

/// The page tells of the loss, and then shows what the new process says.
async fn it_goes_on_after_a_restart(browser: &Browser, server: &mut LoneMds) {
    tokio::task::block_in_place(|| server.stop());
    browser
        .until("the loss", "!document.getElementById('lost').hidden")
        .await;
    tokio::task::block_in_place(|| server.resume());
    browser
        .until(
            "it goes on by itself",
            "document.getElementById('lost').hidden",
        )
        .await;
    browser.until("page", IS_IN).await;
    let facts = "document.getElementById('facts').textContent";
    browser
        .until("the new start", &format!("{facts}.includes('no. 2')"))
        .await;
    // How long it is up is told anew with each sample.
    for _ in 0..2 {
        let now = browser.value(facts).await;
        browser
            .until("numbers that move", &format!("{facts} !== {now}"))
            .await;
    }
}

/// What the mock tells of the busiest has each field that the server's document knows, and no other.
async fn the_mock_has_the_fields_of_the_schema(browser: &Browser) {
    let ask = "fetch('api/v1/openapi.json').then((answer) => answer.json()).then((all) => all.components.schemas)";
    let schemas = browser.value(ask).await;
    let names = |object: &Value| -> Vec<String> {
        let mut names: Vec<String> = object.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    let top = mock::top();
    for (schema, told) in [
        ("TopPage", &top),
        ("TopDirectory", &top["directories"][0]),
        ("TopClient", &top["clients"][0]),
        ("ToLevel", &mock::canned_status()["to_level"]),
    ] {
        assert_eq!(
            names(told),
            names(&schemas[schema]["properties"]),
            "{schema}"
        );
    }
}

/// A cluster as `ropewalk up --dashboard` starts it: what the page shows is what the servers have, and what it orders is done.
pub async fn a_real_cluster(browser: &Browser) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let up = block_in_place(|| {
        quick(dir);
        Up::start(dir, &["--ds", "3", "--dashboard"])
    });
    let line = up.ready.lines().find_map(|l| l.split_once("page:"));
    let url = line.unwrap().1.trim();
    let (page, operator) = url.split_once("#token=").unwrap();
    browser.open(url).await;
    browser.until("page", IS_IN).await;
    it_is_drawn_soon(browser).await;
    the_numbers_are_those_of_the_servers(browser, dir).await;
    browser.picture("cluster").await;
    a_viewer_sees_all_and_orders_nothing(browser, dir).await;
    browser.click("#sign-out").await;
    sign_in(browser, operator).await;
    browser.until("page", IS_IN).await;
    a_drain_that_is_confirmed_is_done(browser, dir).await;
    all_is_well(browser).await;
    a_killed_metadata_server_comes_back_to_the_page(browser, dir).await;
    all_is_well(browser).await;
    // Whatever comes next finds a page whose server is there.
    browser.open("about:blank").await;
    assert!(page.starts_with("http://127.0.0.1:"), "{page}");
    assert!(block_in_place(|| up.stop()).success());
}

async fn it_is_drawn_soon(browser: &Browser) {
    let mut all = Vec::new();
    for _ in 0..LOADS_MAX {
        browser.reload().await;
        let mark = "performance.getEntriesByName('drawn')";
        browser.until("drawn", &format!("{mark}.length")).await;
        let drawn_ms = browser.value(&format!("{mark}[0].startTime")).await;
        all.push(drawn_ms.as_f64().unwrap());
        if all.last() < Some(&DRAWN_MS_MAX) {
            break;
        }
    }
    println!("dashboard: {all:.0?} ms from navigation to drawn, of a real cluster");
    assert!(all.last() < Some(&DRAWN_MS_MAX), "{all:?} ms");
}

/// What `ropewalk status` says just now.
fn told(dir: &Path) -> Value {
    block_in_place(|| status(dir)).unwrap()
}

fn row(status: &Value, id: u64) -> &Value {
    let rows = status["mds"]["data_servers"].as_array().unwrap();
    rows.iter().find(|ds| ds["id"] == id).unwrap()
}

/// The cell of a table's row, by the words at the beginning of the row and the label of the column.
fn cell(table: &str, row: &str, label: &str) -> String {
    format!(
        "([...document.querySelectorAll('{table} tbody tr')].find((tr) => tr.children[0].textContent === '{row}')\
         ?.querySelector('[data-label=\"{label}\"]')?.textContent ?? '')"
    )
}

async fn the_numbers_are_those_of_the_servers(browser: &Browser, dir: &Path) {
    let before = told(dir);
    let address = before["mds"]["advertise"][0].as_str().unwrap();
    let client = connect(address.parse().unwrap(), "a client of the page").await;
    let file = client.open("/page", OpenOptions::create(0o644)).await;
    let file = file.unwrap();
    let (began, mut offset) = (Instant::now(), 0);
    // Until the page shows it: rates are means of some seconds.
    let written = "document.querySelectorAll('#tiles .tile')[1].querySelector('dd').textContent";
    let shows = format!("/^[0-9.]+ [KMG]iB\\/s$/.test({written})");
    while browser.value(&shows).await != true {
        let bytes = vec![7; WRITE_BYTES].into();
        file.write_sync_at(offset, bytes).await.unwrap();
        offset = (offset + WRITE_BYTES as u64) % FILE_BYTES;
        let seen = browser.value(written).await;
        assert!(began.elapsed() < PATIENCE, "{seen}");
    }
    let owner = "document.getElementById('clients-table').innerText";
    browser
        .until(
            "the client",
            &format!("{owner}.includes('a client of the page')"),
        )
        .await;
    let now = told(dir);
    for id in 1..=3 {
        let (row, name) = (row(&now, id), format!("DS {id}"));
        let shown = |label: &str| cell("#data-servers", &name, label);
        let address = row["addresses"][0].as_str().unwrap();
        for (label, text) in [("State", "serving"), ("Address", address)] {
            let is_it = format!("{} === '{text}'", shown(label));
            browser.until(label, &is_it).await;
        }
        let size = browser.value(&shown("Fill level")).await;
        assert!(size.as_str().unwrap().contains("iB"), "{size}");
    }
    let mount = browser.text("#facts").await;
    assert!(mount.contains(address), "{mount}");
    file.close().await.unwrap();
    client.close().await.unwrap();
}

/// The page has no buttons for a viewer, and the server takes no order that is made without them.
async fn a_viewer_sees_all_and_orders_nothing(browser: &Browser, dir: &Path) {
    let place = dir.to_str().unwrap();
    let made = block_in_place(|| {
        run(&[
            "access", "create", "looks", "--role", "viewer", "--dir", place,
        ])
    });
    let token = String::from_utf8(made.stdout).unwrap();
    browser.click("#sign-out").await;
    sign_in(browser, token.trim()).await;
    browser.until("page", IS_IN).await;
    assert_eq!(browser.text("#who").await, "looks (viewer)");
    browser
        .until(
            "servers",
            "document.querySelectorAll('#data-servers tbody tr').length === 3",
        )
        .await;
    let orders = "[...document.querySelectorAll('main button')].filter((b) => /drain|scrub|rebalance|evict/i.test(b.ariaLabel ?? b.textContent)).length";
    assert_eq!(browser.value(orders).await, 0);
    let order = format!(
        "fetch('api/v1/data-servers/{DRAINED}/drain', {{method: 'POST', body: '{{}}', headers: {{'Content-Type': 'application/json', \
         Authorization: `Bearer ${{sessionStorage.getItem('ropewalk.token')}}`}}}})\
         .then(async (answer) => [answer.status, (await answer.json()).detail])"
    );
    let said = browser.value(&order).await;
    assert_eq!(said[0], 403, "{said}");
    assert!(
        said[1].as_str().unwrap().contains("needs operator"),
        "{said}"
    );
    assert_eq!(row(&told(dir), DRAINED)["state"], "serving");
}

async fn a_drain_that_is_confirmed_is_done(browser: &Browser, dir: &Path) {
    let confirm = async |button: &str| {
        browser
            .until("button", &format!("document.querySelector(\"{button}\")"))
            .await;
        browser.click(button).await;
        browser
            .until(
                "a question that can be answered",
                "document.getElementById('confirm').open && document.getElementById('confirm-go')?.disabled === false",
            )
            .await;
    };
    let drain = format!("[aria-label='Drain data server {DRAINED}']");
    // Who thinks better of it orders nothing.
    confirm(&drain).await;
    browser.click("#confirm-cancel").await;
    assert_eq!(row(&told(dir), DRAINED)["state"], "serving");
    confirm(&drain).await;
    browser.click("#confirm-go").await;
    let state = cell("#data-servers", &format!("DS {DRAINED}"), "State");
    browser
        .until("draining", &format!("{state} === 'draining'"))
        .await;
    assert_eq!(row(&told(dir), DRAINED)["state"], "draining");
    let events = "document.getElementById('events-table').innerText";
    browser
        .until(
            "the order among the events",
            &format!("{events}.includes('audit: done')"),
        )
        .await;
    confirm(&format!("[aria-label='Undrain data server {DRAINED}']")).await;
    browser.click("#confirm-go").await;
    browser
        .until("serving", &format!("{state} === 'serving'"))
        .await;
    assert_eq!(row(&told(dir), DRAINED)["state"], "serving");
}

/// `ropewalk up` starts it again. The page tells of the loss, and goes on by itself with the new process.
async fn a_killed_metadata_server_comes_back_to_the_page(browser: &Browser, dir: &Path) {
    let before = told(dir);
    let pid = pid_of(&before, "mds").unwrap();
    // What the page says from now on, since the server may be back before anybody looks.
    let watch = "new MutationObserver(() => { window.told ||= !document.getElementById('lost').hidden; })\
                 .observe(document.getElementById('lost'), {attributes: true})";
    browser.value(&format!("({watch}, true)")).await;
    signal(pid, Signal::KILL);
    browser.until("the loss", "window.told").await;
    let boot = before["mds"]["boot"].as_u64().unwrap() + 1;
    let facts = "document.getElementById('facts').textContent";
    browser
        .until(
            "the new start",
            &format!("document.getElementById('lost').hidden && {facts}.includes('no. {boot}')"),
        )
        .await;
    let serving = "[...document.querySelectorAll('#data-servers tbody tr')].filter((tr) => tr.innerText.includes('serving')).length";
    browser
        .until("all data servers", &format!("{serving} === 3"))
        .await;
    assert_eq!(
        browser
            .value("document.getElementById('sign-in').hidden")
            .await,
        json!(true)
    );
}
