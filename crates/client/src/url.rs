//! `nfs://HOST[:PORT]/PATH[?OPTION[&OPTION]...]` (after RFC 2224), with IPv6 addresses in brackets and names in percent-encoding.
//! The options are `transport=tcp|rdma|auto`, `vers=3|4.1|4.2` and, with `vers=3`, `mountport=PORT`. `admin:/PATH` is a path that
//! an administrator reaches by the tunnel of the API, with root's rights.
//!
//! Parsing only: whoever connects resolves the host.

use crate::{ClientConfig, NfsVersion, V3Ports};
use std::net::{Ipv6Addr, SocketAddr};
use transport::{Address, Preference, rdma};

/// Port of NFS.
pub const DEFAULT_PORT: u16 = 2049;
/// Longest host name in bytes (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 255;

/// What a path begins with that is reached by the administrator's tunnel.
const ADMIN_SCHEME: &str = "admin:";

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NfsUrl {
    /// Host name or address, an IPv6 address without its brackets. Empty for the administrator's tunnel.
    pub host: String,
    /// Port of the MDS; `None` for the usual one of the transport.
    pub port: Option<u16>,
    /// How the MDS and the data servers are reached.
    pub transport: Preference,
    /// The version of NFS, if the URL has one.
    pub version: Option<UrlVersion>,
    /// Absolute path as bytes, decoded; it begins with `/`.
    pub path: Vec<u8>,
}

/// A version of NFS in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UrlVersion {
    /// `vers=3`, and the port of `mountport`.
    V3(Option<u16>),
    /// `vers=4.1`.
    V41,
    /// `vers=4.2`.
    V42,
}

/// Why a URL was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlError {
    /// It does not begin with `nfs://`.
    Scheme,
    /// The host is missing or malformed.
    Host,
    /// The port is not a number from 1 to 65535.
    Port,
    /// A `%` is not followed by two hexadecimal digits.
    Escape,
    /// What follows `?` is not known.
    Query(String),
}

impl std::fmt::Display for UrlError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scheme => write!(f, "a URL is nfs://HOST[:PORT]/PATH"),
            Self::Host => write!(f, "the host of the URL is missing or malformed"),
            Self::Port => write!(f, "the port of the URL is not a number from 1 to 65535"),
            Self::Escape => write!(
                f,
                "a % in the URL is not followed by two hexadecimal digits"
            ),
            Self::Query(q) => write!(f, "the URL has an unknown option {q:?}"),
        }
    }
}

impl std::error::Error for UrlError {}

impl NfsUrl {
    /// Whether `text` is meant as a URL rather than a local path.
    #[must_use]
    pub fn looks_like_one(text: &str) -> bool {
        text.starts_with(ADMIN_SCHEME)
            || text
                .get(..6)
                .is_some_and(|s| s.eq_ignore_ascii_case("nfs://"))
    }

    /// Whether it is reached by the administrator's tunnel.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.host.is_empty()
    }

    fn parse_admin(path: &str) -> Result<Self, UrlError> {
        let mut decoded = decode(path)?;
        if decoded.first() != Some(&b'/') {
            decoded.insert(0, b'/');
        }
        Ok(Self {
            host: String::new(),
            port: None,
            transport: Preference::Tcp,
            version: None,
            path: decoded,
        })
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if !Self::looks_like_one(text) {
            return Err(UrlError::Scheme);
        }
        if let Some(path) = text.strip_prefix(ADMIN_SCHEME) {
            return Self::parse_admin(path);
        }
        let rest = &text[6..];
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (transport, version) = parse_query(query.unwrap_or_default())?;
        let slash = rest.find('/').unwrap_or(rest.len());
        let (host, port) = parse_authority(&rest[..slash])?;
        let mut path = decode(&rest[slash..])?;
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(Self {
            host,
            port,
            transport,
            version,
            path,
        })
    }

    /// The ports of the MDS by transport, preferred first: `true` stands for RDMA. A port in a URL whose transport is `auto` is that of TCP,
    /// since one number cannot be both.
    #[must_use]
    pub fn ports(&self) -> Vec<(bool, u16)> {
        let tcp = (false, self.port.unwrap_or(DEFAULT_PORT));
        match self.transport {
            Preference::Tcp => vec![tcp],
            Preference::Rdma => vec![(true, self.port.unwrap_or(rdma::NFS_PORT))],
            Preference::Auto => vec![(true, rdma::NFS_PORT), tcp],
        }
    }

    /// Addresses of the MDS where its host has these, preferred first; their ports do not count.
    #[must_use]
    pub fn addresses(&self, hosts: &[SocketAddr]) -> Vec<Address> {
        let address = |is_rdma, port, mut host: SocketAddr| {
            host.set_port(port);
            match is_rdma {
                true => Address::Rdma(host),
                false => Address::Tcp(host),
            }
        };
        let of = |(is_rdma, port)| hosts.iter().map(move |host| address(is_rdma, port, *host));
        self.ports().into_iter().flat_map(of).collect()
    }

    /// What tells one server from another, and one way to it from another.
    #[must_use]
    pub fn server(&self) -> (&str, Vec<(bool, u16)>, Option<UrlVersion>) {
        (&self.host, self.ports(), self.version)
    }

    /// Makes a configuration one for this URL: transport and version.
    pub fn configure(&self, config: &mut ClientConfig) {
        config.data_transport = self.transport;
        match self.version {
            None => {}
            Some(UrlVersion::V41) => config.minor_version = 1,
            Some(UrlVersion::V42) => config.minor_version = 2,
            Some(UrlVersion::V3(mount)) => {
                config.version = NfsVersion::V3(V3Ports {
                    asks_for_nfs: self.port.is_none(),
                    mount,
                });
            }
        }
    }

    /// The URL of a name in this directory, taken as it is.
    #[must_use]
    pub fn child(&self, name: &[u8]) -> Self {
        let mut path = self.path.clone();
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Self {
            path,
            ..self.clone()
        }
    }

    /// The same server, another path. A relative one is below this URL's.
    #[must_use]
    pub fn join(&self, path: &[u8]) -> Self {
        let mut joined = if path.starts_with(b"/") {
            Vec::new()
        } else {
            let mut base = self.path.clone();
            if !base.ends_with(b"/") && !path.is_empty() {
                base.push(b'/');
            }
            base
        };
        joined.extend_from_slice(path);
        Self {
            path: joined,
            ..self.clone()
        }
    }
}

