//! Every message in both directions, and cut at every byte.

use super::samples;
use crate::nsm::{NsmCall, NsmProc, NsmReply, SmStatus};
use crate::{Nlm4Stats, NlmCall, NlmProc, NlmReply};
use xdr::{DecodeErrorKind, encode_to_vec};

/// Both directions of each message of a list; what is cut is refused.
macro_rules! round_trips {
    ($messages:expr, $decode:path) => {
        for message in $messages {
            let bytes = encode_to_vec(&message);
            assert_eq!(bytes.len() % 4, 0, "{message:?}");
            assert_eq!($decode(message.proc(), &bytes).as_ref(), Ok(&message));
            for cut in 0..bytes.len() {
                let kind = $decode(message.proc(), &bytes[..cut]).map_err(|e| e.kind);
                assert_eq!(
                    kind,
                    Err(DecodeErrorKind::Truncated),
                    "{message:?} cut at {cut}"
                );
            }
        }
    };
}

#[test]
fn every_message_round_trips_and_is_refused_when_cut() {
    round_trips!(samples::nlm_calls(), NlmCall::decode);
    round_trips!(samples::nlm_replies(), NlmReply::decode);
    round_trips!(samples::nsm_calls(), NsmCall::decode);
    round_trips!(samples::nsm_replies(), NsmReply::decode);
    let bytes = encode_to_vec(&samples::STATUS);
    assert_eq!(xdr::decode_all::<SmStatus<'_>>(&bytes), Ok(samples::STATUS));
}

#[test]
fn every_procedure_has_a_sample() {
    let calls = samples::nlm_calls();
    assert!(
        calls
            .iter()
            .map(NlmCall::proc)
            .eq(NlmProc::ALL.iter().copied())
    );
    let mut replies: Vec<_> = samples::nlm_replies().iter().map(NlmReply::proc).collect();
    replies.dedup();
    assert_eq!(replies, NlmProc::ALL);
    let calls = samples::nsm_calls();
    assert!(
        calls
            .iter()
            .map(NsmCall::proc)
            .eq(NsmProc::ALL.iter().copied())
    );
    let replies = samples::nsm_replies();
    assert!(
        replies
            .iter()
            .map(NsmReply::proc)
            .eq(NsmProc::ALL.iter().copied())
    );
}

#[test]
fn messages_have_no_results_and_a_msg_is_answered_by_its_res() {
    for reply in samples::nlm_replies() {
        let proc = reply.proc();
        let empty = encode_to_vec(&reply).is_empty();
        let silent = proc.is_message() || matches!(proc, NlmProc::Null | NlmProc::FreeAll);
        assert_eq!(empty, silent, "{}", proc.name());
        let answered = proc.answered_by().map(NlmProc::name);
        let by_name = proc
            .name()
            .strip_suffix("_MSG")
            .map(|stem| format!("{stem}_RES"));
        assert_eq!(answered, by_name.as_deref());
    }
}

#[test]
fn a_status_shows_its_name_in_the_rfc() {
    let names: Vec<String> = Nlm4Stats::ALL.iter().map(ToString::to_string).collect();
    let rfc = "NLM4_GRANTED NLM4_DENIED NLM4_DENIED_NOLOCKS NLM4_BLOCKED NLM4_DENIED_GRACE_PERIOD \
        NLM4_DEADLCK NLM4_ROFS NLM4_STALE_FH NLM4_FBIG NLM4_FAILED";
    assert_eq!(names.join(" "), rfc);
    let numbers = Nlm4Stats::ALL.iter().map(|stat| *stat as u32);
    assert!(numbers.eq(0..=9));
}
