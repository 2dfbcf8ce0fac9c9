/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect, Disconnect, properties: bytes at the offsets of NVMe Base 2.1, section 6, round trips,
 * and each rejection with the offset that it reports. One thread.
 */
#include "base/check.h"
#include "tap.h"
#include "wire/fabrics.h"

#include <stdlib.h>

#define HOST_NQN "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427"
#define SUBSYS   "nqn.2026-11.io.weft:default"

static struct connect_args some_args(void)
{
	struct connect_args args = {
		.qid = 0x0102,
		.queue_size = 129,
		.kato_ms = 5000,
		.wants_no_sq_flow_control = true,
		.cntlid = 0xffff,
		.subsystem_nqn = SUBSYS,
		.host_nqn = HOST_NQN,
	};

	for (uint8_t i = 0; i < 16; i++)
		args.host_id.bytes[i] = (uint8_t)(0xa0 + i);
	return args;
}

static void connect_has_the_bytes_of_the_specification(void)
{
	struct connect_args args = some_args();
	struct nvme_sqe sqe = {.cid = le16_of(0x4321)};
	uint8_t data[NVMF_CONNECT_DATA_BYTES], raw[64];
	const uint8_t want[12] = {0, 0, 2, 1, 128, 0, 4, 0, 0x88, 0x13, 0, 0};

	connect_encode(&sqe, data, &args);
	memcpy(raw, &sqe, sizeof(raw));
	EXPECT_EQ(0x7f, raw[0]);
	EXPECT_EQ(0x40, raw[1]);
	EXPECT_EQ(0x21, raw[2]);
	EXPECT_EQ(0x01, raw[4]);
	EXPECT_EQ(1024 & 0xff, raw[32]);
	EXPECT_EQ(1024 >> 8, raw[33]);
	EXPECT_EQ(0x01, raw[39]);
	EXPECT(memcmp(want, raw + 40, sizeof(want)) == 0);
	EXPECT_EQ(0xa0, data[0]);
	EXPECT_EQ(0xaf, data[15]);
	EXPECT_EQ(0xff, data[16]);
	EXPECT_EQ(0xff, data[17]);
	EXPECT_STR(SUBSYS, (const char *)data + 256);
	EXPECT_STR(HOST_NQN, (const char *)data + 512);
}

static void connect_round_trips(void)
{
	struct connect_args args = some_args(), got;
	struct connect_reject reject;
	struct nvme_sqe sqe = {0};
	uint8_t data[NVMF_CONNECT_DATA_BYTES];

	connect_encode(&sqe, data, &args);
	connect_decode(&sqe, data, sizeof(data), &got, &reject);
	EXPECT(nvme_status_is_ok(reject.status));
	EXPECT_EQ(args.qid, got.qid);
	EXPECT_EQ(args.queue_size, got.queue_size);
	EXPECT_EQ(args.kato_ms, got.kato_ms);
	EXPECT_EQ(args.cntlid, got.cntlid);
	EXPECT(got.wants_no_sq_flow_control);
	EXPECT_EQ(0, memcmp(&args.host_id, &got.host_id, 16));
	EXPECT_STR(SUBSYS, got.subsystem_nqn);
	EXPECT_STR(HOST_NQN, got.host_nqn);
}

struct reject_row {
	const char *name;
	int sqe_offset, data_offset; /* -1: unchanged */
	uint8_t value;
	size_t data_bytes;
	uint16_t status;
	uint16_t offset;
	bool is_in_data;
};

static const struct reject_row reject_rows[] = {
	{"record format", 40, -1, 1, 1024, 0x180, 40, false},
	{"SQSIZE 0", 44, -1, 0, 1024, 0x182, 44, false},
	{"no data", -1, -1, 0, 0, 0x00f, 0, false},
	{"short data", -1, -1, 0, 1023, 0x00f, 0, false},
	{"long data", -1, -1, 0, 1028, 0x00f, 0, false},
	{"subsystem name is no NQN", -1, 256, 'x', 1024, 0x182, 256, true},
	{"subsystem name is empty", -1, 256, 0, 1024, 0x182, 256, true},
	{"host name is no NQN", -1, 512, 'x', 1024, 0x182, 512, true},
	{"host name is empty", -1, 512, 0, 1024, 0x182, 512, true},
};

