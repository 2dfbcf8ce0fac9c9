/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Struct subsystem_live, and the counters behind SMART. See health.h.
 *
 * Control reactor, except subsystem_live_note_busy. Kept as kind "health", key NQN: eight
 * little-endian numbers, the first of which is the version. The power-on time is summed over
 * processes in seconds and reported in hours.
 */
#include "ns/health.h"

#include "base/clock.h"
#include "base/le.h"
#include "base/log.h"
#include "base/text.h"
#include "ns/event_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEALTH_KIND          "health"
#define EVENTS_KIND          "events"
#define HEALTH_VERSION       2
#define HEALTH_VERSION_1     1 /* with busy time in minutes */
#define HEALTH_SPARE_PERCENT 100
#define S_PER_MINUTE         60
#define S_PER_HOUR           3600

struct subsystem_live {
	atomic_uint refs;
	char nqn[NVME_NQN_BYTES];
	struct list shares;          /* of its namespaces, struct health_share.node */
	struct health_counters base; /* counted by former processes and for removed namespaces */
	uint64_t busy_before_s;      /* counted by former processes */
	atomic_ulong busy_seconds;
	atomic_uint busy_last; /* the latest second that was counted */
	uint64_t power_on_before_s;
	uint64_t since_ns;
	/* The values last given to the keeper. */
	struct health_counters kept;
	uint64_t kept_busy_s;
	uint64_t kept_hours;
	bool was_kept;
	struct event_log *events;
};

/* The value of kind "health". */
struct health_record {
	le64 version;
	le64 bytes_read;
	le64 bytes_written;
	le64 read_commands;
	le64 write_commands;
	le64 media_errors;
	le64 busy_s;
	le64 power_on_s;
};

/* ---- sums ------------------------------------------------------------------------------------ */

