# Small scenarios whose traffic the host records, for other people's software to decode (PNFS_MIB says how much data).
. /run/job/guest/lib.sh
NAME=capture
trap 'finish $?' EXIT
signal ready
await go || fail "the host does not record"
SCENARIOS="mount special openunlink locks direct pnfs nfs3 nlm" PNFS_MIB="$CAPTURE_MIB" \
    sh "$LIB/run-scenarios.sh" || fail "a scenario failed"
signal done
VERDICT=passed
echo "ok $NAME"
