//! The layers of the workspace: an arrow points only down.
//!
//! The table here is the one that is enforced; docs/architecture/README.md shows the same table to people, and
//! this check fails when the two differ. Dependencies of tests may stay inside a layer, all others
//! only where [`SAME_LAYER`] names them. The crates of layers 0 and 1 also forbid unsafe code.

use crate::circles;
use crate::repo::{self, Result};
use serde_json::Value;
use std::path::PathBuf;

/// The crates of each layer, lowest first, by the name that the workspace gives them.
const LAYERS: [&[&str]; 9] = [
    &["xdr", "rpc", "nfs4", "nfs3", "nlm"],
    &[
        "control", "state", "layout", "rpcrdma", "model", "meta", "objects", "redo", "fabric",
        "parts",
    ],
    &[
        "transport",
        "meta-fjall",
        "objects-dir",
        "ring-log",
        "cluster-tls",
        "admin",
        "fabric-iwarp",
        "fabric-verbs",
        "powercut",
        "systemd",
    ],
    &["rpc-service", "client-table", "namespace"],
    &["session-client", "nfs3-client", "server", "cluster"],
    &["stripes", "foreign"],
    &["fs"],
    &["mds", "mds3", "ds", "client", "bench", "sim"],
    &["ropewalk", "xtask"],
];

/// Dependencies inside a layer: the codecs build on each other, the simulator runs whole roles, benchmarks run through our client.
const SAME_LAYER: &[(&str, &str)] = &[
    ("rpc", "xdr"),
    ("nfs4", "xdr"),
    ("nfs3", "xdr"),
    ("nlm", "xdr"),
    ("control", "layout"),
    ("parts", "layout"),
    ("parts", "control"),
    ("redo", "meta"),
    ("redo", "objects"),
    ("meta-fjall", "ring-log"),
    ("mds3", "mds"),
    ("sim", "mds"),
    ("sim", "mds3"),
    ("sim", "ds"),
    ("sim", "client"),
    ("bench", "client"),
];

/// Crates below this layer hold no unsafe code and neither a clock nor randomness.
pub(crate) const PURE_LAYERS_COUNT: usize = 2;

const DOCUMENT: &str = "docs/architecture/README.md";
const DOCUMENT_TABLE: &str = "| Layer | Crates | Rule |";
const DOCUMENT_SAME_LAYER: &str = "Inside a layer only these arrows exist:";
const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// One package of the workspace as far as layers care.
#[derive(Debug, Clone)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
    /// The root source files of its library and its programs.
    sources: Vec<PathBuf>,
}

#[derive(Debug, Clone)]
struct Dependency {
    name: String,
    only_tests: bool,
}

/// What docs/architecture/README.md says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Documented {
    /// Layer and crate, sorted.
    layers: Vec<(usize, String)>,
    /// From and to, sorted.
    same_layer: Vec<(String, String)>,
}

/// `cargo xtask layers`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Print the paths that make each circle of modules
    #[arg(long)]
    edges: bool,
}

/// Checks the layers.
pub(crate) fn run(args: &Args) -> Result<()> {
    let packages = packages()?;
    let mut problems = arrows(&packages);
    problems.extend(absent(&packages));
    problems.extend(circles::check(args.edges)?);
    problems.extend(document(&documented(&repo::read(DOCUMENT)?)?));
    for package in &packages {
        if layer_of(&package.name).is_some_and(|layer| layer < PURE_LAYERS_COUNT) {
            problems.extend(unsafe_allowed(package)?);
        }
    }
    repo::verdict("layers", &problems)?;
    println!("layers: {} crates, every arrow points down", packages.len());
    Ok(())
}

/// The layer of a crate, by its short name.
fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|crates| crates.contains(&name))
}

/// Whether the file at `path` belongs to a crate without clocks and randomness.
pub(crate) fn is_pure(path: &str) -> bool {
    let name = path.strip_prefix("crates/").and_then(|p| p.split_once('/'));
    name.and_then(|(name, _)| layer_of(name))
        .is_some_and(|layer| layer < PURE_LAYERS_COUNT)
}

fn short(package: &str) -> &str {
    package.strip_prefix("ropewalk-").unwrap_or(package)
}

