/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a namespace beyond its configuration, and outlives snapshots and media: its
 * counters, its reservation, its blocks marked bad. One per namespace identity (UUID).
 *
 * Truth and change belong to the control reactor: a command that changes it goes there, the new
 * truth is kept (struct keeper) when it must survive, then a new immutable struct ns_view is
 * published, and only when every reactor uses it the command is answered. Reactors read their own
 * pointer in struct ns_local, which the I/O path touches anyway: no lock, no shared line. NULL
 * means that nothing is special about the namespace, the usual case.
 */
#ifndef WEFT_NS_NS_LIVE_H
#define WEFT_NS_NS_LIVE_H

#include "base/list.h"
#include "base/uuid.h"
#include "ns/keeper.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reservation; /* ns/reservation.h: immutable and counted: the truth and part of a view */
struct bad_blocks;  /* ns/bad_blocks.h: the truth */
struct bad_view;    /* ns/bad_blocks.h: part of a view */

/*
 * Immutable. Owns its parts; the publisher frees it when no reactor uses it any more, which is when
 * all have been between two turns: nobody keeps a pointer to it, or into it, beyond one callback.
 */
struct ns_view {
	struct reservation *reservation; /* counted; NULL: none is held */
	struct bad_view *bad;            /* NULL: no bad blocks */
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
	atomic_ulong space_errors;  /* commands that failed because their medium was full */
	const struct ns_view *view; /* the owner's alone; NULL: nothing special */
	uint32_t busy_second;       /* health.c: the last one counted, since the start */
	uint32_t pad32;
};

struct ns_live;

/* Control reactor. 0 or -ENOMEM. */
int ns_live_create(unsigned reactor_count, struct ns_live **ret_live);
struct ns_live *ns_live_get(struct ns_live *live);
void ns_live_put(struct ns_live *live);
/* One per reactor. */
struct ns_local *ns_live_locals(struct ns_live *live);
unsigned ns_live_local_count(const struct ns_live *live);
/* Nil before ns_live_recall. */
const struct uuid *ns_live_uuid(const struct ns_live *live);
/*
 * Names it and reads back what was kept of it; before it is in a snapshot, so that every reactor
 * has its view from the first command on. 0 or -errno; -EPROTO: what was kept makes no sense.
 */
int ns_live_recall(struct ns_live *live, const struct uuid *uuid, const struct keeper *keeper);
/* What is kept of it when it is removed, and what is not: a set of these. */
enum ns_live_kept {
	NS_LIVE_HAS_RESERVATION = 1, /* with PTPL */
	NS_LIVE_HAS_BAD_BLOCKS = 2,
	NS_LIVE_HAS_VOLATILE = 4, /* a reservation or registrants without PTPL: not kept */
};
unsigned ns_live_kept(const struct ns_live *live);
/*
 * The namespace was removed. Commands that still run on it keep nothing any more: what is kept
 * under the UUID may have been dropped since, or may be that of the namespace that has come back.
 * Control reactor.
 */
void ns_live_retire(struct ns_live *live);
/* The data of the namespace are given up: what was kept of it goes too. */
int ns_live_forget(struct ns_live *live, const struct keeper *keeper);
int ns_live_forget_uuid(const struct uuid *uuid, const struct keeper *keeper);

/* Space that the namespace takes, as last measured by control; any reactor. UINT64_MAX: not yet. */
uint64_t ns_live_used_bytes(const struct ns_live *live);
void ns_live_set_used_bytes(struct ns_live *live, uint64_t used_bytes);

/*
 * Write protected for good (feature 84h): it stays so as long as the UUID is known here, also when
 * the namespace was left out of some documents, until the administrator lifts it. Control reactor;
 * recalled by ns_live_recall. 0 or -errno, in which case nothing has changed.
 */
bool ns_live_is_protected(const struct ns_live *live);
int ns_live_set_protected(struct ns_live *live, bool is_protected, const struct keeper *keeper);
/* The keeper took it and lost it again: a transaction of many that failed at its end. The next
 * ns_live_set_protected keeps it whatever it was. */
