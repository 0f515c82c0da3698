//! `nfs://HOST[:PORT]/PATH[?transport=tcp|rdma|auto]` (after RFC 2224), with IPv6 addresses in brackets and names in percent-encoding.
//!
//! Parsing only: whoever connects resolves the host.

use std::net::{Ipv6Addr, SocketAddr};
use transport::{Address, Preference, rdma};

/// Port of NFS.
pub const DEFAULT_PORT: u16 = 2049;
/// Longest host name in bytes (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 255;

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NfsUrl {
    /// Host name or address, an IPv6 address without its brackets.
    pub host: String,
    /// Port of the MDS; `None` for the usual one of the transport.
    pub port: Option<u16>,
    /// How the MDS and the data servers are reached.
    pub transport: Preference,
    /// Absolute path as bytes, decoded; it begins with `/`.
    pub path: Vec<u8>,
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
        text.get(..6)
            .is_some_and(|s| s.eq_ignore_ascii_case("nfs://"))
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if !Self::looks_like_one(text) {
            return Err(UrlError::Scheme);
        }
        let rest = &text[6..];
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let transport = match query {
            None | Some("" | "transport=tcp") => Preference::Tcp,
            Some("transport=rdma") => Preference::Rdma,
            Some("transport=auto") => Preference::Auto,
            Some(other) => return Err(UrlError::Query(other.to_owned())),
        };
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
    pub fn server(&self) -> (&str, Vec<(bool, u16)>) {
        (&self.host, self.ports())
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
        match self.transport {
            Preference::Tcp => Ok(()),
            Preference::Rdma => f.write_str("?transport=rdma"),
            Preference::Auto => f.write_str("?transport=auto"),
        }
    }
}

impl std::str::FromStr for NfsUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
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
    let port = match port {
        None => None,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some(digits.parse().map_err(|_| UrlError::Port)?)
        }
        Some(_) => return Err(UrlError::Port),
    };
    if port == Some(0) {
        return Err(UrlError::Port);
    }
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
            ("nfs://server/x?y=z", UrlError::Query("y=z".to_owned())),
        ] {
            assert_eq!(NfsUrl::parse(text), Err(error), "{text}");
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
