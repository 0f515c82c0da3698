# Unpacks a small C project on the mount, builds it there, runs it, and builds it again: the second
# make must find nothing to do, which it only does if times and sizes are right.
. /run/job/guest/lib.sh
scenario build
check python3 "$LIB/cproject.py" /tmp/project
tar -C /tmp -cf /tmp/project.tar project
cd "$WORK" || fail "cannot enter the mount"
tar -xf /tmp/project.tar || fail "cannot unpack"
diff -r /tmp/project project >/dev/null || fail "the unpacked project differs"
make -C project -j 2 >/tmp/make.out 2>&1 ||
    fail "make failed: $(grep -i -m 1 error /tmp/make.out || tail -n 1 /tmp/make.out)"
got=$(./project/program) || fail "the program ended with $?"
[ "$got" = "$(cat /tmp/project/expected)" ] || fail "the program printed $got"
make -C project -q || fail "a second make found something to do"
sleep 1
touch project/unit_07.c
make -C project -n | grep -c gcc | grep -qx 2 || fail "touching one file did not rebuild just it"
make -C project clean >/dev/null || fail "make clean failed"
[ "$(find project -name '*.o' | wc -l)" -eq 0 ] || fail "objects are left after make clean"
pass
