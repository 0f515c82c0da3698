//! A Linux kernel under QEMU: one with software iWARP (siw), the one client that mounts over RDMA without a device, or a newer one.
//!
//! User Mode Linux has no RDMA, and Debian's kernels have siw switched off. So QEMU runs Debian's kernel without hardware
//! virtualisation (slow: for correctness, never for speed) and siw's module is built from the matching source. A newer
//! kernel ([`super::newer`]) is the client that asks for what later RFCs have.
//! Everything is unpacked from packages below the harness's directory and nothing is installed: the guest's root is
//! the host's, with the unpacked packages over it. Entry points: [`Qemu::prepare`], [`Qemu::command`].

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Context, Failure, Result};
use super::initrd;
use super::net::Net;
use super::newer::{self, Suite};
use super::prepare::{Tools, guest_scripts, lock, remove_tree, unpack};
use super::process::output;

/// What is unpacked for a guest with siw: the kernel and what builds a module for it, QEMU, and the tools of the guest.
const SIW_PACKAGES: &[&str] = &[
    "linux-image-amd64",
    "linux-headers-amd64",
    "linux-source",
    "qemu-system-x86",
    "seabios",
    "rdmacm-utils",
    "ibverbs-providers",
    "nfs-common",
    "kmod",
    "busybox-static",
];

/// What is unpacked for a guest with a newer kernel, but the kernel.
const NEWER_PACKAGES: &[&str] = &[
    "qemu-system-x86",
    "seabios",
    "nfs-common",
    "nfs-kernel-server",
    "rpcbind",
    "kmod",
    "busybox-static",
];

/// Which kernel a guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// That of this Debian, with a module for siw.
    WithSiw,
    /// That of a later Debian, without RDMA.
    Newer(Suite),
}

impl Kernel {
    /// The folder of what is unpacked, and the packages.
    fn packages(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::WithSiw => ("siw", SIW_PACKAGES),
            Self::Newer(suite) => (suite.folder(), NEWER_PACKAGES),
        }
    }
}

/// What this machine must have to build siw and to pack the first file system.
pub(crate) const TOOLS: &[&str] = &["cpio", "gzip", "make", "strip", "tar", "xz"];

/// Directories of packages that Debian has merged into /usr, where the host has links.
const MERGED: &[&str] = &["bin", "sbin", "lib", "lib64"];

/// Modules that the first file system needs to reach the host's; what they depend on comes with them.
const BOOT_MODULES: &[&str] = &["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_net"];

/// siw's folder in the kernel's source.
const SIW_SOURCE: &str = "drivers/infiniband/sw/siw";

/// siw's module among the kernel's.
const SIW_MODULE: &str = "extra/siw.ko";

/// A kernel, an emulator and a root file system.
#[derive(Debug, Clone)]
pub(crate) struct Qemu {
    tools: Tools,
    root: PathBuf,
    made: PathBuf,
    release: String,
}

