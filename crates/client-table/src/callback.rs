//! Callbacks: one operation of the client's callback program.

use crate::ClientTable;
use crate::back_channel::SessionPath;
use crate::callback_path::{
    BuildCallback, CALLBACK_MS_MAX, CallbackError, TakeResult, deliver, status_only,
};
use crate::dialed::DialedPath;
use nfs4::{CbCompoundBuilder, ClientId};
use state::Origin;
use std::sync::Arc;
use std::time::Duration;

impl ClientTable {
    /// Sends one operation to a client and reads its status. `build` appends the operation after `CB_SEQUENCE`; it may
    /// be called again for a retry and must then append the same. The operation must bear to be executed twice: a client
    /// that kept no reply of a lost call is called once more.
    ///
    /// # Errors
    /// [`CallbackError`].
    pub async fn callback(
        &self,
        client: ClientId,
        build: BuildCallback<'_>,
    ) -> Result<(), CallbackError> {
        self.callback_about(client, None, build, status_only).await
    }

    /// As [`ClientTable::callback`], about what the reply to `origin` has granted or is about to grant. A client that
    /// has not seen that reply can tell (RFC 8881 §2.10.6.3). `take` reads the result.
    ///
    /// # Errors
    /// [`CallbackError`].
    pub async fn callback_about<T: Send>(
        &self,
        client: ClientId,
        origin: Option<Origin>,
        build: BuildCallback<'_>,
        take: TakeResult<T>,
    ) -> Result<T, CallbackError> {
        if self.lock().is_minor_0(client) {
            let path = DialedPath {
                table: self,
                client,
            };
            return deliver(&path, CALLBACK_MS_MAX, build, take).await;
        }
        let path = SessionPath::any(self, client).about(origin);
        deliver(&path, CALLBACK_MS_MAX, build, take).await
    }

    /// As [`ClientTable::callback_about`], for a caller that waits no longer than `wait_ms`. Only the waiting ends
    /// then. A call that was sent goes on until it is answered, because a slot whose call is given up is of no more
    /// use. Nothing is begun later.
    ///
    /// # Errors
    /// [`CallbackError`]; `Lost` when no answer came in time.
    pub async fn callback_within<T: Send + 'static>(
        self: &Arc<Self>,
        client: ClientId,
        wait_ms: u64,
        build: impl Fn(&mut CbCompoundBuilder) + Send + Sync + 'static,
        take: TakeResult<T>,
    ) -> Result<T, CallbackError> {
        let table = Arc::clone(self);
        let begin_ms = wait_ms.min(CALLBACK_MS_MAX);
        let call = tokio::spawn(async move {
            if table.lock().is_minor_0(client) {
                let path = DialedPath {
                    table: &table,
                    client,
                };
                return deliver(&path, begin_ms, &build, take).await;
            }
            let path = SessionPath::any(&table, client);
            deliver(&path, begin_ms, &build, take).await
        });
        let answer = tokio::time::timeout(Duration::from_millis(wait_ms), call).await;
        match answer {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(CallbackError::Lost),
        }
    }
}
