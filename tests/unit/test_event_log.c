/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Persistent Event log page: fields as in NVMe Base 2.1, section 5.1.12.1.14, and round trips.
 * One thread.
 */
#include "tap.h"
#include "wire/persistent_event.h"

#include <errno.h>

static uint64_t number_at(const uint8_t *page, size_t offset, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)page[offset + i] << 8 * i;
	return value;
}

static void timestamps_have_48_bits_and_their_origin(void)
{
	struct timestamp timestamp = {.ms = 0xfedcba9876543210, .is_set = true}, got;
	uint8_t bytes[EVENT_TIMESTAMP_BYTES];

	timestamp_encode(&timestamp, bytes);
	EXPECT_EQ(0x0002ba9876543210, number_at(bytes, 0, 8));
	timestamp_decode(bytes, &got);
	EXPECT_EQ(0xba9876543210, got.ms);
	EXPECT(got.is_set && !got.has_paused);
	timestamp = (struct timestamp){.ms = 7, .has_paused = true};
	timestamp_encode(&timestamp, bytes);
	EXPECT_EQ(0x0001000000000007, number_at(bytes, 0, 8));
	timestamp_decode(bytes, &got);
	EXPECT(!got.is_set && got.has_paused);
}

static struct event_log_header some_header(void)
{
	return (struct event_log_header){
		.event_count = 3,
		.total_bytes = 0x0102030405,
		.now = {.ms = 0x1234, .is_set = true},
		.power_on_hours = 0x1112131415161718,
		.power_cycles = 9,
		.serial = "WEFT0001",
		.model = "weft target",
		.subsystem_nqn = "nqn.2026-11.io.weft:default",
		.generation = 0x5152,
		.has_context = true,
		.port_id = 0x6162,
	};
}

static void header_has_the_offsets_of_the_specification(void)
{
	const struct event_log_header header = some_header();
	struct event_log_header got;
	uint8_t bytes[EVENT_LOG_HEADER_BYTES], again[EVENT_LOG_HEADER_BYTES];

	memset(bytes, 0xee, sizeof(bytes));
	event_log_header_encode(&header, bytes);
	EXPECT_EQ(0x0d, number_at(bytes, 0, 4));
	EXPECT_EQ(3, number_at(bytes, 4, 4));
	EXPECT_EQ(0x0102030405, number_at(bytes, 8, 8));
	EXPECT_EQ(492, number_at(bytes, 18, 2)); /* LHL: to the end of the header */
	EXPECT_EQ(0x0002000000001234, number_at(bytes, 20, 8));
	EXPECT_EQ(0x1112131415161718, number_at(bytes, 28, 8));
	EXPECT_EQ(0, number_at(bytes, 36, 8));
	EXPECT_EQ(9, number_at(bytes, 44, 8));
	EXPECT_EQ(0, number_at(bytes, 52, 4)); /* VID, SSVID */
	EXPECT(memcmp(bytes + 56, "WEFT0001            ", 20) == 0);
	EXPECT(memcmp(bytes + 76, "weft target ", 12) == 0);
	EXPECT_STR("nqn.2026-11.io.weft:default", (const char *)bytes + 116);
	EXPECT_EQ(0x5152, number_at(bytes, 372, 2));
	EXPECT_EQ(0x00056162, number_at(bytes, 374, 4)); /* RCI: exists, of a port */
	EXPECT_EQ(0x09da, number_at(bytes, 480, 8));     /* events 1, 3, 4, 6, 7, 8, 11 */
	EXPECT_EQ(0, event_log_header_decode(bytes, &got));
	event_log_header_encode(&got, again);
	EXPECT(memcmp(bytes, again, sizeof(bytes)) == 0);
	EXPECT_STR("weft target", got.model);
	bytes[0] = 0x0c;
	EXPECT_EQ(-EPROTO, event_log_header_decode(bytes, &got));
	event_log_header_encode(&header, bytes);
	memset(bytes + 8, 0, 8);
	EXPECT_EQ(-EPROTO, event_log_header_decode(bytes, &got));
}

