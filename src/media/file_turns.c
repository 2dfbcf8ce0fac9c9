/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turns of the file medium's operations: see media/file_work.h. Lanes are counted for each
 * medium and reactor, and the sum for each reactor, which is a thread. Any reactor.
 */
#include "media/file_work.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BUSY_MIN   4   /* operations of a lane that always begin */
#define FILE_BUSY_MAX   256 /* of a lane */
#define FILE_BUSY_ALL   768 /* of a reactor, beyond FILE_BUSY_MIN of each lane */
#define FILE_HELPED_MAX 2   /* calls of a medium at the reactor's helpers */

enum file_lane_index {
	FILE_LANE_READ, /* of buffered I/O; direct reads need no worker and have no lane */
	FILE_LANE_CHANGE,
	FILE_LANES,
};

/* What a reactor has of a medium. The list of a medium only grows until the medium is closed; each
 * reactor changes only its own entry. */
struct file_turns {
	_Alignas(64) const struct reactor *reactor;
	struct file_turns *next;
	struct file_lane lanes[FILE_LANES];
	struct list waiting_for_help;
	unsigned helped; /* calls at the reactor's helpers, which all stores share too */
};

/* Of the reactor of this thread. */
static _Thread_local unsigned turns_busy;       /* sum of all lanes */
static _Thread_local struct list turns_waiting; /* lanes; zeroed until the first one waits */

/* NULL: out of memory. */
static __attribute__((noinline)) struct file_turns *file_turns_create(struct file_media *file,
								      const struct reactor *reactor)
{
	struct file_turns *turns = aligned_alloc(_Alignof(struct file_turns), sizeof(*turns));

	if (!turns)
		return NULL;
	memset(turns, 0, sizeof(*turns));
	turns->reactor = reactor;
	list_init(&turns->waiting_for_help);
	for (unsigned i = 0; i < FILE_LANES; i++) {
		list_init(&turns->lanes[i].node);
		list_init(&turns->lanes[i].waiting);
	}
	turns->next = atomic_load(&file->turns);
	while (!atomic_compare_exchange_weak(&file->turns, &turns->next, turns))
		;
	return turns;
}

static bool lane_may_begin(const struct file_lane *lane)
{
	return lane->busy < FILE_BUSY_MIN ||
	       (lane->busy < FILE_BUSY_MAX && turns_busy < FILE_BUSY_ALL);
}

static __attribute__((noinline)) void lane_wait(struct file_lane *lane, struct file_work *work)
{
	if (!turns_waiting.next)
		list_init(&turns_waiting);
	work->stage = FILE_WAITING;
	list_push_back(&lane->waiting, &work->node);
	if (!list_linked(&lane->node))
		list_push_back(&turns_waiting, &lane->node);
}

static void lane_leave(struct file_lane *lane, struct file_work *work)
{
	list_remove(&work->node);
	if (list_empty(&lane->waiting))
		list_remove(&lane->node);
}

bool file_take_turn(struct media_io *io)
{
	struct file_turns *turns = atomic_load_explicit(&file_of(io)->turns, memory_order_acquire);
	struct file_work *work = work_of(io);

	work->lane = NULL;
	while (turns && turns->reactor != io->reactor)
		turns = turns->next;
	if (!turns)
		turns = file_turns_create(file_of(io), io->reactor);
	if (!turns)
		return true;
	work->lane = &turns->lanes[io->kind == MEDIA_READ ? FILE_LANE_READ : FILE_LANE_CHANGE];
	if (!list_empty(&work->lane->waiting) || !lane_may_begin(work->lane)) {
		lane_wait(work->lane, work);
		return false;
	}
	work->lane->busy++;
	turns_busy++;
	return true;
}

/* Begins all operations that may begin now, one of each lane in turn. */
static void turns_go_on(void)
{
	bool has_begun = true;

	while (has_begun) {
		has_begun = false;
		list_for_each_safe(node, &turns_waiting) {
			struct file_lane *lane = list_entry(node, struct file_lane, node);
			struct file_work *work;

			if (!lane_may_begin(lane))
				continue;
			work = list_entry(lane->waiting.next, struct file_work, node);
			lane_leave(lane, work);
			lane->busy++;
			turns_busy++;
			has_begun = true;
			file_begin(container_of(work, struct media_io, context));
		}
	}
}

void file_end_turn(struct media_io *io, int res)
{
	work_of(io)->lane->busy--;
	turns_busy--;
	io->done(io, res);
	if (turns_waiting.next && !list_empty(&turns_waiting))
		turns_go_on();
}

void file_leave_turn(struct media_io *io)
{
	lane_leave(work_of(io)->lane, work_of(io));
}

void file_turns_free(struct file_media *file)
{
	struct file_turns *turns = atomic_load(&file->turns);

	while (turns) {
		struct file_turns *next = turns->next;

		for (unsigned i = 0; i < FILE_LANES; i++)
			CHECK(turns->lanes[i].busy == 0 && list_empty(&turns->lanes[i].waiting));
		free(turns);
		turns = next;
	}
}

/* ---- calls at the reactor's helpers --------------------------------------------------------- */

/* NULL: memory ran out. */
static struct file_turns *turns_of(const struct media_io *io)
{
	struct file_lane *lane = work_of(io)->lane;

	return lane ? container_of(lane, struct file_turns, lanes[FILE_LANE_CHANGE]) : NULL;
}

void file_help(struct media_io *io)
{
	struct file_turns *turns = turns_of(io);
	struct file_work *work = work_of(io);

	if (turns && turns->helped == FILE_HELPED_MAX) {
		work->waits_for_help = true;
		list_push_back(&turns->waiting_for_help, &work->node);
		return;
	}
	if (turns)
		turns->helped++;
	work->is_helped = true;
	file_prepare_op(io);
	reactor_offload(io->reactor, &work->op, file_call);
}

void file_helped(struct media_io *io)
{
	struct file_turns *turns = turns_of(io);
	struct file_work *next;

	work_of(io)->is_helped = false;
	if (!turns)
		return;
	turns->helped--;
	if (list_empty(&turns->waiting_for_help))
		return;
	next = list_entry(list_pop_front(&turns->waiting_for_help), struct file_work, node);
	next->waits_for_help = false;
	file_help(container_of(next, struct media_io, context));
}
