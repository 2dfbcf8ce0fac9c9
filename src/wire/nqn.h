/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe Qualified Names. NVMe Base 2.1, section 4.7: "nqn.yyyy-mm.reverse.domain:user string" or
 * the UUID form, 223 bytes of UTF-8 at most.
 */
#ifndef WEFT_WIRE_NQN_H
#define WEFT_WIRE_NQN_H

#include <stdbool.h>

/* NULL when `nqn` is well formed, else the reason ("has no date", ...). */
const char *nqn_problem(const char *nqn);
bool nqn_is_discovery(const char *nqn);

#endif
