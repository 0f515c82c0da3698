//! The cluster of one machine as configuration files: `DIR/mds/mds.toml`, `DIR/ds-1/ds.toml`, ...
//!
//! Files that are there are kept; an option changes only what it says. A cluster never loses a data server here.
//!
//! # Ordering
//! The files are written before the first server starts; each replaces its older version in one step.
//!
//! # Failure
//! A plan that contradicts what is in the directory is refused before anything is written.

use crate::cli::{UP_DS_DEFAULT, UpArgs};
use crate::config::{self, Checked, DsConfig, MdsConfig, StoreKind, TransportChoice};
use crate::daemon::make_dir;
use crate::failure::{Outcome, cannot, failed, usage};
use crate::logging::LogFormat;
use crate::rdma_provider::ProviderChoice;
use crate::traces::TRACES_EVERY;
use crate::up::dirs::UP_DS_MAX;
use crate::up::ports::{Ports, need_free};
use bytesize::ByteSize;
use serde::Serialize;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transport::tcp::Reservation;

const MDS_PORT_DEFAULT: u16 = 2049;
/// Memory of all data servers of `up --memory` together, where nothing else is said.
const MEMORY_TOTAL_DEFAULT: ByteSize = ByteSize::gib(4);
/// Memory of one data server of `up --memory`, at least.
const MEMORY_EACH_MIN: u64 = 64 * 1024 * 1024;
const HEADER: &str = "# Written by `ropewalk up`, which keeps what you change here.\n\n";

/// One server of the cluster: its place and its configuration.
#[derive(Debug, Clone)]
pub(crate) struct Member<C> {
    /// `mds`, `ds-1`, ...
    pub name: String,
    /// Its directory, which is its `state_dir` too.
    pub dir: PathBuf,
    /// Its configuration file.
    pub file: PathBuf,
    /// What the file says, or will say.
    pub config: C,
    /// Whether the file must be written.
    changed: bool,
}

impl<C> Member<C> {
    fn new(base: &Path, name: &str, file: &str, config: impl FnOnce(&Path) -> C) -> Self {
        let dir = base.join(name);
        let config = config(&dir);
        Self {
            name: name.to_owned(),
            file: dir.join(file),
            dir,
            config,
            changed: true,
        }
    }
}

/// The servers of one machine.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Where everything is.
    pub dir: PathBuf,
    /// The metadata server.
    pub mds: Member<MdsConfig>,
    /// The data servers, by number.
    pub ds: Vec<Member<DsConfig>>,
    /// Ports that were chosen for this plan; kept, since nobody listens there before the servers start and while one is started again.
    reserved: Arc<[Reservation]>,
}

impl Plan {
    /// What `args` want of the directory `dir`. Nothing is written.
    pub(crate) fn make(dir: &Path, args: &UpArgs) -> Outcome<Self> {
        // The servers run with other working directories in mind: paths in their files are absolute.
        let dir =
            std::path::absolute(dir).map_err(cannot(format_args!("use {}", dir.display())))?;
        let old = existing(&dir)?;
        let (is_new, mut mds) = match old.mds {
            Some(mds) => (false, mds),
            None => (
                true,
                Member::new(&dir, "mds", "mds.toml", |dir| new_mds(dir, args.memory)),
            ),
        };
        if !is_new && args.memory && mds.config.store == StoreKind::Disk {
            return Err(usage(format!(
                "--memory, but {} holds a cluster on disk: choose another --dir",
                dir.display()
            )));
        }
        let of_ds = |ds: &Member<DsConfig>| {
            [ds.config.listen.clone(), ds.config.rdma_listen.clone()].concat()
        };
        let taken: Vec<SocketAddr> = old.ds.iter().flat_map(of_ds).collect();
        let taken = taken
            .iter()
            .chain(&mds.config.control_listen)
            .chain(&mds.config.rdma_listen)
            .chain(&mds.config.admin_listen)
            .map(SocketAddr::port)
            .collect::<Vec<_>>();
        let mut ports = change_mds(&mut mds, is_new, args, taken)?;
        let mut plan = Self {
            dir,
            mds,
            ds: old.ds,
            reserved: Arc::default(),
        };
        plan.set_ds_count(args, &mut ports)?;
        plan.set_dashboard(args.dashboard, &mut ports)?;
        plan.set_transport(args.transport, &mut ports)?;
        plan.set_rdma_provider(args.rdma_provider);
        plan.set_rdma_crc(args.rdma_crc);
        plan.check()?;
        plan.reserved = ports.into_reserved().into();
        Ok(plan)
    }

