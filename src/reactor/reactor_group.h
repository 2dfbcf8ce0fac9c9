/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's reactors: started together, one thread each, named weft-r0, weft-r1, … and pinned to
 * the CPUs that the process may use, unless they are to go where the kernel puts them.
 *
 * The thread that starts the group stops it. Objects that live on the reactors must be closed
 * before (by posting to them): stopping ends the threads, it does not wait for open objects.
 */
#ifndef WEFT_REACTOR_REACTOR_GROUP_H
#define WEFT_REACTOR_REACTOR_GROUP_H

#include "reactor/reactor.h"

struct reactor_group;

struct reactor_group_config {
	unsigned count;       /* 0: one per allowed CPU */
	unsigned first_index; /* of struct reactor_config */
	const char *name;     /* of every thread; NULL: weft-r0, weft-r1, ... */
	uint32_t spin_max_us; /* see struct reactor_config */
	bool is_pinned; /* each on a CPU of its own, unless there are more of them than CPUs */
};

/* 0 or -errno. */
int reactor_group_start(const struct reactor_group_config *config,
			struct reactor_group **ret_group);
/* Stops, joins and destroys all. */
void reactor_group_stop(struct reactor_group *group);
unsigned reactor_group_count(const struct reactor_group *group);
struct reactor *reactor_group_get(const struct reactor_group *group, unsigned index);

#endif
