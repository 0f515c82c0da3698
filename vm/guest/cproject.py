"""Writes a C project of about 60 files with a Makefile, and the line its program must print.

    cproject.py DIR
"""

import os
import sys

UNITS = 60

MAKEFILE = """\
OBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))
program: $(OBJECTS)
\tgcc -o $@ $(OBJECTS)
%.o: %.c include/units.h
\tgcc -O0 -Iinclude -c -o $@ $<
clean:
\trm -f program *.o
.PHONY: clean
"""


def mix(value, unit):
    return (value * 31 + unit * unit + 7) & 0xFFFFFFFF


def main():
    root = sys.argv[1]
    os.makedirs(f"{root}/include")
    protos = "".join(f"unsigned unit_{n:02}(unsigned value);\n" for n in range(UNITS))
    files = {"Makefile": MAKEFILE, "include/units.h": f"#pragma once\n{protos}"}
    calls, value = "", 1
    for n in range(UNITS):
        files[f"unit_{n:02}.c"] = (
            '#include "units.h"\n'
            f"unsigned unit_{n:02}(unsigned value) {{ return value * 31u + {n}u * {n}u + 7u; }}\n"
        )
        calls += f"    value = unit_{n:02}(value);\n"
        value = mix(value, n)
    files["main.c"] = (
        '#include <stdio.h>\n#include "units.h"\n'
        f"int main(void) {{\n    unsigned value = 1;\n{calls}"
        '    printf("%u\\n", value);\n    return 0;\n}\n'
    )
    files["expected"] = f"{value}\n"
    for name, text in files.items():
        with open(f"{root}/{name}", "w") as out:
            out.write(text)


main()
