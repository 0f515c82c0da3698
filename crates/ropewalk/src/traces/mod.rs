//! Traces of requests for a collector of OpenTelemetry: OTLP over HTTP as JSON.
//!
//! Owns what a trace looks like there. [`server::Traces`] chooses the requests and notes their steps, [`collector`] sends.
//! The SDK has a thread and a queue of its own: when the collector is slow or away, spans are dropped and no request waits.

mod collector;

use crate::failure::{Outcome, cannot, failed};
use collector::Collector;
use opentelemetry::trace::{
    Span, SpanBuilder, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use server::{RequestTrace, Traces};
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

/// Requests of which one is traced, unless a configuration says otherwise.
pub(crate) const TRACES_EVERY: NonZeroU32 = NonZeroU32::new(1000).expect("not zero");
/// Where collectors of OTLP over HTTP take traces.
const PATH: &str = "/v1/traces";
/// How long the end of a server waits for spans that are not sent yet.
const LAST_SPANS: Duration = Duration::from_secs(1);

/// Sends traces as long as it lives.
pub(crate) struct Sending(SdkTracerProvider);

impl Drop for Sending {
    fn drop(&mut self) {
        if let Err(e) = self.0.shutdown_with_timeout(LAST_SPANS) {
            tracing::debug!("the last traces were not sent: {e}");
        }
    }
}

/// What is wrong with the address of a collector.
pub(crate) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    Collector::of(endpoint).map(drop)
}

/// Sends one request of `every` to the collector at `endpoint`, if there is one.
///
/// # Errors
/// An address that [`check_endpoint`] refuses, or a thread that cannot be started.
pub(crate) fn begin(
    service: &'static str,
    (endpoint, every): (Option<&str>, NonZeroU32),
    traces: &Traces,
) -> Outcome<Option<Sending>> {
    let Some(endpoint) = endpoint else {
        return Ok(None);
    };
    let collector = Collector::of(endpoint).map_err(failed)?;
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}{PATH}", endpoint.trim_end_matches('/')))
        .with_http_client(collector)
        .build()
        .map_err(cannot("send traces"))?;
    let resource = Resource::builder()
        .with_service_name(service)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new(
            "ropewalk.traces_every",
            i64::from(every.get()),
        ))
        .build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build();
    let tracer = provider.tracer("ropewalk");
    traces.begin(every, Box::new(move |request| send(&tracer, &request)));
    tracing::info!("one request of {every} is traced to {endpoint}");
    Ok(Some(Sending(provider)))
}

/// A span for the request, and below it one for each step.
fn send(tracer: &SdkTracer, request: &RequestTrace) {
    let ended = SystemTime::now();
    let Some(began) = ended.checked_sub(request.took) else {
        return;
    };
    let builder = SpanBuilder::from_name(request.name)
        .with_kind(SpanKind::Server)
        .with_start_time(began)
        .with_attributes(attributes(request));
    let mut span = tracer.build_with_context(builder, &Context::new());
    if let (true, Some(status)) = (request.failed, request.status) {
        span.set_status(Status::error(status));
    }
    let parent = Context::new().with_span(span);
    let ends = request.steps.iter().skip(1).map(|step| step.after);
    let ends = ends.chain(std::iter::once(request.took));
    for (step, end) in request.steps.iter().zip(ends) {
        let builder = SpanBuilder::from_name(step.name).with_start_time(began + step.after);
        tracer
            .build_with_context(builder, &parent)
            .end_with_timestamp(began + end);
    }
    parent.span().end_with_timestamp(ended);
}

/// By the semantic conventions for ONC RPC, and what they do not have.
fn attributes(request: &RequestTrace) -> Vec<KeyValue> {
    let program_version = if request.version == "3" { 3 } else { 4 };
    let mut attributes = vec![
        KeyValue::new("rpc.system.name", "onc_rpc"),
        KeyValue::new("rpc.method", request.name),
        KeyValue::new("onc_rpc.program.name", "nfs"),
        KeyValue::new("onc_rpc.version", program_version),
        KeyValue::new("nfs.version", request.version),
        KeyValue::new("onc_rpc.xid", format!("{:#010x}", request.xid)),
        KeyValue::new("network.transport", request.transport.as_str()),
    ];
    if let Some(status) = request.status {
        attributes.push(KeyValue::new("rpc.response.status_code", status));
    }
    if let Some(peer) = request.peer {
        attributes.push(KeyValue::new("network.peer.address", peer.ip().to_string()));
        attributes.push(KeyValue::new("network.peer.port", i64::from(peer.port())));
    }
    attributes
}
