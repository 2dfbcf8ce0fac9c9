#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The prefetches of a mapped read must be in the program. gcc takes a function that only prefetches for one without
effect and drops its call when it does not inline the function. This costs a tenth of the reads.
"""

import re
import subprocess
import sys

LINES = 8       # of a piece of 512 bytes: one prefetch each

# objdump also disassembles the members of a thin archive.
text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", sys.argv[1]], stdout=subprocess.PIPE, check=True).stdout.decode()
member = re.search(r"cmd_io\.c\.o:.*?(?=\n\S+\.o:|\Z)", text, re.S)
found = len(re.findall(r"\bprefetch\w*\s", member.group(0))) if member else 0
print("1..1")
print("%s 1 - a mapped read prefetches its data: %d prefetches" % ("ok" if found >= LINES else "not ok", found))
sys.exit(found < LINES)
