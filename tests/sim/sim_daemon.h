/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process around a daemon (daemon/life.h) inside a simulated node: daemon/daemon.c without
 * signals, REST and the state folder's lock. Private to sim_node.c. Runs on the node's control
 * reactor, except create and release, which the node calls between turns, inside the node's
 * process.
 */
#ifndef WEFT_TESTS_SIM_DAEMON_H
#define WEFT_TESTS_SIM_DAEMON_H

#include "daemon/daemon.h"

#define SIM_DAEMON_REACTORS_MAX 8
#define SIM_DAEMON_WHY_BYTES    512

struct sim_daemon_config {
	const char *folder;     /* of the store; must outlive the daemon */
	const json_t *document; /* of the first start; must outlive the daemon */
	/* The file of -c, or the flags, as in struct daemon_options; NULL: none. Must outlive the
	 * daemon. */
	const json_t *source;
	const char *source_hash;
	enum daemon_start start;
	unsigned reactor_count;
	unsigned buf_counts[3];
	bool has_discovery;
	void (*serving)(void *arg);
	/* Nothing is in flight any more: call sim_daemon_release next, outside of any turn. res <
	 * 0: the daemon never served; `why` is the reason. */
	void (*ended)(void *arg, int res, const char *why);
	void *arg;
};

/* Creates the reactors; the start begins with sim_daemon_begin. */
struct daemon *sim_daemon_create(const struct sim_daemon_config *config);
void sim_daemon_begin(struct daemon *daemon);
/* After `ended`: closes the store, marks it clean after an orderly shutdown, frees everything. */
void sim_daemon_release(struct daemon *daemon);

#endif
