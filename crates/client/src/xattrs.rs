//! Extended attributes (RFC 8276). Names are without the `user.` that Linux puts before them.

use crate::Error;
use crate::client::Client4;
use nfs4::ops::{
    GetXattrArgs, GetXattrRes, PutFhArgs, PutFhRes, RemoveXattrArgs, RemoveXattrRes, SetXattrArgs,
    SetXattrOption, SetXattrRes,
};
use xdr::Opaque;

impl Client4 {
    /// The value of an attribute; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: &[u8],
    ) -> Result<Vec<u8>, Error> {
        let fh = self.lookup(path).await?.fh;
        let outcome = self
            .0
            .call(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&fh.0),
                });
                b.push(&GetXattrArgs { name: Opaque(name) });
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        Ok(reply.take::<GetXattrRes<'_>>()?.value.0.to_vec())
    }

    /// Sets an attribute, or with no value removes it; symbolic links are followed.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) async fn set_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        let fh = self.lookup(path).await?.fh;
        let outcome = self
            .0
            .call_once(&|b| {
                b.push(&PutFhArgs {
                    object: Opaque(&fh.0),
                });
                match value {
                    Some(value) => b.push(&SetXattrArgs {
                        option: SetXattrOption::Either,
                        name: Opaque(name),
                        value: Opaque(value),
                    }),
                    None => b.push(&RemoveXattrArgs { name: Opaque(name) }),
                };
                Vec::new()
            })
            .await?;
        let mut reply = outcome.results()?;
        reply.take::<PutFhRes>()?;
        match value {
            Some(_) => drop(reply.take::<SetXattrRes>()?),
            None => drop(reply.take::<RemoveXattrRes>()?),
        }
        Ok(())
    }
}
