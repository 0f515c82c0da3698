# Files get other stripes and copies while programs write and read them. Orders are extended attributes, so they go by a mount
# of 4.2, which is the second one with 4.1.
. /run/job/guest/lib.sh
scenario restripe
orders=$WORK
if [ "$VERS" = 4.1 ]; then
    second_client
    orders=$WORK2
fi
check python3 "$LIB/restripe.py" "$WORK" "$orders"
pass