impl Qemu {
    /// Makes sure that everything is there: some 250 MB of packages, and a minute, the first time.
    pub(crate) fn prepare(tools: &Tools, kernel: Kernel) -> Result<Self> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(Failure::new("guests under QEMU are made for x86_64 only"));
        }
        let _lock = lock(tools.dir())?;
        let (name, packages) = kernel.packages();
        let root = unpack(tools.dir(), name, packages).map_err(|error| {
            Failure::new(format!(
                "the packages of the guest cannot be had (Debian's {}): {error}",
                packages.join(", ")
            ))
        })?;
        if let Kernel::Newer(suite) = kernel {
            newer::add_kernel(tools.dir(), &root, suite)?;
        }
        merge_usr(&root)?;
        let release = release(&root)?;
        let qemu = Self {
            tools: tools.clone(),
            // Made of what was unpacked, and unpacked again with it.
            made: root.join("made"),
            root,
            release,
        };
        match kernel {
            Kernel::WithSiw if !qemu.modules().join(SIW_MODULE).exists() => {
                remove_tree(&qemu.made)?;
                create_dir(&qemu.made)?;
                qemu.build_siw()?;
                qemu.index_modules()?;
            }
            Kernel::Newer(_) if !qemu.modules().join("modules.dep").exists() => {
                create_dir(&qemu.made)?;
                qemu.index_modules()?;
            }
            _ => {}
        }
        // Each time, since it takes a moment and its script may have changed.
        qemu.pack()?;
        Ok(qemu)
    }

    /// The harness's own tools.
    pub(crate) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The guest's kernel.
    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    fn initrd(&self) -> PathBuf {
        self.made.join("initrd.gz")
    }

    fn modules(&self) -> PathBuf {
        self.root.join("usr/lib/modules").join(&self.release)
    }

    /// kmod under one of its names: which of its tools it is.
    fn link(&self, name: &str) -> Result<PathBuf> {
        let link = self.made.join(name);
        if link.symlink_metadata().is_err() {
            symlink("../usr/bin/kmod", &link)
                .context(|| format!("cannot create {}", link.display()))?;
        }
        Ok(link)
    }

    /// Builds siw's module and puts it among the kernel's.
    fn build_siw(&self) -> Result<()> {
        eprintln!("building siw for Linux {}", self.release);
        let headers = self
            .root
            .join("usr/src/linux-headers-")
            .display()
            .to_string();
        let headers = PathBuf::from(format!("{headers}{}", self.release));
        // The package means to be at /usr/src.
        let makefile = headers.join("Makefile");
        let unable = || format!("cannot change {}", makefile.display());
        let text = fs::read_to_string(&makefile).context(unable)?;
        let place = format!("include {}/usr/src/", self.root.display());
        fs::write(&makefile, text.replace("include /usr/src/", &place)).context(unable)?;
        let source = find(&self.root.join("usr/src"), "linux-source-", ".tar.xz")?;
        let siw = self.made.join("siw");
        create_dir(&siw)?;
        output(
            Command::new("tar")
                .arg("-C")
                .arg(&siw)
                .arg("-xJf")
                .arg(&source)
                .args(["--strip-components=5", "--wildcards"])
                .arg(format!("*/{SIW_SOURCE}/*")),
        )?;
        output(
            Command::new("make")
                .arg("-C")
                .arg(&headers)
                .arg(format!("M={}", siw.display()))
                .args(["CONFIG_RDMA_SIW=m", "modules"]),
        )?;
        let module = siw.join("siw.ko");
        output(Command::new("strip").arg("-g").arg(&module))?;
        let place = self.modules().join("extra");
        create_dir(&place)?;
        // Last: it says that the rest is there.
        fs::copy(&module, self.modules().join(SIW_MODULE))
            .context(|| format!("cannot copy {}", module.display()))
            .map(drop)
    }

    /// Makes the index by which modprobe finds modules.
    fn index_modules(&self) -> Result<()> {
        let kmod = self.link("depmod")?;
        output(
            Command::new(kmod)
                .arg("-b")
                .arg(self.root.join("usr"))
                .arg(&self.release),
        )
        .map(drop)
    }

    /// Packs the first file system: busybox, a few modules and the script that leaves it.
    fn pack(&self) -> Result<()> {
        let tree = self.made.join("initrd");
        remove_tree(&tree)?;
        for dir in ["bin", "proc", "dev", "modules"] {
            create_dir(&tree.join(dir))?;
        }
        let copy = |from: &Path, to: &Path| {
            fs::copy(from, to)
                .context(|| format!("cannot copy {}", from.display()))
                .map(drop)
        };
        copy(
            &self.root.join("usr/bin/busybox"),
            &tree.join("bin/busybox"),
        )?;
        copy(&guest_scripts().join("qemu-boot.sh"), &tree.join("init"))?;
        let init = tree.join("init");
        fs::set_permissions(&init, Permissions::from_mode(0o755))
            .context(|| format!("cannot make {} executable", init.display()))?;
        let modprobe = self.link("modprobe")?;
        let listed = output(
            Command::new(modprobe)
                .args(["--show-depends", "--ignore-install", "-a", "-d"])
                .arg(self.root.join("usr"))
                .args(["-S", &self.release])
                .args(BOOT_MODULES),
        )?;
        let (mut order, mut modules): (Vec<String>, Vec<String>) = Default::default();
        for file in listed
            .lines()
            .filter_map(|line| line.strip_prefix("insmod "))
        {
            let file = Path::new(file.trim());
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if !order.contains(&name) {
                let packed = tree.join("modules").join(&name);
                copy(file, &packed)?;
                // busybox loads what is not compressed.
                let plain = match name.strip_suffix(".xz") {
                    None => name.clone(),
                    Some(plain) => {
                        output(Command::new("xz").arg("-d").arg(&packed))?;
                        plain.to_owned()
                    }
                };
                modules.push(plain);
                order.push(name);
            }
        }
        let list = tree.join("modules/order");
        fs::write(&list, modules.join("\n"))
            .context(|| format!("cannot write {}", list.display()))?;
        initrd::pack(&tree, &self.initrd())
    }

    /// The guest as a process: its console is the standard output.
    pub(crate) fn command(&self, net: &Net, job: &Path, taps: &[String], mem_mib: u32) -> Command {
        let root = self.root.join("usr");
        let share = |id: &str, path: &Path, mode: &str| {
            let path = path.display();
            [
                "-fsdev".to_owned(),
                format!("local,id={id},path={path},security_model=none,multidevs=remap{mode}"),
                "-device".to_owned(),
                format!("virtio-9p-pci,fsdev={id},mount_tag={id}"),
            ]
        };
        let mut command = net.command("env");
        command
            .arg(format!(
                "LD_LIBRARY_PATH={}/lib/x86_64-linux-gnu",
                root.display()
            ))
            .arg(root.join("bin/qemu-system-x86_64"))
            .arg("-L")
            .arg(root.join("share/qemu"))
            .arg("-L")
            .arg(root.join("share/seabios"))
            .args(["-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "max"])
            .args(["-smp", "1", "-m", &mem_mib.to_string()])
            .args(["-nodefaults", "-no-user-config", "-no-reboot"])
            .args(["-display", "none", "-serial", "stdio"])
            .arg("-kernel")
            .arg(
                self.root
                    .join("boot")
                    .join(format!("vmlinuz-{}", self.release)),
            )
            .arg("-initrd")
            .arg(self.initrd())
            .args(["-append", KERNEL_ARGUMENTS])
            .args(share("host", Path::new("/"), ",readonly=on"))
            .args(share("tools", &self.root, ",readonly=on"))
            .args(share("job", job, ""));
        for (number, tap) in taps.iter().enumerate() {
            command.arg("-netdev").arg(format!(
                "tap,id=net{number},ifname={tap},script=no,downscript=no"
            ));
            // A guest lost its network for good while it sent: with event indices a wake-up can be lost under emulation.
            command.arg("-device").arg(format!(
                "virtio-net-pci,netdev=net{number},mac={},romfile=,event_idx=off",
                Net::mac(tap)
            ));
        }
        command
    }
}

/// An oops ends the guest, so that it is seen. An emulated timer that is late on a busy machine must not: the kernel takes it for a
/// broken one (no_timer_check).
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr \
                                random.trust_cpu=on net.ifnames=0 no_timer_check";

fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).context(|| format!("cannot create {}", path.display()))
}

/// Moves what lies beside /usr into it: over the host's root these directories would hide links.
fn merge_usr(root: &Path) -> Result<()> {
    for name in MERGED {
        let (from, to) = (root.join(name), root.join("usr").join(name));
        if !from.exists() {
            continue;
        }
        create_dir(&to)?;
        let script = "cp -a \"$1/.\" \"$2/\" && rm -r \"$1\"";
        output(
            Command::new("sh")
                .args(["-c", script, "merge"])
                .arg(&from)
                .arg(&to),
        )?;
    }
    Ok(())
}

/// The release of the unpacked kernel.
fn release(root: &Path) -> Result<String> {
    let path = find(&root.join("boot"), "vmlinuz-", "")?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(name.trim_start_matches("vmlinuz-").to_owned())
}

/// The one file of a directory with such a name.
fn find(dir: &Path, start: &str, end: &str) -> Result<PathBuf> {
    let unable = || format!("cannot list {}", dir.display());
    for entry in fs::read_dir(dir).context(unable)? {
        let entry = entry.context(unable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(start) && name.ends_with(end) {
            return Ok(entry.path());
        }
    }
    Err(Failure::new(format!(
        "no {start}*{end} in {}",
        dir.display()
    )))
}
