/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a change, shared by the files that execute it: change.c (queue, check, end) and
 * change_apply.c (apply, keep, take back). Control reactor only.
 */
#ifndef WEFT_DAEMON_CHANGE_RUN_H
#define WEFT_DAEMON_CHANGE_RUN_H

#include "daemon/change.h"
#include "store/store.h"
#include "target/manage.h"

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
	bool is_store_behind; /* a change was neither kept nor taken back: the next change keeps
				 both */
	struct list waiting;  /* struct change_run */
	/* struct change_run of hosts' commands; begin when `waiting` is empty */
	struct list hosts;
	struct list draining; /* struct drain */
	struct change_run *current;
	bool is_applying;        /* the target applies a snapshot of `current` */
	bool is_refreshing;      /* the target applies a snapshot for `refreshing` */
	struct list refreshes;   /* struct changes_refresh that wait */
	struct list refreshing;  /* struct changes_refresh */
	struct change_run *held; /* waits for the end of the refresh; then held_go is called */
	void (*held_go)(struct change_run *run);
	struct reactor_msg pump_msg;
	bool is_pump_posted;
	struct reactor_timer trim_timer;
};

/* Outlives its change until the commands that the change concerns are done. */
struct drain {
	struct list node;
	struct manage_stop formats; /* Formats that the change forbids */
	uint64_t number;            /* of the change, for `formats` */
	unsigned waits;             /* callbacks still to come: of the target, of `formats` */
	int res;                    /* the first error of these */
	void (*drained)(void *arg, int res); /* NULL: the result has no receiver any more */
	void *arg;
	struct change_run *run; /* NULL: the run has ended */
	/* `run` has ended; only its answer waits for this drain. Other changes run meanwhile. */
	bool has_answer;
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
	bool is_in_force; /* `next` is in force, and not kept yet */
	struct daemon_private private;
	struct config *next; /* NULL: the configuration in force stays */
	json_t *before;      /* the document in the store; NULL: none */
	json_t *after;
	struct drain *drain;
	struct change_result result;
};

/* Ends the change with result.res, and frees the run. The answer to a success may wait for a
 * drain. */
void change_run_end(struct change_run *run);
/* Answers the change and frees the run. */
void change_run_answer(struct change_run *run);
/* Ends the change with res after a failure, and frees the run. The text is added to the errors. */
void change_run_fail(struct change_run *run, int res, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* As change_run_fail, when the errors already have the reason. */
void change_run_fail_told(struct change_run *run, int res);
/* Applies run->next, or the configuration in force if NULL, with the private subsystem that shall
 * exist. Keeps run->after unless NULL. Ends the run. */
void change_run_apply(struct change_run *run);

/* True: a refresh is being applied, and `go` is called after it. */
bool change_run_is_held(struct change_run *run, void (*go)(struct change_run *run));
/* Begins a refresh that waits, unless the target is applying a configuration. */
void changes_refresh_go(struct changes *changes);
/* The snapshot that was given to the target last is in force. */
void changes_note_applied(struct changes *changes);
/* Begins the next change in a later turn. */
void changes_pump(struct changes *changes);

#endif
