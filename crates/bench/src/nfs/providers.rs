//! Which RDMA provider carries requests: the devices of this machine where one can be used, else the software iWARP that is built in.
//!
//! It is the choice of the client commands: an address does not say who answers there, so devices are tried first. A cluster of our
//! own listens on an address of a device, where there is one, since no device is at loopback.

use super::transport::Transport;
use client::NfsUrl;
use fabric::Fabric;
use fabric_verbs::Verbs;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use transport::rdma::{Config, Rdma, RdmaConnector};
use transport::tcp::TcpConnector;
use transport::{Address, Connector, Context, NoService, TransportLimits};

/// Addresses of one host name that are tried.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// A server that does not take a connection for so long is not asked what carries requests to it.
const ASK_MAX: Duration = Duration::from_secs(10);
/// Addresses of this machine that are looked at.
const LOCAL_ADDRESSES_MAX: usize = 256;

/// The devices, if any can be used; looked at once, since each is opened for that.
static DEVICES: LazyLock<Option<Verbs>> = LazyLock::new(|| Verbs::open().ok());

/// What is tried at an address, in this order.
pub(crate) fn providers(address: IpAddr, crc: bool) -> Vec<Rdma> {
    let devices = DEVICES.map(|verbs| Arc::new(verbs) as Arc<dyn Fabric>);
    in_order(devices, address, crc)
}

fn in_order(devices: Option<Arc<dyn Fabric>>, address: IpAddr, crc: bool) -> Vec<Rdma> {
    let config = Config {
        crc,
        ..Config::default()
    };
    let software: Arc<dyn Fabric> = Arc::new(fabric_iwarp::Iwarp::default());
    let devices = devices.filter(|_| !address.to_canonical().is_loopback());
    let all = devices.into_iter().chain([software]);
    all.map(|fabric| Rdma::new(fabric, config)).collect()
}

/// What RDMA clusters of our own run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnRdma {
    name: &'static str,
    is_hardware: bool,
    /// Where servers listen, if that is on a device.
    pub(crate) device: Option<IpAddr>,
}

impl OwnRdma {
    /// Software iWARP, at loopback.
    pub(crate) const SOFTWARE: Self = Self {
        name: "software iWARP",
        is_hardware: false,
        device: None,
    };

    /// A device of this machine that has an address, else software iWARP.
    pub(crate) fn of_this_machine() -> Self {
        let Some(verbs) = *DEVICES else {
            return Self::SOFTWARE;
        };
        let has = |address| verbs.has(SocketAddr::new(address, 0));
        Self::choose(&verbs, &local_addresses(), has)
    }

    fn choose(devices: &dyn Fabric, addresses: &[IpAddr], has: impl Fn(IpAddr) -> bool) -> Self {
        let found = addresses.iter().find(|address| has(**address));
        found.map_or(Self::SOFTWARE, |address| Self {
            name: devices.name(),
            is_hardware: devices.is_hardware(),
            device: Some(*address),
        })
    }

    /// Who carries this transport, in words: a reader must know whether hardware does.
    pub(crate) fn provider(self, transport: Transport) -> String {
        match transport {
            Transport::Tcp => TCP_TEXT.to_owned(),
            Transport::Rdma => text(self.name, self.is_hardware),
        }
    }

    /// A transport's name where both stand beside each other.
    pub(crate) fn label(self, transport: Transport) -> String {
        match transport {
            Transport::Tcp => transport.name().to_owned(),
            Transport::Rdma => format!("{} ({})", transport.name(), self.name),
        }
    }
}

/// Who carries requests to the servers of a run.
#[derive(Debug, Clone)]
pub(crate) struct Carriers {
    /// RDMA to those of our own.
    pub(crate) own_rdma: OwnRdma,
    /// To the one that the user named, where it is known.
    pub(crate) given: Option<String>,
}

impl Default for Carriers {
    fn default() -> Self {
        Self {
            own_rdma: OwnRdma::SOFTWARE,
            given: None,
        }
    }
}

/// Who makes TCP.
const TCP_TEXT: &str = "sockets of the kernel";

fn text(name: &str, is_hardware: bool) -> String {
    match is_hardware {
        true => name.to_owned(),
        false => format!("{name}, not RDMA hardware"),
    }
}

/// The addresses of this machine that others reach, as `ip` tells them; none where there is no `ip`.
fn local_addresses() -> Vec<IpAddr> {
    let mut command = Command::new("ip");
    command.args(["-o", "address", "show", "up", "scope", "global"]);
    let output = command.stdin(Stdio::null()).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    addresses(&String::from_utf8_lossy(&text))
}

/// The addresses in lines such as `2: eth0    inet 192.0.2.7/24 brd ...`, those of IPv4 first.
fn addresses(text: &str) -> Vec<IpAddr> {
    let lines = text.lines().take(LOCAL_ADDRESSES_MAX);
    let mut found: Vec<IpAddr> = lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            words.find(|word| matches!(*word, "inet" | "inet6"))?;
            let (address, _bits) = words.next()?.split_once('/')?;
            address.parse().ok()
        })
        .collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found
}

