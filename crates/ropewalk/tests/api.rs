//! Goal: the API over the network does what the commands do, only for those who may, and as its document says. Method: the
//! real program, plain HTTP, and a validator of JSON schemas that is not ours.
#![allow(clippy::unwrap_used, reason = "tests unwrap")]

mod rig;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rig::{LoneMds, address, ropewalk, run, sentence};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

struct Api {
    server: LoneMds,
    address: SocketAddr,
    nfs: SocketAddr,
}

impl Api {
    fn start(more: &str) -> Self {
        let (nfs, control, address) = (address(), address(), address());
        let config = format!(
            "listen = ['{nfs}']\ncontrol_listen = ['{control}']\nadmin_listen = ['{address}']\n{more}"
        );
        Self {
            server: LoneMds::start(64, &config),
            address,
            nfs,
        }
    }

    fn dir(&self) -> &str {
        self.server.dir.path().to_str().unwrap()
    }

    /// A new token, by the admin socket.
    fn token(&self, role: &str, more: &[&str]) -> String {
        let arguments = [
            "access",
            "create",
            "test",
            "--role",
            role,
            "--dir",
            self.dir(),
        ];
        let output = run(&[&arguments[..], more].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn ask(&self, method: &str, target: &str, token: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let content = match body {
            "" => String::new(),
            _ => "Content-Type: application/json\r\n".to_owned(),
        };
        let length = body.len();
        write!(
            stream,
            "{method} /api/v1{target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\n{content}Content-Length: {length}\r\n\r\n{body}",
            self.address
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap())
    }

    /// A command over the network.
    fn command(&self, token: &str, arguments: &[&str]) -> Output {
        ropewalk()
            .args(arguments)
            .env("ROPEWALK_SERVER", self.address.to_string())
            .env("ROPEWALK_TOKEN", token)
            .output()
            .unwrap()
    }
}

/// The schema of an operation's answer, with all that it refers to.
fn answer_schema(document: &Value, operation: &Value) -> Value {
    let mut schema = operation["responses"]["200"]["content"]["application/json"]["schema"].clone();
    if schema.is_object() {
        schema["components"] = document["components"].clone();
    }
    schema
}

#[test]
fn the_document_is_openapi_and_answers_are_as_it_says() {
    let api = Api::start("");
    let token = api.token("admin", &[]);
    let (status, document) = api.ask("GET", "/openapi.json", "", "");
    assert_eq!(status, 200);
    let parsed = oas3::from_json(document.to_string()).unwrap();
    assert!(parsed.validate_version().is_ok());
    let mut looked_at = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = answer_schema(&document, operation);
            if schema.is_null() {
                continue;
            }
            let validator = jsonschema::draft202012::new(&schema).unwrap();
            let is_plain = operation["parameters"]
                .as_array()
                .is_none_or(|parameters| parameters.iter().all(|p| p["required"] != json!(true)));
            if method != "get" || !is_plain {
                continue;
            }
            let (status, answer) = api.ask("GET", path, &token, "");
            assert_eq!(status, 200, "{path}: {answer}");
            let errors: Vec<String> = validator
                .iter_errors(&answer)
                .map(|e| e.to_string())
                .collect();
            assert!(errors.is_empty(), "{path}: {errors:?}");
            looked_at += 1;
        }
    }
    assert!(looked_at >= 9, "{looked_at} answers");
}

/// The answer has the schema that the document has for this status of the operation.
fn is_as_documented(document: &Value, operation: &Value, (status, answer): (u16, &Value)) {
    let id = &operation["operationId"];
    let mut response = &operation["responses"][status.to_string()];
    assert!(response.is_object(), "{id}: {status} is not documented");
    if let Some(reference) = response["$ref"].as_str() {
        response = document
            .pointer(reference.trim_start_matches('#'))
            .unwrap_or_else(|| panic!("{reference}"));
    }
    let media_type = match status {
        200 => "application/json",
        _ => "application/problem+json",
    };
    let mut schema = response["content"][media_type]["schema"].clone();
    assert!(schema.is_object(), "{id}: {status} has no schema");
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(answer)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{id}: {status}: {answer}: {errors:?}");
}

