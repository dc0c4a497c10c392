#!/bin/bash
# Installs the Debian packages that Brim needs and that are missing; touches no network when none
# is. "setup.sh check" adds what the checks of CI use.
set -euo pipefail

build=(
    build-essential meson ninja-build pkg-config
    libdnnl-dev                                    # convolution, matmul
    libturbojpeg0-dev libpng-dev libwebp-dev       # images
    libyaml-dev libjansson-dev zlib1g-dev
    libcmocka-dev                                  # tests
)
check=(clang clang-format-14 libclang-rt-14-dev libomp-14-dev valgrind)

packages=("${build[@]}")
case "${1-}" in
'') ;;
check) packages+=("${check[@]}") ;;
*) echo "usage: $0 [check]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query > /dev/null; then
    echo "setup: not a Debian system: install what these Debian packages hold, if you have not:"
    echo "    ${packages[*]}"
    exit 0
fi

missing=()
for p in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2> /dev/null)" = installed ] || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo > /dev/null; then
        echo "setup: packages are missing and this user is not root and has no sudo" \
             "(as root: apt-get install ${missing[*]})" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get -q update
"${as_root[@]}" apt-get -q install -y --no-install-recommends "${missing[@]}"
