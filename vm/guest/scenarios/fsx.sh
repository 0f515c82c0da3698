# Random I/O on one file through two descriptors, against a model in memory: first buffered with
# mmap, then with O_DIRECT mixed in. FSX_OPS and FSX_SEED choose how much and which.
. /run/job/guest/lib.sh
: "${FSX_OPS:=2000}" "${FSX_SEED:=1}" "${FSX_MIB:=4}"
scenario fsx
check python3 "$LIB/fsx.py" "$WORK/buffered" --ops "$FSX_OPS" --seed "$FSX_SEED" \
    --size $((FSX_MIB << 20))
check python3 "$LIB/fsx.py" "$WORK/direct" --ops "$FSX_OPS" --seed $((FSX_SEED + 1)) \
    --size $((FSX_MIB << 20)) --direct
pass
