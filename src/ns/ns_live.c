/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Struct ns_live: its lifetime, its kept values, and how its views are built. See ns_live.h.
 *
 * Control reactor, except the functions that ns_live.h marks as any reactor.
 */
#include "ns/ns_live.h"

#include "base/boot_id.h"
#include "base/cache_line.h"
#include "base/clock.h"
#include "base/le.h"
#include "ns/bad_blocks.h"
#include "ns/health.h"
#include "ns/reservation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct ns_local) == CACHE_LINE_BYTES, "counters fill a cache line");

/* Longer than a write that is going to fail stays in flight. */
#define SPACE_CLEAR_NS (10 * NS_PER_S)

/* Detects whether a medium is full, and when it stops being full. */
struct space_watch {
	uint64_t errors;     /* space_errors at the last look */
	uint64_t errors_ok;  /* space_errors when writes last succeeded */
	uint64_t writes;     /* write_commands when `errors` last grew */
	uint64_t changed_ns; /* when `errors` last grew */
};

/* The kept value of the last mark drawn for a failure of this target. */
struct loss_own {
	le64 mark;
	struct uuid kernel_boot_id; /* the kernel under which the mark was drawn */
};

_Static_assert(sizeof(struct loss_own) == 24, "layout");

struct ns_live {
	atomic_uint refs;
	unsigned local_count;
	struct uuid uuid;
	struct ns_local *locals;         /* aligned to a cache line */
	struct reservation *reservation; /* holds a reference */
	struct bad_blocks *bad;
	struct ns_view *view;     /* used by the reactors, or being published */
	struct list publications; /* the first one is in progress */
	struct health_share health;
	atomic_ulong used_bytes;
	uint64_t errors_acknowledged;
	struct space_watch space;
	_Atomic uint64_t loss_mark;
	_Atomic uint64_t loss_noted;
	struct loss_own loss_own;
	bool is_retired;           /* the namespace was removed: see ns_live_retire */
	bool is_protected;         /* permanently write protected */
	bool is_protection_unkept; /* the state store may have another value */
};

/* ---- views ----------------------------------------------------------------------------------- */

void ns_view_free(struct ns_view *view)
{
	if (!view)
		return;
	reservation_put(view->reservation);
	bad_view_free(view->bad);
	free(view);
}