    /// Where clients mount from.
    pub(crate) fn mount_address(&self) -> SocketAddr {
        self.mds.config.advertised()[0]
    }

    /// The addresses of this machine that servers listen on.
    fn listen_ips(&self) -> Vec<IpAddr> {
        let listening = ips(&self.mds.config.listen);
        if listening.iter().any(IpAddr::is_unspecified) {
            ips(self.mds.config.advertised())
        } else {
            listening
        }
    }

    /// Adds data servers up to what was asked for; fewer than there are is refused.
    fn set_ds_count(&mut self, args: &UpArgs, ports: &mut Ports) -> Outcome {
        let have = u16::try_from(self.ds.len()).unwrap_or(u16::MAX);
        let want = args
            .ds
            .unwrap_or(if have == 0 { UP_DS_DEFAULT } else { have });
        if want < have {
            return Err(usage(format!(
                "--ds {want}, but {} has data on {have} data servers: start with --ds {have} or more \
                 (files are striped over all of them)",
                self.dir.display()
            )));
        }
        let memory = self.mds.config.store == StoreKind::Memory;
        let memory_total = args.memory_size.unwrap_or(MEMORY_TOTAL_DEFAULT).as_u64();
        let memory_size = ByteSize((memory_total / u64::from(want)).max(MEMORY_EACH_MIN));
        for ds in self.ds.iter_mut().filter(|_| args.memory_size.is_some()) {
            ds.changed |= ds.config.memory_size != memory_size;
            ds.config.memory_size = memory_size;
        }
        let here = self.listen_ips();
        let control: Vec<_> = self
            .mds
            .config
            .control_advertised()
            .iter()
            .map(ToString::to_string)
            .collect();
        self.move_ds(&here, !args.listen.is_empty());
        for number in have + 1..=want {
            let port = ports.take(&here)?;
            let name = format!("ds-{number}");
            self.ds
                .push(Member::new(&self.dir, &name, "ds.toml", |dir| DsConfig {
                    state_dir: dir.to_owned(),
                    store: if memory {
                        StoreKind::Memory
                    } else {
                        StoreKind::Disk
                    },
                    memory_size,
                    listen: on(&here, port),
                    advertise: Vec::new(),
                    location: String::new(),
                    verify_reads: false,
                    scrub_interval: config::default_scrub_interval(),
                    mds: control.clone(),
                    join_token: None,
                    join_token_file: Some(dir.join("join.token")),
                    workers: 0,
                    connections_max: config::default_connections_max(),
                    connections_per_address_max: None,
                    idle_close: None,
                    busy_poll_us: config::default_busy_poll_us(),
                    clients: Vec::new(),
                    rdma_listen: Vec::new(),
                    rdma_provider: self.mds.config.rdma_provider,
                    rdma_crc: self.mds.config.rdma_crc,
                    rdma_inline: self.mds.config.rdma_inline,
                    rdma_advertise: Vec::new(),
                    metrics_listen: Vec::new(),
                    log: None,
                    log_format: LogFormat::default(),
                    traces_endpoint: None,
                    traces_every: TRACES_EVERY,
                }));
        }
        Ok(())
    }

    /// `--dashboard`: a port of loopback, kept from then on.
    fn set_dashboard(&mut self, is_wanted: bool, ports: &mut Ports) -> Outcome {
        let mds = &mut self.mds;
        if is_wanted && mds.config.admin_listen.is_empty() {
            let here = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
            mds.config.admin_listen = on(&here, ports.take(&here)?);
            mds.changed = true;
        }
        Ok(())
    }

