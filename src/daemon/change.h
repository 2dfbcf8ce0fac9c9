/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transaction engine behind daemon_change (daemon/daemon.h): a queue of changes, one under
 * way. Private to daemon/daemon.c. Control reactor only; keeping and opening media block.
 *
 * edit -> validate -> compare -> apply to every reactor -> keep in the store -> done. What cannot
 * be applied changes nothing; what cannot be kept is taken back.
 */
#ifndef WEFT_DAEMON_CHANGE_H
#define WEFT_DAEMON_CHANGE_H

#include "daemon/start.h"

struct changes;
struct media_registry;

struct changes_options {
	struct reactor *control;
	struct target *target;
	struct media_registry *registry;
	struct store *store;
	uint64_t generation; /* of what is kept; 0: nothing is */
	/* May be NULL. The snapshot is given to the target next. */
	void (*applying)(void *arg, const struct snapshot *snapshot);
	/* Another configuration is in force, and what only the former one had is still open. May be
	 * NULL. */
	void (*applied)(void *arg);
	/* After changes_stop: nothing is under way and nothing waits. */
	void (*stopped)(void *arg);
	void *arg;
};

int changes_create(const struct changes_options *options, struct changes **ret_changes);
/* What still waits is told -ESHUTDOWN; the control reactor runs no more. */
void changes_destroy(struct changes *changes);

/* Beside the desired state, from the next change on. */
void changes_set_discovery(struct changes *changes, const struct net_addr *addr);

/*
 * The first one: applies the configuration that start_choose chose, and keeps what differs from the
 * document in the store. Takes over what *start owns. Of the change, done, arg and origin are used.
 */
void changes_start(struct changes *changes, struct start *start, const struct change *change);
/* source_hash: kept together with it; NULL: stays as it is. */
void changes_submit(struct changes *changes, const struct change *change, const char *source_hash);
/* The same document again: what is built from it would differ now. Of the change, done, arg and
 * origin are used. */
void changes_rebuild(struct changes *changes, const struct change *change);
/* The change of a host with this edit and arg fails with -ECANCELED before this returns, if it
 * waits for its turn. False: there is none, or it has begun. */
bool changes_cancel(struct changes *changes, const struct change *change);
/* Of the change, done, arg and origin are used. */
void changes_submit_private(struct changes *changes, const struct daemon_private *private,
			    const struct change *change);
/* From now on nothing new begins. Asking twice is asking once. */
void changes_stop(struct changes *changes);

const struct config *changes_config(const struct changes *changes);
uint64_t changes_generation(const struct changes *changes);

#endif
