//! The log of a server: to standard error, of what RUST_LOG or a configuration says, as text or as JSON. Its newest lines stay
//! in memory, for pages that show them. The audit trail is always told, whatever the level is. A line that is written while a
//! call is served has the id of that call ([`CallId`]).

use crate::failure::Failure;
use ::admin::{AUDIT_TARGET, Events, Level};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::sync::{LazyLock, OnceLock};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};
use transport::CallId;

/// What this process has told lately.
static EVENTS: LazyLock<Events> = LazyLock::new(Events::default);

/// What this process has told lately.
pub(crate) fn events() -> &'static Events {
    &EVENTS
}

/// What a line of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object, with the fields of the event at its top.
    Json,
}

/// Sends logs to standard error; `RUST_LOG` chooses, `info` when it does not.
pub(crate) fn init_logging(format: LogFormat) {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let plain = tracing_subscriber::fmt()
        .with_env_filter(log_of_environment())
        .with_writer(std::io::stderr)
        // It tells standard error that standard error cannot be written, and panics when that fails. A log on a full
        // disk would take the server down.
        .log_internal_errors(false)
        .with_ansi(is_terminal && format == LogFormat::Text);
    match format {
        LogFormat::Text => {
            let with_call = |lines| WithCall {
                lines,
                add: add_as_text,
            };
            let made = plain.map_event_format(with_call).with_filter_reloading();
            let handle = made.reload_handle();
            let set = move |filter| handle.reload(filter).map_err(|e| e.to_string());
            let is_new = made.finish().with(ToEvents).try_init().is_ok();
            begin(is_new, format, Box::new(set));
        }
        LogFormat::Json => {
            let with_call = |lines| WithCall {
                lines,
                add: add_as_json,
            };
            let json = plain.json().flatten_event(true);
            let made = json.map_event_format(with_call).with_filter_reloading();
            let handle = made.reload_handle();
            let set = move |filter| handle.reload(filter).map_err(|e| e.to_string());
            let is_new = made.finish().with(ToEvents).try_init().is_ok();
            begin(is_new, format, Box::new(set));
        }
    }
}

fn begin(is_new: bool, format: LogFormat, set: SetLog) {
    if is_new {
        let _ = LOG.set((format, set));
    }
}

/// Says in the log why the process ends, when the log is JSON: whoever reads that expects nothing else. Tells whether it did.
pub(crate) fn tell_as_json(failure: &Failure) -> bool {
    let is_json = matches!(LOG.get(), Some((LogFormat::Json, _)));
    if is_json {
        tracing::error!("{failure}");
    }
    is_json
}

fn log_of_environment() -> EnvFilter {
    let chosen = EnvFilter::try_from_default_env();
    with_audit(chosen.unwrap_or_else(|_| EnvFilter::new("info")))
}

/// The same filter, which lets the audit trail through.
fn with_audit(filter: EnvFilter) -> EnvFilter {
    let audit = format!("{AUDIT_TARGET}=info");
    filter.add_directive(audit.parse().expect("a target and a level"))
}

/// Sets what is logged from now on.
type SetLog = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// Of the log of this process.
static LOG: OnceLock<(LogFormat, SetLog)> = OnceLock::new();

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
        Some(text) => with_audit(EnvFilter::try_new(text).map_err(|e| e.to_string())?),
        None => log_of_environment(),
    };
    LOG.get().map_or(Ok(()), |(_, set)| set(filter))
}

/// Lines with the id of the call that they were written for.
struct WithCall<F> {
    /// The form of a line.
    lines: F,
    /// Writes a line, to its last character before the end, and the id.
    add: fn(&mut Writer<'_>, &str, CallId) -> std::fmt::Result,
}

fn add_as_text(to: &mut Writer<'_>, line: &str, call: CallId) -> std::fmt::Result {
    writeln!(to, "{line} request_id={call}")
}

/// The id needs no escapes: it is an address and a number.
fn add_as_json(to: &mut Writer<'_>, line: &str, call: CallId) -> std::fmt::Result {
    let fields = line.strip_suffix('}').ok_or(std::fmt::Error)?;
    writeln!(to, "{fields},\"request_id\":\"{call}\"}}")
}

impl<S, N, F> FormatEvent<S, N> for WithCall<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let Some(call) = CallId::current() else {
            return self.lines.format_event(context, writer, event);
        };
        let mut line = String::new();
        let to = Writer::new(&mut line);
        self.lines.format_event(context, to, event)?;
        (self.add)(&mut writer, line.trim_end_matches('\n'), call)
    }
}

/// Keeps what is logged as events. What the filter leaves out does not come here.
struct ToEvents;

impl<S: Subscriber> Layer<S> for ToEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warn,
            tracing::Level::INFO => Level::Info,
            _ => return,
        };
        let mut line = Line::default();
        event.record(&mut line);
        if let Some(call) = CallId::current() {
            // Writing into a string cannot fail.
            let _ = write!(line.fields, " request_id={call}");
        }
        EVENTS.record(level, line.message + line.fields.as_str());
    }
}

/// The text of an event: its message, then its fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing into a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
