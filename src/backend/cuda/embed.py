#!/usr/bin/env python3
"""Writes the kernels' sources as a C table: embed.py OUTPUT FILE..."""
import os
import sys


def text_of(path):
    lines = open(path, encoding="utf-8").read().splitlines()
    return "\n".join('        "%s\\n"' % s.replace("\\", "\\\\").replace('"', '\\"') for s in lines)


with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write('#include "backend/cuda/module.h"\n\nconst brim_cuda_source brim_cuda_sources[] = {\n')
    for path in sys.argv[2:]:
        out.write('    {"%s",\n%s},\n' % (os.path.basename(path), text_of(path)))
    out.write("};\nconst int brim_cuda_source_count = %d;\n" % len(sys.argv[2:]))
