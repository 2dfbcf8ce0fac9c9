/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get Log Page and its pages: the bytes at the offsets of NVMe Base 2.1, section 5.1.12, as plain
 * numbers, and round trips. One thread.
 */
#include "tap.h"
#include "wire/log_page.h"

static uint64_t number_at(const uint8_t *page, size_t offset, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = bytes; i > 0; i--)
		value = value << 8 | page[offset + i - 1];
	return value;
}

static void command_round_trips(void)
{
	const struct log_cmd cmd = {0x70, 0x51, true, 0x1234, 4ull * 0x00030005, 0x1122334455667788,
				    true, 2};
	struct log_cmd got;
	struct nvme_sqe sqe = {0};

	log_cmd_encode(&sqe, NVME_NSID_ALL, &cmd);
	EXPECT_EQ(2, sqe.opcode);
	EXPECT_EQ(0x0004d170, le32_get(sqe.cdw10));
	EXPECT_EQ(0x12340003, le32_get(sqe.cdw11));
	EXPECT_EQ(0x55667788, le32_get(sqe.cdw12));
	EXPECT_EQ(0x11223344, le32_get(sqe.cdw13));
	EXPECT_EQ(0x02800000, le32_get(sqe.cdw14));
	log_cmd_decode(&sqe, &got);
	EXPECT_EQ(0x70, got.log_id);
	EXPECT_EQ(0x51, got.specific);
	EXPECT(got.retains_event);
	EXPECT_EQ(0x1234, got.specific_id);
	EXPECT_EQ(cmd.len_bytes, got.len_bytes);
	EXPECT_EQ(cmd.offset, got.offset);
	EXPECT(got.offset_is_index);
	EXPECT_EQ(2, got.csi);
	/* The largest count is 16 GiB and must not wrap. */
	memset(&sqe, 0xff, sizeof(sqe));
	log_cmd_decode(&sqe, &got);
	EXPECT_EQ(4ull << 32, got.len_bytes);
}

static void supported_pages_are_marked(void)
{
	uint8_t page[LOG_SUPPORTED_BYTES] = {0};

	log_supported_add(0x00, 0, page);
	log_supported_add(0x02, 0, page);
	log_supported_add(0x0d, LOG_SPECIFIC_EVENT_HEADER, page);
	log_supported_add(0xff, 0, page);
	EXPECT_EQ(1, number_at(page, 0, 4));
	EXPECT_EQ(0, number_at(page, 4, 4));
	EXPECT_EQ(1, number_at(page, 8, 4));
	EXPECT_EQ(0x00010001, number_at(page, 0x0d * 4, 4)); /* LIDSP in the upper half */
	EXPECT_EQ(1, number_at(page, 1020, 4));
}

static void error_entry_round_trips(void)
{
	struct log_error_entry entry = {
		.error_count = 0x0102030405060708,
		.sqid = 3,
		.cid = 0x77,
		.status = nvme_status_dnr(NVME_SC_INVALID_FIELD),
		.parameter_byte = 40,
		.parameter_bit = 5,
		.lba = 0x1112131415161718,
		.nsid = 9,
		.transport = DISCOVERY_TCP,
		.csi = 2,
		.opcode = 0xab,
		.command_specific = 0x2122232425262728,
		.transport_specific = 0x3132,
	};
	struct log_error_entry got;
	uint8_t bytes[LOG_ERROR_ENTRY_BYTES];

	log_error_encode(&entry, bytes);
	EXPECT_EQ(0x0102030405060708, number_at(bytes, 0, 8));
	EXPECT_EQ(3, number_at(bytes, 8, 2));
	EXPECT_EQ(0x77, number_at(bytes, 10, 2));
	EXPECT_EQ(0x8004, number_at(bytes, 12, 2));
	EXPECT_EQ(0x0528, number_at(bytes, 14, 2));
	EXPECT_EQ(0x1112131415161718, number_at(bytes, 16, 8));
	EXPECT_EQ(9, number_at(bytes, 24, 4));
	EXPECT_EQ(0xab020300, number_at(bytes, 28, 4)); /* vendor page, TRTYPE, CSI, opcode */
	EXPECT_EQ(0x2122232425262728, number_at(bytes, 32, 8));
	EXPECT_EQ(0x3132, number_at(bytes, 40, 2));
	EXPECT_EQ(1, bytes[63]);
	log_error_decode(bytes, &got);
	EXPECT_EQ(DISCOVERY_TCP, got.transport);
	EXPECT_EQ(2, got.csi);
	EXPECT_EQ(0xab, got.opcode);
	EXPECT_EQ(entry.command_specific, got.command_specific);
	EXPECT_EQ(entry.transport_specific, got.transport_specific);
	EXPECT_EQ(40, got.parameter_byte);
	EXPECT_EQ(5, got.parameter_bit);
	EXPECT_EQ(entry.status.value, got.status.value);
	EXPECT_EQ(entry.lba, got.lba);
	entry.parameter_byte = 0xffff;
	log_error_encode(&entry, bytes);
	EXPECT_EQ(0xffff, number_at(bytes, 14, 2));
	log_error_decode(bytes, &got);
	EXPECT_EQ(0xffff, got.parameter_byte);
}

