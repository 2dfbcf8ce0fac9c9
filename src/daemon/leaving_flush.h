/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces that leave with a change are flushed before the change is kept. Their files close with
 * it, and what the kernel cannot write back later is told to no descriptor of the target: a
 * namespace that comes back would flush with success. Control reactor.
 */
#ifndef WEFT_DAEMON_LEAVING_FLUSH_H
#define WEFT_DAEMON_LEAVING_FLUSH_H

#include "reactor/reactor.h"

struct media_registry;

/*
 * Before media_registry_commit: flushes the stores that nobody asked for in this transaction and
 * that hosts have written to. One that fails, or does not end in time, draws the mark of its
 * namespace (target/loss.h). `done` comes after that, perhaps from inside this call.
 */
void leaving_flush(struct media_registry *registry, struct reactor *control,
		   void (*done)(void *arg), void *arg);

#endif
