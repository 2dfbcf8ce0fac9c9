/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and stops a process's reactors.
 *
 * Runs on the thread that starts the group. The reactor threads only run reactor_run, with every
 * signal blocked, so that signals reach the program's own threads.
 */
#include "reactor/reactor_group.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

struct reactor_group_member {
	struct reactor *reactor;
	pthread_t thread;
	bool has_thread;
};

struct reactor_group {
	unsigned count;
	struct reactor_group_member members[];
};

static void *reactor_group_main(void *arg)
{
	reactor_run(arg);
	return NULL;
}

static int reactor_group_start_member(struct reactor_group_member *member,
				      const struct reactor_config *config)
{
	sigset_t all, before;
	int res = reactor_create(config, &member->reactor);

	if (res)
		return res;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	res = pthread_create(&member->thread, NULL, reactor_group_main, member->reactor);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	member->has_thread = res == 0;
	return -res;
}

/* The n-th CPU of the set. */
static int reactor_group_cpu(const cpu_set_t *cpus, unsigned n)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET((unsigned)cpu, cpus) && n-- == 0)
			return cpu;
	}
	return -1;
}

int reactor_group_start(const struct reactor_group_config *config, struct reactor_group **ret_group)
{
	struct reactor_group *group;
	unsigned count = config->count;
	unsigned cpu_count;
	cpu_set_t cpus;
	bool is_pinned;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return -errno;
	cpu_count = (unsigned)CPU_COUNT(&cpus);
	if (count == 0)
		count = cpu_count;
	is_pinned = config->is_pinned && count <= cpu_count;
	group = calloc(1, sizeof(*group) + count * sizeof(group->members[0]));
	if (!group)
		return -ENOMEM;
	group->count = count;
	for (unsigned i = 0; i < count; i++) {
		struct reactor_config member = {
			.index = config->first_index + i,
			.name = config->name,
			.cpu = is_pinned ? reactor_group_cpu(&cpus, i) : -1,
			.spin_max_us = config->spin_max_us,
		};
		int res = reactor_group_start_member(&group->members[i], &member);

		if (res) {
			reactor_group_stop(group);
			return res;
		}
	}
	*ret_group = group;
	return 0;
}

void reactor_group_stop(struct reactor_group *group)
{
	if (!group)
		return;
	for (unsigned i = 0; i < group->count; i++) {
		if (group->members[i].has_thread)
			reactor_stop(group->members[i].reactor);
	}
	/* Join all threads before the first reactor is freed: reactors may still post to each
	 * other. */
	for (unsigned i = 0; i < group->count; i++) {
		if (group->members[i].has_thread)
			pthread_join(group->members[i].thread, NULL);
	}
	for (unsigned i = 0; i < group->count; i++)
		reactor_destroy(group->members[i].reactor);
	free(group);
}

unsigned reactor_group_count(const struct reactor_group *group)
{
	return group->count;
}

struct reactor *reactor_group_get(const struct reactor_group *group, unsigned index)
{
	CHECK(index < group->count);
	return group->members[index].reactor;
}