void ns_live_set_unkept(struct ns_live *live);

/*
 * Its medium has lost writes: the mark that Identify tells, 0 while none ever was, and the failure
 * (media_loss) that it was drawn for. Any reactor.
 */
uint64_t ns_live_loss_mark(const struct ns_live *live);
uint64_t ns_live_loss_noted(const struct ns_live *live);
/* Draws another mark for the failure and keeps it; it stays as long as the UUID is known here.
 * Control reactor. 0 or -errno: it holds, but only until the end of the process. */
int ns_live_note_loss(struct ns_live *live, uint64_t loss, const struct keeper *keeper);
/*
 * The last mark that ns_live_note_loss has drawn under this kernel, in this process or a former
 * one; 0: none. The page cache is the kernel's, so this is what other processes on the machine that
 * serve the same file have to know. Control reactor.
 */
uint64_t ns_live_loss_own(const struct ns_live *live, const struct uuid *kernel_boot_id);
/* Another process on the machine has drawn a mark for the same file: draws and keeps one here, too.
 * live NULL: the namespace is not in force; the mark counts when it comes back. Control reactor. 0
 * or -errno, as above. */
int ns_live_hear_loss(struct ns_live *live, const struct uuid *uuid, const struct keeper *keeper);
/* A host has written to it in this process, or may have. */
bool ns_live_has_written(const struct ns_live *live);

/* Media errors that the administrator has seen (health). Control reactor; not kept, like what it
 * counts. */
uint64_t ns_live_acknowledged(const struct ns_live *live);
void ns_live_acknowledge(struct ns_live *live, uint64_t media_errors);
/* Sum over the reactors. */
uint64_t ns_live_media_errors(const struct ns_live *live);
/* Looks whether commands have failed for lack of space, and none has succeeded since; to be called
 * now and then. The number of commands that failed so since it began, 0: it is not so. Control
 * reactor. */
uint64_t ns_live_look_space(struct ns_live *live, uint64_t now_ns);

/* Kinds of what is kept; the key is the namespace's UUID as text. */
#define NS_LIVE_KEPT_RESERVATION "reservation"
#define NS_LIVE_KEPT_BAD_BLOCKS  "bad-blocks"
#define NS_LIVE_KEPT_PROTECTION  "protection"
#define NS_LIVE_KEPT_LOSS        "loss"
#define NS_LIVE_KEPT_LOSS_OWN    "loss-own"
/* value NULL: forget. 0 or -errno; 0 when the keeper keeps nothing; -ESTALE: the namespace was
 * removed. */
int ns_live_keep(const struct keeper *keeper, const struct ns_live *live, const char *kind,
		 const void *value, size_t value_bytes);

/* ---- the truths: control reactor only ---------------------------------------------------------
 */

/* NULL: none ever. The new one is taken over, the former one is put. */
struct reservation *ns_live_reservation(const struct ns_live *live);
void ns_live_set_reservation(struct ns_live *live, struct reservation *taken_reservation);
/* NULL until somebody has set one. The one that is set is the live's, which destroys it at its end;
 * the former one is the caller's again. */
struct bad_blocks *ns_live_bad_blocks(const struct ns_live *live);
void ns_live_set_bad_blocks(struct ns_live *live, struct bad_blocks *taken_bad);

/* ---- views: for their publisher, target/ns_publish.h; control reactor only --------------------
 */

/* Of the truth as it is now. *ret_view is NULL when nothing is special. 0 or -ENOMEM. */
int ns_view_build(const struct ns_live *live, struct ns_view **ret_view);
void ns_view_free(struct ns_view *view); /* NULL: nothing */
/* The one that reactors use from now on; returns the former one, which is the caller's. */
struct ns_view *ns_live_replace_view(struct ns_live *live, struct ns_view *taken_view);
/* The line of publications, of which the first one is under way. */
struct list *ns_live_publications(struct ns_live *live);

#endif