static void smart_page_has_the_offsets_of_the_specification(void)
{
	const struct log_smart smart = {1, 0x0203, 100, 10, 5, 512001, 512000, 1,
					2, 3,      4,   5,  6, 7,      8};
	struct log_smart got;
	uint8_t page[LOG_SMART_BYTES];

	log_smart_encode(&smart, page);
	EXPECT_EQ(1, page[0]);
	EXPECT_EQ(0x0203, number_at(page, 1, 2));
	EXPECT_EQ(100, page[3]);
	EXPECT_EQ(10, page[4]);
	EXPECT_EQ(5, page[5]);
	EXPECT_EQ(2, number_at(page, 32, 8)); /* rounded up */
	EXPECT_EQ(0, number_at(page, 40, 8));
	EXPECT_EQ(1, number_at(page, 48, 8));
	for (uint64_t i = 0; i < 8; i++)
		EXPECT_EQ(i + 1, number_at(page, 64 + (size_t)i * 16, 8));
	log_smart_decode(page, &got);
	EXPECT_EQ(1024000, got.bytes_read);
	EXPECT_EQ(512000, got.bytes_written);
	EXPECT_EQ(8, got.error_log_entries);
	/* Counters beyond 64 bits saturate. */
	page[40] = 1;
	memset(page + 48, 0xff, 8);
	log_smart_decode(page, &got);
	EXPECT_EQ(UINT64_MAX, got.bytes_read);
	EXPECT_EQ(UINT64_MAX, got.bytes_written);
}

static void features_have_an_entry_each(void)
{
	uint8_t page[LOG_FEATURE_EFFECTS_BYTES] = {0};

	log_feature_effect_add(
		0x84, LOG_FEATURE_SUPPORTED | LOG_FEATURE_CHANGES_NS | LOG_FEATURE_OF_NS, page);
	EXPECT_EQ(0x00100005, number_at(page, 0x84 * 4, 4));
	EXPECT_EQ(0, number_at(page, 0x85 * 4, 4));
}

static void firmware_effects_and_ana_have_their_offsets(void)
{
	static struct log_effects effects;
	uint8_t page[LOG_EFFECTS_BYTES];

	log_firmware_encode("0.1.0", page);
	EXPECT_EQ(1, page[0]);
	EXPECT(memcmp("0.1.0   ", page + 8, 8) == 0);
	EXPECT_EQ(0, page[16]);
	effects.admin[6] = LOG_EFFECT_SUPPORTED;
	effects.io[1] = LOG_EFFECT_SUPPORTED | LOG_EFFECT_CHANGES_DATA;
	log_effects_encode(&effects, page);
	EXPECT_EQ(1, number_at(page, 24, 4));
	EXPECT_EQ(3, number_at(page, 1028, 4));
	EXPECT_EQ(0, number_at(page, 2048, 8));
	log_ana_header_encode(0x0102030405060708, 0x0a0b, page);
	EXPECT_EQ(0x0102030405060708, number_at(page, 0, 8));
	EXPECT_EQ(0x0a0b, number_at(page, 8, 2));
	EXPECT_EQ(0, number_at(page, 10, 6));
	log_ana_group_encode(7, 3, 0x99, ANA_CHANGE, page);
	EXPECT_EQ(7, number_at(page, 0, 4));
	EXPECT_EQ(3, number_at(page, 4, 4));
	EXPECT_EQ(0x99, number_at(page, 8, 8));
	EXPECT_EQ(0x0f, page[16]);
	EXPECT_EQ(0, number_at(page, 17, 8));
}

static void ana_round_trips(void)
{
	uint8_t page[LOG_ANA_GROUP_BYTES];
	uint64_t change_count;
	uint16_t group_count;
	uint32_t id, nsid_count;
	enum ana_state state;

	log_ana_header_encode(0x0102030405060708, 0x0a0b, page);
	log_ana_header_decode(page, &change_count, &group_count);
	EXPECT_EQ(0x0102030405060708, change_count);
	EXPECT_EQ(0x0a0b, group_count);
	log_ana_group_encode(70000, 3, 0x99, ANA_PERSISTENT_LOSS, page);
	page[16] |= 0x70; /* reserved */
	log_ana_group_decode(page, &id, &nsid_count, &state);
	EXPECT_EQ(70000, id);
	EXPECT_EQ(3, nsid_count);
	EXPECT_EQ(ANA_PERSISTENT_LOSS, state);
	EXPECT_STR("persistent-loss", ana_state_name(state));
	EXPECT_STR("unknown", ana_state_name((enum ana_state)7));
}