static void each_rejection_names_its_place(void)
{
	for (size_t i = 0; i < ARRAY_LEN(reject_rows); i++) {
		const struct reject_row *row = &reject_rows[i];
		struct connect_args args = some_args(), got;
		struct connect_reject reject;
		struct nvme_sqe sqe = {0};
		uint8_t *data = calloc(1, 2048), *exact;

		CHECK(data != NULL);
		connect_encode(&sqe, data, &args);
		if (row->sqe_offset >= 0)
			((uint8_t *)&sqe)[row->sqe_offset] = row->value;
		if (row->data_offset >= 0)
			data[row->data_offset] = row->value;
		exact = malloc(row->data_bytes + 1);
		CHECK(exact != NULL);
		memcpy(exact, data, row->data_bytes);
		connect_decode(&sqe, exact, row->data_bytes, &got, &reject);
		if (!nvme_status_same(reject.status, (nvme_status){row->status}) ||
		    (reject.status.value & NVME_STATUS_DNR) == 0 ||
		    reject.parameter_offset != row->offset ||
		    reject.is_in_data != row->is_in_data) {
			printf("# row \"%s\": status 0x%x offset %u\n", row->name,
			       reject.status.value, reject.parameter_offset);
			tap_case_failed = true;
		}
		free(exact);
		free(data);
	}
}

static void unterminated_names_are_rejected(void)
{
	struct connect_args args = some_args(), got;
	struct connect_reject reject;
	struct nvme_sqe sqe = {0};
	uint8_t data[NVMF_CONNECT_DATA_BYTES];
	const size_t prefix = strlen(SUBSYS);

	connect_encode(&sqe, data, &args);
	/* The longest NQN has 223 characters. */
	memset(data + 256 + prefix, 'a', 223 - prefix);
	connect_decode(&sqe, data, sizeof(data), &got, &reject);
	EXPECT(nvme_status_is_ok(reject.status));
	EXPECT_EQ(223, strlen(got.subsystem_nqn));
	memset(data + 256 + prefix, 'a', 256 - prefix);
	connect_decode(&sqe, data, sizeof(data), &got, &reject);
	EXPECT(nvme_status_same(NVME_SC_CONNECT_INVALID_PARAM, reject.status));
	EXPECT_EQ(256, reject.parameter_offset);
}

static void reject_travels_in_dword_0(void)
{
	struct connect_reject reject = {NVME_SC_CONNECT_INVALID_PARAM, 256, true}, got;

	EXPECT_EQ(0x00010100, connect_reject_dw0(&reject));
	got = connect_reject_from(reject.status, 0x00010100);
	EXPECT_EQ(256, got.parameter_offset);
	EXPECT(got.is_in_data);
	got = connect_reject_from(reject.status, 44);
	EXPECT_EQ(44, got.parameter_offset);
	EXPECT(!got.is_in_data);
}

static void disconnect_checks_the_record_format(void)
{
	struct nvme_sqe sqe = {0};

	disconnect_encode(&sqe);
	EXPECT_EQ(NVMF_DISCONNECT, fabrics_type(&sqe));
	EXPECT(nvme_status_is_ok(disconnect_decode(&sqe)));
	sqe.cdw10 = le32_of(1);
	EXPECT(nvme_status_same(NVME_SC_CONNECT_FORMAT, disconnect_decode(&sqe)));
}

