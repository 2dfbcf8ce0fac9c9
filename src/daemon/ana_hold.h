/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ANA groups that a document puts into `change`. Hosts hold back their I/O meanwhile and give up
 * after ANATT, so it must not last longer (NVMe Base 2.1, section 8.1.1.8): then the group is
 * inaccessible, until the document says something else. Groups on their way by a call of the API
 * are another thing (daemon/ana_change.h).
 *
 * Control reactor only. The list is the registry's, because it outlives configurations.
 */
#ifndef WEFT_DAEMON_ANA_HOLD_H
#define WEFT_DAEMON_ANA_HOLD_H

#include "target/target.h"

/* Around the building of a snapshot; in between, once for every port of it. */
void ana_holds_begin(struct list *holds);
/* 0 or -ENOMEM. */
int ana_holds_apply(struct list *holds, struct port *port, uint64_t now_ns);
/* Those that no port has any more are forgotten. */
void ana_holds_end(struct list *holds);
/* The time of one is over, and no snapshot says so yet. */
bool ana_holds_are_due(const struct list *holds, uint64_t now_ns);
/* At the end of the process. */
void ana_holds_forget(struct list *holds);

#endif