static uint64_t counter_get(const atomic_ulong *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void counters_add_locals(struct health_counters *sum, struct ns_live *live)
{
	const struct ns_local *locals = ns_live_locals(live);

	for (unsigned i = 0; i < ns_live_local_count(live); i++) {
		sum->bytes_read += counter_get(&locals[i].bytes_read);
		sum->bytes_written += counter_get(&locals[i].bytes_written);
		sum->read_commands += counter_get(&locals[i].read_commands);
		sum->write_commands += counter_get(&locals[i].write_commands);
		sum->media_errors += counter_get(&locals[i].media_errors);
	}
}

static void counters_subtract(struct health_counters *sum, const struct health_counters *part)
{
	sum->bytes_read -= part->bytes_read;
	sum->bytes_written -= part->bytes_written;
	sum->read_commands -= part->read_commands;
	sum->write_commands -= part->write_commands;
	sum->media_errors -= part->media_errors;
}

static void counters_add_share(struct health_counters *sum, const struct health_share *share)
{
	counters_add_locals(sum, share->live);
	counters_subtract(sum, &share->before);
}

static void live_sum(const struct subsystem_live *live, struct health_counters *ret_sum)
{
	*ret_sum = live->base;
	list_for_each(node, &live->shares)
		counters_add_share(ret_sum, list_entry(node, struct health_share, node));
}

static uint64_t live_busy_s(const struct subsystem_live *live)
{
	return live->busy_before_s + counter_get(&live->busy_seconds);
}

static uint64_t live_power_on_s(const struct subsystem_live *live)
{
	return live->power_on_before_s + (clock_monotonic_ns() - live->since_ns) / NS_PER_S;
}

static void smart_set_counters(struct log_smart *smart, const struct health_counters *sum)
{
	smart->bytes_read = sum->bytes_read;
	smart->bytes_written = sum->bytes_written;
	smart->read_commands = sum->read_commands;
	smart->write_commands = sum->write_commands;
	smart->media_errors = sum->media_errors;
}

void health_smart_init(struct log_smart *smart)
{
	*smart = (struct log_smart){
		.temperature_k = HEALTH_TEMPERATURE_K,
		.spare_percent = HEALTH_SPARE_PERCENT,
	};
}

void subsystem_live_smart(const struct subsystem_live *live, struct log_smart *smart)
{
	struct health_counters sum;

	live_sum(live, &sum);
	smart_set_counters(smart, &sum);
	/* Rounded up, so that 0 means a subsystem that was never used. */
	smart->busy_minutes = (live_busy_s(live) + S_PER_MINUTE - 1) / S_PER_MINUTE;
	smart->power_on_hours = live_power_on_s(live) / S_PER_HOUR;
}

void health_smart_add(struct log_smart *smart, struct ns_live *ns)
{
	struct health_counters sum = {
		.bytes_read = smart->bytes_read,
		.bytes_written = smart->bytes_written,
		.read_commands = smart->read_commands,
		.write_commands = smart->write_commands,
		.media_errors = smart->media_errors,
	};

	counters_add_locals(&sum, ns);
	smart_set_counters(smart, &sum);
}

/*
 * Controller Busy Time is the time with an I/O command outstanding (Base 2.1, 5.1.12.1.3). A second
 * counts when a command began in it, or when it lies within a command that took longer. Reactors
 * read their clocks at different moments, so a second before busy_last is never counted again.
 */
void subsystem_live_note_busy(struct subsystem_live *live, uint32_t first, uint32_t last)
{
	unsigned counted = atomic_load_explicit(&live->busy_last, memory_order_relaxed);

	while (counted < last) {
		unsigned from = counted < first ? first - 1 : counted;

		if (!atomic_compare_exchange_weak(&live->busy_last, &counted, last))
			continue;
		atomic_fetch_add_explicit(&live->busy_seconds, last - from, memory_order_relaxed);
		return;
	}
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* Adds what the share has counted to its owner's base, and removes the share. */
static void share_leave(struct health_share *share)
{
	struct subsystem_live *owner = share->owner;

	if (!owner)
		return;
	counters_add_share(&owner->base, share);
	list_remove(&share->node);
	share->owner = NULL;
	subsystem_live_put(owner);
}

void subsystem_live_adopt(struct subsystem_live *live, struct ns_live *ns)
{
	struct health_share *share = ns_live_health(ns);

	if (share->owner == live)
		return;
	if (!share->owner) {
		list_init(&share->node);
		share->live = ns;
	} else {
		share_leave(share);
		share->before = (struct health_counters){0};
		counters_add_locals(&share->before, ns);
	}
	share->owner = subsystem_live_get(live);
	list_push_back(&live->shares, &share->node);
}

void health_share_end(struct health_share *share)
{
	share_leave(share);
}

/* ---- life ------------------------------------------------------------------------------------ */

int subsystem_live_create(struct subsystem_live **ret_live)
{
	struct subsystem_live *live = calloc(1, sizeof(*live));

	if (!live || event_log_create(&live->events) != 0) {
		free(live);
		return -ENOMEM;
	}
	atomic_init(&live->refs, 1);
	list_init(&live->shares);
	live->since_ns = clock_monotonic_ns();
	*ret_live = live;
	return 0;
}

struct subsystem_live *subsystem_live_get(struct subsystem_live *live)
{
	atomic_fetch_add(&live->refs, 1);
	return live;
}

void subsystem_live_put(struct subsystem_live *live)
{
	if (!live || atomic_fetch_sub(&live->refs, 1) != 1)
		return;
	CHECK(list_empty(&live->shares));
	event_log_destroy(live->events);
	free(live);
}

struct event_log *subsystem_live_events(struct subsystem_live *live)
{
	return live->events;
}

const char *subsystem_live_nqn(const struct subsystem_live *live)
{
	return live->nqn;
}

/* ---- kept values ---------------------------------------------------------------------------- */

static int health_decode(struct subsystem_live *live, const void *bytes, size_t len_bytes)
{
	struct health_record record;

	if (len_bytes != sizeof(record))
		return -EPROTO;
	memcpy(&record, bytes, sizeof(record));
	if (le64_get(record.version) != HEALTH_VERSION &&
	    le64_get(record.version) != HEALTH_VERSION_1)
		return -EPROTO;
	live->base = (struct health_counters){
		.bytes_read = le64_get(record.bytes_read),
		.bytes_written = le64_get(record.bytes_written),
		.read_commands = le64_get(record.read_commands),
		.write_commands = le64_get(record.write_commands),
		.media_errors = le64_get(record.media_errors),
	};
	live->busy_before_s = le64_get(record.busy_s);
	if (le64_get(record.version) == HEALTH_VERSION_1)
		live->busy_before_s *= S_PER_MINUTE;
	live->power_on_before_s = le64_get(record.power_on_s);
	return 0;
}

static int events_decode(struct subsystem_live *live, const void *bytes, size_t len_bytes)
{
	return event_log_decode(live->events, bytes, len_bytes);
}

/* Loads one kept value. 0 also when the value is missing, or invalid and ignored with a warning. */
static int recall_one(struct subsystem_live *live, const struct keeper *keeper, const char *kind,
		      int (*decode)(struct subsystem_live *live, const void *bytes,
				    size_t len_bytes))
{
	size_t len_bytes = 0;
	void *value = NULL;
	int res = keeper->recall(keeper->arg, kind, live->nqn, &value, &len_bytes);

	if (res == -ENOENT)
		return 0;
	if (res == 0 && decode(live, value, len_bytes) != 0)
		/* No peer: at the start. */
		log_warn("target", "%s: the saved state \"%s\" is invalid and ignored", live->nqn,
			 kind);
	free(value);
	return res;
}

static void note_smart(struct subsystem_live *live)
{
	uint8_t page[LOG_SMART_BYTES];
	struct log_smart smart;

	health_smart_init(&smart);
	subsystem_live_smart(live, &smart);
	log_smart_encode(&smart, page);
	event_log_add(live->events, EVENT_SMART, NULL, page, sizeof(page));
}

int subsystem_live_recall(struct subsystem_live *live, const char *nqn, const struct keeper *keeper)
{
	uint8_t power_on[EVENT_POWER_ON_BYTES];
	int res = 0;

	text_copy(live->nqn, sizeof(live->nqn), nqn);
	if (keeper && keeper->recall) {
		res = recall_one(live, keeper, HEALTH_KIND, health_decode);
		if (res == 0)
			res = recall_one(live, keeper, EVENTS_KIND, events_decode);
	}
	if (res != 0)
		return res;
	event_power_on_encode(WEFT_VERSION, power_on);
	event_log_add(live->events, EVENT_POWER_ON_OR_RESET, NULL, power_on, sizeof(power_on));
	note_smart(live);
	return 0;
}

static int keep_health(struct subsystem_live *live, const struct keeper *keeper, bool is_last)
{
	uint64_t power_on_s = live_power_on_s(live), busy_s = live_busy_s(live);
	struct health_counters sum;
	struct health_record record;
	int res;

	live_sum(live, &sum);
	if (!is_last && live->was_kept && live->kept_hours == power_on_s / S_PER_HOUR &&
	    live->kept_busy_s == busy_s && memcmp(&sum, &live->kept, sizeof(sum)) == 0)
		return 0;
	record = (struct health_record){
		.version = le64_of(HEALTH_VERSION),
		.bytes_read = le64_of(sum.bytes_read),
		.bytes_written = le64_of(sum.bytes_written),
		.read_commands = le64_of(sum.read_commands),
		.write_commands = le64_of(sum.write_commands),
		.media_errors = le64_of(sum.media_errors),
		.busy_s = le64_of(busy_s),
		.power_on_s = le64_of(power_on_s),
	};
	res = keeper->keep(keeper->arg, HEALTH_KIND, live->nqn, &record, sizeof(record));
	if (res != 0)
		return res;
	live->kept = sum;
	live->kept_busy_s = busy_s;
	live->kept_hours = power_on_s / S_PER_HOUR;
	live->was_kept = true;
	return 0;
}

int subsystem_live_keep_events(struct subsystem_live *live, const struct keeper *keeper)
{
	const uint8_t *bytes;
	size_t len_bytes;
	int res;

	if (!keeper || !keeper->keep || !event_log_is_changed(live->events))
		return 0;
	bytes = event_log_bytes(live->events, &len_bytes);
	res = keeper->keep(keeper->arg, EVENTS_KIND, live->nqn, bytes, len_bytes);
	if (res == 0)
		event_log_set_kept(live->events);
	return res;
}

static int keep_all(struct subsystem_live *live, const struct keeper *keeper, bool is_last)
{
	int health, events;

	if (!keeper || !keeper->keep)
		return 0;
	health = keep_health(live, keeper, is_last);
	events = subsystem_live_keep_events(live, keeper);
	return health != 0 ? health : events;
}

int subsystem_live_keep(struct subsystem_live *live, const struct keeper *keeper)
{
	return keep_all(live, keeper, false);
}

void subsystem_live_set_unkept(struct subsystem_live *live)
{
	live->was_kept = false;
	event_log_set_unkept(live->events);
}

int subsystem_live_end(struct subsystem_live *live, const struct keeper *keeper)
{
	note_smart(live);
	return keep_all(live, keeper, true);
}

int subsystem_live_forget(struct subsystem_live *live, const struct keeper *keeper)
{
	int health, events;

	if (!keeper || !keeper->keep)
		return 0;
	health = keeper->keep(keeper->arg, HEALTH_KIND, live->nqn, NULL, 0);
	events = keeper->keep(keeper->arg, EVENTS_KIND, live->nqn, NULL, 0);
	return health != 0 ? health : events;
}