static void discovery_header_round_trips(void)
{
	const struct discovery_header header = {0x1122, 3, 0};
	struct discovery_header got;
	uint8_t bytes[LOG_DISCOVERY_HEADER_BYTES];

	log_discovery_header_encode(&header, bytes);
	EXPECT_EQ(0x1122, number_at(bytes, 0, 8));
	EXPECT_EQ(3, number_at(bytes, 8, 8));
	EXPECT_EQ(0, number_at(bytes, 16, 2));
	bytes[16] = 1;
	log_discovery_header_decode(bytes, &got);
	EXPECT_EQ(0x1122, got.generation);
	EXPECT_EQ(3, got.entry_count);
	EXPECT_EQ(1, got.record_format);
}

static struct discovery_entry some_entry(void)
{
	return (struct discovery_entry){
		.transport = DISCOVERY_TCP,
		.family = DISCOVERY_IPV6,
		.subtype = DISCOVERY_NVM,
		.secure_channel = 2,
		.can_disable_sq_flow_control = true,
		.port_id = 0x0102,
		.cntlid = 0xffff,
		.admin_queue_size = 32,
		.flags = 3,
		.service = "4420",
		.subsystem_nqn = "nqn.2026-11.io.weft:default",
		.address = "fe80::1",
		.tcp_security = 2,
	};
}

static void discovery_entry_has_the_offsets_of_the_specification(void)
{
	const struct discovery_entry entry = some_entry();
	uint8_t bytes[LOG_DISCOVERY_ENTRY_BYTES];

	log_discovery_entry_encode(&entry, bytes);
	EXPECT_EQ(3, bytes[0]);
	EXPECT_EQ(2, bytes[1]);
	EXPECT_EQ(2, bytes[2]);
	EXPECT_EQ(6, bytes[3]);
	EXPECT_EQ(0x0102, number_at(bytes, 4, 2));
	EXPECT_EQ(0xffff, number_at(bytes, 6, 2));
	EXPECT_EQ(32, number_at(bytes, 8, 2));
	EXPECT_EQ(3, number_at(bytes, 10, 2));
	EXPECT(memcmp("4420 ", bytes + 32, 5) == 0);
	EXPECT_EQ(' ', bytes[63]);
	EXPECT_EQ(0, bytes[64]);
	EXPECT_STR(entry.subsystem_nqn, (const char *)bytes + 256);
	EXPECT(memcmp("fe80::1 ", bytes + 512, 8) == 0);
	EXPECT_EQ(2, bytes[768]);
}

static void discovery_entry_round_trips(void)
{
	const struct discovery_entry entry = some_entry();
	struct discovery_entry got;
	uint8_t bytes[LOG_DISCOVERY_ENTRY_BYTES], again[LOG_DISCOVERY_ENTRY_BYTES];

	log_discovery_entry_encode(&entry, bytes);
	log_discovery_entry_decode(bytes, &got);
	EXPECT_STR("4420", got.service);
	EXPECT_STR("fe80::1", got.address);
	EXPECT_STR(entry.subsystem_nqn, got.subsystem_nqn);
	log_discovery_entry_encode(&got, again);
	EXPECT(memcmp(bytes, again, sizeof(bytes)) == 0);
	/* Linux pads with zeros; fields that fill their room have no terminator. */
	memset(bytes + 32, 0, 32);
	memcpy(bytes + 32, "8009", 4);
	memset(bytes + 256, 'n', 256);
	memset(bytes + 512, '1', 256);
	log_discovery_entry_decode(bytes, &got);
	EXPECT_STR("8009", got.service);
	EXPECT_EQ(223, strlen(got.subsystem_nqn));
	EXPECT_EQ(256, strlen(got.address));
}

int main(void)
{
	TAP_RUN(command_round_trips);
	TAP_RUN(supported_pages_are_marked);
	TAP_RUN(error_entry_round_trips);
	TAP_RUN(smart_page_has_the_offsets_of_the_specification);
	TAP_RUN(features_have_an_entry_each);
	TAP_RUN(firmware_effects_and_ana_have_their_offsets);
	TAP_RUN(ana_round_trips);
	TAP_RUN(discovery_header_round_trips);
	TAP_RUN(discovery_entry_has_the_offsets_of_the_specification);
	TAP_RUN(discovery_entry_round_trips);
	return tap_end();
}
