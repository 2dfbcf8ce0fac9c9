/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health and events of a subsystem: sums over namespaces that come, move and go, what a keeper gets
 * and returns, the limits of the event log, and its page. One thread, no reactor.
 */
#include "tap.h"

#include "ns/event_log.h"
#include "ns/health.h"

#include <errno.h>
#include <stdlib.h>

#define NQN "nqn.2026-11.io.weft:health"

/* ---- a keeper in memory --------------------------------------------------------------------- */

struct kept {
	uint8_t *value;
	size_t bytes;
};
static struct kept kept_health, kept_events;
static unsigned keeps;
static int keep_error;

static struct kept *kept_of(const char *kind, const char *key)
{
	EXPECT_STR(NQN, key);
	return strcmp(kind, "health") == 0 ? &kept_health : &kept_events;
}

static int keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes)
{
	struct kept *kept = kept_of(kind, key);

	if (keep_error != 0)
		return keep_error;
	keeps++;
	free(kept->value);
	*kept = (struct kept){0};
	if (!value)
		return 0;
	kept->value = malloc(value_bytes + 1);
	memcpy(kept->value, value, value_bytes);
	kept->bytes = value_bytes;
	return 0;
}

static int recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes)
{
	struct kept *kept = kept_of(kind, key);

	if (!kept->value)
		return -ENOENT;
	*ret_value = malloc(kept->bytes + 1);
	memcpy(*ret_value, kept->value, kept->bytes);
	*ret_bytes = kept->bytes;
	return 0;
}

static const struct keeper keeper = {.keep = keep, .recall = recall};

static void forget_all(void)
{
	free(kept_health.value);
	free(kept_events.value);
	kept_health = kept_events = (struct kept){0};
	keeps = 0;
	keep_error = 0;
}

static struct subsystem_live *live_start(void)
{
	struct subsystem_live *live;

	EXPECT_EQ(0, subsystem_live_create(&live));
	EXPECT_EQ(0, subsystem_live_recall(live, NQN, &keeper));
	return live;
}

static struct ns_live *ns_start(unsigned reads)
{
	struct ns_live *ns;

	EXPECT_EQ(0, ns_live_create(2, &ns));
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&ns_live_locals(ns)[i].read_commands, reads);
		atomic_store(&ns_live_locals(ns)[i].bytes_read, reads * 512);
		atomic_store(&ns_live_locals(ns)[i].write_commands, 1);
	}
	return ns;
}

static struct log_smart smart_of(const struct subsystem_live *live)
{
	struct log_smart smart;

