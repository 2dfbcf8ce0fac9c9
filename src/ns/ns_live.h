/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a namespace that is not configuration and outlives snapshots and media: counters,
 * reservation, bad blocks. One per namespace identity (UUID).
 *
 * The control reactor owns the authoritative state, called the truth. A command that changes it
 * runs there: the new truth is kept (struct keeper) if it must survive, a new immutable struct
 * ns_view is published, and the command is answered once every reactor uses the view. Each reactor
 * reads its own pointer in struct ns_local, which the I/O path touches anyway: no lock, no shared
 * cache line. NULL is the usual case: nothing is special about the namespace.
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

struct reservation; /* ns/reservation.h: immutable, counted; the truth and part of a view */
struct bad_blocks;  /* ns/bad_blocks.h: the truth */
struct bad_view;    /* ns/bad_blocks.h: part of a view */

/*
 * Immutable; owns its parts. The publisher frees a view when no reactor uses it any more: when all
 * have been between two turns. So no reactor keeps a pointer to a view, or into it, beyond one
 * callback.
 */
struct ns_view {
	struct reservation *reservation; /* holds a reference; NULL: no reservation is held */
	struct bad_view *bad;            /* NULL: no bad blocks */
};

/*
 * Per namespace and reactor: written by that reactor, read by any thread, as relaxed atomics. Fills
 * a cache line of its own, so that reactors do not share lines.
 */
