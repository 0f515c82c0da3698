//! The macro that ties each procedure to the type of its arguments, or of its results.

/// Defines an enum with one variant for each procedure, and its two directions: `decode` by procedure, and `Encode`.
macro_rules! bodies {
    ($(
        $(#[$meta:meta])*
        $vis:vis enum $name:ident $(<$lt:lifetime>)? of $proc:ident {
            $( $(#[$vmeta:meta])* $variant:ident $( ( $body:ident : $ty:ty ) )? ),* $(,)?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis enum $name $(<$lt>)? {
            $( $(#[$vmeta])* $variant $( ($ty) )?, )*
        }
        bodies!(@decode $name [$($lt)?] $proc $( $variant $( ($body: $ty) )?, )*);
        impl $(<$lt>)? xdr::Encode for $name $(<$lt>)? {
            fn encode(&self, e: &mut xdr::Encoder) {
                match self {
                    $( Self::$variant $( ($body) )? => {
                        $( xdr::Encode::encode($body, e); )?
                    } )*
                }
            }
        }
    )*};
    (@decode $name:ident [$lt:lifetime] $($arms:tt)*) => {
        impl<$lt> $name<$lt> {
            bodies!(@methods [$lt] $($arms)*);
        }
    };
    (@decode $name:ident [] $($arms:tt)*) => {
        impl $name {
            bodies!(@methods ['_] $($arms)*);
        }
    };
    (@methods [$lt:lifetime] $proc:ident $( $variant:ident $( ($body:ident : $ty:ty) )?, )*) => {
        /// Decodes the body of `proc` and refuses trailing bytes.
        ///
        /// # Errors
        /// Whatever the type refuses, or [`xdr::DecodeErrorKind::Trailing`].
        pub fn decode(proc: $proc, bytes: & $lt [u8]) -> Result<Self, xdr::DecodeError> {
            let mut d = xdr::Decoder::new(bytes);
            let body = match proc {
                $( $proc::$variant => Self::$variant $( (<$ty as xdr::Decode<'_>>::decode(&mut d)?) )?, )*
            };
            d.finish()?;
            Ok(body)
        }

        /// The procedure that this belongs to.
        #[must_use]
        pub fn proc(&self) -> $proc {
            match self {
                $( Self::$variant { .. } => $proc::$variant, )*
            }
        }
    };
}
