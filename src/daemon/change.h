/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transaction engine behind daemon_change (daemon/daemon.h): a queue of changes, of which one
 * is under way. Private to daemon/. Control reactor only. Keeping and opening media block.
 *
 * edit -> validate -> compare -> apply to every reactor -> keep in the store -> done. What cannot
 * be applied changes nothing. What cannot be kept is taken back.
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
	uint64_t generation; /* of the kept document; 0: none is kept */
	/* Called before the snapshot is given to the target. May be NULL. */
	void (*applying)(void *arg, const struct snapshot *snapshot);
	/* Another configuration is in force. Media of only the former one are still open. May be
	 * NULL. */
	void (*applied)(void *arg);
	/* Called after changes_stop, when no change is under way or waits. */
	void (*stopped)(void *arg);
	void *arg;
};

int changes_create(const struct changes_options *options, struct changes **ret_changes);
/* Waiting changes fail with -ESHUTDOWN. The control reactor must have stopped. */
void changes_destroy(struct changes *changes);

/* Adds a discovery port beside the desired state, from the next change on. */
void changes_set_discovery(struct changes *changes, const struct net_addr *addr);

/*
 * The first change: applies the configuration that start_choose chose, and keeps what differs from
 * the document in the store. Takes ownership of what *start owns. Uses only done, arg and origin of
 * the change.
 */
void changes_start(struct changes *changes, struct start *start, const struct change *change);
/* source_hash is kept together with the change. NULL: the kept hash stays. */
void changes_submit(struct changes *changes, const struct change *change, const char *source_hash);
/* Puts the present states of ANA transitions and holds in force at once, also while a change waits
 * for its media or for a flush. `done` gets 0, or -errno; -ESHUTDOWN after changes_stop. May be
 * called from inside this call. */
struct changes_refresh {
	struct list node; /* linked until the refresh begins */
	void (*done)(void *arg, int res);
	void *arg;
};
void changes_refresh(struct changes *changes, struct changes_refresh *refresh);
/* No change is under way or waits. */
bool changes_are_idle(const struct changes *changes);
/* Applies the same document again, because the snapshot built from it would differ now. Uses only
 * done, arg and origin of the change. */
void changes_rebuild(struct changes *changes, const struct change *change);
/* Cancels a host's waiting change with this edit and arg: it fails with -ECANCELED before this
 * returns. False: the change is unknown, or has begun. */
bool changes_cancel(struct changes *changes, const struct change *change);
/* Uses only done, arg and origin of the change. private: NULL removes the private subsystem. */
void changes_submit_private(struct changes *changes, const struct daemon_private *private,
			    const struct change *change);
/* From now on no new change begins, and one that waits for media that open late is refused. May be
 * called again. */
void changes_stop(struct changes *changes);

const struct config *changes_config(const struct changes *changes);
uint64_t changes_generation(const struct changes *changes);

#endif
