//! Creates: durable ones against the bare store, a file's first life and its end by number of data servers, and small files.

use super::table::{Denominator, Protocol, Shape};
use super::trial::{Ground, Look, Stage, Trial};
use super::{Planning, Row};
use crate::BenchError;
use crate::bare::store::{OpenStore, StoreCreates};
use crate::nfs::cluster::Carrier;
use crate::nfs::create::Creates;
use crate::nfs::providers::OwnRdma;
use crate::nfs::stripes::{FirstLives, Part, WRITE_BYTES};
use crate::runner::Metric;
use meta::MetaStore;
use meta_fjall::FjallStore;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Data servers of the curve, and of that of `--quick`.
const DS_COUNTS: [u16; 5] = [1, 2, 4, 8, 16];
const DS_COUNTS_QUICK: [u16; 2] = [1, 16];
/// Sizes of the files of `small`: the metadata server wants what is below 32 KiB for itself.
const SMALL_FILES_BYTES: [usize; 3] = [4 * 1024, 16 * 1024, 60 * 1024];

pub(super) fn durable(planning: &Planning<'_>) -> Vec<Trial> {
    let trial = |shape: &Shape| {
        let title = "Durable creates";
        let mut trial = Trial::new(title, Ground::Disk, shape.connections);
        let bare = trial.add(bare_creates);
        let ours = trial.add(|stage| {
            Ok(Creates {
                cluster: stage.cluster(1, Carrier::Tcp),
            })
        });
        let to = (Denominator::BareStore, bare);
        trial.claim(shape, ours, to, Metric::RequestsPerSecond);
        trial
    };
    let shapes = planning.table.shapes(Row::Create);
    shapes.iter().map(trial).collect()
}

/// Creates alone, then whole first lives, and then their ends, each by number of data servers.
pub(super) fn stripes(planning: &Planning<'_>, row: Row) -> Vec<Trial> {
    let carrier = match row {
        Row::RdmaStripes => Carrier::Iwarp,
        _ => Carrier::Tcp,
    };
    let counts = planning.pick(DS_COUNTS.as_slice(), DS_COUNTS_QUICK.as_slice());
    let transport = carrier.transport();
    let (name, provider) = (transport.name(), OwnRdma::SOFTWARE.provider(transport));
    let title = format!("A file's first life, over {name} ({provider})");
    let mut trial = Trial::new(title, Ground::Tmpfs, 1);
    trial.look = Look::Curve(counts.to_vec());
    let p50 = Metric::LatencyP50Us;
    for (part, operation, metric) in [
        (Part::Create, "create", p50),
        (
            Part::Whole,
            "create, first write to every stripe, close",
            p50,
        ),
        (
            Part::Removal,
            "remove until clean",
            Metric::RequestsPerSecond,
        ),
    ] {
        let places: Vec<usize> = counts
            .iter()
            .map(|ds_count| trial.add(lives(*ds_count, carrier, part, WRITE_BYTES)))
            .collect();
        let shape = Shape {
            operation: operation.to_owned(),
            size_bytes: None,
            connections: 1,
            data_servers: counts[counts.len() - 1],
            carrier,
            protocol: Protocol::Nfs4,
        };
        let one = (Denominator::OneDataServer, places[0]);
        let most = places[places.len() - 1];
        trial.claim(&shape, most, one, metric);
    }
    vec![trial]
}

pub(super) fn small(_: &Planning<'_>) -> Vec<Trial> {
    let mut trial = Trial::new("Create, write, close", Ground::Tmpfs, 1);
    for write_bytes in SMALL_FILES_BYTES {
        let [layout, proxied] = [Part::Whole, Part::Proxied]
            .map(|part| trial.add(lives(1, Carrier::Tcp, part, write_bytes)));
        let shape = Shape {
            operation: "a file through the metadata server,".to_owned(),
            size_bytes: u32::try_from(write_bytes).ok(),
            connections: 1,
            data_servers: 1,
            carrier: Carrier::Tcp,
            protocol: Protocol::Nfs4,
        };
        let to = (Denominator::Layout, layout);
        trial.claim(&shape, proxied, to, Metric::LatencyP50Us);
    }
    vec![trial]
}

fn lives(
    ds_count: u16,
    carrier: Carrier,
    part: Part,
    write_bytes: usize,
) -> impl FnOnce(&Stage<'_>) -> Result<FirstLives, BenchError> {
    move |stage| {
        Ok(FirstLives {
            cluster: stage.any_cluster(ds_count, carrier),
            part,
            write_bytes,
        })
    }
}

/// The bare store's side of durable creates.
pub(super) fn bare_creates(stage: &Stage<'_>) -> Result<StoreCreates, BenchError> {
    let dir = stage.dir().to_owned();
    let open = move || {
        let store = TemporaryStore::open(&dir)?;
        Ok(Box::new(store) as Box<dyn OpenStore>)
    };
    Ok(StoreCreates::new("fjall", Box::new(open)))
}

/// A fjall store in a folder of its own, as the metadata server opens one.
struct TemporaryStore {
    store: Arc<FjallStore>,
    // Removed after the store.
    _dir: TempDir,
}

impl TemporaryStore {
    fn open(parent: &Path) -> Result<Self, BenchError> {
        let dir = crate::own::folder(parent).map_err(BenchError::io("make the store's folder"))?;
        let store = FjallStore::open(&dir.path().join("meta"), meta_fjall::Options::default())?;
        Ok(Self {
            store: Arc::new(store),
            _dir: dir,
        })
    }
}

impl OpenStore for TemporaryStore {
    fn store(&self) -> Arc<dyn MetaStore> {
        Arc::clone(&self.store) as Arc<dyn MetaStore>
    }
}

#[cfg(test)]
mod tests {
    //! The store of the bare side is durable, and gone afterwards.
    use super::*;
    use crate::Subject;
    use crate::load::Load;
    use std::time::Duration;

    #[test]
    fn the_bare_side_creates_in_fjall() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().to_owned();
        let open = move || {
            let store = TemporaryStore::open(&parent)?;
            Ok(Box::new(store) as Box<dyn OpenStore>)
        };
        let mut subject = StoreCreates::new("fjall", Box::new(open));
        let load = Load {
            connections_count: 8,
            warm_up: Duration::from_millis(10),
            measure: Duration::from_millis(200),
        };
        let sample = subject.run(&load).unwrap();
        assert!(sample.requests_count > 0);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "the store is left behind"
        );
    }
}