fn packages() -> Result<Vec<Package>> {
    let text = repo::output(repo::cargo().args([
        "metadata",
        "--format-version=1",
        "--no-deps",
        "--locked",
    ]))?;
    parse_metadata(&text)
}

fn parse_metadata(text: &str) -> Result<Vec<Package>> {
    let bad = || "cargo metadata: unexpected form".to_owned();
    let metadata: Value = serde_json::from_str(text).map_err(|e| format!("cargo metadata: {e}"))?;
    let list = metadata["packages"].as_array().ok_or_else(bad)?;
    let names: Vec<&str> = list.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut packages = Vec::new();
    for package in list {
        let ours = |d: &&Value| d["name"].as_str().is_some_and(|name| names.contains(&name));
        let dependencies = package["dependencies"].as_array().ok_or_else(bad)?;
        let targets = package["targets"].as_array().ok_or_else(bad)?;
        packages.push(Package {
            name: short(package["name"].as_str().ok_or_else(bad)?).to_owned(),
            dependencies: dependencies
                .iter()
                .filter(ours)
                .map(|d| Dependency {
                    name: short(d["name"].as_str().unwrap_or_default()).to_owned(),
                    only_tests: d["kind"].as_str() == Some("dev"),
                })
                .collect(),
            sources: targets
                .iter()
                .filter(|t| is_root(&t["kind"]))
                .filter_map(|t| t["src_path"].as_str().map(PathBuf::from))
                .collect(),
        });
    }
    Ok(packages)
}

fn is_root(kind: &Value) -> bool {
    let kinds = kind.as_array().map(Vec::as_slice).unwrap_or_default();
    kinds.iter().any(|k| k == "lib" || k == "bin")
}

fn arrows(packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        let Some(from) = layer_of(&package.name) else {
            problems.push(format!("{} is in no layer", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            // A dependency in no layer is reported as a package of its own.
            let Some(to) = layer_of(&dependency.name) else {
                continue;
            };
            let pair = (package.name.as_str(), dependency.name.as_str());
            let itself = package.name == dependency.name;
            let fine =
                to < from || to == from && (dependency.only_tests || SAME_LAYER.contains(&pair));
            if !fine && !itself {
                let (a, b) = pair;
                problems.push(format!("{a} (layer {from}) depends on {b} (layer {to})"));
            }
        }
    }
    problems
}

fn absent(packages: &[Package]) -> Vec<String> {
    let exists = |name: &str| packages.iter().any(|p| p.name == name);
    LAYERS
        .iter()
        .flat_map(|crates| crates.iter())
        .filter(|name| !exists(name))
        .map(|name| format!("{name} is in the table but not in the workspace"))
        .collect()
}

fn unsafe_allowed(package: &Package) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for source in &package.sources {
        let text = std::fs::read_to_string(source)
            .map_err(|e| format!("cannot read {}: {e}", source.display()))?;
        if !text.lines().any(|line| line.trim() == FORBID_UNSAFE) {
            problems.push(format!("{} does not say {FORBID_UNSAFE}", package.name));
        }
    }
    Ok(problems)
}

/// Reads the table and the sentence of exceptions. Names stand between backticks.
fn documented(text: &str) -> Result<Documented> {
    let mut lines = text.lines();
    lines
        .find(|line| line.trim() == DOCUMENT_TABLE)
        .ok_or_else(|| format!("{DOCUMENT} has no table {DOCUMENT_TABLE:?}"))?;
    let mut documented = Documented::default();
    for line in lines.by_ref().take_while(|line| line.starts_with('|')) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(layer), Some(crates)) = (cells.next(), cells.next()) else {
            continue;
        };
        let Ok(layer) = layer.parse() else {
            continue;
        };
        let names = quoted(crates);
        documented
            .layers
            .extend(names.into_iter().map(|name| (layer, name)));
    }
    if let Some(line) = text
        .lines()
        .find_map(|line| line.strip_prefix(DOCUMENT_SAME_LAYER))
    {
        for arrow in quoted(line) {
            let (from, to) = arrow
                .split_once(" -> ")
                .ok_or_else(|| format!("{DOCUMENT}: `{arrow}` is not `crate -> crate`"))?;
            documented.same_layer.push((from.to_owned(), to.to_owned()));
        }
    }
    documented.layers.sort();
    documented.same_layer.sort();
    Ok(documented)
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn document(found: &Documented) -> Vec<String> {
    let mut problems = Vec::new();
    let mut layers = Vec::new();
    for (layer, crates) in LAYERS.iter().enumerate() {
        layers.extend(crates.iter().map(|name| (layer, (*name).to_owned())));
    }
    let same_layer: Vec<_> = SAME_LAYER
        .iter()
        .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()))
        .collect();
    let place = |(layer, name): &(usize, String)| format!("{name} in layer {layer}");
    let arrow = |(from, to): &(String, String)| format!("{from} -> {to}");
    differences(&mut problems, &layers, &found.layers, place);
    differences(&mut problems, &same_layer, &found.same_layer, arrow);
    problems
}