int ns_view_build(const struct ns_live *live, struct ns_view **ret_view)
{
	struct reservation *reservation = live->reservation;
	struct ns_view *view;

	*ret_view = NULL;
	/* Registrants without a reservation do not affect any command of the I/O path. */
	if (reservation && !reservation_is_held(reservation))
		reservation = NULL;
	if (!reservation && bad_blocks_count(live->bad) == 0)
		return 0;
	view = calloc(1, sizeof(*view));
	if (!view)
		return -ENOMEM;
	view->reservation = reservation_get(reservation);
	if (bad_blocks_count(live->bad) > 0) {
		view->bad = bad_view_create(live->bad);
		if (!view->bad) {
			ns_view_free(view);
			return -ENOMEM;
		}
	}
	*ret_view = view;
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int ns_live_create(unsigned reactor_count, struct ns_live **ret_live)
{
	struct ns_live *live = calloc(1, sizeof(*live));

	if (!live)
		return -ENOMEM;
	live->locals = cache_line_alloc(reactor_count * sizeof(struct ns_local));
	if (!live->locals) {
		free(live);
		return -ENOMEM;
	}
	atomic_init(&live->refs, 1);
	atomic_init(&live->used_bytes, UINT64_MAX);
	live->local_count = reactor_count;
	list_init(&live->publications);
	*ret_live = live;
	return 0;
}

struct ns_live *ns_live_get(struct ns_live *live)
{
	atomic_fetch_add(&live->refs, 1);
	return live;
}

void ns_live_put(struct ns_live *live)
{
	if (atomic_fetch_sub(&live->refs, 1) != 1)
		return;
	CHECK(list_empty(&live->publications));
	health_share_end(&live->health);
	reservation_put(live->reservation);
	bad_blocks_destroy(live->bad);
	ns_view_free(live->view);
	free(live->locals);
	free(live);
}

struct ns_view *ns_live_replace_view(struct ns_live *live, struct ns_view *taken_view)
{
	struct ns_view *former = live->view;

	live->view = taken_view;
	return former;
}

struct list *ns_live_publications(struct ns_live *live)
{
	return &live->publications;
}

struct health_share *ns_live_health(struct ns_live *live)
{
	return &live->health;
}

struct ns_local *ns_live_locals(struct ns_live *live)
{
	return live->locals;
}

unsigned ns_live_local_count(const struct ns_live *live)
{
	return live->local_count;
}

const struct uuid *ns_live_uuid(const struct ns_live *live)
{
	return &live->uuid;
}

uint64_t ns_live_used_bytes(const struct ns_live *live)
{
	return atomic_load_explicit(&live->used_bytes, memory_order_relaxed);
}

void ns_live_set_used_bytes(struct ns_live *live, uint64_t used_bytes)
{
	atomic_store_explicit(&live->used_bytes, used_bytes, memory_order_relaxed);
}

uint64_t ns_live_acknowledged(const struct ns_live *live)
{
	return live->errors_acknowledged;
}

void ns_live_acknowledge(struct ns_live *live, uint64_t media_errors)
{
	live->errors_acknowledged = media_errors;
}

uint64_t ns_live_media_errors(const struct ns_live *live)
{
	uint64_t errors = 0;

	for (unsigned i = 0; i < live->local_count; i++)
		errors += atomic_load_explicit(&live->locals[i].media_errors, memory_order_relaxed);
	return errors;
}

/* Writes are counted when they begin. When no error has followed for SPACE_CLEAR_NS, the writes
 * begun since the last error have not failed for lack of space. */
uint64_t ns_live_look_space(struct ns_live *live, uint64_t now_ns)
{
	struct space_watch *space = &live->space;
	uint64_t errors = 0, writes = 0;

	for (unsigned i = 0; i < live->local_count; i++) {
		errors += atomic_load_explicit(&live->locals[i].space_errors, memory_order_relaxed);
		writes +=
			atomic_load_explicit(&live->locals[i].write_commands, memory_order_relaxed);
	}
	if (errors != space->errors) {
		space->errors = errors;
		space->writes = writes;
		space->changed_ns = now_ns;
	} else if (writes != space->writes && now_ns - space->changed_ns >= SPACE_CLEAR_NS) {
		space->errors_ok = errors;
	}
	return errors - space->errors_ok;
}

uint64_t ns_live_loss_mark(const struct ns_live *live)
{
	return atomic_load_explicit(&live->loss_mark, memory_order_acquire);
}

uint64_t ns_live_loss_noted(const struct ns_live *live)
{
	return atomic_load_explicit(&live->loss_noted, memory_order_acquire);
}

bool ns_live_has_written(const struct ns_live *live)
{
	uint64_t writes = 0;

	for (unsigned i = 0; i < live->local_count; i++)
		writes +=
			atomic_load_explicit(&live->locals[i].write_commands, memory_order_relaxed);
	return writes > 0;
}

bool ns_live_is_protected(const struct ns_live *live)
{
	return live->is_protected;
}

struct reservation *ns_live_reservation(const struct ns_live *live)
{
	return live->reservation;
}

void ns_live_set_reservation(struct ns_live *live, struct reservation *taken_reservation)
{
	reservation_put(live->reservation);
	live->reservation = taken_reservation;
}

struct bad_blocks *ns_live_bad_blocks(const struct ns_live *live)
{
	return live->bad;
}

void ns_live_set_bad_blocks(struct ns_live *live, struct bad_blocks *taken_bad)
{
	live->bad = taken_bad;
}

/* ---- kept values ---------------------------------------------------------------------------- */

/* *ret_value NULL: the value is missing. 0 or -errno. */
static int recall(const struct ns_live *live, const struct keeper *keeper, const char *kind,
		  void **ret_value, size_t *ret_bytes)
{
	char key[UUID_TEXT_BYTES];
	int res;

	*ret_value = NULL;
	*ret_bytes = 0;
	res = keeper->recall(keeper->arg, kind, uuid_format(&live->uuid, key), ret_value,
			     ret_bytes);
	return res == -ENOENT ? 0 : res;
}

static int recall_reservation(struct ns_live *live, const struct keeper *keeper)
{
	struct reservation *reservation;
	size_t bytes;
	void *value;
	int res = recall(live, keeper, NS_LIVE_KEPT_RESERVATION, &value, &bytes);

	if (res != 0 || !value)
		return res;
	res = reservation_decode(value, bytes, &reservation);
	free(value);
	if (res == 0)
		ns_live_set_reservation(live, reservation);
	return res;
}

static int recall_bad_blocks(struct ns_live *live, const struct keeper *keeper)
{
	struct bad_blocks *bad;
	size_t bytes;
	void *value;
	int res = recall(live, keeper, NS_LIVE_KEPT_BAD_BLOCKS, &value, &bytes);

	if (res != 0 || !value)
		return res;
	res = bad_blocks_decode(value, bytes, &bad);
	free(value);
	if (res == 0)
		ns_live_set_bad_blocks(live, bad);
	return res;
}

/* The content of the value does not matter, only whether the value exists. */
static int recall_protection(struct ns_live *live, const struct keeper *keeper)
{
	size_t bytes;
	void *value;
	int res = recall(live, keeper, NS_LIVE_KEPT_PROTECTION, &value, &bytes);

	live->is_protected = res == 0 && value;
	free(value);
	return res;
}

static int recall_loss(struct ns_live *live, const struct keeper *keeper)
{
	size_t bytes;
	void *value;
	int res = recall(live, keeper, NS_LIVE_KEPT_LOSS, &value, &bytes);

	if (res != 0 || !value)
		return res;
	if (bytes == sizeof(le64))
		atomic_store(&live->loss_mark, le64_get(*(const le64 *)value));
	else
		res = -EPROTO;
	free(value);
	return res;
}

static int recall_loss_own(struct ns_live *live, const struct keeper *keeper)
{
	size_t bytes;
	void *value;
	int res = recall(live, keeper, NS_LIVE_KEPT_LOSS_OWN, &value, &bytes);

	if (res != 0 || !value)
		return res;
	if (bytes == sizeof(live->loss_own))
		memcpy(&live->loss_own, value, bytes);
	else
		res = -EPROTO;
	free(value);
	return res;
}

static le64 mark_draw(void)
{
	struct uuid random;
	le64 mark;

	uuid_random(&random);
	memcpy(&mark, random.bytes + sizeof(random.bytes) - sizeof(mark), sizeof(mark));
	return mark;
}

static int mark_keep(const struct keeper *keeper, const struct uuid *uuid, const char *kind,
		     const void *value, size_t value_bytes)
{
	char key[UUID_TEXT_BYTES];

	return keeper && keeper->keep
		       ? keeper->keep(keeper->arg, kind, uuid_format(uuid, key), value, value_bytes)
		       : 0;
}

int ns_live_note_loss(struct ns_live *live, uint64_t loss, const struct keeper *keeper)
{
	struct loss_own own = {.mark = mark_draw()};
	int res_own, res;

	boot_id_read(&own.kernel_boot_id);
	live->loss_own = own;
	res_own =
		mark_keep(keeper, &live->uuid, NS_LIVE_KEPT_LOSS_OWN, &live->loss_own, sizeof(own));
	res = mark_keep(keeper, &live->uuid, NS_LIVE_KEPT_LOSS, &own.mark, sizeof(own.mark));
	atomic_store_explicit(&live->loss_mark, le64_get(own.mark), memory_order_release);
	atomic_store_explicit(&live->loss_noted, loss, memory_order_release);
	return res != 0 ? res : res_own;
}

uint64_t ns_live_loss_own(const struct ns_live *live, const struct uuid *kernel_boot_id)
{
	return !uuid_is_nil(kernel_boot_id) &&
			       uuid_equal(&live->loss_own.kernel_boot_id, kernel_boot_id)
		       ? le64_get(live->loss_own.mark)
		       : 0;
}

int ns_live_hear_loss(struct ns_live *live, const struct uuid *uuid, const struct keeper *keeper)
{
	le64 mark = mark_draw();
	int res = mark_keep(keeper, uuid, NS_LIVE_KEPT_LOSS, &mark, sizeof(mark));

	if (live)
		atomic_store_explicit(&live->loss_mark, le64_get(mark), memory_order_release);
	return res;
}

int ns_live_set_protected(struct ns_live *live, bool is_protected, const struct keeper *keeper)
{
	static const char value[] = "permanent";
	char key[UUID_TEXT_BYTES];
	int res = 0;

	if (live->is_protected == is_protected && !live->is_protection_unkept)
		return 0;
	if (keeper && keeper->keep)
		res = keeper->keep(keeper->arg, NS_LIVE_KEPT_PROTECTION,
				   uuid_format(&live->uuid, key), is_protected ? value : NULL,
				   is_protected ? strlen(value) : 0);
	if (res == 0) {
		live->is_protected = is_protected;
		live->is_protection_unkept = false;
	}
	return res;
}

void ns_live_set_unkept(struct ns_live *live)
{
	live->is_protection_unkept = true;
}

int ns_live_recall(struct ns_live *live, const struct uuid *uuid, const struct keeper *keeper)
{
	int res;

	CHECK(list_empty(&live->publications) && !live->view);
	live->uuid = *uuid;
	if (!keeper || !keeper->recall)
		return 0;
	res = recall_protection(live, keeper);
	if (res == 0)
		res = recall_reservation(live, keeper);
	if (res == 0)
		res = recall_bad_blocks(live, keeper);
	if (res == 0)
		res = recall_loss(live, keeper);
	if (res == 0)
		res = recall_loss_own(live, keeper);
	if (res == 0)
		res = ns_view_build(live, &live->view);
	if (res != 0)
		return res;
	for (unsigned i = 0; i < live->local_count; i++)
		live->locals[i].view = live->view;
	return 0;
}

unsigned ns_live_kept(const struct ns_live *live)
{
	unsigned kept = bad_blocks_count(live->bad) > 0 ? NS_LIVE_HAS_BAD_BLOCKS : 0;

	if (live->reservation)
		kept |= live->reservation->persists ? NS_LIVE_HAS_RESERVATION
						    : NS_LIVE_HAS_VOLATILE;
	return kept;
}

void ns_live_retire(struct ns_live *live)
{
	live->is_retired = true;
}

int ns_live_forget(struct ns_live *live, const struct keeper *keeper)
{
	return ns_live_forget_uuid(&live->uuid, keeper);
}

int ns_live_forget_uuid(const struct uuid *uuid, const struct keeper *keeper)
{
	static const char *const kinds[] = {NS_LIVE_KEPT_RESERVATION, NS_LIVE_KEPT_BAD_BLOCKS};
	char key[UUID_TEXT_BYTES];
	int res = 0;

	if (!keeper || !keeper->keep)
		return 0;
	uuid_format(uuid, key);
	for (unsigned i = 0; i < ARRAY_LEN(kinds) && res == 0; i++)
		res = keeper->keep(keeper->arg, kinds[i], key, NULL, 0);
	return res;
}

int ns_live_keep(const struct keeper *keeper, const struct ns_live *live, const char *kind,
		 const void *value, size_t value_bytes)
{
	char key[UUID_TEXT_BYTES];

	if (!keeper->keep)
		return 0;
	if (live->is_retired)
		return -ESTALE;
	return keeper->keep(keeper->arg, kind, uuid_format(&live->uuid, key), value, value_bytes);
}
