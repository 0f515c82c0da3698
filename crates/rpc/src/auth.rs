//! Authenticators (RFC 5531 §8.2 and appendix A): the opaque envelope, AUTH_NONE and AUTH_SYS.
//!
//! Owns their bounds and the `auth_stat` verdicts. It decides nobody's rights: squashing and
//! mapping belong to the server.

use xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// Longest body of an authenticator, in bytes (RFC 5531 §8.2).
pub const AUTH_BODY_BYTES_MAX: u32 = 400;
/// Longest machine name of AUTH_SYS, in bytes (RFC 5531 appendix A).
pub const AUTH_SYS_MACHINE_BYTES_MAX: u32 = 255;
/// Most supplementary groups of AUTH_SYS (RFC 5531 appendix A).
pub const AUTH_SYS_GIDS_MAX: u32 = 16;
/// Verifier body by which a server accepts an AUTH_TLS probe (RFC 9289 §4.1).
pub const STARTTLS: &[u8; 8] = b"STARTTLS";

/// Authentication flavour numbers (RFC 5531 §8.2 and the IANA registry).
pub mod flavor {
    /// No authentication.
    pub const AUTH_NONE: u32 = 0;
    /// Plain user and group numbers.
    pub const AUTH_SYS: u32 = 1;
    /// A server's short form of AUTH_SYS; never issued by us, so never accepted.
    pub const AUTH_SHORT: u32 = 2;
    /// GSS-API (RFC 2203).
    pub const RPCSEC_GSS: u32 = 6;
    /// The probe by which a client asks for TLS (RFC 9289 §4.1).
    pub const AUTH_TLS: u32 = 7;
}

xdr::xdr_enum! {
    /// Why an authenticator was refused (RFC 5531 §9).
    pub enum AuthStat {
        /// It was not refused.
        Ok = 0,
        /// Bad credential (seal broken).
        BadCred = 1,
        /// The client must begin a new session.
        RejectedCred = 2,
        /// Bad verifier (seal broken).
        BadVerf = 3,
        /// The verifier has expired or was replayed.
        RejectedVerf = 4,
        /// Refused for reasons of security.
        TooWeak = 5,
        /// A reply's verifier was bogus.
        InvalidResp = 6,
        /// The reason is unknown.
        Failed = 7,
        /// Generic AUTH_KERB error.
        KerbGeneric = 8,
        /// The time of the credential has expired.
        TimeExpire = 9,
        /// A problem with the ticket file.
        TktFile = 10,
        /// The authenticator cannot be decoded.
        Decode = 11,
        /// The wrong network address in the ticket.
        NetAddr = 12,
        /// No credentials for the user (RFC 2203 §5).
        GssCredProblem = 13,
        /// A problem with the context (RFC 2203 §5).
        GssCtxProblem = 14,
    }
}

/// A flavour and its body, not yet interpreted (RFC 5531 §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpaqueAuth<'a> {
    /// One of [`flavor`], or a number that we do not know.
    pub flavor: u32,
    /// At most [`AUTH_BODY_BYTES_MAX`] bytes.
    pub body: &'a [u8],
}

impl OpaqueAuth<'_> {
    /// AUTH_NONE, whose body is empty.
    pub const NONE: OpaqueAuth<'static> = OpaqueAuth {
        flavor: flavor::AUTH_NONE,
        body: &[],
    };
    /// The credential of an AUTH_TLS probe (RFC 9289 §4.1).
    pub const TLS_PROBE: OpaqueAuth<'static> = OpaqueAuth {
        flavor: flavor::AUTH_TLS,
        body: &[],
    };
    /// The verifier that accepts an AUTH_TLS probe (RFC 9289 §4.1).
    pub const TLS_ACCEPTED: OpaqueAuth<'static> = OpaqueAuth {
        flavor: flavor::AUTH_NONE,
        body: STARTTLS,
    };
}

impl<'a> Decode<'a> for OpaqueAuth<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            flavor: d.u32()?,
            body: d.opaque(AUTH_BODY_BYTES_MAX)?,
        })
    }
}

impl Encode for OpaqueAuth<'_> {
    /// # Panics
    /// With a body above [`AUTH_BODY_BYTES_MAX`] bytes: the constructors make none.
    fn encode(&self, e: &mut Encoder) {
        assert!(
            self.body.len() <= AUTH_BODY_BYTES_MAX as usize,
            "authenticator body too long"
        );
        e.u32(self.flavor);
        e.opaque(self.body);
    }
}

/// AUTH_SYS parameters (RFC 5531 appendix A).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSys {
    /// An arbitrary number of the caller's.
    pub stamp: u32,
    /// The caller's host name: bytes, not necessarily UTF-8.
    pub machine: Vec<u8>,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups, at most [`AUTH_SYS_GIDS_MAX`].
    pub gids: Vec<u32>,
}

impl AuthSys {
    /// The body for an [`OpaqueAuth`] of flavour AUTH_SYS.
    ///
    /// # Panics
    /// When the machine name or the groups exceed their limits.
    #[must_use]
    pub fn to_body(&self) -> Vec<u8> {
        assert!(
            self.machine.len() <= AUTH_SYS_MACHINE_BYTES_MAX as usize,
            "machine name too long"
        );
        assert!(
            self.gids.len() <= AUTH_SYS_GIDS_MAX as usize,
            "too many groups"
        );
        xdr::encode_to_vec(self)
    }
}

impl Decode<'_> for AuthSys {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            stamp: d.u32()?,
            machine: d.opaque(AUTH_SYS_MACHINE_BYTES_MAX)?.to_vec(),
            uid: d.u32()?,
            gid: d.u32()?,
            gids: d.list(AUTH_SYS_GIDS_MAX)?,
        })
    }
}

impl Encode for AuthSys {
    fn encode(&self, e: &mut Encoder) {
        e.u32(self.stamp);
        e.opaque(&self.machine);
        e.u32(self.uid);
        e.u32(self.gid);
        e.list(&self.gids);
    }
}

/// A credential whose flavour was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys(AuthSys),
    /// RPCSEC_GSS: the body is for whoever implements RFC 2203.
    Gss(&'a [u8]),
    /// An AUTH_TLS probe (RFC 9289 §4.1).
    TlsProbe,
}

impl<'a> Credential<'a> {
    /// Interprets a credential. The error is the verdict to reply with.
    ///
    /// # Errors
    /// - `BadCred`: a body that its flavour forbids.
    /// - `RejectedCred`: AUTH_SHORT (none of ours exists, so the client must fall back to the full form), and unknown flavours.
    pub fn parse(auth: &OpaqueAuth<'a>) -> Result<Self, AuthStat> {
        match auth.flavor {
            flavor::AUTH_NONE => Ok(Self::None),
            flavor::AUTH_SYS => xdr::decode_all(auth.body)
                .map(Self::Sys)
                .map_err(|_| AuthStat::BadCred),
            flavor::RPCSEC_GSS => Ok(Self::Gss(auth.body)),
            flavor::AUTH_TLS if auth.body.is_empty() => Ok(Self::TlsProbe),
            flavor::AUTH_TLS => Err(AuthStat::BadCred),
            _ => Err(AuthStat::RejectedCred),
        }
    }
}
