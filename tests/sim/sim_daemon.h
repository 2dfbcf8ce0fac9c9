/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process around a daemon (daemon/life.h) inside a simulated node: what daemon/daemon.c is in a
 * true one, without signals, REST and the state folder's lock. Private to sim_node.c. All of it
 * runs on the node's control reactor, but for create and release, which the node calls between
 * turns, inside of its process.
 */
#ifndef WEFT_TESTS_SIM_DAEMON_H
#define WEFT_TESTS_SIM_DAEMON_H

#include "daemon/daemon.h"

#define SIM_DAEMON_REACTORS_MAX 8
#define SIM_DAEMON_WHY_BYTES    512

struct sim_daemon_config {
	const char *folder;     /* of the store; outlives the daemon */
	const json_t *document; /* of the first start; likewise */
	/* The file of -c, or the flags, as of struct daemon_options; NULL: none. Likewise. */
	const json_t *source;
	const char *source_hash;
	enum daemon_start start;
	unsigned reactor_count;
	unsigned buf_counts[3];
	bool has_discovery;
	void (*serving)(void *arg);
	/* Nothing is under way any more: sim_daemon_release may follow, in no turn. res < 0: it
	 * never served, for this reason. */
	void (*ended)(void *arg, int res, const char *why);
	void *arg;
};

/* Makes its reactors; nothing happens before sim_daemon_begin. */
struct daemon *sim_daemon_create(const struct sim_daemon_config *config);
void sim_daemon_begin(struct daemon *daemon);
/* After `ended`: closes the store, marks it clean when all was in order, frees everything. */
void sim_daemon_release(struct daemon *daemon);

#endif
