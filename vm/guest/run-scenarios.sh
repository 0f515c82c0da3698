# Runs the scenarios named in SCENARIOS one after the other. Frames each with "## begin NAME" and
# "## end NAME STATUS SECONDS", which the host reads. A scenario that does not end is killed after
# SCENARIO_LIMIT_S seconds; one that cannot be killed is left to the guest's own limit.
: "${SCENARIOS:?}" "${SCENARIO_LIMIT_S:=600}"

# What a scenario that hangs gets beyond its limit, while its processes are shown.
DUMP_S=20

now() { cut -d ' ' -f 1 /proc/uptime; }

# Words of the kernel that mean a bug of the client, or of what a server made it believe.
oopses() { dmesg | grep -cE 'BUG:|WARNING:|Oops|general protection|INFO: task .* blocked'; }

# What runs, and where in the kernel it waits: the first question about a scenario that hangs.
show_processes() {
    # Not the command line: to read it waits for the process's memory, which may be what hangs.
    for task in /proc/[0-9]*/task/[0-9]*; do
        parent=$(sed -n 's/^PPid:[[:space:]]*//p' "$task/status")
        [ "$parent" = 2 ] ||
            echo "# $task of $parent $(cat "$task/comm"): $(sed -n 's/^State://p' "$task/status")" \
                "$(cat "$task/wchan" "$task/syscall" 2>/dev/null)"
        [ "$parent" = 2 ] || sed 's/^/#     /' "$task/stack" 2>/dev/null
    done
}

all=0
for name in $SCENARIOS; do
    echo "## begin $name"
    begin=$(now)
    before=$(oopses)
    # A scenario finds an empty /tmp; one that a killed scenario still uses stays underneath.
    umount /tmp 2>/dev/null
    mount -t tmpfs -o mode=1777 tmp /tmp
    (sleep "$SCENARIO_LIMIT_S" && show_processes) &
    watcher=$!
    timeout -k 5 $((SCENARIO_LIMIT_S + DUMP_S)) /bin/sh "/run/job/guest/scenarios/$name.sh"
    status=$?
    kill $watcher 2>/dev/null
    [ $status -ne 124 ] && [ $status -ne 137 ] ||
        echo "FAIL $name: not done after $SCENARIO_LIMIT_S s"
    if [ "$(oopses)" -ne "$before" ]; then
        dmesg | grep -E -A 12 'BUG:|WARNING:|Oops|general protection|INFO: task' | tail -n 40
        [ $status -ne 0 ] || echo "FAIL $name: the client's kernel complained"
        status=1
    fi
    [ $status -eq 0 ] || all=1
    # What a failed scenario left mounted must not be shared with the next one.
    grep -E ' nfs4? ' /proc/mounts | cut -d ' ' -f 2 | while read -r left; do
        umount -i -f "$left" 2>/dev/null || umount -i -l "$left"
    done
    echo "## end $name $status $(echo "$begin $(now)" | awk '{ printf "%.1f", $2 - $1 }')"
done
exit $all
