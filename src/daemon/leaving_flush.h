/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushes namespaces that leave with a change before the change is kept. Their files close with the
 * change. If the kernel cannot write data back later, no descriptor of the target gets the error: a
 * namespace that comes back would flush with success. Control reactor.
 */
#ifndef WEFT_DAEMON_LEAVING_FLUSH_H
#define WEFT_DAEMON_LEAVING_FLUSH_H

#include "reactor/reactor.h"

struct media_registry;

/*
 * Flushes the stores that this transaction did not ask for and that hosts have written to. Call
 * before media_registry_commit. A store whose flush fails or times out gets a new loss mark for its
 * namespace (target/loss.h). Then `done` is called, perhaps from inside this call.
 */
void leaving_flush(struct media_registry *registry, struct reactor *control,
		   void (*done)(void *arg), void *arg);

#endif