/// A request of each operation that is not plain: target, body, status. `CLIENT` stands for the id of a client.
const ORDERS: [(&str, (&str, &str, u16)); 29] = [
    (
        "access-create",
        (
            "/access-tokens",
            "{\"name\":\"a\",\"role\":\"viewer\",\"ttl_seconds\":9}",
            200,
        ),
    ),
    ("access-revoke", ("/access-tokens/2", "", 200)),
    ("accept-state", ("/accept-state", "", 200)),
    (
        "add-nfs3",
        ("/nfs3-servers", "{\"target\":\"nowhere\"}", 400),
    ),
    ("client-evict", ("/clients/CLIENT/evict", "", 200)),
    ("client-show", ("/clients/CLIENT", "", 200)),
    ("drain-nfs3", ("/nfs3-servers/7/drain", "", 404)),
    (
        "ds-drain",
        ("/data-servers/7/drain", "{\"dry_run\":true}", 404),
    ),
    ("ds-loss", ("/data-servers/7/loss", "", 404)),
    ("ds-rebalance", ("/rebalance", "{\"wanted\":true}", 200)),
    ("ds-remove", ("/data-servers/7", "", 404)),
    ("ds-undrain", ("/data-servers/7/undrain", "", 404)),
    ("expel", ("/data-servers/7/expel", "", 404)),
    ("file-paths", ("/file-paths?files=1,2", "", 200)),
    ("fill-rate", ("/fill-rate", "{\"bytes_per_s\":0}", 200)),
    ("key-rotate", ("/keys/rotate", "", 200)),
    ("lock-list", ("/locks?path=/held", "", 200)),
    ("nlm-free", ("/nlm-hosts/nobody/free", "", 404)),
    ("reload", ("/reload", "", 200)),
    ("remove-nfs3", ("/nfs3-servers/7", "", 404)),
    ("scrub", ("/scrub", "", 200)),
    (
        "token-create",
        ("/join-tokens", "{\"ttl_seconds\":60}", 200),
    ),
    ("undrain-nfs3", ("/nfs3-servers/7/undrain", "", 404)),
    // Refusals of the same.
    ("client-show", ("/clients/7", "", 404)),
    ("client-show", ("/clients/nobody", "", 400)),
    ("access-revoke", ("/access-tokens/2", "", 404)),
    ("fill-rate", ("/fill-rate", "{\"bytes_per_s\":1}", 400)),
    ("reload", ("/reload", "no", 400)),
    ("lock-list", ("/locks?path=/nothing", "", 404)),
];

#[tokio::test(flavor = "multi_thread")]
async fn answers_to_orders_and_refusals_are_as_the_document_says() {
    let api = Api::start("[root]\nmode = '1777'\n");
    let token = api.token("admin", &[]);
    let client = rig::connect(api.nfs, "holder").await;
    let create = client::OpenOptions::create(0o644);
    let held = client.open("/held", create).await.unwrap();
    let (_, clients) = api.ask("GET", "/clients", &token, "");
    let id = clients["clients"][0]["id"].as_str().unwrap();
    let (_, document) = api.ask("GET", "/openapi.json", "", "");
    let mut operations = BTreeMap::new();
    for item in document["paths"].as_object().unwrap().values() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            operations.insert(name, (method.to_uppercase(), operation));
        }
    }
    // Who is evicted is there no more.
    let mut orders = ORDERS;
    orders.sort_by_key(|(name, _)| *name == "client-evict");
    for (name, (target, body, expected)) in orders {
        let (method, operation) = &operations[name];
        let target = target.replace("CLIENT", id);
        let (status, answer) = api.ask(method, &target, &token, body);
        assert_eq!(status, expected, "{name}: {answer}");
        is_as_documented(&document, operation, (status, &answer));
    }
    for (name, (method, _)) in &operations {
        let is_asked = ORDERS.iter().any(|(asked, _)| asked == name);
        assert!(is_asked || method == "GET", "{name} is not asked");
    }
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_to_their_end() {
    let api = Api::start("");
    // Each is an event too.
    let mut tokens: Vec<String> = (0..5).map(|_| api.token("viewer", &[])).collect();
    let token = tokens.remove(0);
    let mut clients = Vec::new();
    for n in 0..5 {
        clients.push(rig::connect(api.nfs, &format!("client {n}")).await);
    }
    let all = |path: &str, name: &str, limit: usize| -> Vec<Value> {
        let mut found = Vec::new();
        let mut after = String::new();
        loop {
            let target = format!("{path}?limit={limit}{after}");
            let (status, page) = api.ask("GET", &target, &token, "");
            assert_eq!(status, 200, "{target}: {page}");
            let rows = page[name].as_array().unwrap();
            assert!(rows.len() <= limit, "{target}: {page}");
            found.extend(rows.iter().map(|row| row["id"].clone()));
            match &page["next"] {
                Value::Null => return found,
                next => after = format!("&after={}", next.to_string().trim_matches('"')),
            }
            assert!(found.len() < 1000, "{path} has no end");
        }
    };
    let whole = all("/clients", "clients", 100);
    assert_eq!(whole.len(), 5);
    for limit in [1, 2, 5, 6] {
        assert_eq!(all("/clients", "clients", limit), whole, "{limit}");
    }
    // More may be told meanwhile, at the end.
    let whole = all("/events", "events", 100);
    assert!(whole.len() > 3, "{whole:?}");
    for limit in [1, 3, whole.len()] {
        assert!(
            all("/events", "events", limit).starts_with(&whole),
            "{limit}"
        );
    }
    drop(clients);
}

