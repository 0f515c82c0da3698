//! Goal: attributes, bitmaps and stateids of any value round-trip, and no bytes make a decoder panic. Method:
//! generated values.

use proptest::prelude::*;
use xdr::{List, decode_all, encode_to_vec};

use crate::{fuzz, *};

fn time() -> impl Strategy<Value = NfsTime> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanoseconds)| NfsTime {
        seconds,
        nanoseconds,
    })
}

fn set_time() -> impl Strategy<Value = SetTime> {
    prop_oneof![Just(SetTime::Server), time().prop_map(SetTime::Client)]
}

fn owner() -> impl Strategy<Value = Owner> {
    prop::collection::vec(any::<u8>(), 0..40).prop_map(|b| Owner::from(b.as_slice()))
}

fn bitmap() -> impl Strategy<Value = Bitmap> {
    prop::collection::vec(0..BITMAP_WORDS_MAX * 32, 0..20).prop_map(|bits| Bitmap::of(&bits))
}

fn ace() -> impl Strategy<Value = Ace> {
    (any::<[u32; 3]>(), owner()).prop_map(|([ace_type, flag, access_mask], who)| Ace {
        ace_type,
        flag,
        access_mask,
        who,
    })
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    any::<[Option<u64>; 4]>().prop_map(|[a, b, c, d]| Thresholds {
        read_file_bytes: a,
        write_file_bytes: b,
        read_io_bytes: c,
        write_io_bytes: d,
    })
}

fn mdsthreshold() -> impl Strategy<Value = MdsThreshold> {
    prop::collection::vec((any::<u32>(), thresholds()), 0..3).prop_map(|items| MdsThreshold {
        items: List(items.into_iter().map(|(of, t)| t.item(of)).collect()),
    })
}

fn open_arguments() -> impl Strategy<Value = OpenArguments> {
    prop::collection::vec(bitmap(), 5).prop_map(|sets| OpenArguments {
        share_access: sets[0],
        share_deny: sets[1],
        share_access_want: sets[2],
        open_claim: sets[3],
        create_mode: sets[4],
    })
}

prop_compose! {
    fn attrs()(
        supported_attrs in prop::option::of(bitmap()),
        file_type in prop::option::of(prop::sample::select(FileType::ALL)),
        size in any::<Option<u64>>(),
        rdattr_error in prop::option::of(prop::sample::select(NfsStatus::ALL)),
        acl in prop::option::of(prop::collection::vec(ace(), 0..4).prop_map(List)),
        owner in prop::option::of(owner()),
        rawdev in any::<Option<(u32, u32)>>(),
        time_access_set in prop::option::of(set_time()),
        time_modify in prop::option::of(time()),
        layout_types in prop::option::of(prop::collection::vec(any::<u32>(), 0..4).prop_map(List)),
        mdsthreshold in prop::option::of(mdsthreshold()),
        mode_umask in any::<Option<(u32, u32)>>(),
        xattr_support in any::<Option<bool>>(),
        open_arguments in prop::option::of(open_arguments()),
    ) -> Attrs {
        Attrs {
            supported_attrs,
            file_type,
            size,
            rdattr_error,
            acl,
            owner,
            rawdev: rawdev.map(|(major, minor)| SpecData { major, minor }),
            time_access_set,
            time_modify,
            layout_types,
            mdsthreshold,
            mode_umask: mode_umask.map(|(mode, umask)| ModeUmask { mode, umask }),
            xattr_support,
            open_arguments,
            ..Attrs::default()
        }
    }
}

proptest! {
    #[test]
    fn attributes_round_trip(attrs in attrs(), mask in bitmap()) {
        let fattr = Fattr::new(&attrs);
        let bytes = encode_to_vec(&fattr);
        let again = decode_all::<Fattr<'_>>(&bytes).unwrap();
        prop_assert_eq!(again.attrs(), Ok(attrs.clone()));
        let some = encode_to_vec(&FattrOf { mask: &mask, attrs: &attrs });
        let mut kept = attrs;
        kept.retain(&mask);
        prop_assert_eq!(decode_all::<Fattr<'_>>(&some).unwrap().attrs(), Ok(kept));
    }

    #[test]
    fn values_cut_anywhere_are_refused(attrs in attrs(), cut in any::<prop::sample::Index>()) {
        let mut fattr = Fattr::new(&attrs);
        let len = fattr.values.len();
        prop_assume!(len > 0);
        fattr.values.to_mut().truncate(cut.index(len));
        prop_assert_eq!(fattr.attrs().map_err(|e| e.status()), Err(NfsStatus::BadXdr));
    }

    #[test]
    fn thresholds_round_trip(sent in thresholds(), other in mdsthreshold(), cut in any::<prop::sample::Index>()) {
        let mut attribute = other;
        attribute.items.0.retain(|item| item.layout_type != 7);
        prop_assert_eq!(Thresholds::of(&attribute, 7), Ok(Thresholds::default()));
        attribute.items.0.push(sent.item(7));
        prop_assert_eq!(Thresholds::of(&attribute, 7), Ok(sent));
        let hints = &mut attribute.items.0.last_mut().unwrap().hints.0;
        prop_assume!(!hints.is_empty());
        hints.truncate(cut.index(hints.len()));
        prop_assert!(Thresholds::of(&attribute, 7).is_err());
    }

    #[test]
    fn stateids_round_trip(seqid in any::<u32>(), other in any::<[u8; OTHER_BYTES]>()) {
        let stateid = Stateid { seqid, other };
        let bytes = encode_to_vec(&stateid);
        prop_assert_eq!(bytes.len(), 16);
        prop_assert_eq!(decode_all::<Stateid>(&bytes), Ok(stateid));
    }

    #[test]
    fn bitmaps_round_trip(mask in bitmap()) {
        prop_assert_eq!(decode_all::<Bitmap>(&encode_to_vec(&mask)), Ok(mask));
        prop_assert_eq!(Bitmap::of(&mask.iter().collect::<Vec<_>>()), mask);
    }

    #[test]
    fn no_bytes_make_a_target_panic(data in prop::collection::vec(any::<u8>(), 0..256)) {
        for (_, target) in fuzz::TARGETS {
            target(&data);
        }
    }
}
