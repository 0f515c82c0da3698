//! The page of a real metadata server: what the mock cannot prove, that both mean the same.

use crate::browser::Browser;
use crate::mock;
use crate::rig::{LoneMds, address, run};
use crate::{IS_IN, all_is_well};
use serde_json::Value;

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
