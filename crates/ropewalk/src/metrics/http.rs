//! As much of HTTP/1.1 (RFC 9112) as a monitoring system needs: a head in, an answer out.

use std::fmt::Write as _;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest head of a request in bytes, its end included.
pub(super) const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Media type of a sentence.
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";
/// What ends a head.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// What a peer sent.
pub(super) enum Head {
    /// A head, its end included.
    Whole(Vec<u8>),
    /// Nothing, or not even a head.
    None,
    /// More than [`HEAD_BYTES_MAX`] without an end.
    TooLong,
}

/// Reads one head; what follows it in the same bytes is dropped.
///
/// # Errors
/// Those of the stream.
pub(super) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Head> {
    let mut bytes = Vec::with_capacity(1024);
    let mut limited = stream.take(HEAD_BYTES_MAX as u64);
    loop {
        let before = bytes.len();
        if limited.read_buf(&mut bytes).await? == 0 {
            let is_full = bytes.len() == HEAD_BYTES_MAX;
            return Ok(if is_full { Head::TooLong } else { Head::None });
        }
        // The end may have begun in the bytes before.
        let from = before.saturating_sub(HEAD_END.len() - 1);
        let found = bytes[from..]
            .windows(HEAD_END.len())
            .position(|w| w == HEAD_END);
        if let Some(at) = found {
            bytes.truncate(from + at + HEAD_END.len());
            return Ok(Head::Whole(bytes));
        }
    }
}

/// A request line that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// The path without its query.
    pub(super) path: &'a str,
}

/// Reads a head.
///
/// # Errors
/// The answer to one that cannot be served: 400, or 505 for another version.
pub(super) fn parse(head: &[u8]) -> Result<Request<'_>, Answer> {
    let bad = || Answer::failure(400, "Bad Request");
    let text = std::str::from_utf8(head).map_err(|_| bad())?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad());
    };
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(bad());
    }
    let mut has_host = || {
        lines.any(|line| {
            line.split_once(':')
                .is_some_and(|(name, _)| name.eq_ignore_ascii_case("host"))
        })
    };
    match version {
        "HTTP/1.0" => {}
        // RFC 9112 §3.2 demands that one without Host is refused.
        "HTTP/1.1" if has_host() => {}
        "HTTP/1.1" => return Err(bad()),
        other if other.starts_with("HTTP/") => {
            return Err(Answer::failure(505, "HTTP Version Not Supported"));
        }
        _ => return Err(bad()),
    }
    let path = path_of(target).ok_or_else(bad)?;
    Ok(Request { method, path })
}

/// The path of a target in origin form or absolute form (RFC 9112 §3.2).
fn path_of(target: &str) -> Option<&str> {
    let target = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    let path = target.split('?').next()?;
    path.starts_with('/').then_some(path)
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    code: u16,
    reason: &'static str,
    media_type: &'static str,
    allow: Option<&'static str>,
    body: String,
    has_body: bool,
}

impl Answer {
    pub(super) const fn new(
        code: u16,
        reason: &'static str,
        media_type: &'static str,
        body: String,
    ) -> Self {
        Self {
            code,
            reason,
            media_type,
            allow: None,
            body,
            has_body: true,
        }
    }

    /// One that says only its reason.
    pub(super) fn failure(code: u16, reason: &'static str) -> Self {
        Self::new(code, reason, PLAIN, format!("{reason}\n"))
    }

    pub(super) const fn allowing(mut self, methods: &'static str) -> Self {
        self.allow = Some(methods);
        self
    }

    /// The answer to HEAD: the length stays that of the body.
    pub(super) const fn without_body(mut self) -> Self {
        self.has_body = false;
        self
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n",
            self.code,
            self.reason,
            self.media_type,
            self.body.len()
        );
        if let Some(methods) = self.allow {
            let _ = write!(text, "Allow: {methods}\r\n");
        }
        text.push_str("Cache-Control: no-store\r\nConnection: close\r\n\r\n");
        if self.has_body {
            text.push_str(&self.body);
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(head: &str) -> u16 {
        parse(head.as_bytes()).unwrap_err().code
    }

    #[test]
    fn requests_are_read() {
        for (head, path) in [
            ("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n", "/metrics"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "/metrics"),
            (
                "GET http://a:1/health HTTP/1.1\r\nHOST: a\r\n\r\n",
                "/health",
            ),
            ("GET http://a HTTP/1.0\r\n\r\n", "/"),
        ] {
            let method = "GET";
            assert_eq!(parse(head.as_bytes()).unwrap(), Request { method, path });
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for head in [
            "\r\n\r\n",
            "GET\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nhost\r\n\r\n",
            "GET  / HTTP/1.0\r\n\r\n",
            "G\u{1}T / HTTP/1.0\r\n\r\n",
            "GET metrics HTTP/1.0\r\n\r\n",
            "GET * HTTP/1.0\r\n\r\n",
            "GET / SIP/2.0\r\n\r\n",
        ] {
            assert_eq!(code(head), 400, "{head:?}");
        }
        assert_eq!(code("GET / HTTP/2.0\r\n\r\n"), 505);
        assert_eq!(parse(b"GET /\xff HTTP/1.0\r\n\r\n").unwrap_err().code, 400);
    }

    #[tokio::test]
    async fn a_head_ends_where_it_ends_and_is_bounded() {
        let long = vec![b'a'; HEAD_BYTES_MAX + 1];
        assert!(matches!(
            read_head(&mut &long[..]).await.unwrap(),
            Head::TooLong
        ));
        assert!(matches!(
            read_head(&mut &b"GET / HTTP/1.1\r\n"[..]).await.unwrap(),
            Head::None
        ));
        let mut piecewise = in_pieces(&[b"GET / HTTP/1.0\r", b"\n\r", b"\nbody"]);
        let Head::Whole(head) = read_head(&mut piecewise).await.unwrap() else {
            panic!("no head")
        };
        assert_eq!(head, b"GET / HTTP/1.0\r\n\r\n");
    }

    /// A stream that gives one piece in each read.
    fn in_pieces(pieces: &[&'static [u8]]) -> impl AsyncRead + Unpin {
        let [a, b, c] = pieces else {
            panic!("three pieces")
        };
        a.chain(*b).chain(*c)
    }
}