    /// `--transport`, and RDMA listeners for servers that are new in a cluster that has it.
    fn set_transport(&mut self, wanted: Option<TransportChoice>, ports: &mut Ports) -> Outcome {
        let here = self.listen_ips();
        let port = self.mds.config.listen[0].port();
        let mds = &mut self.mds.config;
        let has_rdma = !mds.rdma_listen.is_empty();
        if let Some(choice) = wanted {
            self.mds.changed |= mds.data_transport != choice || mds.proxy_transport != choice;
            (mds.data_transport, mds.proxy_transport) = (choice, choice);
        }
        let wants_rdma = wanted.map_or(has_rdma, |choice| choice != TransportChoice::Tcp);
        if !wants_rdma {
            self.mds.changed |= has_rdma;
            mds.rdma_listen.clear();
        } else if !has_rdma {
            let port = match port {
                MDS_PORT_DEFAULT => transport::rdma::NFS_PORT,
                _ => ports.take(&here)?,
            };
            mds.rdma_listen = on(&here, port);
            self.mds.changed = true;
        } else if ips(&mds.rdma_listen) != here {
            mds.rdma_listen = on(&here, mds.rdma_listen[0].port());
            self.mds.changed = true;
        }
        for ds in &mut self.ds {
            let has_rdma = !ds.config.rdma_listen.is_empty();
            if wants_rdma == has_rdma {
                continue;
            }
            ds.config.rdma_advertise.clear();
            ds.config.rdma_listen = match wants_rdma {
                true => on(&here, ports.take(&here)?),
                false => Vec::new(),
            };
            ds.changed = true;
        }
        Ok(())
    }

    /// `--rdma-provider`.
    fn set_rdma_provider(&mut self, wanted: Option<ProviderChoice>) {
        let Some(provider) = wanted else {
            return;
        };
        self.mds.changed |= self.mds.config.rdma_provider != provider;
        self.mds.config.rdma_provider = provider;
        for ds in &mut self.ds {
            ds.changed |= ds.config.rdma_provider != provider;
            ds.config.rdma_provider = provider;
        }
    }

    /// `--rdma-crc`.
    fn set_rdma_crc(&mut self, wanted: Option<bool>) {
        let Some(crc) = wanted else {
            return;
        };
        self.mds.changed |= self.mds.config.rdma_crc != crc;
        self.mds.config.rdma_crc = crc;
        for ds in &mut self.ds {
            ds.changed |= ds.config.rdma_crc != crc;
            ds.config.rdma_crc = crc;
        }
    }

    /// `--listen` of an existing cluster moves its data servers too: clients must reach all of them. Addresses that
    /// somebody has added to one stay until then.
    fn move_ds(&mut self, here: &[IpAddr], is_asked: bool) {
        for ds in &mut self.ds {
            let has = ips(ds.config.advertised());
            if has == here || !is_asked && here.iter().all(|ip| has.contains(ip)) {
                continue;
            }
            let DsConfig {
                listen,
                advertise,
                rdma_listen,
                rdma_advertise,
                ..
            } = &mut ds.config;
            for list in [listen, advertise, rdma_listen, rdma_advertise] {
                *list = list.first().map_or(Vec::new(), |a| on(here, a.port()));
            }
            ds.changed = true;
        }
    }

    fn check(&self) -> Outcome {
        let at = |file: &Path, e: config::ConfigError| usage(format!("{}: {e}", file.display()));
        self.mds.config.check().map_err(|e| at(&self.mds.file, e))?;
        for ds in &self.ds {
            ds.config.check().map_err(|e| at(&ds.file, e))?;
        }
        Ok(())
    }

