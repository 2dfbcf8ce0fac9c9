/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The persistent event log of a subsystem: events in wire format, oldest first, in one buffer that
 * is also the value given to the keeper. See event_log.h.
 *
 * Control reactor only. Times are of the real-time clock. NVMe Base 2.1, section 5.1.12.1.14.
 */
#include "ns/event_log.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_LOG_EVENTS_MAX 256
#define EVENT_LOG_GROW_BYTES 256 /* small, because thousands of subsystems have a log */

struct event_log {
	uint8_t *bytes;
	size_t len_bytes;
	size_t room_bytes;
	unsigned count;
	uint16_t generation; /* of reporting contexts */
	bool is_changed;
};

int event_log_create(struct event_log **ret_log)
{
	*ret_log = calloc(1, sizeof(**ret_log));
	return *ret_log ? 0 : -ENOMEM;
}

void event_log_destroy(struct event_log *log)
{
	if (!log)
		return;
	free(log->bytes);
	free(log);
}

const uint8_t *event_log_bytes(const struct event_log *log, size_t *ret_bytes)
{
	*ret_bytes = log->len_bytes;
	return log->bytes;
}

unsigned event_log_count(const struct event_log *log)
{
	return log->count;
}

bool event_log_is_changed(const struct event_log *log)
{
	return log->is_changed;
}

void event_log_set_kept(struct event_log *log)
{
	log->is_changed = false;
}

void event_log_set_unkept(struct event_log *log)
{
	log->is_changed = true;
}

/* The size of the event at the start of `bytes`. 0: no whole event. */
static size_t event_bytes(const uint8_t *bytes, size_t len_bytes)
{
	struct event_header header;
	size_t event;

	if (len_bytes < EVENT_HEADER_BYTES || event_header_decode(bytes, &header) != 0)
		return 0;
	event = EVENT_HEADER_BYTES + header.data_bytes;
	return event > len_bytes ? 0 : event;
}

int event_log_decode(struct event_log *log, const uint8_t *bytes, size_t len_bytes)
{
	unsigned count = 0;
	size_t at = 0, event;
	uint8_t *copy;

	if (len_bytes > EVENT_LOG_BYTES_MAX)
		return -EPROTO;
	for (; at < len_bytes; at += event, count++) {
		event = event_bytes(bytes + at, len_bytes - at);
		if (event == 0 || count == EVENT_LOG_EVENTS_MAX)
			return -EPROTO;
	}
	copy = malloc(len_bytes + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, bytes, len_bytes);
	free(log->bytes);
	log->bytes = copy;
	log->len_bytes = len_bytes;
	log->room_bytes = len_bytes + 1;
	log->count = count;
	log->is_changed = false;
	return 0;
}

static void drop_oldest(struct event_log *log)
{
	size_t event = event_bytes(log->bytes, log->len_bytes);

	CHECK(event > 0);
	memmove(log->bytes, log->bytes + event, log->len_bytes - event);
	log->len_bytes -= event;
	log->count--;
}

static bool make_room(struct event_log *log, size_t event)
{
	size_t room_bytes;
	uint8_t *bytes;

	while (log->count > 0 &&
	       (log->count == EVENT_LOG_EVENTS_MAX || log->len_bytes + event > EVENT_LOG_BYTES_MAX))
		drop_oldest(log);
	if (log->len_bytes + event <= log->room_bytes)
		return true;
	room_bytes = log->len_bytes + event + EVENT_LOG_GROW_BYTES;
	bytes = realloc(log->bytes, room_bytes);
	if (!bytes)
		return false;
	log->bytes = bytes;
	log->room_bytes = room_bytes;
	return true;
}

static struct timestamp timestamp_now(void)
{
	return (struct timestamp){.ms = clock_realtime_ns() / NS_PER_MS, .is_set = true};
}

void event_log_add(struct event_log *log, enum event_type type, const struct event_place *where,
		   const uint8_t *data, uint32_t data_bytes)
{
	struct event_header header = {
		.type = (uint8_t)type,
		.when = timestamp_now(),
		.data_bytes = data_bytes,
	};

	CHECK(EVENT_HEADER_BYTES + data_bytes <= EVENT_LOG_BYTES_MAX && data_bytes <= UINT16_MAX);
	if (where) {
		header.has_place = true;
		header.place = *where;
	}
	if (!make_room(log, EVENT_HEADER_BYTES + data_bytes)) {
		log_limited(LOG_LEVEL_WARN, "target",
			    "an event of type %02Xh is lost: out of memory", type);
		return;
	}
	event_header_encode(&header, log->bytes + log->len_bytes);
	memcpy(log->bytes + log->len_bytes + EVENT_HEADER_BYTES, data, data_bytes);
	log->len_bytes += EVENT_HEADER_BYTES + data_bytes;
	log->count++;
	log->is_changed = true;
}

uint8_t *event_log_page(struct event_log *log, struct event_log_header *header, size_t *ret_bytes)
{
	size_t total = EVENT_LOG_HEADER_BYTES + log->len_bytes, to = total, event;
	uint8_t *page = malloc(total);

	if (!page)
		return NULL;
	header->event_count = log->count;
	header->total_bytes = total;
	header->now = timestamp_now();
	header->generation = ++log->generation;
	event_log_header_encode(header, page);
	for (size_t at = 0; at < log->len_bytes; at += event) {
		event = event_bytes(log->bytes + at, log->len_bytes - at);
		to -= event;
		memcpy(page + to, log->bytes + at, event);
	}
	*ret_bytes = total;
	return page;
}

uint8_t *event_log_page_empty(struct event_log_header *header, size_t *ret_bytes)
{
	struct event_log log = {0};

	return event_log_page(&log, header, ret_bytes);
}
