//! Exports and their roots: which one a path is in, mounted when it is first used.
//!
//! A path is one of the server's. The export with the most of its first components has it, so that exports inside others work.
//! Of a path that is in none of them its beginnings are tried, since some servers do not list what they export.

use super::ports::{ask_port, at_port, peer};
use super::state::{Export, Exports, Inner3};
use crate::Error;
use crate::config::io_bytes;
use crate::path::components;
use nfs3::mount::MountStatus;
use nfs3_client::{Fh, MountClient, Nfs3Error, RpcError};
use rpc::{AcceptError, CallRefusal};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

impl Export {
    /// `None` for a path that nobody could mount.
    fn new(path: &[u8]) -> Option<Self> {
        let names = components(path).ok()?;
        Some(Self {
            path: path.to_vec(),
            names: names.into_iter().map(<[u8]>::to_vec).collect(),
            root: None,
        })
    }
}

/// Names of the longest path of an export that the server does not list.
const UNLISTED_NAMES_MAX: usize = 8;

/// The export that a path is in: the one with the most components.
fn export_of(list: &[Export], path: &VecDeque<Vec<u8>>) -> Option<usize> {
    let holds = |e: &Export| {
        e.names.len() <= path.len() && e.names.iter().zip(path).all(|(mine, its)| mine == its)
    };
    let all = list.iter().enumerate().filter(|(_, e)| holds(e));
    all.max_by_key(|(_, e)| e.names.len())
        .map(|(index, _)| index)
}

/// Whether the program is not where it was looked for.
fn is_elsewhere(e: &Nfs3Error) -> bool {
    let of = |why: &AcceptError| {
        matches!(
            why,
            AcceptError::ProgUnavail | AcceptError::ProgMismatch { .. }
        )
    };
    matches!(e, Nfs3Error::Rpc(RpcError::Refused(CallRefusal::Accepted(why))) if of(why))
}

impl Inner3 {
    /// The root of the export that the path is in; its components are taken from the path.
    pub(super) async fn start(&self, path: &mut VecDeque<Vec<u8>>) -> Result<Fh, Error> {
        while path.front().is_some_and(|name| name == b"..") {
            path.pop_front();
        }
        let mut exports = self.exports.lock().await;
        let list = self.list(&mut exports).await?;
        let index = match export_of(list, path) {
            Some(index) => index,
            None => self.unlisted(&mut exports, path).await?,
        };
        let root = self.root(&mut exports, index).await?;
        let used = exports.list.as_deref().map(|list| list[index].names.len());
        path.drain(..used.unwrap_or(0));
        Ok(root)
    }

    /// An export that the server does not list: the first beginning of the path that it lets this client mount.
    async fn unlisted(
        &self,
        exports: &mut Exports,
        path: &VecDeque<Vec<u8>>,
    ) -> Result<usize, Error> {
        let (Some(mount), Some(list)) = (&exports.mount, &mut exports.list) else {
            return Err(Error::Malformed("exports"));
        };
        let plain = path.iter().take_while(|name| *name != b"..");
        let names: Vec<&[u8]> = plain.take(UNLISTED_NAMES_MAX).map(Vec::as_slice).collect();
        for len in 0..=names.len() {
            let text = [b"/", names[..len].join(&b'/').as_slice()].concat();
            match self.wait(mount.mnt(&self.caller, &text)).await {
                Ok(_) => {
                    list.push(Export::new(&text).ok_or(Error::Path("no export has it"))?);
                    return Ok(list.len() - 1);
                }
                Err(Error::Mount(_)) => {}
                Err(e) => return Err(e),
            }
        }
        let names = list
            .iter()
            .map(|e| String::from_utf8_lossy(&e.path).into_owned());
        Err(Error::NotExported(names.collect()))
    }

    /// The root of `/`, or of the first export.
    pub(super) async fn any_root(&self) -> Result<Fh, Error> {
        let mut exports = self.exports.lock().await;
        let list = self.list(&mut exports).await?;
        let index = export_of(list, &VecDeque::new()).unwrap_or(0);
        if list.is_empty() {
            return Err(Error::NotExported(Vec::new()));
        }
        self.root(&mut exports, index).await
    }