    /// Fails with the first port that somebody else has.
    pub(crate) fn need_free_ports(&self) -> Outcome {
        for address in &self.mds.config.listen {
            need_free(
                *address,
                "choose another with --port PORT, or end that program",
            )?;
        }
        for address in &self.mds.config.rdma_listen {
            need_free(*address, "end that program, or start with --transport tcp")?;
        }
        let in_file = |key: &str, file: &Path| {
            format!("end that program, or change `{key}` in {}", file.display())
        };
        for address in &self.mds.config.control_listen {
            need_free(*address, &in_file("control_listen", &self.mds.file))?;
        }
        for ds in &self.ds {
            for address in &ds.config.listen {
                need_free(*address, &in_file("listen", &ds.file))?;
            }
            for address in &ds.config.rdma_listen {
                need_free(*address, &in_file("rdma_listen", &ds.file))?;
            }
        }
        Ok(())
    }

    /// Makes the directories and writes the files that are new or changed.
    pub(crate) fn write(&mut self) -> Outcome {
        make_dir(&self.dir)?;
        write(&mut self.mds)?;
        self.ds.iter_mut().try_for_each(write)
    }
}

struct Existing {
    mds: Option<Member<MdsConfig>>,
    ds: Vec<Member<DsConfig>>,
}

/// The cluster that is in `dir` already.
fn existing(dir: &Path) -> Outcome<Existing> {
    fn load<C: Checked + for<'de> serde::Deserialize<'de>>(
        dir: &Path,
        name: &str,
        file: &str,
    ) -> Outcome<Option<Member<C>>> {
        let file = dir.join(name).join(file);
        if !file.exists() {
            return Ok(None);
        }
        let config = config::load(&file)?;
        Ok(Some(Member {
            name: name.to_owned(),
            dir: dir.join(name),
            file,
            config,
            changed: false,
        }))
    }
    let mds = load(dir, "mds", "mds.toml")?;
    let mut ds = Vec::new();
    for number in 1..=UP_DS_MAX {
        match load(dir, &format!("ds-{number}"), "ds.toml")? {
            Some(member) => ds.push(member),
            None => break,
        }
    }
    if mds.is_none() && !ds.is_empty() {
        return Err(failed(format!(
            "{} has data servers but no mds/mds.toml: restore that file, or choose another --dir",
            dir.display()
        )));
    }
    // A gap would leave later data servers out without a word.
    let next = ds.len() + 1;
    if let Some(lost) =
        (next..=usize::from(UP_DS_MAX)).find(|n| dir.join(format!("ds-{n}/ds.toml")).exists())
    {
        return Err(failed(format!(
            "{} has ds-{lost} but no ds-{next}/ds.toml: restore that file",
            dir.display()
        )));
    }
    Ok(Existing { mds, ds })
}

fn new_mds(dir: &Path, memory: bool) -> MdsConfig {
    let store = if memory {
        StoreKind::Memory
    } else {
        StoreKind::Disk
    };
    let root = Some(config::RootTable::for_invoker());
    MdsConfig {
        store,
        root,
        ..MdsConfig::at(dir)
    }
}

/// Applies the options to the metadata server's configuration and returns where further ports are looked for.
fn change_mds(
    mds: &mut Member<MdsConfig>,
    is_new: bool,
    args: &UpArgs,
    taken: Vec<u16>,
) -> Outcome<Ports> {
    let config = &mut mds.config;
    let before = toml::to_string(config).map_err(cannot("describe the configuration"))?;
    let old = config.listen.first().copied();
    if !args.export.is_empty() {
        config.exports.clone_from(&args.export);
    }
    let here = listen_ips(config, is_new, args)?;
    let mut ports;
    let port = match (args.port, old) {
        (Some(0), _) => {
            ports = Ports::anywhere(taken);
            ports.take(&here)?
        }
        (Some(port), _) => {
            ports = Ports::above(port, taken);
            port
        }
        (None, Some(old)) if !is_new => {
            ports = Ports::above(old.port(), taken);
            old.port()
        }
        _ => {
            ports = Ports::above(MDS_PORT_DEFAULT, taken);
            MDS_PORT_DEFAULT
        }
    };
    if is_new || !args.listen.is_empty() || args.port.is_some() {
        config.listen = on(&here, port);
        if !args.listen.is_empty() {
            config.advertise.clear();
        }
        config.advertise.iter_mut().for_each(|a| a.set_port(port));
    }
    if let Some(create) = args.create {
        config.placement.create = create;
    }
    if let Some(unit) = args.stripe_unit {
        config.stripe_unit = unit;
    }
    if let Some(copies) = args.copies {
        config.copies = copies;
    }
    config.nfs3 |= args.nfs3;
    config.register_rpcbind |= args.register_rpcbind;
    if is_new {
        // Data servers of the same machine: the control port stays on loopback.
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        config.control_listen = vec![SocketAddr::new(here, ports.take(&[here])?)];
    }
    let after = toml::to_string(config).map_err(cannot("describe the configuration"))?;
    mds.changed |= before != after;
    Ok(ports)
}

