# Clones by FICLONE and FICLONERANGE, on data servers whose file system shares storage.
. /run/job/guest/lib.sh
scenario clone
if [ "$VERS" != 4.1 ]; then
    check python3 "$LIB/clone.py" "$WORK"
    [ "$(operations CLONE)" -gt 0 ] || fail "no CLONE was sent"
fi
pass
