//! Arguments of calls.

use xdr::{Decode, DecodeError, Decoder};

/// Arguments, with nothing after them.
pub(crate) fn decode<'a, T: Decode<'a>>(mut args: Decoder<'a>) -> Result<T, DecodeError> {
    let value = T::decode(&mut args)?;
    args.finish()?;
    Ok(value)
}
