/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a namespace beyond its configuration, and outlives snapshots and media: its
 * counters, its reservation, its blocks marked bad. One per namespace identity (UUID).
 *
 * Truth and change belong to the control reactor: a command that changes it goes there, the new
 * truth is kept (struct target_keeper) when it must survive, then a new immutable struct ns_view is
 * published, and only when every reactor uses it the command is answered. Reactors read their own
 * pointer in struct ns_local, which the I/O path touches anyway: no lock, no shared line. NULL
 * means that nothing is special about the namespace, the usual case.
 */
#ifndef WEFT_TARGET_NS_LIVE_H
#define WEFT_TARGET_NS_LIVE_H

#include "target/target.h"

struct reservation;      /* target/reservation.h: the truth */
struct reservation_view; /* target/reservation.h: what checks need, part of a view */
struct bad_blocks;       /* target/bad_blocks.h: the truth */
struct bad_view;         /* target/bad_blocks.h: part of a view */

/* Immutable. Owns its parts; the publisher frees it when no reactor uses it any more. */
struct ns_view {
	struct reservation_view *reservation; /* NULL: no registrants */
	struct bad_view *bad;                 /* NULL: no bad blocks */
};

/*
 * Per namespace and reactor, written by its owner, read by anyone: relaxed atomics. A cache line of
 * its own, so that reactors do not take it from each other.
 */
struct ns_local {
	atomic_ulong read_commands;
	atomic_ulong write_commands;
	atomic_ulong bytes_read;
	atomic_ulong bytes_written;
	atomic_ulong media_errors;
	const struct ns_view *view; /* the owner's alone; NULL: nothing special */
	uint32_t busy_minute;       /* health.c: the last one counted, since the start */
	uint32_t pad32;
	uint64_t pad;
};

struct ns_live;

/* Control reactor. 0 or -ENOMEM. */
int ns_live_create(unsigned reactor_count, struct ns_live **ret_live);
struct ns_live *ns_live_get(struct ns_live *live);
void ns_live_put(struct ns_live *live);
/* One per reactor. */
struct ns_local *ns_live_locals(struct ns_live *live);
unsigned ns_live_local_count(const struct ns_live *live);
/* Names it and reads back what was kept of it; before it is in a snapshot. 0 or -errno. */
int ns_live_recall(struct ns_live *live, const struct uuid *uuid,
		   const struct target_keeper *keeper);
/* The namespace is deleted for good: what was kept of it goes too. */
int ns_live_forget(struct ns_live *live, const struct target_keeper *keeper);

/*
 * Control reactor: builds a view of the truth as it is now, gives it to every reactor and calls
 * `done` on the control reactor when all use it. Changes that come meanwhile are published in
 * order. 0, or -ENOMEM: nothing was published and done is not called.
 */
int ns_live_publish(struct target *target, struct ns_live *live, void (*done)(void *arg),
		    void *arg);

#endif