	health_smart_init(&smart);
	subsystem_live_smart(live, &smart);
	return smart;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static void a_namespace_that_goes_leaves_its_counts(void)
{
	struct subsystem_live *live = live_start();
	struct ns_live *first = ns_start(10), *second = ns_start(5);

	subsystem_live_adopt(live, first);
	subsystem_live_adopt(live, second);
	subsystem_live_adopt(live, second);
	EXPECT_EQ(30, smart_of(live).read_commands);
	EXPECT_EQ(30 * 512, smart_of(live).bytes_read);
	EXPECT_EQ(4, smart_of(live).write_commands);
	ns_live_put(first);
	EXPECT_EQ(30, smart_of(live).read_commands);
	atomic_store(&ns_live_locals(second)[1].read_commands, 6);
	EXPECT_EQ(31, smart_of(live).read_commands);
	ns_live_put(second);
	EXPECT_EQ(31, smart_of(live).read_commands);
	subsystem_live_put(live);
	forget_all();
}

static void a_namespace_that_moves_is_counted_once(void)
{
	struct subsystem_live *from = live_start(), *to = live_start();
	struct ns_live *ns = ns_start(10);

	subsystem_live_adopt(from, ns);
	subsystem_live_adopt(to, ns);
	EXPECT_EQ(20, smart_of(from).read_commands);
	EXPECT_EQ(0, smart_of(to).read_commands);
	atomic_store(&ns_live_locals(ns)[0].read_commands, 13);
	EXPECT_EQ(20, smart_of(from).read_commands);
	EXPECT_EQ(3, smart_of(to).read_commands);
	ns_live_put(ns);
	EXPECT_EQ(3, smart_of(to).read_commands);
	subsystem_live_put(from);
	subsystem_live_put(to);
	forget_all();
}

/* One command per minute is not an hour of work after an hour. */
static void rare_commands_are_not_busy_minutes(void)
{
	struct subsystem_live *live = live_start();

	for (uint32_t minute = 1; minute <= 120; minute++)
		subsystem_live_note_busy(live, minute * 60, minute * 60);
	EXPECT_EQ(2, smart_of(live).busy_minutes);
	subsystem_live_put(live);
	forget_all();
}

static void a_second_counts_once(void)
{
	struct subsystem_live *live = live_start();

	for (uint32_t second = 1; second <= 119; second++)
		for (unsigned reactor = 0; reactor < 4; reactor++)
			subsystem_live_note_busy(live, second, second);
	/* Of two reactors on either side of a second, the later report adds nothing. */
	for (unsigned i = 0; i < 100; i++) {
		subsystem_live_note_busy(live, 118, 118);
		subsystem_live_note_busy(live, 119, 119);
	}
	EXPECT_EQ(2, smart_of(live).busy_minutes);
	subsystem_live_note_busy(live, 120, 120);
	EXPECT_EQ(2, smart_of(live).busy_minutes);
	subsystem_live_note_busy(live, 121, 121);
	EXPECT_EQ(3, smart_of(live).busy_minutes);
	subsystem_live_put(live);
	forget_all();
}

static void a_long_command_is_busy_all_the_while(void)
{
	struct subsystem_live *live = live_start();

	subsystem_live_note_busy(live, 10, 10);
	subsystem_live_note_busy(live, 10, 189);
	EXPECT_EQ(3, smart_of(live).busy_minutes);
	/* Overlapping intervals share their seconds. */
	subsystem_live_note_busy(live, 100, 249);
	EXPECT_EQ(4, smart_of(live).busy_minutes);
	subsystem_live_note_busy(live, 200, 240);
	EXPECT_EQ(4, smart_of(live).busy_minutes);
	subsystem_live_put(live);
	forget_all();
}

/* ---- what is kept --------------------------------------------------------------------------- */

static void counters_and_events_survive(void)
{
	struct subsystem_live *live = live_start();
	struct ns_live *ns = ns_start(10);

	subsystem_live_adopt(live, ns);
	subsystem_live_note_busy(live, 1, 60);
	EXPECT_EQ(0, subsystem_live_end(live, &keeper));
	EXPECT_EQ(3, event_log_count(subsystem_live_events(live))); /* start, SMART, SMART */
	ns_live_put(ns);
	subsystem_live_put(live);

	live = live_start();
	EXPECT_EQ(20, smart_of(live).read_commands);
	EXPECT_EQ(20 * 512, smart_of(live).bytes_read);
	EXPECT_EQ(1, smart_of(live).busy_minutes);
	EXPECT_EQ(5, event_log_count(subsystem_live_events(live)));
	EXPECT_EQ(0, subsystem_live_forget(live, &keeper));
	subsystem_live_put(live);
	EXPECT(!kept_health.value && !kept_events.value);
	forget_all();
}

static void nothing_is_written_without_a_change(void)
{
	struct subsystem_live *live = live_start();

	EXPECT_EQ(0, subsystem_live_keep(live, &keeper));
	EXPECT_EQ(2, keeps);
	EXPECT_EQ(0, subsystem_live_keep(live, &keeper));
	EXPECT_EQ(2, keeps);
	subsystem_live_note_busy(live, 1, 60);
	EXPECT_EQ(0, subsystem_live_keep(live, &keeper));
	EXPECT_EQ(3, keeps);
	/* A failure is reported and tried again. */
	keep_error = -ENOSPC;
	subsystem_live_note_busy(live, 61, 120);
	EXPECT_EQ(-ENOSPC, subsystem_live_keep(live, &keeper));
	keep_error = 0;
	EXPECT_EQ(0, subsystem_live_keep(live, &keeper));
	EXPECT_EQ(4, keeps);
	/* Accepted, but lost with its transaction: counters and events are kept again. */
	subsystem_live_set_unkept(live);
	EXPECT_EQ(0, subsystem_live_keep(live, &keeper));
	EXPECT_EQ(6, keeps);
	EXPECT_EQ(0, subsystem_live_keep(live, &keeper));
	EXPECT_EQ(6, keeps);
	subsystem_live_put(live);
	forget_all();
}

/* Counters that change within one second of work, where nothing else changes. */
static void counters_alone_are_a_change(void)
{
	struct subsystem_live *live = live_start();
	struct ns_live *ns = ns_start(10);

	subsystem_live_adopt(live, ns);
	EXPECT_EQ(0, subsystem_live_keep(live, &keeper));
	EXPECT_EQ(2, keeps);
	atomic_store(&ns_live_locals(ns)[1].write_commands, 2);
	EXPECT_EQ(0, subsystem_live_keep(live, &keeper));
	EXPECT_EQ(3, keeps);
	ns_live_put(ns);
	subsystem_live_put(live);

	live = live_start();
	EXPECT_EQ(20, smart_of(live).read_commands);
	EXPECT_EQ(3, smart_of(live).write_commands);
	subsystem_live_put(live);
	forget_all();
}

static void nonsense_is_left_out(void)
{
	struct subsystem_live *live;

	keep(NULL, "health", NQN, "nonsense", 8);
	keep(NULL, "events", NQN, "nonsense, and longer than a header", 34);
	live = live_start();
	EXPECT_EQ(0, smart_of(live).read_commands);
	EXPECT_EQ(2, event_log_count(subsystem_live_events(live)));
	subsystem_live_put(live);
	forget_all();
}

/* ---- the event log -------------------------------------------------------------------------- */

static void the_oldest_events_make_room(void)
{
	uint8_t data[2048] = {0};
	struct event_log *log, *copy;
	size_t bytes;

	EXPECT_EQ(0, event_log_create(&log));
	for (unsigned i = 0; i < 300; i++) {
		data[0] = (uint8_t)i;
		event_log_add(log, EVENT_POWER_ON_OR_RESET, NULL, data, 8);
	}
	EXPECT_EQ(256, event_log_count(log));
	EXPECT_EQ(300 - 256, event_log_bytes(log, &bytes)[EVENT_HEADER_BYTES]);
	for (unsigned i = 0; i < 100; i++)
		event_log_add(log, EVENT_SMART, NULL, data, sizeof(data));
	event_log_bytes(log, &bytes);
	EXPECT(bytes <= EVENT_LOG_BYTES_MAX);
	EXPECT_EQ(EVENT_LOG_BYTES_MAX / (EVENT_HEADER_BYTES + sizeof(data)), event_log_count(log));
	EXPECT_EQ(0, event_log_create(&copy));
	EXPECT_EQ(0, event_log_decode(copy, event_log_bytes(log, &bytes), bytes));
	EXPECT_EQ(event_log_count(log), event_log_count(copy));
	EXPECT(!event_log_is_changed(copy));
	EXPECT_EQ(-EPROTO, event_log_decode(copy, event_log_bytes(log, &bytes), bytes - 1));
	event_log_destroy(log);
	event_log_destroy(copy);
}

static void the_page_begins_with_the_newest(void)
{
	struct event_log_header header = {.serial = "S"}, got;
	const struct event_place place = {.cntlid = 9, .port_id = 2};
	struct event_header event;
	struct event_log *log;
	uint8_t data[8] = {1};
	uint8_t *page;
	size_t bytes;

	EXPECT_EQ(0, event_log_create(&log));
	event_log_add(log, EVENT_POWER_ON_OR_RESET, NULL, data, sizeof(data));
	event_log_add(log, EVENT_TIMESTAMP, &place, data, 4);
	page = event_log_page(log, &header, &bytes);
	EXPECT_EQ(512 + 24 + 8 + 24 + 4, bytes);
	EXPECT_EQ(0, event_log_header_decode(page, &got));
	EXPECT_EQ(2, got.event_count);
	EXPECT_EQ(bytes, got.total_bytes);
	EXPECT_EQ(1, got.generation);
	EXPECT_EQ(0, event_header_decode(page + 512, &event));
	EXPECT_EQ(EVENT_TIMESTAMP, event.type);
	EXPECT_EQ(9, event.place.cntlid);
	EXPECT_EQ(0, event_header_decode(page + 512 + 28, &event));
	EXPECT_EQ(EVENT_POWER_ON_OR_RESET, event.type);
	EXPECT(!event.has_place);
	free(page);
	free(event_log_page(log, &header, &bytes));
	EXPECT_EQ(2, header.generation);
	event_log_destroy(log);
	page = event_log_page_empty(&header, &bytes);
	EXPECT_EQ(512, bytes);
	free(page);
}

int main(void)
{
	TAP_RUN(a_namespace_that_goes_leaves_its_counts);
	TAP_RUN(a_namespace_that_moves_is_counted_once);
	TAP_RUN(rare_commands_are_not_busy_minutes);
	TAP_RUN(a_second_counts_once);
	TAP_RUN(a_long_command_is_busy_all_the_while);
	TAP_RUN(counters_and_events_survive);
	TAP_RUN(nothing_is_written_without_a_change);
	TAP_RUN(counters_alone_are_a_change);
	TAP_RUN(nonsense_is_left_out);
	TAP_RUN(the_oldest_events_make_room);
	TAP_RUN(the_page_begins_with_the_newest);
	return tap_end();
}