impl std::fmt::Display for NfsUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            _ if self.is_admin() => f.write_str(ADMIN_SCHEME)?,
            true => write!(f, "nfs://[{}]", self.host)?,
            false => write!(f, "nfs://{}", self.host)?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        for byte in &self.path {
            match byte {
                b'%' | b'?' | b'#' | 0..=b' ' | 127.. => write!(f, "%{byte:02X}")?,
                byte => write!(f, "{}", char::from(*byte))?,
            }
        }
        let options = [
            match self.transport {
                Preference::Tcp => None,
                Preference::Rdma => Some("transport=rdma".to_owned()),
                Preference::Auto => Some("transport=auto".to_owned()),
            },
            self.version.map(|version| match version {
                UrlVersion::V3(None) => "vers=3".to_owned(),
                UrlVersion::V3(Some(port)) => format!("vers=3&mountport={port}"),
                UrlVersion::V41 => "vers=4.1".to_owned(),
                UrlVersion::V42 => "vers=4.2".to_owned(),
            }),
        ];
        for (option, mark) in options.into_iter().flatten().zip(["?", "&"]) {
            write!(f, "{mark}{option}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for NfsUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

/// The options behind `?`.
fn parse_query(query: &str) -> Result<(Preference, Option<UrlVersion>), UrlError> {
    let (mut transport, mut version, mut mount) = (Preference::Tcp, None, None);
    for option in query.split('&').filter(|o| !o.is_empty()) {
        let unknown = || UrlError::Query(option.to_owned());
        match option {
            "transport=tcp" => transport = Preference::Tcp,
            "transport=rdma" => transport = Preference::Rdma,
            "transport=auto" => transport = Preference::Auto,
            "vers=3" => version = Some(UrlVersion::V3(None)),
            "vers=4.1" => version = Some(UrlVersion::V41),
            "vers=4.2" | "vers=4" => version = Some(UrlVersion::V42),
            _ => {
                let port = option.strip_prefix("mountport=").ok_or_else(unknown)?;
                mount = Some(parse_port(port)?);
            }
        }
    }
    match (version, mount) {
        (Some(UrlVersion::V3(_)), mount) => version = Some(UrlVersion::V3(mount)),
        (_, Some(port)) => {
            return Err(UrlError::Query(format!("mountport={port} without vers=3")));
        }
        _ => {}
    }
    Ok((transport, version))
}

fn parse_port(digits: &str) -> Result<u16, UrlError> {
    match digits.bytes().all(|b| b.is_ascii_digit()) {
        true => digits
            .parse()
            .ok()
            .filter(|p| *p != 0)
            .ok_or(UrlError::Port),
        false => Err(UrlError::Port),
    }
}

fn parse_authority(text: &str) -> Result<(String, Option<u16>), UrlError> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(UrlError::Host)?;
        let bare = host.split('%').next().unwrap_or(host);
        bare.parse::<Ipv6Addr>().map_err(|_| UrlError::Host)?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(UrlError::Host),
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let is_host_byte = |b: u8| b.is_ascii_alphanumeric() || b"-._:%".contains(&b);
    if host.is_empty() || host.len() > HOST_BYTES_MAX || !host.bytes().all(is_host_byte) {
        return Err(UrlError::Host);
    }
    let port = port.map(parse_port).transpose()?;
    Ok((host.to_owned(), port))
}

fn decode(text: &str) -> Result<Vec<u8>, UrlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = bytes.next().map(char::from)?;
            digit.to_digit(16).and_then(|d| u8::try_from(d).ok())
        };
        let (high, low) = (digit(), digit());
        let (Some(high), Some(low)) = (high, low) else {
            return Err(UrlError::Escape);
        };
        out.push(high << 4 | low);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_are_understood() {
        let (tcp, rdma) = (false, true);
        for (text, host, ports, path) in [
            ("nfs://server/a/b", "server", &[(tcp, 2049)][..], "/a/b"),
            ("nfs://server", "server", &[(tcp, 2049)], "/"),
            ("NFS://server:12049/", "server", &[(tcp, 12049)], "/"),
            ("nfs://[::1]:2050/x", "::1", &[(tcp, 2050)], "/x"),
            (
                "nfs://[fe80::1%eth0]/x",
                "fe80::1%eth0",
                &[(tcp, 2049)],
                "/x",
            ),
            (
                "nfs://10.0.0.1/a%20b%25",
                "10.0.0.1",
                &[(tcp, 2049)],
                "/a b%",
            ),
            (
                "nfs://server/x?transport=tcp",
                "server",
                &[(tcp, 2049)],
                "/x",
            ),
            ("nfs://s/x?transport=rdma", "s", &[(rdma, 20049)], "/x"),
            ("nfs://s:99/?transport=rdma", "s", &[(rdma, 99)], "/"),
            ("nfs://s/x?vers=3", "s", &[(tcp, 2049)], "/x"),
            ("nfs://s:9/x?vers=4.1", "s", &[(tcp, 9)], "/x"),
            ("nfs://s:9/x?vers=3&mountport=10", "s", &[(tcp, 9)], "/x"),
            (
                "nfs://s/x?vers=4.2&transport=rdma",
                "s",
                &[(rdma, 20049)],
                "/x",
            ),
            (
                "nfs://s:99/x?transport=auto",
                "s",
                &[(rdma, 20049), (tcp, 99)],
                "/x",
            ),
        ] {
            let url = NfsUrl::parse(text).unwrap();
            assert_eq!(
                (url.host.as_str(), url.path.as_slice()),
                (host, path.as_bytes())
            );
            assert_eq!(url.ports(), ports, "{text}");
            assert_eq!(NfsUrl::parse(&url.to_string()), Ok(url), "{text}");
        }
    }

    #[test]
    fn urls_that_are_refused() {
        for (text, error) in [
            ("http://server/", UrlError::Scheme),
            ("/local/path", UrlError::Scheme),
            ("nfs:/server", UrlError::Scheme),
            ("nfs:///path", UrlError::Host),
            ("nfs://:2049/", UrlError::Host),
            ("nfs://[::1/x", UrlError::Host),
            ("nfs://[nonsense]/x", UrlError::Host),
            ("nfs://[::1]x/", UrlError::Host),
            ("nfs://a b/", UrlError::Host),
            ("nfs://server:0/", UrlError::Port),
            ("nfs://server:65536/", UrlError::Port),
            ("nfs://server:/", UrlError::Port),
            ("nfs://server:+1/", UrlError::Port),
            ("nfs://server/%zz", UrlError::Escape),
            ("nfs://server/%4", UrlError::Escape),
            (
                "nfs://server/x?transport=udp",
                UrlError::Query("transport=udp".to_owned()),
            ),
            ("nfs://server/x?vers=3&mountport=0", UrlError::Port),
            ("nfs://server/x?vers=3&mountport=", UrlError::Port),
            (
                "nfs://server/x?mountport=7",
                UrlError::Query("mountport=7 without vers=3".to_owned()),
            ),
            (
                "nfs://server/x?vers=2",
                UrlError::Query("vers=2".to_owned()),
            ),
            ("nfs://server/x?y=z", UrlError::Query("y=z".to_owned())),
        ] {
            assert_eq!(NfsUrl::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_url_says_which_version_a_client_speaks() {
        let identity = crate::UserIdentity {
            uid: 0,
            gid: 0,
            gids: Vec::new(),
            machine: String::new(),
        };
        for (text, minor, version) in [
            ("nfs://s/", 2, NfsVersion::V4),
            ("nfs://s/?vers=4.1", 1, NfsVersion::V4),
            (
                "nfs://s/?vers=3",
                2,
                NfsVersion::V3(V3Ports {
                    asks_for_nfs: true,
                    mount: None,
                }),
            ),
            (
                "nfs://s:2049/?mountport=7&vers=3",
                2,
                NfsVersion::V3(V3Ports {
                    asks_for_nfs: false,
                    mount: Some(7),
                }),
            ),
        ] {
            let verifier = nfs4::Verifier::default();
            let mut config = ClientConfig::new(Vec::new(), verifier, identity.clone());
            NfsUrl::parse(text).unwrap().configure(&mut config);
            assert_eq!(
                (config.minor_version, config.version),
                (minor, version),
                "{text}"
            );
        }
    }

    #[test]
    fn a_relative_path_is_below_the_prefix() {
        let url = NfsUrl::parse("nfs://server/data").unwrap();
        assert_eq!(url.join(b"x/y").path, b"/data/x/y");
        assert_eq!(url.join(b"/x").path, b"/x");
        assert_eq!(url.join(b"").path, b"/data");
        assert_eq!(url.child(b"a%b").to_string(), "nfs://server/data/a%25b");
    }
}