/// The addresses that the metadata server is to listen on.
fn listen_ips(config: &MdsConfig, is_new: bool, args: &UpArgs) -> Outcome<Vec<IpAddr>> {
    let here = match is_new {
        _ if !args.listen.is_empty() => args.listen.clone(),
        false => ips(&config.listen),
        true => vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
    };
    if let Some(ip) = args.listen.iter().find(|ip| ip.is_unspecified()) {
        return Err(usage(format!(
            "--listen {ip} names no address that clients can be told: name addresses of this machine"
        )));
    }
    let open = here.iter().find(|ip| !ip.to_canonical().is_loopback());
    if let (Some(ip), true) = (open, config.exports.is_empty()) {
        return Err(usage(format!(
            "--listen {ip} is beyond loopback: say who may mount, for example --export 10.0.0.0/8"
        )));
    }
    Ok(here)
}

/// One port on each of these addresses.
fn on(ips: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect()
}

fn ips(addresses: &[SocketAddr]) -> Vec<IpAddr> {
    addresses.iter().map(SocketAddr::ip).collect()
}

/// Writes a configuration file in one step.
fn write<C: Serialize>(member: &mut Member<C>) -> Outcome {
    make_dir(&member.dir)?;
    if !member.changed {
        return Ok(());
    }
    let text = toml::to_string(&member.config).map_err(cannot("describe the configuration"))?;
    let partial = member.file.with_extension("toml.new");
    let write = || {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        file.write_all(HEADER.as_bytes())?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&partial, &member.file)
    };
    write().map_err(cannot(format_args!("write {}", member.file.display())))?;
    member.changed = false;
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Goal: a plan keeps what is there, adds what is asked for, and refuses what would lose data.
    use super::*;

    fn args(port: u16) -> UpArgs {
        UpArgs {
            port: Some(port),
            ..UpArgs::default()
        }
    }

    fn made(dir: &Path, args: &UpArgs) -> Plan {
        let mut plan = Plan::make(dir, args).unwrap();
        plan.write().unwrap();
        plan
    }

    #[test]
    fn a_second_start_is_the_first_one_again() {
        let dir = tempfile::tempdir().unwrap();
        let first = made(
            dir.path(),
            &UpArgs {
                ds: Some(2),
                ..args(0)
            },
        );
        let again = Plan::make(dir.path(), &UpArgs::default()).unwrap();
        assert_eq!(again.ds.len(), 2);
        assert_eq!(again.mount_address(), first.mount_address());
        assert_eq!(again.ds[1].config.listen, first.ds[1].config.listen);
        assert!(!again.mds.changed && !again.ds[0].changed);
        let mut ports: Vec<u16> = first.ds.iter().map(|d| d.config.listen[0].port()).collect();
        ports.extend([
            first.mount_address().port(),
            first.mds.config.control_listen[0].port(),
        ]);
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 4, "{ports:?}");
    }

    #[test]
    fn rdma_comes_and_goes_with_its_option_and_stays_without_one() {
        let dir = tempfile::tempdir().unwrap();
        let with = |transport, ds| UpArgs {
            transport,
            ds: Some(ds),
            ..UpArgs::default()
        };
        let listens = |plan: &Plan| {
            let ds = plan
                .ds
                .iter()
                .filter(|ds| !ds.config.rdma_listen.is_empty());
            (plan.mds.config.rdma_listen.len(), ds.count())
        };
        let plain = made(
            dir.path(),
            &UpArgs {
                ds: Some(1),
                ..args(0)
            },
        );
        assert_eq!(listens(&plain), (0, 0));
        let auto = made(dir.path(), &with(Some(TransportChoice::Auto), 2));
        assert_eq!(listens(&auto), (1, 2));
        let kept = made(dir.path(), &with(None, 3));
        assert_eq!(listens(&kept), (1, 3));
        assert_eq!(kept.mds.config.rdma_listen, auto.mds.config.rdma_listen);
        let only = made(dir.path(), &with(Some(TransportChoice::Rdma), 3));
        assert_eq!(only.mds.config.data_transport, TransportChoice::Rdma);
        assert_eq!(only.ds[2].config.rdma_listen, kept.ds[2].config.rdma_listen);
        let tcp = made(dir.path(), &with(Some(TransportChoice::Tcp), 3));
        assert_eq!(listens(&tcp), (0, 0));
        assert_eq!(tcp.mds.config.proxy_transport, TransportChoice::Tcp);
    }

    #[test]
    fn provider_and_checksums_stay_as_they_were_set_last() {
        use ProviderChoice::{Auto, Iwarp, Verbs};
        let dir = tempfile::tempdir().unwrap();
        let set = |rdma_provider, rdma_crc, ds| {
            let args = UpArgs {
                rdma_provider,
                rdma_crc,
                ds: Some(ds),
                ..args(0)
            };
            let plan = made(dir.path(), &args);
            let ds = plan.ds.iter().map(|ds| ds.config.rdma());
            let mds = [plan.mds.config.rdma()];
            let wishes = mds.into_iter().chain(ds);
            let with_crc = wishes.map(|(choice, config)| (choice, config.crc));
            with_crc.collect::<Vec<_>>()
        };
        assert_eq!(set(None, None, 1), [(Auto, true); 2]);
        assert_eq!(set(Some(Verbs), Some(false), 1), [(Verbs, false); 2]);
        assert_eq!(set(None, None, 2), [(Verbs, false); 3]);
        assert_eq!(set(Some(Iwarp), Some(true), 2), [(Iwarp, true); 3]);
    }

    #[test]
    fn data_servers_are_added_and_never_dropped() {
        let dir = tempfile::tempdir().unwrap();
        made(
            dir.path(),
            &UpArgs {
                ds: Some(3),
                ..args(0)
            },
        );
        let fewer = Plan::make(
            dir.path(),
            &UpArgs {
                ds: Some(2),
                ..UpArgs::default()
            },
        );
        let text = fewer.unwrap_err().to_string();
        assert!(text.contains("--ds 3 or more"), "{text}");
        let more = made(
            dir.path(),
            &UpArgs {
                ds: Some(5),
                ..UpArgs::default()
            },
        );
        assert_eq!(more.ds.len(), 5);
        std::fs::remove_file(dir.path().join("ds-2/ds.toml")).unwrap();
        let gap = Plan::make(dir.path(), &UpArgs::default())
            .unwrap_err()
            .to_string();
        assert!(gap.contains("no ds-2/ds.toml"), "{gap}");
    }

    #[test]
    fn options_change_what_they_say_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let first = made(
            dir.path(),
            &UpArgs {
                ds: Some(1),
                ..args(0)
            },
        );
        let file = &first.mds.file;
        let text = std::fs::read_to_string(file).unwrap();
        std::fs::write(
            file,
            text.replace("lease_seconds = 60", "lease_seconds = 45"),
        )
        .unwrap();
        let unit = Some(ByteSize::kib(64));
        let then = made(
            dir.path(),
            &UpArgs {
                stripe_unit: unit,
                ..UpArgs::default()
            },
        );
        assert_eq!(then.mds.config.lease_seconds, 45);
        assert_eq!(then.mds.config.stripe_unit, ByteSize::kib(64));
        assert_eq!(then.mount_address(), first.mount_address());
    }

    #[test]
    fn what_is_open_to_others_needs_an_export() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |args: UpArgs| Plan::make(dir.path(), &args).unwrap_err();
        let beyond = UpArgs {
            listen: vec![[192, 0, 2, 1].into()],
            ..UpArgs::default()
        };
        let text = refused(beyond);
        assert!(text.to_string().contains("--export"), "{text}");
        assert_eq!(text.exit_code(), 2);
        let any = UpArgs {
            listen: vec![[0, 0, 0, 0].into()],
            ..UpArgs::default()
        };
        assert!(
            refused(any)
                .to_string()
                .contains("addresses of this machine")
        );
    }

    #[test]
    fn every_server_listens_on_every_address_and_moves_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |listen: &[[u8; 4]], ds| UpArgs {
            listen: listen.iter().map(|ip| IpAddr::from(*ip)).collect(),
            ds: Some(ds),
            transport: Some(TransportChoice::Auto),
            ..UpArgs::default()
        };
        let (one, two) = ([127, 0, 0, 1], [127, 0, 0, 2]);
        let lists = |plan: &Plan| {
            let ds =
                |ds: &Member<DsConfig>| [ds.config.listen.clone(), ds.config.rdma_listen.clone()];
            let mds = &plan.mds.config;
            let mut all = vec![mds.listen.clone(), mds.rdma_listen.clone()];
            all.extend(plan.ds.iter().flat_map(ds));
            all
        };
        let first = UpArgs {
            port: Some(0),
            ..at(&[one], 1)
        };
        let first = lists(&made(dir.path(), &first));
        let both = lists(&made(dir.path(), &at(&[one, two], 2)));
        let kept = made(dir.path(), &at(&[], 2));
        assert_eq!(lists(&kept), both);
        for list in &both {
            assert_eq!(ips(list), [IpAddr::from(one), IpAddr::from(two)]);
            assert_eq!(list[0].port(), list[1].port());
        }
        let single = lists(&made(dir.path(), &at(&[two], 2)));
        for (before, after) in first.iter().zip(&single) {
            assert_eq!(after[..], on(&[two.into()], before[0].port()));
        }
    }

    #[test]
    fn data_servers_share_memory_evenly() {
        let dir = tempfile::tempdir().unwrap();
        let sizes = |port, ds, memory_size| -> Vec<ByteSize> {
            let args = UpArgs {
                port,
                ds: Some(ds),
                memory: true,
                memory_size,
                ..UpArgs::default()
            };
            let plan = made(dir.path(), &args);
            plan.ds.iter().map(|ds| ds.config.memory_size).collect()
        };
        let gib = |n| Some(ByteSize::gib(n));
        assert_eq!(sizes(Some(0), 2, None), [ByteSize::gib(2); 2]);
        // Those that are there get their share of another size too, and keep it when nothing is said.
        assert_eq!(sizes(None, 4, gib(4)), [ByteSize::gib(1); 4]);
        assert_eq!(sizes(None, 4, gib(16)), [ByteSize::gib(4); 4]);
        assert_eq!(sizes(None, 4, None), [ByteSize::gib(4); 4]);
        let least = sizes(None, 4, Some(ByteSize(1)));
        assert_eq!(least, [ByteSize(MEMORY_EACH_MIN); 4]);
    }

    #[test]
    fn memory_never_replaces_a_disk() {
        let dir = tempfile::tempdir().unwrap();
        made(dir.path(), &args(0));
        let memory = UpArgs {
            memory: true,
            ..UpArgs::default()
        };
        let text = Plan::make(dir.path(), &memory).unwrap_err().to_string();
        assert!(text.contains("on disk"), "{text}");
    }
}
