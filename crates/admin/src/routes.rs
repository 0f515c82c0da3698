//! The table of routes: each command of [`crate::Request`] once.

use crate::caller::CallerRole;
use crate::caller::CallerRole::{Admin, Operator, Viewer};
use crate::route::ParamKind::{Bool, Number, Numbers, Text};
use crate::route::{Param, ParamKind, Route};
use http::Method;
use std::sync::LazyLock;

const fn param(name: &'static str, kind: ParamKind) -> Param {
    Param { name, kind }
}

const NONE: &[Param] = &[];
const DS: &[Param] = &[param("ds_id", Number)];
const SERVER: &[Param] = &[param("server_id", Number)];
const CLIENT: &[Param] = &[param("id", Text)];

/// Rows as they are written down: command, method and path, parameters, role, tag.
type Row = (
    &'static str,
    (Method, &'static str),
    &'static [Param],
    CallerRole,
    &'static str,
);

fn rows() -> Vec<Row> {
    let mut rows = watching();
    rows.extend(data_servers());
    rows.extend(nfs3_servers());
    rows.extend(clients());
    rows.extend(cluster());
    rows
}

fn watching() -> Vec<Row> {
    const PAGE: &[Param] = &[param("after", Number), param("limit", Number)];
    const LIMIT: &[Param] = &[param("limit", Number)];
    let get = |path| (Method::GET, path);
    vec![
        ("status", get("/status"), NONE, Viewer, "state"),
        ("health", get("/health"), NONE, Viewer, "state"),
        ("events", get("/events"), PAGE, Viewer, "state"),
        ("top", get("/top"), LIMIT, Viewer, "state"),
        ("config", get("/config"), NONE, Operator, "state"),
    ]
}

fn data_servers() -> Vec<Row> {
    const REMOVED: &[Param] = &[param("ds_id", Number), param("yes_lose_data", Bool)];
    let post = |command, path, params| {
        (
            command,
            (Method::POST, path),
            params,
            Operator,
            "data servers",
        )
    };
    let loss = (Method::GET, "/data-servers/{ds_id}/loss");
    let remove = (Method::DELETE, "/data-servers/{ds_id}");
    let expel = (Method::POST, "/data-servers/{ds_id}/expel");
    let rate = (Method::PUT, "/fill-rate");
    vec![
        post("ds-drain", "/data-servers/{ds_id}/drain", DS),
        post("ds-undrain", "/data-servers/{ds_id}/undrain", DS),
        post("ds-rebalance", "/rebalance", NONE),
        post("scrub", "/scrub", NONE),
        ("ds-loss", loss, DS, Viewer, "data servers"),
        ("ds-remove", remove, REMOVED, Admin, "data servers"),
        ("expel", expel, DS, Admin, "data servers"),
        ("fill-rate", rate, NONE, Operator, "data servers"),
    ]
}

fn nfs3_servers() -> Vec<Row> {
    const REMOVED: &[Param] = &[param("server_id", Number), param("force", Bool)];
    let add = (Method::POST, "/nfs3-servers");
    let drain = (Method::POST, "/nfs3-servers/{server_id}/drain");
    let undrain = (Method::POST, "/nfs3-servers/{server_id}/undrain");
    let remove = (Method::DELETE, "/nfs3-servers/{server_id}");
    vec![
        ("add-nfs3", add, NONE, Admin, "NFSv3 servers"),
        ("drain-nfs3", drain, SERVER, Operator, "NFSv3 servers"),
        ("undrain-nfs3", undrain, SERVER, Operator, "NFSv3 servers"),
        ("remove-nfs3", remove, REMOVED, Admin, "NFSv3 servers"),
    ]
}

fn clients() -> Vec<Row> {
    const PAGE: &[Param] = &[param("after", Text), param("limit", Number)];
    const PATH: &[Param] = &[param("path", Text)];
    const FILES: &[Param] = &[param("files", Numbers)];
    const HOST: &[Param] = &[param("host", Text)];
    let get = |path| (Method::GET, path);
    let post = |path| (Method::POST, path);
    let clients = "clients";
    let files = "files";
    vec![
        ("client-list", get("/clients"), PAGE, Viewer, clients),
        ("client-show", get("/clients/{id}"), CLIENT, Viewer, clients),
        (
            "client-evict",
            post("/clients/{id}/evict"),
            CLIENT,
            Operator,
            clients,
        ),
        ("nlm-hosts", get("/nlm-hosts"), NONE, Viewer, clients),
        (
            "nlm-free",
            post("/nlm-hosts/{host}/free"),
            HOST,
            Operator,
            clients,
        ),
        ("lock-list", get("/locks"), PATH, Viewer, files),
        ("file-paths", get("/file-paths"), FILES, Viewer, files),
    ]
}

fn cluster() -> Vec<Row> {
    const ACCESS: &[Param] = &[param("id", Number)];
    let get = |path| (Method::GET, path);
    let post = |path| (Method::POST, path);
    let access = "access";
    let cluster = "cluster";
    vec![
        ("token-create", post("/join-tokens"), NONE, Admin, cluster),
        ("token-list", get("/join-tokens"), NONE, Operator, cluster),
        ("key-rotate", post("/keys/rotate"), NONE, Admin, cluster),
        ("accept-state", post("/accept-state"), NONE, Admin, cluster),
        ("reload", post("/reload"), NONE, Admin, cluster),
        ("access-create", post("/access-tokens"), NONE, Admin, access),
        ("access-list", get("/access-tokens"), NONE, Admin, access),
        (
            "access-revoke",
            (Method::DELETE, "/access-tokens/{id}"),
            ACCESS,
            Admin,
            access,
        ),
    ]
}

/// The routes of all commands.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let route = |(command, (method, path), params, role, tag): Row| Route {
        command,
        method,
        path,
        params,
        role,
        tag,
    };
    rows().into_iter().map(route).collect()
});
