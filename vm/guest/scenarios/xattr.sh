# Extended attributes by two mounts: set, read, list, remove, large values, who may.
. /run/job/guest/lib.sh
case $VERS in
4.1) scenario xattr; check python3 "$LIB/xattr.py" --none "$WORK" ;;
*) two_caches xattr; check python3 "$LIB/xattr.py" "$WORK" "$WORK2" ;;
esac
pass
