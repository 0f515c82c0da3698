# Clones a repository from the guest's memory to the mount, checks it, works in the clone (branch,
# commit, merge, repack), and clones back.
. /run/job/guest/lib.sh
scenario git
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=guest GIT_AUTHOR_EMAIL=guest@example.org
export GIT_COMMITTER_NAME=guest GIT_COMMITTER_EMAIL=guest@example.org
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
export GIT_CONFIG_KEY_1=gc.auto GIT_CONFIG_VALUE_1=0
git init -q --bare -b main /tmp/origin.git || fail "cannot make the first repository"
python3 "$LIB/gitstream.py" | git -C /tmp/origin.git fast-import --quiet ||
    fail "cannot fill the first repository"
check git clone -q "file:///tmp/origin.git" "$WORK/clone"
cd "$WORK/clone" || fail "there is no clone"
check git fsck --full --strict
[ -z "$(git status --porcelain)" ] || fail "a fresh clone is not clean"
check git checkout -q -b work
for n in 1 2 3 4 5; do
    echo "line $n" >>dir_01/file_003.txt
    git mv "dir_02/file_00$n.txt" "dir_02/moved_$n.txt" || fail "git mv failed"
    check git commit -q -a -m "work $n"
done
check git checkout -q main
check git merge -q --no-ff -m merge work
check git repack -q -a -d
check git gc -q --prune=now
check git fsck --full --strict
check git clone -q "$WORK/clone" /tmp/back
[ "$(git -C /tmp/back rev-parse 'HEAD^{tree}')" = "$(git rev-parse 'HEAD^{tree}')" ] ||
    fail "the clone of the clone has another tree"
git -C /tmp/back fsck --full >/dev/null 2>&1 || fail "the clone of the clone is damaged"
pass