#[test]
fn roles_are_kept_and_a_token_ends_when_it_is_revoked_or_over() {
    let api = Api::start("");
    let viewer = api.token("viewer", &[]);
    let operator = api.token("operator", &[]);
    let (status, session) = api.ask("GET", "/session", &viewer, "");
    assert_eq!((status, &session["role"]), (200, &json!("viewer")));
    assert_eq!(api.ask("POST", "/scrub", &viewer, "").0, 403);
    assert_eq!(api.ask("POST", "/scrub", &operator, "").0, 200);
    assert_eq!(api.ask("POST", "/scrub", &operator, "").0, 200);
    let made = json!({"name": "x", "role": "admin"}).to_string();
    assert_eq!(api.ask("POST", "/access-tokens", &operator, &made).0, 403);
    let short = api.token("viewer", &["--ttl", "1s"]);
    rig::wait_for("expiry", || {
        let (status, problem) = api.ask("GET", "/status", &short, "");
        (status == 401).then(|| assert!(problem["detail"].as_str().unwrap().contains("expired")))
    });
    let listed = run(&["access", "list", "--json", "--dir", api.dir()]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["role"], "viewer");
    assert!(!listed.to_string().contains(&viewer));
    let id = listed[0]["id"].to_string();
    assert!(
        run(&["access", "revoke", &id, "--dir", api.dir()])
            .status
            .success()
    );
    assert_eq!(api.ask("GET", "/status", &viewer, "").0, 401);
    let again = run(&["access", "revoke", &id, "--dir", api.dir()]);
    assert!(sentence(&again).contains("there is no access token"));
}

#[test]
fn orders_and_tunnels_are_told_in_the_log_with_their_caller() {
    // The level has no say in it.
    let api = Api::start("log = 'error'\n[[export]]\nclients = '127.0.0.1'\n");
    let (admin, viewer) = (api.token("admin", &[]), api.token("viewer", &[]));
    assert_eq!(api.ask("POST", "/data-servers/7/drain", &admin, "").0, 404);
    assert_eq!(api.ask("POST", "/scrub", &admin, "").0, 200);
    assert_eq!(api.ask("POST", "/scrub", &viewer, "").0, 403);
    assert!(api.command(&admin, &["ls", "admin:/"]).status.success());
    let expected = [
        "audit: refused caller=\"test\" peer=\"127.0.0.1:PORT\" order=\"DsDrain { ds_id: 7, substitute: None, \
         dry_run: false }\" why=\"no data server of the cluster has this id\"",
        "audit: done caller=\"test\" peer=\"127.0.0.1:PORT\" order=\"Scrub\"",
        "audit: denied peer=Some(127.0.0.1:PORT) why=\"this token has the role viewer, and the request needs operator\"",
        "audit: a tunnel is open peer=\"admin test #1\"",
        "audit: a tunnel has ended peer=\"admin test #1\"",
    ];
    let told = rig::wait_for("the end of the tunnel", || {
        let (_, page) = api.ask("GET", "/events", &viewer, "");
        let texts = page["events"].as_array()?.iter();
        let texts = texts.filter_map(|event| event["text"].as_str());
        let told: Vec<String> = texts.map(without_ports).collect();
        told.iter()
            .any(|text| text.contains("tunnel has ended"))
            .then_some(told)
    });
    for line in expected {
        assert!(
            told.iter()
                .any(|text| without_ids(text) == without_ids(line)),
            "{line}: {told:#?}"
        );
    }
    let (_, status) = api.ask("GET", "/status", &viewer, "");
    let counters = &status["counters"];
    assert_eq!(
        (&counters["tunnels"], &counters["tunnels_opened"]),
        (&json!(0), &json!(1))
    );
}

