/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the decoders of what the store keeps of namespaces and subsystems: a disk may lose bytes,
 * and a state folder may come from elsewhere. Input: a byte that chooses the kind, then the value.
 * Checked: an accepted value is usable and is written as it was read. One thread; no reactor runs.
 */
#include "base/check.h"
#include "base/crc32c.h"
#include "ns/bad_blocks.h"
#include "ns/event_log.h"
#include "ns/health.h"
#include "ns/reservation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum kind {
	KIND_RESERVATION,
	KIND_BAD_BLOCKS,
	KIND_EVENTS,
	KIND_SUBSYSTEM, /* health and events together, through a keeper */
	KIND_NS,        /* everything of a namespace, through a keeper */
	KIND_COUNT,
};

struct input {
	const uint8_t *bytes;
	size_t len_bytes;
	size_t kept_bytes; /* by the last call of keep */
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes);

/* Corrects the checksum, so that the decoder reads beyond it. */
static void try_reservation(const uint8_t *bytes, size_t len_bytes)
{
	uint8_t *copy = malloc(len_bytes + 4);
	struct reservation *reservation;
	struct uuid host_id = {{1}};
	size_t again_bytes;
	void *again;
	le32 sum;

	CHECK(copy != NULL);
	if (len_bytes > 0)
		memcpy(copy, bytes, len_bytes);
	sum = le32_of(crc32c(copy, len_bytes));
	memcpy(copy + len_bytes, &sum, sizeof(sum));
	if (reservation_decode(copy, len_bytes + 4, &reservation) == 0) {
		CHECK(reservation_encode(reservation, &again, &again_bytes) == 0);
		CHECK(again_bytes == len_bytes + 4);
		free(again);
		(void)reservation_judge(reservation, &host_id, RESERVATION_GROUP_WRITE);
		for (uint32_t i = 0; i < reservation->count; i++)
			CHECK(reservation_find(reservation, &reservation->registrants[i].host_id) ==
			      &reservation->registrants[i]);
		reservation_put(reservation);
	}
	free(copy);
}

static void try_bad_blocks(const uint8_t *bytes, size_t len_bytes)
{
	struct bad_blocks *bad;
	struct bad_view *view;
	size_t again_bytes;
	uint64_t block;
	uint8_t *again;

	if (bad_blocks_decode(bytes, len_bytes, &bad) != 0)
		return;
	again = bad_blocks_encode(bad, &again_bytes);
	CHECK(again && again_bytes == len_bytes && memcmp(again, bytes, len_bytes) == 0);
	free(again);
	if (bad_blocks_count(bad) > 0) {
		struct bad_range range = bad_blocks_range(bad, 0);

		view = bad_view_create(bad);
		CHECK(view && bad_view_find(view, range.first_sector, 1, &block));
		CHECK(block == range.first_sector);
		bad_view_free(view);
		CHECK(bad_blocks_heal(bad, range.first_sector,
				      range.end_sector - range.first_sector) == 0);
	}
	bad_blocks_destroy(bad);
}

static void try_events(const uint8_t *bytes, size_t len_bytes)
{
	struct event_log *log;
	const uint8_t *again;
	size_t again_bytes;

	CHECK(event_log_create(&log) == 0);
	if (event_log_decode(log, bytes, len_bytes) != 0)
		CHECK(event_log_count(log) == 0);
	again = event_log_bytes(log, &again_bytes);
	if (event_log_count(log) > 0)
		CHECK(again_bytes == len_bytes && memcmp(again, bytes, len_bytes) == 0);
	event_log_destroy(log);
}

static int keep(void *arg, const char *kind, const char *key, const void *value, size_t value_bytes)
{
	((struct input *)arg)->kept_bytes = value_bytes;
	return 0;
}

static int recall(void *arg, const char *kind, const char *key, void **ret_value, size_t *ret_bytes)
{
	const struct input *input = arg;

	if (input->len_bytes == 0)
		return -ENOENT;
	*ret_value = malloc(input->len_bytes);
	CHECK(*ret_value != NULL);
	memcpy(*ret_value, input->bytes, input->len_bytes);
	*ret_bytes = input->len_bytes;
	return 0;
}

static void try_subsystem(struct input *input)
{
	struct keeper keeper = {keep, recall, input};
	struct log_smart smart = {0};
	struct subsystem_live *live;

	CHECK(subsystem_live_create(&live) == 0);
	(void)subsystem_live_recall(live, "nqn.2026-11.io.weft:fuzz", &keeper);
	subsystem_live_smart(live, &smart);
	(void)subsystem_live_keep(live, &keeper);
	(void)subsystem_live_end(live, &keeper);
	subsystem_live_put(live);
}

static void try_ns(struct input *input)
{
	struct keeper keeper = {keep, recall, input};
	struct uuid uuid = {{7}};
	struct ns_live *live;

	CHECK(ns_live_create(2, &live) == 0);
	(void)ns_live_recall(live, &uuid, &keeper);
	ns_live_put(live);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len_bytes)
{
	struct input input = {.bytes = bytes + 1, .len_bytes = len_bytes - 1};

	if (len_bytes == 0)
		return 0;
	switch (bytes[0] % KIND_COUNT) {
	case KIND_RESERVATION:
		try_reservation(input.bytes, input.len_bytes);
		break;
	case KIND_BAD_BLOCKS:
		try_bad_blocks(input.bytes, input.len_bytes);
		break;
	case KIND_EVENTS:
		try_events(input.bytes, input.len_bytes);
		break;
	case KIND_SUBSYSTEM:
		try_subsystem(&input);
		break;
	default:
		try_ns(&input);
	}
	return 0;
}
