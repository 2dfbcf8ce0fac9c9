/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ANA groups that a document puts into `change`. Hosts hold back their I/O meanwhile and give up
 * after ANATT, so `change` must not last longer (NVMe Base 2.1, section 8.1.1.8). Within ANATT the
 * group is inaccessible until the document sets another state. Groups in `change` because of an API
 * call belong to daemon/ana_change.h.
 *
 * Control reactor only. The media registry owns the list, because the list outlives configurations.
 */
#ifndef WEFT_DAEMON_ANA_HOLD_H
#define WEFT_DAEMON_ANA_HOLD_H

#include "target/target.h"

/* A snapshot is being built. ana_holds_apply is called for each of its ports. */
void ana_holds_begin(struct list *holds);
/* Sets groups of the port that have timed out to inaccessible. Returns 0 or -ENOMEM. */
int ana_holds_apply(struct list *holds, struct port *port, uint64_t now_ns);
/* The snapshot that was built last is in force. Frees the holds of groups that no port has in
 * `change` any more. */
void ana_holds_settle(struct list *holds);
/* True: a group has been in `change` for almost ANATT, and is not inaccessible yet. */
bool ana_holds_are_due(const struct list *holds, uint64_t now_ns);
/* Frees all holds. At the end of the process. */
void ana_holds_forget(struct list *holds);

#endif
