# FILES files in one directory: made, listed, looked at, listed again past the cache, removed.
. /run/job/guest/lib.sh
: "${FILES:=100000}"
scenario manyfiles
check python3 "$LIB/manyfiles.py" "$WORK" "$FILES"
pass
