//! The examples of `packaging`. Each of `packaging/etc` is a configuration, as it is and with all of its settings, and lacks
//! none.
//!
//! Tests only. A line of an example that begins with `#` and no space is a setting that is commented out.

use super::common::Checked;
use super::{DsConfig, MdsConfig};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;

const MDS: &str = include_str!("../../../../packaging/etc/mds.toml.example");
const DS: &str = include_str!("../../../../packaging/etc/ds.toml.example");

/// The example with its settings no longer commented out.
fn with_all_settings(example: &str) -> String {
    let shown = |line: &str| match line.strip_prefix('#') {
        Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting.to_owned(),
        _ => line.to_owned(),
    };
    example.lines().map(|line| shown(line) + "\n").collect()
}

fn parsed<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|e| panic!("{e}"))
}

/// All keys of `T`, as its parser names them to someone who misspelt one.
fn keys<T: DeserializeOwned>(misspelt: &str) -> BTreeSet<String> {
    let refused = toml::from_str::<T>(misspelt).err().expect("no such key");
    let allowed = refused.message().split_once("expected one of ");
    let allowed = allowed.expect("the parser names keys").1;
    let keys = allowed.split('`').skip(1).step_by(2).map(str::to_owned);
    keys.collect()
}

/// Keys of `table`, at its top.
fn said(table: &toml::Table) -> BTreeSet<String> {
    table.keys().cloned().collect()
}

#[test]
fn the_example_of_a_metadata_server_is_one_and_lacks_no_setting() {
    parsed::<MdsConfig>(MDS).check().unwrap();
    let text = with_all_settings(MDS);
    parsed::<MdsConfig>(&text).check().unwrap();
    let table: toml::Table = parsed(&text);
    assert_eq!(said(&table), keys::<MdsConfig>("nonsense = 1"));
    let export = table["export"][0].as_table().unwrap();
    let misspelt = "state_dir = '/s'\n[[export]]\nnonsense = 1";
    assert_eq!(said(export), keys::<MdsConfig>(misspelt));
    let root = table["root"].as_table().unwrap();
    assert_eq!(
        said(root),
        keys::<MdsConfig>("state_dir = '/s'\nroot.nonsense = 1")
    );
}

#[test]
fn the_example_of_a_data_server_is_one_and_lacks_no_setting() {
    parsed::<DsConfig>(DS).check().unwrap();
    let mut table: toml::Table = parsed(&with_all_settings(DS));
    assert_eq!(said(&table), keys::<DsConfig>("nonsense = 1"));
    // Only one of both may be said, and no token can stand in an example.
    table.remove("join_token").unwrap();
    parsed::<DsConfig>(&table.to_string()).check().unwrap();
}

#[test]
fn the_configurations_of_the_containers_are_some() {
    let mds = include_str!("../../../../packaging/container/mds.toml");
    parsed::<MdsConfig>(mds).check().unwrap();
    for ds in [
        include_str!("../../../../packaging/container/ds-1.toml"),
        include_str!("../../../../packaging/container/ds-2.toml"),
    ] {
        parsed::<DsConfig>(ds).check().unwrap();
    }
}

#[test]
fn what_an_example_calls_a_default_is_one() {
    let mds = |text: &str| effective(&parsed::<MdsConfig>(text).effective());
    let ds = |text: &str| effective(&parsed::<DsConfig>(text).effective());
    let [all_mds, all_ds] = [MDS, DS].map(with_all_settings);
    for (example, all, defaults) in [(MDS, mds(&all_mds), mds(MDS)), (DS, ds(&all_ds), ds(DS))] {
        let shown = all.iter().filter(|(key, _)| is_default(example, key));
        let shown: Vec<_> = shown.collect();
        assert!(shown.len() > 10);
        for (key, value) in shown {
            assert_eq!(Some(value), defaults.get(key), "{key}");
        }
    }
}

fn effective(config: &impl serde::Serialize) -> toml::Table {
    parsed(&toml::to_string(config).unwrap())
}

/// Whether the comment above a setting promises no mere example. Tables say so for all of their settings.
fn is_default(example: &str, key: &str) -> bool {
    let tables = ["export", "root", "placement", "foreign"];
    let before = example.split(&format!("\n#{key} = ")).next();
    let comment = before.and_then(|text| text.lines().last());
    !tables.contains(&key) && !comment.is_some_and(|line| line.ends_with("xample:"))
}
