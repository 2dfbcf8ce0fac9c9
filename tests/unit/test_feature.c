/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features, asynchronous events and Abort: bits as in NVMe Base 2.1, chapter 5, and round trips.
 * One thread.
 */
#include "tap.h"
#include "wire/feature.h"

static void commands_round_trip(void)
{
	struct feature_cmd got;
	struct nvme_sqe sqe = {0};

	feature_get_encode(&sqe, FEATURE_KEEP_ALIVE, FEATURE_SUPPORTED);
	EXPECT_EQ(0x0a, sqe.opcode);
	EXPECT_EQ(0x30f, le32_get(sqe.cdw10));
	EXPECT_EQ(0x40, sqe.flags);
	feature_cmd_decode(&sqe, &got);
	EXPECT_EQ(0x0f, got.feature_id);
	EXPECT_EQ(FEATURE_SUPPORTED, got.select);
	EXPECT(!got.is_save);
	feature_set_encode(&sqe, FEATURE_ASYNC_EVENT, ASYNC_MASK_DISCOVERY_CHANGE);
	EXPECT_EQ(0x09, sqe.opcode);
	sqe.cdw10 = le32_of(le32_get(sqe.cdw10) | 1u << 31);
	sqe.cdw12 = le32_of(77);
	feature_cmd_decode(&sqe, &got);
	EXPECT_EQ(0x0b, got.feature_id);
	EXPECT(got.is_save);
	EXPECT_EQ(0x80000000, got.cdw11);
	EXPECT_EQ(77, got.cdw12);
}

static void temperature_thresholds_have_their_bits(void)
{
	struct temperature_cmd got = feature_temperature_decode(0x001f0157);

	EXPECT_EQ(0x157, got.kelvin);
	EXPECT_EQ(TEMPERATURE_ALL_SENSORS, got.sensor);
	EXPECT_EQ(TEMPERATURE_UNDER, got.kind);
	got = feature_temperature_decode(0x00300000);
	EXPECT_EQ(TEMPERATURE_COMPOSITE, got.sensor);
	EXPECT_EQ(3, got.kind);
}

static void queue_counts_are_zero_based_on_the_wire(void)
{
	uint32_t sq = 0, cq = 0;

	EXPECT_EQ(0x00070003, feature_queue_count_encode(4, 8));
	EXPECT_EQ(0xfffefffe, feature_queue_count_encode(65535, 65535));
	EXPECT(nvme_status_is_ok(feature_queue_count_decode(0x00070003, &sq, &cq)));
	EXPECT_EQ(4, sq);
	EXPECT_EQ(8, cq);
	EXPECT_EQ(0x4002, feature_queue_count_decode(0x0000ffff, &sq, &cq).value);
	EXPECT_EQ(0x4002, feature_queue_count_decode(0xffff0000, &sq, &cq).value);
	EXPECT_EQ(4, sq);
}

static void events_have_the_bits_of_the_specification(void)
{
	const struct async_event event = {ASYNC_TYPE_NOTICE, ASYNC_NOTICE_DISCOVERY_CHANGE, 0x70};
	struct async_event got;

	EXPECT_EQ(0x0070f002, async_event_encode(&event));
	got = async_event_decode(0xff0c0302);
	EXPECT_EQ(ASYNC_TYPE_NOTICE, got.type);
	EXPECT_EQ(ASYNC_NOTICE_ANA_CHANGE, got.info);
	EXPECT_EQ(0x0c, got.log_id);
}

static void abort_round_trips(void)
{
	const struct abort_cmd cmd = {0x0102, 0x0304};
	struct abort_cmd got;
	struct nvme_sqe sqe = {0};

	abort_cmd_encode(&sqe, &cmd);
	EXPECT_EQ(0x08, sqe.opcode);
	EXPECT_EQ(0x03040102, le32_get(sqe.cdw10));
	abort_cmd_decode(&sqe, &got);
	EXPECT_EQ(0x0102, got.sqid);
	EXPECT_EQ(0x0304, got.cid);
}

int main(void)
{
	TAP_RUN(commands_round_trip);
	TAP_RUN(temperature_thresholds_have_their_bits);
	TAP_RUN(queue_counts_are_zero_based_on_the_wire);
	TAP_RUN(events_have_the_bits_of_the_specification);
	TAP_RUN(abort_round_trips);
	return tap_end();
}
