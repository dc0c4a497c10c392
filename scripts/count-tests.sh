#!/bin/bash
# Prints "PASSED FAILED SKIPPED" summed over the given meson logs (testlog.txt): the cases of each
# cmocka program; any other program, and one that died before its summary, counts as one.
set -euo pipefail

awk '
function close_program() {
    if (!open) return
    if (bad && !failed_here) failed_here = 1
    if (!bad && !passed_here && !failed_here && !skipped_here) {
        if (result ~ /exit status 77/) skipped_here = 1
        else passed_here = 1
    }
    passed += passed_here
    failed += failed_here
    skipped += skipped_here
    open = 0
}
/^test: / {
    close_program()
    open = 1
    bad = passed_here = failed_here = skipped_here = 0
}
/^result: / { result = $0; bad = result !~ /exit status (0|77)$/ }
/^\[       OK \] / { passed_here++ }
/^\[  SKIPPED \] [0-9]+ test\(s\)/ { skipped_here += $4 }
/^\[  FAILED  \] [0-9]+ test\(s\)/ { failed_here += $4 }
END { close_program(); print passed + 0, failed + 0, skipped + 0 }' "$@"
