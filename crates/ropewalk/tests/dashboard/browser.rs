//! Chromium without a screen, driven by chromedriver. Owns both processes.

use crate::PATIENCE;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thirtyfour::{By, ChromiumLikeCapabilities, DesiredCapabilities, WebDriver, WebElement};

/// What Debian calls them.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];
/// Size of the window.
pub const DESKTOP: (u32, u32) = (1440, 900);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(30);
/// What goes wrong in the page is kept there. It runs before anything of the page.
const WATCH: &str = r#"
    window.wrong = [];
    addEventListener("error", (e) => wrong.push(`error: ${e.message ?? e.target?.src ?? e.target?.href}`), true);
    addEventListener("unhandledrejection", (e) => wrong.push(`rejection: ${e.reason}`));
    addEventListener("securitypolicyviolation", (e) => wrong.push(`policy: ${e.violatedDirective} ${e.blockedURI}`));
    for (const name of ["error", "warn"]) console[name] = (...all) => wrong.push(`console.${name}: ${all.join(" ")}`);
"#;

/// A browser with one tab.
pub struct Browser {
    driver: WebDriver,
    /// It leads a group of processes, and its browser stays in it.
    chromedriver: Child,
}

/// What is missing for these tests on this machine.
pub fn missing() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    PROGRAMS
        .into_iter()
        .filter(|name| !is_there(name))
        .collect()
}

impl Browser {
    pub async fn start(profile: &std::path::Path) -> Self {
        let mut chromedriver = Command::new("chromedriver")
            .arg("--port=0")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(chromedriver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            let port = line.split_once("started successfully on port ")?.1;
            Some(port.trim_end_matches('.').to_owned())
        });
        // What else it prints must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        let mut wanted = DesiredCapabilities::chrome();
        for argument in [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--no-proxy-server",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            &format!("--window-size={},{}", DESKTOP.0, DESKTOP.1),
            &format!("--user-data-dir={}", profile.display()),
        ] {
            wanted.add_arg(argument).unwrap();
        }
        let url = format!("http://127.0.0.1:{}", port.expect("chromedriver starts"));
        let driver = WebDriver::new(&url, wanted).await.unwrap();
        let browser = Self {
            driver,
            chromedriver,
        };
        browser
            .devtools(
                "Page.addScriptToEvaluateOnNewDocument",
                json!({"source": WATCH}),
            )
            .await;
        browser.prefers("light").await;
        browser
    }

    pub async fn devtools(&self, method: &str, parameters: Value) -> Value {
        self.driver
            .cdp()
            .send_raw(method, parameters)
            .await
            .unwrap()
    }

    pub async fn open(&self, url: &str) {
        self.driver.goto(url).await.unwrap();
    }

    pub async fn reload(&self) {
        self.driver.refresh().await.unwrap();
    }

    /// What an expression of JavaScript is.
    pub async fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        let value = self.driver.execute(script, Vec::new()).await;
        value
            .unwrap_or_else(|e| panic!("{expression}: {e}"))
            .json()
            .clone()
    }

    /// The text of an element.
    pub async fn text(&self, css: &str) -> String {
        let value = self
            .value(&format!(
                "document.querySelector({})?.textContent ?? ''",
                json!(css)
            ))
            .await;
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    pub async fn until(&self, what: &str, expression: &str) {
        let began = Instant::now();
        while self.value(&format!("Boolean({expression})")).await != true {
            assert!(
                began.elapsed() < PATIENCE,
                "not seen: {what} ({expression}); {:?}",
                self.value("document.body.innerText.slice(0, 3000)").await
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn find(&self, css: &str) -> WebElement {
        let found = self.driver.find(By::Css(css)).await;
        found.unwrap_or_else(|e| panic!("{css}: {e}"))
    }

    /// Clicks what is in the middle of the screen then: not under the head of the page.
    pub async fn click(&self, css: &str) {
        let middle = format!(
            "document.querySelector({}).scrollIntoView({{block: 'center'}})",
            json!(css)
        );
        self.value(&middle).await;
        let done = self.find(css).await.click().await;
        done.unwrap_or_else(|e| panic!("{css}: {e}"));
    }

    /// Types into a field.
    pub async fn fill(&self, css: &str, text: &str) {
        self.find(css).await.send_keys(text).await.unwrap();
    }

    /// Presses keys, wherever the focus is.
    pub async fn keys(&self, keys: &str) {
        let chain = self.driver.action_chain().send_keys(keys);
        chain.perform().await.unwrap();
    }

    /// Size of the screen in pixels, as that of a phone where it is narrow.
    pub async fn screen(&self, (width, height): (u32, u32)) {
        let is_phone = width < 600;
        let scale = if is_phone { 2 } else { 1 };
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
            .await;
    }

    /// What the system of the user prefers. Without motion a click hits what it aims at.
    pub async fn prefers(&self, colours: &str) {
        let colours = json!({"name": "prefers-color-scheme", "value": colours});
        let motion = json!({"name": "prefers-reduced-motion", "value": "reduce"});
        let features = json!({"features": [colours, motion]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// A picture of what is on the screen, where somebody asked for pictures: `ROPEWALK_PICTURES=DIR`.
    pub async fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("ROPEWALK_PICTURES") {
            let file = std::path::Path::new(&folder).join(format!("{name}.png"));
            self.driver.screenshot(&file).await.unwrap();
        }
    }

    /// A picture of the whole page on a screen of that width.
    pub async fn long_picture(&self, name: &str, width: u32) {
        if std::env::var_os("ROPEWALK_PICTURES").is_some() {
            let height = self.value("document.documentElement.scrollHeight").await;
            let height = u32::try_from(height.as_u64().unwrap()).unwrap();
            self.screen((width, height)).await;
            // Charts are drawn anew with the next sample.
            tokio::time::sleep(Duration::from_millis(800)).await;
            self.picture(name).await;
        }
    }

    /// What went wrong in the page since it was loaded.
    pub async fn wrong(&self) -> Value {
        self.value("window.wrong").await
    }

    pub async fn stop(self) {
        self.driver.clone().quit().await.unwrap();
    }
}

impl Drop for Browser {
    /// Ends chromedriver and its browser, also when a test fails.
    fn drop(&mut self) {
        let _ = self.driver.clone().leak();
        let group = i32::try_from(self.chromedriver.id()).ok();
        if let Some(group) = group.and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.chromedriver.wait();
    }
}
