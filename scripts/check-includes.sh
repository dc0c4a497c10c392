#!/bin/bash
# Fails when a file includes a header of a folder that scripts/includes.txt does not allow.
# Quoted includes are written from src/, include/ or the file's own folder.
set -euo pipefail
cd "$(dirname "$0")/.."

find include src tests bench examples -name '*.[ch]' -o -name '*.def' | sort |
    xargs grep -Hn '^[[:space:]]*#[[:space:]]*include' |
    awk -v table=scripts/includes.txt '
function expand(name, text,    part, n, i, out) { # one right side, with each @NAME opened
    n = split(text, part, " ")
    for (i = 1; i <= n; i++)
        if (part[i] ~ /^@/) out = out " " substr(part[i], 2) right["src/" substr(part[i], 2)]
        else out = out " " part[i]
    return out
}
function folder_of(path,    p) { # the longest listed folder that holds the path
    for (p = path; p != ""; p = p ~ "/" ? substr(p, 1, match(p, "/[^/]*$") - 1) : "")
        if (p in right) return p
    return ""
}
function exists(path,    line, ok) {
    ok = (getline line < path) >= 0
    close(path)
    return ok
}
BEGIN {
    while ((getline line < table) > 0) {
        if (line ~ /^#/ || line ~ /^[[:space:]]*$/) continue
        at = index(line, ":")
        right[substr(line, 1, at - 1)] = expand("", substr(line, at + 1))
    }
}
{
    at = index($0, ":")
    file = substr($0, 1, at - 1)
    rest = substr($0, at + 1)
    where = file ":" substr(rest, 1, index(rest, ":") - 1)
    if (!match(rest, /[<"][^>"]+[>"]/)) next
    quoted = substr(rest, RSTART, 1) == "\""
    name = substr(rest, RSTART + 1, RLENGTH - 2)
    dir = substr(file, 1, match(file, "/[^/]*$") - 1)
    if (exists("src/" name)) target = "src/" name
    else if (exists("include/" name)) target = "include/" name
    else if (quoted && exists(dir "/" name)) target = dir "/" name
    else if (quoted) { print where ": \"" name "\" is no file of this repository"; bad++; next }
    else next # a library
    n++
    from = folder_of(file)
    if (from == "") { print where ": no line of " table " is about this folder"; bad++; next }
    to = folder_of(target)
    if (to ~ /\.[ch]$/) to = substr(to, 1, match(to, "/[^/]*$") - 1)
    short = to == "include/brim" ? "brim" : to
    sub(/^src\//, "", short)
    if (to == from) next
    if (index(right[from] " ", " " short " ") || right[from] ~ /\*/) next
    print where ": " from " must not include " name
    bad++
}
END {
    if (n < 10) { print "only " n + 0 " includes found: the check itself is broken"; exit 1 }
    if (bad) exit 1
    print n " includes agree with " table
}'
