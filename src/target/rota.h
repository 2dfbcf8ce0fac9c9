/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rota: hosts with work for the control reactor, served one piece of each at a time, so that a
 * host with a thousand commands delays the command of another host by a few.
 *
 * A piece of work is an entry, embedded in the caller's object. The entry waits, runs after
 * rota_take, and leaves the rota with rota_leave. Both states are bounded: how much of a host runs,
 * and how much waits, of a host and in all. A host is known by its NQN. The bound for all leaves
 * every host a minimum, so that hosts that fill the rota do not keep others out.
 *
 * Pure data; one thread, the control reactor's. Messages are the user's: target/control_work.c for
 * commands of I/O queues, target/manage.c for those that change the configuration.
 */
#ifndef WEFT_TARGET_ROTA_H
#define WEFT_TARGET_ROTA_H

#include "base/list.h"

#include <stdbool.h>

struct rota_host;

struct rota_entry {
	struct list node;       /* in host->waiting, while it waits */
	struct rota_host *host; /* NULL: not in the rota */
};

struct rota_limits {
	unsigned running_per_host;
	unsigned waiting_per_host;
	unsigned waiting_min;   /* of a host that are taken in, however many others wait */
	unsigned waiting_total; /* beyond which a host has no more than waiting_min */
};

struct rota {
	struct rota_limits limits;
	struct list ready; /* struct rota_host that may run something, the next one first */
	struct list held;  /* those that may not: nothing waits, or enough runs */
	unsigned waiting;
};

void rota_init(struct rota *rota, const struct rota_limits *limits);
/* 0; -EBUSY: a bound is reached; -ENOMEM. On error the entry is not in the rota. */
int rota_add(struct rota *rota, const char *host_nqn, struct rota_entry *entry);
/* The next entry, which runs now; its host goes to the end of the rota. NULL: none may run. */
struct rota_entry *rota_take(struct rota *rota);
/* What rota_take would return. */
struct rota_entry *rota_peek(const struct rota *rota);
/* Whether rota_take would find one. */
bool rota_is_ready(const struct rota *rota);
/* Whether the entry waits. */
bool rota_is_waiting(const struct rota_entry *entry);
/* The entry has ended, or is not wanted any more. Nothing when it is not in the rota. */
void rota_leave(struct rota *rota, struct rota_entry *entry);
/* Entries that wait and are unwanted leave the rota and are linked by their nodes. */
void rota_sweep(struct rota *rota, bool (*is_unwanted)(const struct rota_entry *entry),
		struct list *ret_unwanted);

#endif
