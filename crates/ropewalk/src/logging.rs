//! The log of a server: to standard error, of what RUST_LOG or a configuration says.

use std::sync::OnceLock;
use tracing_subscriber::EnvFilter;

/// Sends logs to standard error; `RUST_LOG` chooses, `info` when it does not.
pub(crate) fn init_logging() {
    let made = tracing_subscriber::fmt()
        .with_env_filter(log_of_environment())
        .with_writer(std::io::stderr)
        // It tells standard error that standard error cannot be written, and panics when that fails. A log on a full
        // disk would take the server down.
        .log_internal_errors(false)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_filter_reloading();
    let handle = made.reload_handle();
    let set = move |filter| handle.reload(filter).map_err(|e| e.to_string());
    if made.try_init().is_ok() {
        let _ = LOG.set(Box::new(set));
    }
}

fn log_of_environment() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"))
}

/// Sets what is logged from now on.
type SetLog = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// Of the log of this process.
static LOG: OnceLock<SetLog> = OnceLock::new();

/// Whether this says what is logged, as RUST_LOG does.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_log(directives: &str) -> Result<(), String> {
    EnvFilter::try_new(directives)
        .map(drop)
        .map_err(|e| format!("{e}; write a level, as in \"info\" or \"debug\""))
}

/// Logs what a configuration says from now on; without it what RUST_LOG says.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn set_log(directives: Option<&str>) -> Result<(), String> {
    let filter = match directives {
        Some(text) => EnvFilter::try_new(text).map_err(|e| e.to_string())?,
        None => log_of_environment(),
    };
    LOG.get().map_or(Ok(()), |set| set(filter))
}
