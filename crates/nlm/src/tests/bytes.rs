//! Messages as the protocols describe them, written by hand.

use super::samples;
use crate::nsm::{NsmCall, NsmProc};
use crate::{NlmCall, NlmProc, NlmReply};
use xdr::encode_to_vec;

/// The bytes of lines of hexadecimal digits, each with a remark after `#`.
fn hex(lines: &str) -> Vec<u8> {
    let digits: Vec<u8> = lines
        .lines()
        .flat_map(|line| line.split('#').next().unwrap().bytes())
        .filter(u8::is_ascii_hexdigit)
        .collect();
    let pairs = digits
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

#[test]
fn the_arguments_of_lock_are_as_the_rfc_has_them() {
    let bytes = hex("
        00000004 00000009           # cookie
        00000001                    # block
        00000001                    # exclusive
        00000005 616c706861 000000  # caller_name: alpha
        00000006 010203040506 0000  # fh
        00000007 3740616c706861 00  # oh: 7@alpha
        00000007                    # svid
        0000000100000000            # l_offset: 4 GiB
        0000000000000010            # l_len: 16
        00000000                    # reclaim
        00000003                    # state
    ");
    let call = NlmCall::Lock(samples::LOCK_ARGS);
    assert_eq!(encode_to_vec(&call), bytes);
    for proc in [NlmProc::Lock, NlmProc::LockMsg, NlmProc::NmLock] {
        let (NlmCall::Lock(args) | NlmCall::LockMsg(args) | NlmCall::NmLock(args)) =
            NlmCall::decode(proc, &bytes).unwrap()
        else {
            panic!("{} has other arguments", proc.name());
        };
        assert_eq!(args, samples::LOCK_ARGS);
    }
}

#[test]
fn the_result_of_test_has_a_holder_when_it_is_denied() {
    let bytes = hex("
        00000004 00000009  # cookie
        00000001           # NLM4_DENIED
        00000001           # exclusive
        ffffffff           # svid: -1
        00000001 68000000  # oh: h
        0000000000000005   # l_offset
        0000000000000000   # l_len: to the end
    ");
    let reply = NlmReply::Test(samples::HELD);
    assert_eq!(encode_to_vec(&reply), bytes);
    assert_eq!(NlmReply::decode(NlmProc::Test, &bytes), Ok(reply));
}

#[test]
fn the_result_of_test_has_no_holder_when_the_lock_could_be_had() {
    let bytes = hex("
        00000004 00000009  # cookie
        00000000           # NLM4_GRANTED
    ");
    let reply = NlmReply::decode(NlmProc::Test, &bytes).unwrap();
    assert_eq!(encode_to_vec(&reply), bytes);
}

#[test]
fn the_arguments_of_mon_end_with_sixteen_bytes_without_a_count() {
    let bytes = hex("
        00000005 616c706861 000000        # mon_name: alpha
        00000002 7573 0000                # my_name: us
        000186b5                          # my_prog: 100021
        00000004                          # my_vers
        00000010                          # my_proc
        30313233343536373839616263646566  # priv
    ");
    let call = NsmCall::Mon(samples::MON);
    assert_eq!(encode_to_vec(&call), bytes);
    assert_eq!(NsmCall::decode(NsmProc::Mon, &bytes), Ok(call));
}

#[test]
fn the_arguments_of_notify_are_a_host_and_its_state() {
    let bytes = hex("
        00000005 616c706861 000000  # mon_name: alpha
        00000005                    # state
    ");
    let call = NsmCall::Notify(samples::NOTIFY);
    assert_eq!(encode_to_vec(&call), bytes);
    assert_eq!(
        NsmCall::decode(NsmProc::from_u32(6).unwrap(), &bytes),
        Ok(call)
    );
}