static void events_have_the_offsets_of_the_specification(void)
{
	struct event_header header = {
		.type = EVENT_CHANGE_NS,
		.has_place = true,
		.place = {.cntlid = 0x0102, .port_id = 0x0304},
		.when = {.ms = 0x55},
		.data_bytes = 48,
	};
	struct event_header got;
	uint8_t bytes[EVENT_HEADER_BYTES];

	event_header_encode(&header, bytes);
	EXPECT_EQ(0x01150106, number_at(bytes, 0, 4)); /* type, revision, EHL 21, PIT */
	EXPECT_EQ(0x0102, number_at(bytes, 4, 2));
	EXPECT_EQ(0x55, number_at(bytes, 6, 8));
	EXPECT_EQ(0x0304, number_at(bytes, 14, 2));
	EXPECT_EQ(0, number_at(bytes, 20, 2));
	EXPECT_EQ(48, number_at(bytes, 22, 2));
	EXPECT_EQ(0, event_header_decode(bytes, &got));
	EXPECT_EQ(EVENT_CHANGE_NS, got.type);
	EXPECT(got.has_place && got.place.cntlid == 0x0102 && got.place.port_id == 0x0304);
	EXPECT_EQ(48, got.data_bytes);
	header.has_place = false;
	event_header_encode(&header, bytes);
	EXPECT_EQ(3, bytes[3]); /* no port */
	EXPECT_EQ(0, number_at(bytes, 4, 2));
	bytes[20] = 1; /* length of vendor data */
	EXPECT_EQ(-EPROTO, event_header_decode(bytes, &got));
	event_header_encode(&header, bytes);
	bytes[2] = 20;
	EXPECT_EQ(-EPROTO, event_header_decode(bytes, &got));
}

static void event_data_has_the_offsets_of_the_specification(void)
{
	const struct event_change_ns change = {
		.is_delete = true,
		.nsid = 5,
		.block_count = 0x1112131415,
		.format = 1,
		.is_shared = true,
		.ana_group_id = 7,
	};
	const uint32_t dwords[EVENT_SET_FEATURE_DWORDS] = {0x84, 2};
	const struct timestamp previous = {.ms = 0x99, .is_set = true};
	uint8_t bytes[64];

	event_change_ns_encode(&change, bytes);
	EXPECT_EQ(1, number_at(bytes, 0, 8));
	EXPECT_EQ(0x1112131415, number_at(bytes, 8, 8));
	EXPECT_EQ(0x1112131415, number_at(bytes, 24, 8));
	EXPECT_EQ(0x00010001, number_at(bytes, 32, 4));
	EXPECT_EQ(7, number_at(bytes, 36, 4));
	EXPECT_EQ(5, number_at(bytes, 44, 4));
	event_format_start_encode(3, 0, EVENT_FORMAT_ERASES | 1, bytes);
	EXPECT_EQ(3, number_at(bytes, 0, 8));
	EXPECT_EQ(0x201, number_at(bytes, 8, 4));
	event_format_end_encode(3, NVME_SC_SUCCESS, bytes);
	EXPECT_EQ(3, number_at(bytes, 0, 8));
	EXPECT_EQ(0, number_at(bytes, 8, 4));
	event_format_end_encode(3, nvme_status_dnr(NVME_SC_INTERNAL), bytes);
	EXPECT_EQ(1, bytes[5]);
	EXPECT_EQ(0x800c, number_at(bytes, 8, 4));
	event_timestamp_encode(&previous, 0x123456789a, bytes);
	EXPECT_EQ(0x0002000000000099, number_at(bytes, 0, 8));
	EXPECT_EQ(0x123456789a, number_at(bytes, 8, 8));
	event_power_on_encode("0.1.0", bytes);
	EXPECT(memcmp(bytes, "0.1.0   ", 8) == 0);
	event_set_feature_encode(dwords, 256, bytes);
	EXPECT_EQ(0x01000006, number_at(bytes, 0, 4));
	EXPECT_EQ(0x0000000200000084, number_at(bytes, 4, 8));
	EXPECT_EQ(28, EVENT_SET_FEATURE_BYTES);
}

int main(void)
{
	TAP_RUN(timestamps_have_48_bits_and_their_origin);
	TAP_RUN(header_has_the_offsets_of_the_specification);
	TAP_RUN(events_have_the_offsets_of_the_specification);
	TAP_RUN(event_data_has_the_offsets_of_the_specification);
	return tap_end();
}
