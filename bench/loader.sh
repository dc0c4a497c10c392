#!/bin/bash
# Images decoded and augmented on one core: Brim beside Pillow + torchvision and bare TurboJPEG.
#
#     bench/loader.sh [-p PYTHON] [-r ROUNDS] [-s SECONDS] [-b FOLDER] DIR [SIZE]
#
# DIR is a folder of class folders of JPEG files (bench/peers/photos.py makes 500 x 375 ones). FOLDER
# holds the programs loader and turbojpeg_bare, built by ninja -C build bench/NAME. The ratios are
# times over Brim's: above 1 where Brim is faster.
set -euo pipefail
cd "$(dirname "$0")/.."
python=python3 rounds=9 seconds=2 built=build/bench
while getopts p:r:s:b: opt; do
    case $opt in
    p) python=$OPTARG ;;
    r) rounds=$OPTARG ;;
    s) seconds=$OPTARG ;;
    b) built=$OPTARG ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
dir=$1 size=${2:-224}
lscpu | sed -n 's/^Model name: */# /p'
"$python" bench/take_turns.py --rounds "$rounds" --seconds "$seconds" \
    "brim=$built/loader $dir $size" \
    "torchvision=$python bench/peers/loader.py $dir $size" \
    "turbojpeg=$built/turbojpeg_bare $dir $size"