    /// The list, asked for once.
    async fn list<'e>(&self, exports: &'e mut Exports) -> Result<&'e [Export], Error> {
        if exports.list.is_none() {
            let mount = MountClient::new(self.nfs.peer().clone());
            let (mount, told) = match self.ports.mount {
                Some(port) => {
                    let mount = self.mount_at(port)?;
                    let told = self.waited_exports(&mount).await;
                    (mount, told)
                }
                None => match self.waited_exports(&mount).await {
                    Err(e) if is_elsewhere(&e) => {
                        let mount = self.mount_at(self.mount_port().await?)?;
                        let told = self.waited_exports(&mount).await;
                        (mount, told)
                    }
                    told => (mount, told),
                },
            };
            let list: Vec<Export> = match told {
                Ok(told) => told.iter().filter_map(|e| Export::new(&e.dir)).collect(),
                Err(Nfs3Error::Rpc(RpcError::Refused(_))) => Vec::new(),
                Err(e) => return Err(e.into()),
            };
            exports.mount = Some(mount);
            exports.list = Some(list);
        }
        Ok(exports.list.as_deref().unwrap_or_default())
    }

    async fn waited_exports(
        &self,
        mount: &MountClient,
    ) -> Result<Vec<nfs3_client::Export>, Nfs3Error> {
        let _waiting = self.waits.enter(crate::WaitReason::Server);
        mount.exports(&self.caller).await
    }

    /// The port of MOUNT that the port mapper tells.
    async fn mount_port(&self) -> Result<u16, Error> {
        use nfs3::mount::{PROGRAM, VERSION};
        let addresses = &self.addresses;
        let asked = ask_port(&self.connector, &self.config, addresses, PROGRAM, VERSION);
        asked.await.ok_or(Error::Mount(MountStatus::NotSupp))
    }

    /// MOUNT at a port of its own.
    fn mount_at(&self, port: u16) -> Result<MountClient, Error> {
        let addresses: Vec<_> = self
            .addresses
            .iter()
            .filter_map(|a| at_port(a, port))
            .collect();
        if addresses.is_empty() {
            return Err(Error::Mount(MountStatus::NotSupp));
        }
        let peer = peer(&self.connector, &self.config, addresses);
        Ok(MountClient::new(peer))
    }

    /// The root of an export, mounted once.
    async fn root(&self, exports: &mut Exports, index: usize) -> Result<Fh, Error> {
        let (Some(mount), Some(list)) = (&exports.mount, &mut exports.list) else {
            return Err(Error::Malformed("exports"));
        };
        let export = &mut list[index];
        if let Some(root) = &export.root {
            return Ok(root.clone());
        }
        let mounted = self.wait(mount.mnt(&self.caller, &export.path)).await?;
        let info = self
            .wait(self.nfs.fsinfo(&self.caller, &mounted.fh))
            .await?;
        // No server has a reason to take less; one that says 0 says nothing.
        for (told, most) in [
            (info.rtmax, &self.read_bytes_max),
            (info.wtmax, &self.write_bytes_max),
        ] {
            let least = most.load(Relaxed).min(told);
            if told > 0 {
                most.store(io_bytes(least, None), Relaxed);
            }
        }
        export.root = Some(mounted.fh.clone());
        Ok(mounted.fh)
    }

    /// Tells the server that the mounts have ended.
    pub(super) async fn unmount(&self) {
        let exports = self.exports.lock().await;
        let Some(mount) = &exports.mount else { return };
        let mounted = exports.list.iter().flatten().filter(|e| e.root.is_some());
        for export in mounted {
            let _ = mount.umnt(&self.caller, &export.path).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_export_with_the_most_components_has_the_path() {
        let list: Vec<_> = ["/data", "/data/inner/", "/home"]
            .iter()
            .filter_map(|path| Export::new(path.as_bytes()))
            .collect();
        for (path, export) in [
            ("/data/x", Some(0)),
            ("/data", Some(0)),
            ("/data/inner/x/y", Some(1)),
            ("/data/innermost", Some(0)),
            ("/home", Some(2)),
            ("/", None),
            ("/database", None),
        ] {
            let names = components(path.as_bytes()).unwrap();
            let names = names.into_iter().map(<[u8]>::to_vec).collect();
            assert_eq!(export_of(&list, &names), export, "{path}");
        }
        let root = [Export::new(b"/").unwrap()];
        assert_eq!(export_of(&root, &VecDeque::new()), Some(0));
    }
}
