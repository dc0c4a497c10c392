#!/bin/bash
# The checks that CI adds to the tests. Usage: check.sh [CHECK...]; without names, all of them.
# Each runs even when an earlier one failed; the exit status is 0 when none did. One line a check
# ("ok|FAILED NAME SECONDS") is left in build-check/results, the output in build-check/NAME.log.
set -euo pipefail
cd "$(dirname "$0")/.."
out=build-check
jobs=$(nproc)

all=(includes headers format warnings demo kernels asan fuzz tsan valgrind install)

# Every C file of our own.
sources() {
    git ls-files 'src/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'bench/*.[ch]' 'examples/*.[ch]'
}

# configure DIR ARGS...: sets up, or changes, a build folder.
configure() {
    local dir=$1
    shift
    if [ -e "$dir/build.ninja" ]; then meson configure "$dir" "$@"; else meson setup "$dir" "$@"; fi
    ninja -C "$dir" -j "$jobs"
}

check_includes() { scripts/check-includes.sh; }

# Each header compiles on its own; the public ones also as C11 and as C++.
check_headers() {
    local flags=(-fsyntax-only -Wall -Wextra -Werror -Wno-unused-parameter -Wno-unused-function
        -Iinclude -Isrc -Itests -D_GNU_SOURCE) h n=0
    while read -r h; do
        printf '#include "%s"\n' "$PWD/$h" > $out/header.c
        cp $out/header.c $out/header.cc
        gcc -std=gnu17 "${flags[@]}" $out/header.c || { echo "$h does not stand alone"; return 1; }
        if [[ $h == include/* ]]; then
            gcc -std=c11 -pedantic "${flags[@]}" $out/header.c
            g++ -std=c++11 -pedantic "${flags[@]}" $out/header.cc
        fi
        n=$((n + 1))
    done < <(sources | grep '\.h$')
    echo "$n headers stand alone"
}

check_format() { sources | xargs clang-format-14 --dry-run -Werror; }

# The demo trains to the accuracy that it promises.
check_demo() { make demo; }

# Every CUDA kernel through NVRTC, for each generation of cards; where there is none it says so.
check_kernels() {
    make all
    local status=0
    build/tests/test_cuda_kernels || status=$?
    [ $status = 0 ] || [ $status = 77 ]
}

# gcc's warnings are errors; in CI the folder "build" already is such a build.
check_warnings() {
    if grep -qs -- --werror build/flags; then make all
    else configure $out/gcc --werror
    fi
}

# One clang build, warnings as errors, for the tests under ASan and UBSan and for the fuzz targets.
build_asan() {
    CC=clang configure build-asan --werror --buildtype debugoptimized -Dfuzz=true \
        -Db_sanitize=address,undefined -Db_lundef=false
}

check_asan() {
    build_asan
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        meson test -C build-asan --no-rebuild --print-errorlogs -t 5 --no-suite accuracy \
        --no-suite emulated --no-suite nvrtc
}

# Each target for a few seconds from its seeds in tests/fuzz/seeds/NAME. Their files are small, so no
# allocation may be large.
check_fuzz() {
    local target name seeds n=0
    build_asan
    for target in build-asan/tests/fuzz/fuzz_*; do
        [ -f "$target" ] && [ -x "$target" ] || continue
        name=${target##*/fuzz_}
        mkdir -p "$out/corpus/$name"
        seeds=()
        [ ! -d "tests/fuzz/seeds/$name" ] || seeds=("tests/fuzz/seeds/$name")
        "$target" -max_total_time="${FUZZ_SECONDS:-5}" -timeout=10 -rss_limit_mb=2048 \
            -malloc_limit_mb=512 -print_final_stats=1 -artifact_prefix="$out/fuzz-$name-" \
            "$out/corpus/$name" "${seeds[@]}"
        n=$((n + 1))
    done
    [ $n -gt 0 ] || { echo "no fuzz target was built"; return 1; }
    echo "$n fuzz targets ran"
}

# clang, since gcc's OpenMP runtime hides its synchronisation from TSan; LLVM's tells it through
# archer. oneDNN is not instrumented and brings gcc's runtime, so its modules are ignored.
check_tsan() {
    CC=clang configure build-tsan --buildtype debugoptimized -Db_sanitize=thread -Db_lundef=false
    OMP_TOOL_LIBRARIES=/usr/lib/llvm-14/lib/libarcher.so \
    TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1 \
        meson test -C build-tsan --no-rebuild --print-errorlogs -t 10 --no-suite accuracy \
        --no-suite emulated --no-suite nvrtc --no-suite long
}

# Reads of uninitialised memory, which ASan does not see, in the tests that are quick enough.
check_valgrind() {
    make all
    local name
    for name in $(cat scripts/valgrind-tests.txt); do
        echo "valgrind test_$name"
        OMP_NUM_THREADS=1 valgrind -q --error-exitcode=9 --undef-value-errors=yes \
            --leak-check=no "build/tests/test_$name" > $out/valgrind.out 2>&1 ||
            { cat $out/valgrind.out; return 1; }
    done
}

# A program of somebody else builds against the installed library and runs.
check_install() {
    local root=$PWD/$out/root libdir
    rm -rf "$root"
    make install DESTDIR="$root" PREFIX=/usr BUILD=build
    libdir=$(dirname "$(find "$root" -name libbrim.so)")
    cat > $out/installed.c <<'C'
#include <brim/graph.h>
int main(void)
{
    int64_t dim[2] = {2, 3};
    brim_graph *g = brim_graph_new(true);
    brim_value *x = brim_input(g, "x", BRIM_F32, 2, dim);
    brim_output_mark(g, "y", brim_relu(g, x));
    int ok = brim_graph_check(g, NULL) == BRIM_OK;
    brim_graph_free(g);
    return ok ? 0 : 1;
}
C
    # shellcheck disable=SC2046
    gcc -std=c11 -Wall -Werror $out/installed.c -o $out/installed \
        $(PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root \
            pkg-config --cflags --libs brim)
    LD_LIBRARY_PATH=$libdir $out/installed
    LD_LIBRARY_PATH=$libdir "$root/usr/bin/brim" --version
    echo "the installed library and program work"
}

main() {
    local name start rc bad=0
    mkdir -p $out
    [ $# -gt 0 ] || set -- "${all[@]}"
    : > $out/results
    for name in "$@"; do
        if ! declare -F "check_$name" > /dev/null; then
            echo "check: no check is named $name (there are: ${all[*]})" >&2
            exit 2
        fi
        echo "== check $name"
        start=$SECONDS
        set +e
        (set -e; "check_$name") > "$out/$name.log" 2>&1
        rc=$?
        set -e
        if [ $rc = 0 ]; then
            tail -n 1 "$out/$name.log"
            echo "ok $name $((SECONDS - start))" | tee -a $out/results
        else
            tail -n "${CHECK_TAIL:-60}" "$out/$name.log"
            echo "FAILED $name $((SECONDS - start))" | tee -a $out/results
            bad=1
        fi
    done
    return $bad
}

main "$@"