fn differences<T: PartialEq>(
    problems: &mut Vec<String>,
    code: &[T],
    document: &[T],
    name: impl Fn(&T) -> String,
) {
    for item in code.iter().filter(|item| !document.contains(item)) {
        problems.push(format!("{DOCUMENT} lacks {}", name(item)));
    }
    for item in document.iter().filter(|item| !code.contains(item)) {
        problems.push(format!("{DOCUMENT} has {}, the check lacks it", name(item)));
    }
}

#[cfg(test)]
mod tests {
    //! The check on small workspaces: what it must refuse, and that the real document reads.
    use super::*;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency = |&(name, only_tests): &(&str, bool)| Dependency {
            name: name.to_owned(),
            only_tests,
        };
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
            sources: Vec::new(),
        }
    }

    #[test]
    fn arrows_down_and_named_ones_inside_a_layer_pass() {
        let packages = [
            package("mds", &[("server", false), ("xdr", false)]),
            package("rpc", &[("xdr", false)]),
            package("meta-fjall", &[("meta", false), ("transport", true)]),
        ];
        assert_eq!(arrows(&packages), Vec::<String>::new());
    }

    #[test]
    fn arrows_up_and_sideways_are_refused() {
        let packages = [
            package("xdr", &[("transport", false)]),
            package("mds", &[("ds", false)]),
            package("layout", &[("server", true)]),
            package("novel", &[]),
        ];
        let expected = [
            "xdr (layer 0) depends on transport (layer 2)",
            "mds (layer 7) depends on ds (layer 7)",
            "layout (layer 1) depends on server (layer 4)",
            "novel is in no layer",
        ];
        assert_eq!(arrows(&packages), expected);
    }

    #[test]
    fn metadata_is_cut_to_the_workspace() {
        let text = r#"{"packages": [
            {"name": "ropewalk-rpc", "targets": [{"kind": ["lib"], "src_path": "/r/lib.rs"},
                                                 {"kind": ["test"], "src_path": "/r/t.rs"}],
             "dependencies": [{"name": "ropewalk-xdr", "kind": null},
                              {"name": "bytes", "kind": null},
                              {"name": "ropewalk-rpc", "kind": "dev"}]},
            {"name": "ropewalk-xdr", "targets": [], "dependencies": []}]}"#;
        let packages = parse_metadata(text).unwrap();
        assert_eq!(packages[0].name, "rpc");
        assert_eq!(packages[0].sources, [PathBuf::from("/r/lib.rs")]);
        let names: Vec<_> = packages[0]
            .dependencies
            .iter()
            .map(|d| (d.name.as_str(), d.only_tests))
            .collect();
        assert_eq!(names, [("xdr", false), ("rpc", true)]);
        assert!(parse_metadata("{}").is_err());
    }

    #[test]
    fn the_document_agrees_with_the_code() {
        let text = repo::read(DOCUMENT).unwrap();
        assert_eq!(document(&documented(&text).unwrap()), Vec::<String>::new());
        let moved = text.replace("`xdr`, `rpc`", "`rpc`");
        let problems = document(&documented(&moved).unwrap());
        assert_eq!(
            problems,
            ["docs/architecture/README.md lacks xdr in layer 0".to_owned()]
        );
        assert!(documented("no table").is_err());
    }

    #[test]
    fn pure_crates_are_told_by_their_path() {
        assert!(is_pure("crates/state/src/lib.rs"));
        assert!(!is_pure("crates/transport/src/lib.rs"));
        assert!(!is_pure("xtask/src/main.rs"));
    }
}