struct ns_local {
	atomic_ulong read_commands;
	atomic_ulong write_commands;
	atomic_ulong bytes_read;
	atomic_ulong bytes_written;
	atomic_ulong media_errors;
	atomic_ulong space_errors;  /* commands that failed because the medium was full */
	const struct ns_view *view; /* only for the owning reactor; NULL: nothing special */
	uint32_t busy_second;       /* target/health_note.h: the latest second counted */
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
/* The nil UUID before ns_live_recall. */
const struct uuid *ns_live_uuid(const struct ns_live *live);
/*
 * Sets the UUID and loads the kept values. Call before a snapshot has the namespace, so that every
 * reactor has its view from the first command on. 0 or -errno; -EPROTO: a kept value is invalid.
 */
int ns_live_recall(struct ns_live *live, const struct uuid *uuid, const struct keeper *keeper);
/* A set: which state of a removed namespace is kept, and whether there is state that is not. */
enum ns_live_kept {
	NS_LIVE_HAS_RESERVATION = 1, /* with PTPL */
	NS_LIVE_HAS_BAD_BLOCKS = 2,
	NS_LIVE_HAS_VOLATILE = 4, /* a reservation or registrants without PTPL: not kept */
};
unsigned ns_live_kept(const struct ns_live *live);
/*
 * Marks the namespace as removed. Commands that still run on it keep nothing any more: the values
 * kept under the UUID may have been deleted, or may belong to a namespace that was added again.
 * Control reactor.
 */
void ns_live_retire(struct ns_live *live);
/* Deletes the kept reservation and bad blocks, because the data of the namespace are given up. 0 or
 * -errno. */
int ns_live_forget(struct ns_live *live, const struct keeper *keeper);
int ns_live_forget_uuid(const struct uuid *uuid, const struct keeper *keeper);

/* Bytes that the namespace takes, as control last measured; any reactor. UINT64_MAX: not measured
 * yet. */
uint64_t ns_live_used_bytes(const struct ns_live *live);
void ns_live_set_used_bytes(struct ns_live *live, uint64_t used_bytes);

/*
 * Permanent write protection (feature 84h). It stays while the UUID is known here, even if some
 * documents left the namespace out, until the administrator lifts it. Control reactor; loaded by
 * ns_live_recall. 0 or -errno; an error changes nothing.
 */
bool ns_live_is_protected(const struct ns_live *live);
int ns_live_set_protected(struct ns_live *live, bool is_protected, const struct keeper *keeper);
/* After a transaction of the keeper failed at its end and was lost: the next ns_live_set_protected
 * keeps the value even if it is unchanged. */
void ns_live_set_unkept(struct ns_live *live);

/*
 * The loss mark of the medium's lost writes, which Identify reports (0: none ever), and the number
 * of the failure (media_loss) for which it was drawn. Any reactor.
 */
uint64_t ns_live_loss_mark(const struct ns_live *live);
uint64_t ns_live_loss_noted(const struct ns_live *live);
/* Draws a new mark for the failure `loss` and keeps it while the UUID is known here. Control
 * reactor. 0 or -errno; after an error the mark is valid only until the process ends. */
int ns_live_note_loss(struct ns_live *live, uint64_t loss, const struct keeper *keeper);
/*
 * The mark that ns_live_note_loss last drew under this kernel, in this process or a former one. 0:
 * none. Other processes on this machine that serve the same file must know the mark, because the
 * page cache belongs to the kernel. Control reactor.
 */
uint64_t ns_live_loss_own(const struct ns_live *live, const struct uuid *kernel_boot_id);
/* After another process on this machine has drawn a mark for the same file: draws and keeps a mark
 * here too. live NULL: the namespace is not in force; the mark counts when the namespace is added
 * again. Control reactor. 0 or -errno, as ns_live_note_loss. */
int ns_live_hear_loss(struct ns_live *live, const struct uuid *uuid, const struct keeper *keeper);
/* Whether a host has, or may have, written to the namespace in this process. */
bool ns_live_has_written(const struct ns_live *live);

/* Number of media errors that the administrator has acknowledged (health). Control reactor. Not
 * kept, like the counter itself. */
uint64_t ns_live_acknowledged(const struct ns_live *live);
void ns_live_acknowledge(struct ns_live *live, uint64_t media_errors);
/* Sum over all reactors. */
uint64_t ns_live_media_errors(const struct ns_live *live);
/* Number of commands that failed for lack of space in the present shortage. 0: no shortage, or
 * writes have succeeded since. Call now and then. Control reactor. */
uint64_t ns_live_look_space(struct ns_live *live, uint64_t now_ns);

/* Kinds of kept values; the key is the namespace's UUID as a string. */
#define NS_LIVE_KEPT_RESERVATION "reservation"
#define NS_LIVE_KEPT_BAD_BLOCKS  "bad-blocks"
#define NS_LIVE_KEPT_PROTECTION  "protection"
#define NS_LIVE_KEPT_LOSS        "loss"
#define NS_LIVE_KEPT_LOSS_OWN    "loss-own"
/* Keeps a value; NULL: deletes it. 0, also when the keeper keeps nothing, or -errno; -ESTALE: the
 * namespace was removed. */
int ns_live_keep(const struct keeper *keeper, const struct ns_live *live, const char *kind,
		 const void *value, size_t value_bytes);

/* ---- the truth: control reactor only -------------------------------------------------------- */

/* NULL: no reservation was ever made. The setter takes ownership of the reservation and releases
 * the former one. */
struct reservation *ns_live_reservation(const struct ns_live *live);
void ns_live_set_reservation(struct ns_live *live, struct reservation *taken_reservation);
/* NULL until set. The live state owns the marks and destroys them at its end. The caller of the
 * setter owns the former marks. */
struct bad_blocks *ns_live_bad_blocks(const struct ns_live *live);
void ns_live_set_bad_blocks(struct ns_live *live, struct bad_blocks *taken_bad);

/* ---- views: for their publisher, target/ns_publish.h; control reactor only ------------------ */

/* Builds a view of the present truth. *ret_view is NULL when nothing is special. 0 or -ENOMEM. */
int ns_view_build(const struct ns_live *live, struct ns_view **ret_view);
void ns_view_free(struct ns_view *view); /* NULL is allowed */
/* Sets the view that reactors use from now on. Returns the former one, owned by the caller. */
struct ns_view *ns_live_replace_view(struct ns_live *live, struct ns_view *taken_view);
/* The queue of publications; the first one is in progress. */
struct list *ns_live_publications(struct ns_live *live);

#endif
