#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Are the prefetches of a mapped read in the program? gcc takes a function that does nothing else for one
without effect and drops its call when it does not inline it, which costs a tenth of the reads.
"""

import re
import subprocess
import sys

LINES = 8       # of a piece of 512 bytes: one prefetch each

# A thin archive's members are found through it.
text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", sys.argv[1]], stdout=subprocess.PIPE, check=True).stdout.decode()
member = re.search(r"cmd_io\.c\.o:.*?(?=\n\S+\.o:|\Z)", text, re.S)
found = len(re.findall(r"\bprefetch\w*\s", member.group(0))) if member else 0
print("1..1")
print("%s 1 - a mapped read prefetches its data: %d prefetches" % ("ok" if found >= LINES else "not ok", found))
sys.exit(found < LINES)