static void properties_round_trip(void)
{
	struct property_cmd cmd;
	struct nvme_sqe sqe = {0};
	uint8_t raw[64];

	property_set_encode(&sqe, PROPERTY_CC, 0x1122334455667788, false);
	memcpy(raw, &sqe, sizeof(raw));
	EXPECT_EQ(0x7f, raw[0]);
	EXPECT_EQ(0x00, raw[4]);
	EXPECT_EQ(0, raw[40]);
	EXPECT_EQ(0x14, raw[44]);
	EXPECT_EQ(0x88, raw[48]);
	EXPECT_EQ(0, raw[52]);
	EXPECT(nvme_status_is_ok(property_decode(&sqe, &cmd)));
	EXPECT_EQ(PROPERTY_CC, cmd.offset);
	EXPECT_EQ(0x55667788, cmd.value);
	property_set_encode(&sqe, 0x28, 0x1122334455667788, true);
	EXPECT(nvme_status_is_ok(property_decode(&sqe, &cmd)));
	EXPECT(cmd.is_8_bytes);
	EXPECT_EQ(0x1122334455667788, cmd.value);
	property_get_encode(&sqe, PROPERTY_CAP, true);
	EXPECT_EQ(NVMF_PROPERTY_GET, fabrics_type(&sqe));
	EXPECT(nvme_status_is_ok(property_decode(&sqe, &cmd)));
	EXPECT(cmd.is_8_bytes);
	EXPECT_EQ(0, cmd.offset);
	sqe.cdw10 = le32_of(2);
	EXPECT(nvme_status_same(NVME_SC_INVALID_FIELD, property_decode(&sqe, &cmd)));
}

static void capabilities_have_their_bits(void)
{
	struct ctrl_capabilities cap = {.queue_size_max = 128,
					.ready_timeout_ms = 15000,
					.supports_nvm = true},
				 got;

	/* CSS bit 0 at 37, TO 30 at 24, CQR at 16, MQES 127. */
	EXPECT_EQ(1ull << 37 | 30u << 24 | 1 << 16 | 127, cap_encode(&cap));
	cap.ready_timeout_ms = 501;
	EXPECT_EQ(2, cap_encode(&cap) >> 24 & 0xff);
	cap.ready_timeout_ms = UINT32_MAX;
	EXPECT_EQ(255, cap_encode(&cap) >> 24 & 0xff);
	cap.supports_io_command_sets = true;
	EXPECT_EQ(1, cap_encode(&cap) >> 43 & 1);
	cap_decode(cap_encode(&cap), &got);
	EXPECT_EQ(128, got.queue_size_max);
	EXPECT_EQ(127500, got.ready_timeout_ms);
	EXPECT(got.supports_nvm && got.supports_io_command_sets);
	EXPECT(!got.has_ready_with_media);
	cap.has_ready_with_media = true;
	EXPECT_EQ(1, cap_encode(&cap) >> 59 & 3);
	cap_decode(cap_encode(&cap), &got);
	EXPECT(got.has_ready_with_media);
	cap.ready_timeout_ms = 501;
	EXPECT_EQ(2, crto_encode(&cap));
	cap.ready_timeout_ms = UINT32_MAX;
	EXPECT_EQ(0xffff, crto_encode(&cap));
	cap = (struct ctrl_capabilities){.queue_size_max = 65536};
	EXPECT_EQ(1ull << 44 | 1 << 16 | 0xffff, cap_encode(&cap));
}

static void configuration_has_its_bits(void)
{
	/* What Linux writes to enable a controller: IOCQES 4, IOSQES 6, EN. */
	struct ctrl_config config = cc_decode(0x00460001);

	EXPECT(config.is_enabled);
	EXPECT_EQ(12, config.page_shift);
	EXPECT_EQ(6, config.sq_entry_shift);
	EXPECT_EQ(4, config.cq_entry_shift);
	EXPECT_EQ(0, config.shutdown);
	EXPECT_EQ(0x00460001, cc_encode(&config));
	config = cc_decode(0x0046b8e1 | 1 << 14);
	EXPECT_EQ(6, config.command_set);
	EXPECT_EQ(13, config.page_shift);
	EXPECT_EQ(7, config.arbitration);
	EXPECT_EQ(0x0046b8e1 | 1 << 14, cc_encode(&config));
	EXPECT_EQ(1, cc_decode(1u << 14).shutdown);
	EXPECT_EQ(2, cc_decode(2u << 14).shutdown);
}

int main(void)
{
	TAP_RUN(connect_has_the_bytes_of_the_specification);
	TAP_RUN(connect_round_trips);
	TAP_RUN(each_rejection_names_its_place);
	TAP_RUN(unterminated_names_are_rejected);
	TAP_RUN(reject_travels_in_dword_0);
	TAP_RUN(disconnect_checks_the_record_format);
	TAP_RUN(properties_round_trip);
	TAP_RUN(capabilities_have_their_bits);
	TAP_RUN(configuration_has_its_bits);
	return tap_end();
}
