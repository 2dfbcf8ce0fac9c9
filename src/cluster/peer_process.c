/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the process of a silent peer runs, as the kernel shows in /proc/PID/task. Any thread.
 *
 * A silent member is stopped, gets no CPU, or its one answering thread is held up. Only a member
 * whose data path stands still may be killed. The kernel counts how often each thread was given a
 * CPU, and shows which threads want one. A data path that was given a CPU between two looks, or
 * waits for one, does not stand still. Nor does one whose reactors all sleep: they have no work,
 * and would run if they had. A data path stands still when it is stopped, frozen, or waits in the
 * kernel without end.
 */
#include "cluster/peers_private.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REACTOR_NAME "weft-r" /* followed by the reactor's index */

struct thread {
	char name[32];
	char state;
	uint64_t switches;
};

/* The process's number in our PID namespace; 0: it has ended, or is in another namespace. */
static unsigned pid_of(int pidfd)
{
	char path[64], line[128];
	unsigned pid = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	file = fopen(path, "re");
	if (!file)
		return 0;
	/* -1: ended; 0: not in our PID namespace. */
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Pid:", 4) == 0 && !strchr(line, '-'))
			pid = (unsigned)strtoul(line + 4, NULL, 10);
	}
	fclose(file);
	return pid;
}

static void status_line_take(const char *line, struct thread *thread)
{
	unsigned long long count;

	if (sscanf(line, "Name: %31s", thread->name) == 1 ||
	    sscanf(line, "State: %c", &thread->state) == 1)
		return;
	if (sscanf(line, "voluntary_ctxt_switches: %llu", &count) == 1 ||
	    sscanf(line, "nonvoluntary_ctxt_switches: %llu", &count) == 1)
		thread->switches += count;
}

/* False: the thread has ended. */
static bool thread_read(unsigned pid, const char *task, struct thread *ret_thread)
{
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/task/%.16s/status", pid, task);
	file = fopen(path, "re");
	if (!file)
		return false;
	*ret_thread = (struct thread){.state = 'X'};
	while (fgets(line, sizeof(line), file))
		status_line_take(line, ret_thread);
	fclose(file);
	return true;
}

static void thread_count(const struct thread *thread, struct peer_process *process)
{
	bool is_reactor = strncmp(thread->name, REACTOR_NAME, strlen(REACTOR_NAME)) == 0;

	if (!is_reactor && strcmp(thread->name, PEERS_THREAD_NAME) != 0)
		return;
	process->switches += thread->switches;
	process->runnable += thread->state == 'R';
	process->sleeping += is_reactor && thread->state == 'S';
	process->held += is_reactor && thread->state != 'S' && thread->state != 'R';
	process->is_answer_held |= !is_reactor && thread->state == 'D';
}

static bool is_over(int pidfd)
{
	struct pollfd process = {.fd = pidfd, .events = POLLIN};

	return poll(&process, 1, 0) != 0;
}

int peer_process_look(int pidfd, struct peer_process *ret_process)
{
	unsigned pid = pid_of(pidfd);
	const struct dirent *entry;
	struct thread thread;
	char path[64];
	DIR *tasks;

	*ret_process = (struct peer_process){0};
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	tasks = pid > 0 ? opendir(path) : NULL;
	if (!tasks)
		return -ESRCH;
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] != '.' && thread_read(pid, entry->d_name, &thread))
			thread_count(&thread, ret_process);
	}
	closedir(tasks);
	/* While the process of the pidfd has not ended, no other process has its number. */
	return is_over(pidfd) ? -ESRCH : 0;
}

bool peer_process_runs(const struct peer_process *before, const struct peer_process *after)
{
	if (after->runnable > 0 || after->switches != before->switches || after->held == 0)
		return true;
	/* Idle reactors would run when needed, and the answering thread is held in the kernel. */
	return after->is_answer_held && after->sleeping > 0;
}
