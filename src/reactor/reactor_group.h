/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reactors of a process: started together, one thread each, named weft-r0, weft-r1 and so on.
 * The kernel chooses the CPU of each thread unless is_pinned is set.
 *
 * The thread that starts the group must stop it. Close the objects on the reactors before (by
 * posting to the reactors): stopping ends the threads and does not wait for open objects.
 */
#ifndef WEFT_REACTOR_REACTOR_GROUP_H
#define WEFT_REACTOR_REACTOR_GROUP_H

#include "reactor/reactor.h"

struct reactor_group;

struct reactor_group_config {
	unsigned count;       /* 0: one per allowed CPU */
	unsigned first_index; /* of struct reactor_config */
	const char *name;     /* of all threads; NULL: weft-r0, weft-r1, ... */
	uint32_t spin_max_us; /* see struct reactor_config */
	/* One CPU for each reactor. Ignored when there are more reactors than allowed CPUs. */
	bool is_pinned;
};

/* 0 or -errno. */
int reactor_group_start(const struct reactor_group_config *config,
			struct reactor_group **ret_group);
/* Stops and joins the threads, then destroys the reactors. */
void reactor_group_stop(struct reactor_group *group);
unsigned reactor_group_count(const struct reactor_group *group);
struct reactor *reactor_group_get(const struct reactor_group *group, unsigned index);

#endif