/// Who carries requests to the server of a URL, as its transport says; nothing where it does not answer, which its clients will tell.
/// They try the same in the same order.
pub(crate) async fn at(url: &str) -> Option<String> {
    let url = NfsUrl::parse(url).ok()?;
    let asked = async {
        let found = tokio::net::lookup_host((url.host.as_str(), 0)).await.ok()?;
        let found: Vec<_> = found.take(ADDRESSES_MAX).collect();
        first(url.addresses(&found), |address| providers(address, true)).await
    };
    tokio::time::timeout(ASK_MAX, asked).await.ok().flatten()
}

/// The first provider that connects, in words.
async fn first(addresses: Vec<Address>, providers: impl Fn(IpAddr) -> Vec<Rdma>) -> Option<String> {
    let context = Context::new(TransportLimits::default());
    let closed = |conn: transport::ConnHandle| conn.close(transport::CloseReason::Asked);
    for address in addresses {
        let Address::Rdma(socket) = address else {
            let tcp = TcpConnector::new(context.clone());
            if let Ok(conn) = tcp.connect(&address, NoService::shared()).await {
                closed(conn);
                return Some(TCP_TEXT.to_owned());
            }
            continue;
        };
        for rdma in providers(socket.ip()) {
            let connector = RdmaConnector::new(context.clone(), vec![rdma.clone()]);
            if let Ok(conn) = connector.connect(&address, NoService::shared()).await {
                closed(conn);
                let fabric = rdma.fabric();
                return Some(text(fabric.name(), fabric.is_hardware()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    //! Goal: devices go first and are named, what has none is software iWARP. Method: the provider in memory stands for devices; this
    //! machine may have none.
    use super::*;
    use fabric::mem::MemFabric;
    use std::net::Ipv4Addr;
    use transport::rdma;
    use transport::workers::Shutdown;

    fn names(devices: Option<MemFabric>, address: &str) -> Vec<&'static str> {
        let devices = devices.map(|fabric| Arc::new(fabric) as Arc<dyn Fabric>);
        let providers = in_order(devices, address.parse().unwrap(), true);
        let names = providers.iter().map(|rdma| rdma.fabric().name());
        names.collect()
    }

    #[test]
    fn devices_are_tried_first_but_at_loopback() {
        let some = || Some(MemFabric::default());
        assert_eq!(names(some(), "192.0.2.1"), ["memory", "software iWARP"]);
        for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(names(some(), loopback), ["software iWARP"], "{loopback}");
        }
        assert_eq!(names(None, "192.0.2.1"), ["software iWARP"]);
    }

    #[test]
    fn clusters_of_our_own_listen_on_a_device_that_has_an_address() {
        let lines = "2: eth0    inet6 2001:db8::7/64 scope global\n\
                     2: eth0    inet 192.0.2.7/24 brd 192.0.2.255 scope global eth0\n3: x link\n";
        let here = addresses(lines);
        assert_eq!(
            here,
            ["192.0.2.7", "2001:db8::7"].map(|text| text.parse::<IpAddr>().unwrap())
        );
        let choose =
            |has: &str| OwnRdma::choose(&MemFabric::default(), &here, |a| a.to_string() == has);
        assert_eq!(choose("192.0.2.8"), OwnRdma::SOFTWARE);
        let on_device = choose("192.0.2.7");
        assert_eq!(on_device.device, Some(here[0]));
        assert_eq!(
            on_device.provider(Transport::Rdma),
            "memory, not RDMA hardware"
        );
        assert_eq!(on_device.label(Transport::Rdma), "rdma (memory)");
        assert_eq!(on_device.label(Transport::Tcp), "tcp");
        let hardware = OwnRdma {
            name: "RDMA devices",
            is_hardware: true,
            ..on_device
        };
        assert_eq!(hardware.provider(Transport::Rdma), "RDMA devices");
    }

    #[tokio::test]
    async fn the_provider_that_answers_is_named() {
        let (devices, software) = (MemFabric::default(), fabric_iwarp::Iwarp::default());
        let of = |fabric: Arc<dyn Fabric>| Rdma::new(fabric, Config::default());
        let both = [of(Arc::new(devices)), of(Arc::new(software))];
        let mut at = Vec::new();
        let never = Shutdown::new();
        for rdma in &both {
            let free = (Ipv4Addr::LOCALHOST, 0).into();
            let listener = rdma::listen(free, rdma).await.unwrap();
            at.push(listener.local());
            let context = Context::new(TransportLimits::default());
            let service = NoService::shared();
            let serving = rdma::serve(
                vec![listener],
                rdma.clone(),
                service,
                context,
                never.signal(),
            );
            tokio::spawn(serving);
        }
        let named = async |addresses: Vec<Address>| first(addresses, |_| both.to_vec()).await;
        let devices = named(vec![Address::Rdma(at[0])]).await;
        assert_eq!(devices.as_deref(), Some("memory, not RDMA hardware"));
        let software = named(vec![Address::Rdma(at[1])]).await;
        assert_eq!(
            software.as_deref(),
            Some("software iWARP, not RDMA hardware")
        );
        // Where the RDMA port is closed, TCP is what the client takes.
        let tcp = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let closed = Address::Rdma((Ipv4Addr::LOCALHOST, 1).into());
        let both = vec![closed.clone(), Address::Tcp(tcp.local_addr().unwrap())];
        assert_eq!(named(both).await.as_deref(), Some(TCP_TEXT));
        assert_eq!(named(vec![closed]).await, None);
    }
}
