# Holes, reserved storage, the search for data and copies within the server, seen by two mounts.
. /run/job/guest/lib.sh
if [ "$VERS" = 4.1 ]; then
    scenario ranges
    echo "# NFSv4.1 has none of these"
    pass
    exit 0
fi
two_caches ranges
check python3 "$LIB/ranges.py" "$WORK" "$WORK2" "$WORK3"
for operation in ALLOCATE DEALLOCATE SEEK COPY; do
    [ "$(operations "$operation")" -gt 0 ] || fail "no $operation was sent"
    echo "# $operation: $(operations "$operation")"
done
pass
