//! One change to files, or to whole trees.

use super::CliError;
use super::error::Failures;
use super::remote::Place;
use futures_util::{StreamExt, stream};

/// Changes in flight.
const CHANGES: usize = 16;
/// Most directories that wait.
const DIRS_WAITING_MAX: usize = 1 << 20;

/// Refuses work on a whole tree with root's rights. Names are looked up one by one, and the owner of a directory may put a
/// link in the place of one meanwhile.
pub(super) fn refuse_tree_as_admin(root: &Place) -> Result<(), CliError> {
    match root.url.is_admin() {
        true => Err(CliError::new(format!(
            "{}: not a whole tree with root's rights, as links in it could lead elsewhere; change its directories one by \
             one, or let its owner do it",
            root.url
        ))),
        false => Ok(()),
    }
}

/// Does `change` to a place; with `is_recursive` to all below as well, directories before what is in them. Symbolic links
/// below are left alone.
pub(super) async fn each(
    root: &Place,
    is_recursive: bool,
    failures: &mut Failures,
    change: impl AsyncFn(&Place) -> Result<(), CliError>,
) -> Result<(), CliError> {
    if is_recursive {
        refuse_tree_as_admin(root)?;
    }
    // As chown(1) -R does it: a link is no way into a tree.
    let found = root.client.lookup_link(root.path()).await;
    let metadata = found.map_err(CliError::cannot("find", &root.url))?.metadata;
    if is_recursive && metadata.is_symlink() {
        return Err(CliError::new(format!(
            "{} is a symbolic link; name what it leads to",
            root.url
        )));
    }
    failures.note(change(root).await)?;
    if !is_recursive || !metadata.is_dir() {
        return Ok(());
    }
    let mut waiting = vec![root.clone()];
    while let Some(dir) = waiting.pop() {
        let cannot = |e| CliError::cannot("read", &dir.url)(e);
        let mut reading = dir.client.read_dir(dir.path()).await.map_err(cannot)?;
        while let Some(page) = reading.next_page().await.map_err(cannot)? {
            let found = page.iter().filter(|e| !e.metadata.is_symlink());
            let below = found.map(|e| (dir.child(&e.name), e.metadata.is_dir()));
            let below: Vec<(Place, bool)> = below.collect();
            let change = &change;
            let mut changes = stream::iter(&below)
                .map(|(place, _)| change(place))
                .buffer_unordered(CHANGES);
            while let Some(done) = changes.next().await {
                failures.note(done)?;
            }
            drop(changes);
            waiting.extend(
                below
                    .into_iter()
                    .filter(|(_, d)| *d)
                    .map(|(place, _)| place),
            );
            if waiting.len() > DIRS_WAITING_MAX {
                let why = format!("{}: more than {DIRS_WAITING_MAX} directories wait", dir.url);
                return Err(CliError::new(why));
            }
        }
    }
    Ok(())
}
