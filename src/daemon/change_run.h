/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a change, as the files that do it see it: change.c (the queue, the check, the end) and
 * change_apply.c (applying, keeping, taking back). Control reactor only.
 */
#ifndef WEFT_DAEMON_CHANGE_RUN_H
#define WEFT_DAEMON_CHANGE_RUN_H

#include "daemon/change.h"
#include "store/store.h"

enum run_kind {
	RUN_CHANGE,
	RUN_START,
	RUN_PRIVATE,
};

struct changes {
	struct changes_options options;
	struct config *config; /* the desired state in force */
	uint64_t generation;
	uint64_t discovery_generation;
	bool has_discovery;
	struct net_addr discovery;
	bool has_private;
	struct daemon_private private;
	bool is_stopping;
	bool is_store_behind; /* neither kept nor taken back: the next change keeps both */
	struct list waiting;  /* struct change_run */
	struct list
		hosts; /* struct change_run: of hosts' commands; wait until `waiting` is empty */
	struct list draining; /* struct drain */
	struct change_run *current;
	struct reactor_msg pump_msg;
	bool is_pump_posted;
	struct reactor_timer trim_timer;
};

/* Outlives its change until the commands that it concerns are done. */
struct drain {
	struct list node;
	void (*drained)(void *arg, int res); /* NULL: nobody wants to know any more */
	void *arg;
	struct change_run *run; /* while it is under way */
};

struct change_run {
	struct list node;
	struct changes *changes;
	enum run_kind kind;
	struct change change;
	char origin[256];
	bool has_source;
	char source_hash[STORE_HASH_BYTES];
	bool has_private;
	struct daemon_private private;
	struct config *next; /* NULL: the one in force stays */
	json_t *before;      /* what the store has; NULL: nothing */
	json_t *after;
	struct drain *drain;
	struct change_result result;
};

/* The change is over, with result.res; frees the run. */
void change_run_end(struct change_run *run);
/* The same after a failure. */
void change_run_fail(struct change_run *run, int res, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same, when the errors say already what is wrong. */
void change_run_fail_told(struct change_run *run, int res);
/* Applies run->next, or what is in force, with the private subsystem that shall be there; keeps
 * run->after unless it is NULL; ends the run. */
void change_run_apply(struct change_run *run);

#endif
