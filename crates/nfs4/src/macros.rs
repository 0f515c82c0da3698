//! Macro of this crate: the tie between an operation and its types.

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
