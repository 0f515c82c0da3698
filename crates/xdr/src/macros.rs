//! Macros that define a wire type once and derive both directions from its field order.

/// Defines a struct whose XDR form is its fields in order.
///
/// ```
/// # use ropewalk_xdr as xdr;
/// xdr::xdr_struct! {
///     /// The two halves of a callback address.
///     pub struct Address<'a> {
///         /// Transport name.
///         pub netid: xdr::Opaque<'a, 16>,
///         /// Host and port.
///         pub addr: xdr::Opaque<'a, 128>,
///     }
/// }
/// ```
#[macro_export]
macro_rules! xdr_struct {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$lt:lifetime>)? {
            $( $(#[$fmeta:meta])* $fvis:vis $field:ident : $ty:ty ),* $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis struct $name $(<$lt>)? {
            $( $(#[$fmeta])* $fvis $field: $ty, )*
        }
        $crate::xdr_struct!(@decode $name [$($lt)?] $($field)*);
        impl $(<$lt>)? $crate::Encode for $name $(<$lt>)? {
            #[allow(unused_variables, reason = "a struct may have no fields")]
            fn encode(&self, e: &mut $crate::Encoder) {
                $( $crate::Encode::encode(&self.$field, e); )*
            }
        }
    )*};
    (@decode $name:ident [$lt:lifetime] $($field:ident)*) => {
        impl<$lt> $crate::Decode<$lt> for $name<$lt> {
            fn decode(d: &mut $crate::Decoder<$lt>) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $( $field: $crate::Decode::decode(d)?, )* })
            }
        }
    };
    (@decode $name:ident [] $($field:ident)*) => {
        impl<'de> $crate::Decode<'de> for $name {
            #[allow(unused_variables, reason = "a struct may have no fields")]
            fn decode(d: &mut $crate::Decoder<'de>) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $( $field: $crate::Decode::decode(d)?, )* })
            }
        }
    };
}

/// Defines an enum of 32-bit values; an undefined value is a decode error.
///
/// ```
/// # use ropewalk_xdr as xdr;
/// xdr::xdr_enum! {
///     /// How stable a write is (RFC 8881 §18.32).
///     pub enum StableHow {
///         /// May be lost until a COMMIT.
///         Unstable = 0,
///         /// Data are on stable storage.
///         DataSync = 1,
///         /// Data and metadata are.
///         FileSync = 2,
///     }
/// }
/// ```
#[macro_export]
macro_rules! xdr_enum {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$vmeta:meta])* $variant:ident = $value:literal ),* $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        $vis enum $name {
            $( $(#[$vmeta])* $variant = $value, )*
        }
        impl $name {
            /// Every variant, in order.
            $vis const ALL: &'static [Self] = &[$( Self::$variant, )*];

            /// The variant of a wire value.
            #[must_use]
            $vis const fn from_u32(value: u32) -> Option<Self> {
                match value {
                    $( $value => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
        impl<'de> $crate::Decode<'de> for $name {
            fn decode(d: &mut $crate::Decoder<'de>) -> Result<Self, $crate::DecodeError> {
                let offset = d.position();
                let value = d.u32()?;
                Self::from_u32(value).ok_or($crate::DecodeError {
                    kind: $crate::DecodeErrorKind::BadDiscriminant(value),
                    offset,
                })
            }
        }
        impl $crate::Encode for $name {
            fn encode(&self, e: &mut $crate::Encoder) {
                e.u32(*self as u32);
            }
        }
    )*};
}

/// Defines an XDR union as a Rust enum: 32-bit discriminant, then the body of the arm, if it has
/// one. An undefined discriminant is a decode error.
///
/// ```
/// # use ropewalk_xdr as xdr;
/// xdr::xdr_union! {
///     /// How to set a time (`settime4`).
///     pub union SetTime {
///         /// To the time of the server.
///         Server = 0,
///         /// To a time of the client, in seconds.
///         Client(seconds: u64) = 1,
///     }
/// }
/// ```
#[macro_export]
macro_rules! xdr_union {
    ($(
        $(#[$meta:meta])*
        $vis:vis union $name:ident $(<$lt:lifetime>)? {
            $( $(#[$vmeta:meta])* $variant:ident $( ( $body:ident : $ty:ty ) )? = $value:literal ),* $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis enum $name $(<$lt>)? {
            $( $(#[$vmeta])* $variant $( ($ty) )?, )*
        }
        $crate::xdr_union!(@decode $name [$($lt)?] $( $variant $( ($body: $ty) )? = $value, )*);
        impl $(<$lt>)? $crate::Encode for $name $(<$lt>)? {
            fn encode(&self, e: &mut $crate::Encoder) {
                match self {
                    $( Self::$variant $( ($body) )? => {
                        e.u32($value);
                        $( $crate::Encode::encode($body, e); )?
                    } )*
                }
            }
        }
    )*};
    (@decode $name:ident [$lt:lifetime] $($arms:tt)*) => {
        impl<$lt> $crate::Decode<$lt> for $name<$lt> {
            fn decode(d: &mut $crate::Decoder<$lt>) -> Result<Self, $crate::DecodeError> {
                $crate::xdr_union!(@arms d $($arms)*)
            }
        }
    };
    (@decode $name:ident [] $($arms:tt)*) => {
        impl<'de> $crate::Decode<'de> for $name {
            fn decode(d: &mut $crate::Decoder<'de>) -> Result<Self, $crate::DecodeError> {
                $crate::xdr_union!(@arms d $($arms)*)
            }
        }
    };
    (@arms $d:ident $( $variant:ident $( ($body:ident : $ty:ty) )? = $value:literal, )*) => {{
        let offset = $d.position();
        match $d.u32()? {
            $( $value => Ok(Self::$variant $( (<$ty as $crate::Decode<'_>>::decode($d)?) )?), )*
            other => Err($crate::DecodeError {
                kind: $crate::DecodeErrorKind::BadDiscriminant(other),
                offset,
            }),
        }
    }};
}
