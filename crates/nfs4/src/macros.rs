//! Macros of this crate: discriminated unions, and the tie between an operation and its types.

/// Defines an XDR union as a Rust enum: 32-bit discriminant, then the body of the arm, if it has
/// one. An undefined discriminant is a decode error.
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
        xdr_union!(@decode $name [$($lt)?] $( $variant $( ($body: $ty) )? = $value, )*);
        impl $(<$lt>)? xdr::Encode for $name $(<$lt>)? {
            fn encode(&self, e: &mut xdr::Encoder) {
                match self {
                    $( Self::$variant $( ($body) )? => {
                        e.u32($value);
                        $( $body.encode(e); )?
                    } )*
                }
            }
        }
    )*};
    (@decode $name:ident [$lt:lifetime] $($arms:tt)*) => {
        impl<$lt> xdr::Decode<$lt> for $name<$lt> {
            fn decode(d: &mut xdr::Decoder<$lt>) -> Result<Self, xdr::DecodeError> {
                xdr_union!(@arms d $($arms)*)
            }
        }
    };
    (@decode $name:ident [] $($arms:tt)*) => {
        impl<'de> xdr::Decode<'de> for $name {
            fn decode(d: &mut xdr::Decoder<'de>) -> Result<Self, xdr::DecodeError> {
                xdr_union!(@arms d $($arms)*)
            }
        }
    };
    (@arms $d:ident $( $variant:ident $( ($body:ident : $ty:ty) )? = $value:literal, )*) => {{
        let offset = $d.position();
        match $d.u32()? {
            $( $value => Ok(Self::$variant $( (<$ty as xdr::Decode<'_>>::decode($d)?) )?), )*
            other => Err(xdr::DecodeError {
                kind: xdr::DecodeErrorKind::BadDiscriminant(other),
                offset,
            }),
        }
    }};
}

/// Ties argument and result types to an operation whose result has a body only when it succeeds.
/// `@args` ties arguments only (the result has bodies for failures and is written by hand); `@body` ties a
/// result that only a server writes.
macro_rules! operations {
    () => {};
    (@args $num:ident::$op:ident: $args:ty; $($rest:tt)*) => {
        impl $crate::OpArgs for $args {
            type Num = $num;
            const OP: $num = $num::$op;
        }
        operations! { $($rest)* }
    };
    (@body $num:ident::$op:ident: $res:ty; $($rest:tt)*) => {
        impl<'a> $crate::OpBody for $res {
            type Num = $num;
            const OP: $num = $num::$op;
        }
        operations! { $($rest)* }
    };
    ($num:ident::$op:ident: $args:ty => $res:ty; $($rest:tt)*) => {
        operations! { @args $num::$op: $args; @body $num::$op: $res; }
        impl<'a> $crate::OpRes<'a> for $res {
            fn decode_res(
                status: $crate::NfsStatus,
                d: &mut xdr::Decoder<'a>,
            ) -> Result<Option<Self>, xdr::DecodeError> {
                if status.is_ok() {
                    xdr::Decode::decode(d).map(Some)
                } else {
                    Ok(None)
                }
            }
        }
        operations! { $($rest)* }
    };
}
