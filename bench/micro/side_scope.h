/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives each side of a simulated conversation its own function names on the call stack, so that a
 * profile separates the costs of target and host although both run the same code.
 *
 * Linked with --wrap (see meson.build): callbacks of sockets and deferred functions pass through
 * target_… or host_…, and so do the calls back into the simulated sockets. The cost of a side is
 * then the inclusive cost of SIDE_in_* less that of SIDE_out_*. One thread.
 */
#ifndef WEFT_BENCH_SIDE_SCOPE_H
#define WEFT_BENCH_SIDE_SCOPE_H

#include "reactor/reactor.h"

/* Assigns reactors to sides; call before anything is opened on them. */
void side_scope_init(struct reactor *target, struct reactor *host);
/* Calls fn as the host, for work that starts outside a callback. */
void host_in_call(void (*fn)(void *arg), void *arg);

#endif