/// A line of the log without the ports of callers.
fn without_ports(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:");
    let mut without = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        without += "127.0.0.1:PORT";
        without += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    without
}

/// The same without the number of the request: commands of the test count too.
fn without_ids(text: &str) -> String {
    let words = text.split(' ');
    let words = words.filter(|word| !word.starts_with("request_id="));
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_refusal_has_the_status_of_its_kind() {
    let api = Api::start("[[export]]\nclients = '127.0.0.1'\n");
    let token = api.token("admin", &[]);
    let long = format!("/locks?path={}", "x".repeat(300));
    for (method, target, body, status) in [
        ("POST", "/data-servers/7/drain", "", 404),
        ("POST", "/data-servers/7/drain", "{\"dry_run\":true}", 404),
        ("POST", "/data-servers/7/undrain", "", 404),
        ("DELETE", "/data-servers/7", "", 404),
        ("DELETE", "/data-servers/7?yes_lose_data=true", "", 404),
        ("POST", "/data-servers/7/expel", "", 404),
        ("GET", "/data-servers/7/loss", "", 404),
        ("POST", "/nfs3-servers/7/drain", "", 404),
        ("POST", "/nfs3-servers/7/undrain", "", 404),
        ("DELETE", "/nfs3-servers/7", "", 404),
        ("DELETE", "/nfs3-servers/7?force=true", "", 404),
        ("POST", "/nfs3-servers", "{\"target\":\"nowhere\"}", 400),
        ("GET", "/clients/7", "", 404),
        ("POST", "/clients/7/evict", "", 404),
        ("GET", "/clients/nobody", "", 400),
        ("POST", "/clients/nobody/evict", "", 400),
        ("GET", "/clients?after=nobody", "", 400),
        ("GET", "/clients?limit=-1", "", 400),
        ("POST", "/nlm-hosts/nobody/free", "", 404),
        ("GET", "/locks?path=/nothing", "", 404),
        ("GET", &long, "", 400),
        ("PUT", "/fill-rate", "{\"bytes_per_s\":1}", 400),
        (
            "POST",
            "/access-tokens",
            "{\"name\":\"\",\"role\":\"viewer\"}",
            400,
        ),
        (
            "POST",
            "/access-tokens",
            "{\"name\":\"a\",\"role\":\"viewer\",\"ttl_seconds\":0}",
            400,
        ),
        (
            "POST",
            "/access-tokens",
            "{\"name\":\"a\",\"role\":\"god\"}",
            400,
        ),
        ("DELETE", "/access-tokens/77", "", 404),
    ] {
        let (answered, problem) = api.ask(method, target, &token, body);
        assert_eq!(answered, status, "{method} {target} {body}: {problem}");
        assert_eq!(problem["type"], "about:blank", "{method} {target}");
        assert_eq!(problem["status"], status, "{method} {target}");
    }
    // The request makes sense; the file of the server does not.
    let config = api.server.dir.path().join("mds.toml");
    std::fs::write(&config, "nonsense").unwrap();
    assert_eq!(api.ask("POST", "/reload", &token, "").0, 409);
}

#[test]
fn commands_ask_over_the_network_and_tokens_outlive_a_restart() {
    let mut api = Api::start("store = 'disk'\n");
    let token = api.token("admin", &[]);
    let status = api.command(&token, &["status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("metadata server"), "{status:?}");
    let made = api.command(&token, &["token", "create"]);
    assert!(made.stdout.starts_with(b"rwj1."), "{made:?}");
    let viewer = api.token("viewer", &[]);
    let refused = api.command(&viewer, &["key", "rotate"]);
    assert!(sentence(&refused).contains("needs admin"), "{refused:?}");
    let mistyped = api.command("rwa1.abc", &["status"]);
    assert!(
        sentence(&mistyped).contains("begins with rwa1."),
        "{mistyped:?}"
    );
    let nothing = ropewalk()
        .args(["client", "list", "--server", &api.address.to_string()])
        .env_remove("ROPEWALK_TOKEN")
        .output()
        .unwrap();
    assert!(sentence(&nothing).contains("--token-file"), "{nothing:?}");
    api.server.restart();
    let listed = api.command(&token, &["client", "list", "--json"]);
    assert!(listed.status.success(), "{listed:?}");
}

/// Writes a certificate for `localhost`, its key and its CA into files of this directory.
fn write_certificate(dir: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &issuer).unwrap().pem();
    let write = |name: &str, text: String| {
        std::fs::write(dir.join(name), text).unwrap();
        let mode = Permissions::from_mode(0o600);
        std::fs::set_permissions(dir.join(name), mode).unwrap();
    };
    write("ca", ca);
    write("cert", leaf);
    write("key", key.serialize_pem());
}

#[test]
fn a_certificate_of_ones_own_is_shown_and_read_again_with_a_reload() {
    let files = tempfile::tempdir().unwrap();
    let (dir, path) = (files.path(), |name: &str| files.path().join(name));
    write_certificate(dir);
    let config = format!(
        "store = 'disk'\nadmin_cert = '{}'\nadmin_key = '{}'\n",
        path("cert").display(),
        path("key").display()
    );
    let mut api = Api::start(&config);
    let token = api.token("admin", &[]);
    let by_name = |api: &Api, ca: &str| {
        let server = format!("localhost:{}", api.address.port());
        let ca = path(ca);
        let arguments = ["client", "list", "--server", &server, "--ca-file"];
        api.command(&token, &[&arguments[..], &[ca.to_str().unwrap()]].concat())
    };
    assert!(by_name(&api, "ca").status.success());
    assert!(api.command(&token, &["status"]).status.success());
    std::fs::copy(path("ca"), path("old")).unwrap();
    write_certificate(dir);
    let reload = |api: &Api, more: &[&str]| {
        let arguments = ["reload", "--dir", api.dir()];
        run(&[&arguments[..], more].concat())
    };
    let reloaded = reload(&api, &[]);
    assert_eq!(reloaded.stdout, b"in force now: admin_cert\n");
    assert_eq!(reload(&api, &[]).stdout, b"nothing has changed\n");
    assert!(by_name(&api, "ca").status.success());
    let refused = sentence(&by_name(&api, "old"));
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    std::fs::set_permissions(path("key"), Permissions::from_mode(0o644)).unwrap();
    for more in [&[][..], &["--check"]] {
        let refused = sentence(&reload(&api, more));
        assert!(refused.contains("make it 600"), "{refused}");
    }
    assert!(by_name(&api, "ca").status.success());
    let config = api.server.dir.path().join("mds.toml");
    let started = run(&["mds", "--config", config.to_str().unwrap()]);
    assert!(!started.status.success());
    std::fs::set_permissions(path("key"), Permissions::from_mode(0o600)).unwrap();
    let kept = api.server.dir.path().join("mds/admin.pem");
    let before = std::fs::read(&kept).unwrap();
    api.server.restart();
    assert_eq!(std::fs::read(&kept).unwrap(), before);
    assert!(api.command(&token, &["status"]).status.success());
}

#[test]
fn an_administrator_does_what_root_could_while_every_export_squashes_root() {
    let api =
        Api::start("[[export]]\nclients = '127.0.0.1'\nsquash = 'all'\n[root]\nmode = '755'\n");
    let (admin, operator) = (api.token("admin", &[]), api.token("operator", &[]));
    let work = |arguments: &[&str]| {
        let done = api.command(&admin, arguments);
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    work(&["mkdir", "-m", "700", "admin:/project"]);
    let local = api.server.dir.path().join("local");
    std::fs::write(&local, "what is there").unwrap();
    work(&["cp", local.to_str().unwrap(), "admin:/project/file"]);
    work(&["chown", "1234:567", "admin:/project", "admin:/project/file"]);
    work(&["chmod", "640", "admin:/project/file"]);
    work(&["layout", "set", "--stripe-unit", "64KiB", "admin:/project"]);
    let stat: Value =
        serde_json::from_str(&work(&["stat", "--json", "admin:/project/file"])).unwrap();
    let stat = stat.to_string();
    assert!(stat.contains("1234") && stat.contains("567"), "{stat}");
    assert_eq!(work(&["cat", "admin:/project/file"]), "what is there");
    // By the socket too, and to nobody else.
    let by_socket = ropewalk()
        .args(["ls", "admin:/project"])
        .env("ROPEWALK_DIR", api.dir())
        .output()
        .unwrap();
    assert!(by_socket.stdout.starts_with(b"file"), "{by_socket:?}");
    let refused = api.command(&operator, &["ls", "admin:/project"]);
    assert!(sentence(&refused).contains("needs admin"), "{refused:?}");
    let nfs = format!("nfs://{}/project", api.nfs);
    let squashed = run(&["ls", &nfs]);
    assert!(!squashed.status.success(), "{squashed:?}");
}

#[test]
fn an_administrator_changes_and_removes_a_tree_and_nothing_outside_of_it() {
    let api = Api::start("[[export]]\nclients = '127.0.0.1'\nsquash = 'all'\n");
    let admin = api.token("admin", &[]);
    let work = |arguments: &[&str]| {
        let done = api.command(&admin, arguments);
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let owner = |path: &str| {
        let stat: Value = serde_json::from_str(&work(&["stat", "--json", path])).unwrap();
        let text = |field: &str| stat[0][field].as_str().unwrap().to_owned();
        (text("owner"), text("group"), stat[0]["mode"].clone())
    };
    let local = api.server.dir.path().join("local");
    std::fs::write(&local, "what is there").unwrap();
    let local = local.to_str().unwrap();
    work(&["mkdir", "-p", "admin:/tree/a/b", "admin:/outside"]);
    for file in ["admin:/tree/a/b/file", "admin:/outside/file"] {
        work(&["cp", local, file]);
    }
    work(&["ln", "-s", "/outside", "admin:/tree/link"]);
    work(&["ln", "-s", "../outside/file", "admin:/tree/a/link"]);
    work(&["ln", "admin:/outside/file", "admin:/tree/a/other-name"]);
    let outside = (owner("admin:/outside"), owner("admin:/outside/file"));

    let changed = api.command(
        &admin,
        &["chown", "-R", "--json", "1234:567", "admin:/tree"],
    );
    assert_eq!(changed.status.code(), Some(1), "{changed:?}");
    let said = String::from_utf8_lossy(&changed.stderr);
    assert!(
        said.contains("/tree/a/other-name is left as it is: it has 2 names"),
        "{said}"
    );
    // The tree, a, b and its file.
    let told: Value = serde_json::from_slice(&changed.stdout).unwrap();
    assert_eq!(told[0]["count"], 4, "{told}");
    work(&["chmod", "-R", "750", "admin:/tree/a/b"]);
    for path in ["admin:/tree/a/b", "admin:/tree/a/b/file"] {
        assert_eq!(
            owner(path),
            ("1234".to_owned(), "567".to_owned(), json!("0750"))
        );
    }
    let still = (owner("admin:/outside"), owner("admin:/outside/file"));
    assert_eq!(still, outside);
    // By itself it can be named.
    work(&["chown", "1234", "admin:/tree/a/other-name"]);
    assert_eq!(owner("admin:/outside/file").0, "1234");

    work(&["rm", "-r", "admin:/tree"]);
    assert_eq!(work(&["ls", "admin:/"]), "outside\n");
    assert_eq!(work(&["cat", "admin:/outside/file"]), "what is there");
}
