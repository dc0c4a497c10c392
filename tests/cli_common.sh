# What tests of the program from outside share: a folder that goes away again, and two kinds of check.
# Sourced; $brim is the program.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

check() { # NAME COMMAND...: the command must succeed
    local name=$1 out=
    shift
    [ "$1" = grep ] || [ "$1" = test ] || [ "$1" = cmp ] || out=said
    if "$@" > "$dir/${out:-out}" 2>&1; then echo "ok    $name"; else
        echo "FAIL  $name"
        head -5 "$dir/${out:-out}"
        failed=1
    fi
}

# NAME STATUS PATTERN COMMAND...: ends with STATUS and exactly one line on stderr, which matches.
refuses() {
    local name=$1 want=$2 pattern=$3
    shift 3
    "$@" > "$dir/out" 2> "$dir/err" < /dev/null
    local got=$?
    if [ $got -eq "$want" ] && [ "$(wc -l < "$dir/err")" -eq 1 ] && grep -Eq "^brim: .*$pattern" "$dir/err"; then
        echo "ok    $name"
    else
        echo "FAIL  $name: status $got (wants $want), stderr:"
        head -5 "$dir/err"
        failed=1
    fi
}

# Where tensor NAME lies in a safetensors FILE: "OFFSET BYTES".
tensor_place() { # FILE NAME
    local header from to
    header=$(od -An -tu8 -N8 "$1")
    read -r from to < <(head -c $((8 + header)) "$1" | LC_ALL=C grep -ao "\"$2\":{[^}]*}" |
        sed 's/.*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/')
    echo $((8 + header + from)) $((to - from))
}

tensor_sum() { # FILE NAME: a checksum of its bytes
    local at n
    read -r at n < <(tensor_place "$1" "$2")
    tail -c +$((at + 1)) "$1" | head -c "$n" | cksum
}

tensor_shape() { # FILE NAME
    head -c $((8 + $(od -An -tu8 -N8 "$1"))) "$1" | LC_ALL=C grep -ao "\"$2\":{[^}]*}" |
        sed 's/.*"shape":\(\[[0-9,]*\]\).*/\1/'
}
