#!/usr/bin/env bats
# Tests scripts/build with a program in place of `swift` that only prints its arguments.

load lib

setup() {
    programs=$BATS_TEST_TMPDIR/programs
    mkdir "$programs"
    printf '#!/bin/sh\necho "swift $*, LD_PRELOAD=$LD_PRELOAD"\n' >"$programs/swift"
    chmod +x "$programs/swift"
}

@test "scripts/build needs no program of /sbin, which is not in the PATH of a normal user" {
    run env PATH="$programs:/usr/local/bin:/usr/bin:/bin" scripts/build tested
    [[ $status == 0 ]] || fail "exited with status $status: $output"
    [[ $output == *"swift build --scratch-path .build/tested"*"--product dwell, LD_PRELOAD="*libjemalloc.so.2 ]] || fail "printed: $output"
}

@test "scripts/build starts the compiler without jemalloc if gcc does not find it" {
    printf '#!/bin/sh\necho libjemalloc.so.2\n' >"$programs/gcc"
    chmod +x "$programs/gcc"
    run env -u LD_PRELOAD PATH="$programs:/usr/local/bin:/usr/bin:/bin" scripts/build tested
    [[ $status == 0 ]] || fail "exited with status $status: $output"
    [[ $output == *", LD_PRELOAD=" ]] || fail "printed: $output"
}
