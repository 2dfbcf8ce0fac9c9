/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rota: hosts with work for the control reactor take turns, one piece of work each. A host with a
 * thousand commands thus delays another host's command by only a few.
 *
 * A piece of work is an entry, embedded in the caller's object. An entry waits, runs after
 * rota_take, and leaves the rota by rota_leave. The number of running entries is bounded per host;
 * the number of waiting entries is bounded per host and in total. A host is identified by its NQN.
 * The bound in total leaves every host a minimum, so that hosts that fill the rota do not keep
 * others out.
 *
 * Pure data, used by the control reactor only. The users send the messages: target/control_work.c
 * for commands of I/O queues, target/manage.c for commands that change the configuration.
 */
#ifndef WEFT_TARGET_ROTA_H
#define WEFT_TARGET_ROTA_H

#include "base/list.h"

#include <stdbool.h>

struct rota_host;

struct rota_entry {
	struct list node;       /* in host->entries, while it waits */
	struct rota_host *host; /* NULL: not in the rota */
};

struct rota_limits {
	unsigned running_per_host;
	unsigned waiting_per_host;
	unsigned waiting_min;   /* entries of a host accepted whatever others have waiting */
	unsigned waiting_total; /* above this total, a host may have only waiting_min */
};

struct rota {
	struct rota_limits limits;
	struct list ready; /* struct rota_host with an entry that may run, next one first */
	struct list held;  /* other hosts: no entry waits, or enough run */
	unsigned waiting;
};

void rota_init(struct rota *rota, const struct rota_limits *limits);
/* Adds an entry that waits. 0; -EBUSY: a bound is reached; -ENOMEM. On error the entry is not in
 * the rota. */
int rota_add(struct rota *rota, const char *host_nqn, struct rota_entry *entry);
/* Takes the next entry, which runs from now on. Its host goes to the end of the line. NULL: no
 * entry may run. */
struct rota_entry *rota_take(struct rota *rota);
/* The entry that rota_take would return. */
struct rota_entry *rota_peek(const struct rota *rota);
/* True when rota_take would return an entry. */
bool rota_is_ready(const struct rota *rota);
/* True while the entry waits. */
bool rota_is_waiting(const struct rota_entry *entry);
/* Call when the entry has ended or is not wanted any more. Does nothing when the entry is not in
 * the rota. */
void rota_leave(struct rota *rota, struct rota_entry *entry);
/* Removes waiting entries that are unwanted, and links them by their nodes to ret_unwanted. */
void rota_sweep(struct rota *rota, bool (*is_unwanted)(const struct rota_entry *entry),
		struct list *ret_unwanted);

#endif
