/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identify pages: bytes at the offsets in the tables of NVMe Base 2.1, section 5.1.13.2, and NVM
 * Command Set 1.1, section 4.1.5, as plain numbers, and round trips. One thread.
 */
#include "base/check.h"
#include "tap.h"
#include "wire/identify.h"

#include <errno.h>

static uint64_t number_at(const uint8_t *page, size_t offset, size_t bytes)
{
	uint64_t value = 0;

	for (size_t i = bytes; i > 0; i--)
		value = value << 8 | page[offset + i - 1];
	return value;
}

struct field_row {
	const char *name;
	size_t offset, bytes;
	uint64_t want;
};

static void expect_fields(const uint8_t *page, const struct field_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t got = number_at(page, rows[i].offset, rows[i].bytes);

		if (got != rows[i].want) {
			printf("# %s: expected 0x%" PRIx64 ", got 0x%" PRIx64 "\n", rows[i].name,
			       rows[i].want, got);
			tap_case_failed = true;
		}
	}
}

static struct ctrl_identity some_ctrl(void)
{
	return (struct ctrl_identity){
		.serial = "WEFT0001",
		.model = "weft target",
		.firmware = "0.1.0",
		.subsystem_nqn = "nqn.2026-11.io.weft:default",
		.type = CTRL_TYPE_IO,
		.cntlid = 0x0203,
		.version = 0x00020100,
		.transfer_max_bytes = 1 << 20,
		.has_multiple_ports = true,
		.has_multiple_ctrls = true,
		.has_ana = true,
		.has_event_ns_attribute = true,
		.has_event_ana_change = true,
		.has_event_shutdown = true,
		.has_event_discovery_change = true,
		.has_host_id_extended = true,
		.has_traffic_keep_alive = true,
		.abort_limit = 4,
		.async_event_limit = 8,
		.has_log_effects = true,
		.has_log_offsets = true,
		.has_log_supported = true,
		.event_log_max_bytes = 65537,
		.has_uuid_list = true,
		.has_ns_granularity = true,
		.has_format = true,
		.has_ns_management = true,
		.capacity_bytes = 0x1112131415161718,
		.capacity_unused_bytes = 0x2122232425262728,
		.error_log_entries = 64,
		.keep_alive_step_ms = 1000,
		.queue_entries_max = 1024,
		.namespace_id_max = 0x01020304,
		.namespaces_allowed_max = 256,
		.has_compare = true,
		.has_dataset_management = true,
		.has_write_zeroes = true,
		.has_write_uncorrectable = true,
		.has_feature_select = true,
		.has_reservations = true,
		.has_verify = true,
		.has_copy = true,
		.copy_formats = 5,
		.has_fused_compare = true,
		.has_flush_all = true,
		.has_write_protect = true,
		.atomic_write_blocks = 256,
		.atomic_power_fail_blocks = 2,
		.atomic_compare_write_blocks = 128,
		.has_volatile_cache = true,
		.ana_transition_s = 10,
		.ana_group_max = 128,
		.ana_group_count = 127,
		.in_capsule_bytes = 8192,
		.warn_temperature_k = 0x157,
		.critical_temperature_k = 0x175,
		.has_timestamp = true,
		.uniquifier = 0x5a,
		.instance = {0x41, 0x42, 0x43, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x45},
		.is_clustered = true,
		.boot = {0x51, 0x52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x53},
		.random_number = 0x3132333435363738,
		.reset_limit = 4,
		.quiesce_ms = 0x1234,
		.has_event_ctrl_reset = true,
		.has_event_lost_host = true,
		.retry_delays_ms = {100, 1000, 60001},
	};
}

static const struct field_row ctrl_rows[] = {
	{"SN", 4, 8, 0x3130303054464557},
	{"SN padding", 22, 2, 0x2020},
	{"MN", 24, 4, 0x74666577},
	{"MN padding", 63, 1, 0x20},
	{"FR", 64, 8, 0x202020302e312e30},
	{"CMIC", 76, 1, 0x0b},
	{"MDTS", 77, 1, 8},
	{"CNTLID", 78, 2, 0x0203},
	{"VER", 80, 4, 0x00020100},
	{"OAES", 92, 4, 0x80308900},
	{"CTRATT", 96, 4, 0x2c1},
	{"CNTRLTYPE", 111, 1, 1},
	{"CRDT1", 128, 2, 1},
	{"CRDT2", 130, 2, 10},
	{"CRDT3", 132, 2, 601},
	{"reserved", 134, 1, 0},
	{"CIU", 135, 1, 0x5a},
	{"CIRN", 136, 8, 0x3132333435363738},
	{"OACS", 256, 2, 0x0a},
	{"ACL", 258, 1, 3},
	{"AERL", 259, 1, 7},
	{"FRMW", 260, 1, 3},
	{"LPA", 261, 1, 0x36},
	{"ELPE", 262, 1, 63},
	{"WCTEMP", 266, 2, 0x157},
	{"CCTEMP", 268, 2, 0x175},
	{"TNVMCAP", 280, 8, 0x1112131415161718},
	{"TNVMCAP upper half", 288, 8, 0},
	{"UNVMCAP", 296, 8, 0x2122232425262728},
	{"KAS", 320, 2, 10},
	{"ANATT", 342, 1, 10},
	{"ANACAP", 343, 1, 0x9f},
	{"ANAGRPMAX", 344, 4, 128},
	{"NANAGRPID", 348, 4, 127},
	{"PELS", 352, 4, 2},
	{"CQT", 386, 2, 0x1234},
	{"SQES", 512, 1, 0x66},
	{"CQES", 513, 1, 0x44},
	{"MAXCMD", 514, 2, 1024},
	{"NN", 516, 4, 0x01020304},
	{"ONCS", 520, 2, 0x1ff},
	{"FUSES", 522, 2, 1},
	{"FNA", 524, 1, 0},
	{"VWC", 525, 1, 7},
	{"AWUN", 526, 2, 255},
	{"AWUPF", 528, 2, 1},
	{"NWPC", 531, 1, 7},
	{"ACWU", 532, 2, 127},
	{"OCFS", 534, 2, 5},
	{"SGLS", 536, 4, 0x00300001},
	{"MNAN", 540, 4, 256},
	{"SUBNQN", 768, 4, 0x2e6e716e},
	{"SUBNQN end", 768 + 27, 1, 0},
	{"IOCCSZ", 1792, 4, 516},
	{"IORCSZ", 1796, 4, 1},
	{"ICDOFF", 1800, 2, 0},
	{"FCATT", 1802, 1, 0},
	{"MSDBD", 1803, 1, 1},
	{"OFCS", 1804, 2, 1},
	{"CCRL", 1807, 1, 4},
	{"VS, magic", 3072, 8, 0x3173762d74666577}, /* weft-vs1 */
	{"VS, instance", 3080, 8, 0x44434241},
	{"VS, instance, end", 3088, 8, 0x4500000000000000},
	{"VS, flags: clustered", 3096, 1, 1},
	{"VS, boot", 3104, 8, 0x5251},
	{"VS, boot, end", 3112, 8, 0x5300000000000000},
};

static void controller_page_has_the_offsets_of_the_specification(void)
{
	const struct ctrl_identity identity = some_ctrl();
	uint8_t page[NVME_PAGE_BYTES];

	memset(page, 0xee, sizeof(page));
	identify_ctrl_encode(&identity, page);
	expect_fields(page, ctrl_rows, ARRAY_LEN(ctrl_rows));
	EXPECT_EQ(0, number_at(page, 0, 4));
	EXPECT_EQ(0, number_at(page, 4088, 8));
}

static void controller_page_round_trips(void)
{
	const struct ctrl_identity identity = some_ctrl();
	struct ctrl_identity got;
	uint8_t page[NVME_PAGE_BYTES], again[NVME_PAGE_BYTES];

	identify_ctrl_encode(&identity, page);
	EXPECT_EQ(0, identify_ctrl_decode(page, &got));
	EXPECT_STR("WEFT0001", got.serial);
	EXPECT_STR("weft target", got.model);
	EXPECT_STR("0.1.0", got.firmware);
	EXPECT_STR(identity.subsystem_nqn, got.subsystem_nqn);
	EXPECT_EQ(1 << 20, got.transfer_max_bytes);
	EXPECT_EQ(8192, got.in_capsule_bytes);
	EXPECT_EQ(4, got.abort_limit);
	EXPECT_EQ(64, got.error_log_entries);
	EXPECT_EQ(1000, got.keep_alive_step_ms);
	EXPECT_EQ(0x5a, got.uniquifier);
	EXPECT_EQ(0x3132333435363738, got.random_number);
	EXPECT_EQ(4, got.reset_limit);
	EXPECT_EQ(0x1234, got.quiesce_ms);
	EXPECT(got.has_event_ctrl_reset && got.has_event_lost_host);
	EXPECT_EQ(100, got.retry_delays_ms[0]);
	EXPECT_EQ(60100, got.retry_delays_ms[2]); /* in steps of 100 ms, rounded up */
	identify_ctrl_encode(&got, again);
	EXPECT(memcmp(page, again, sizeof(page)) == 0);
}

/* Vendor specific bytes of another vendor are no instance. */
static void an_instance_needs_the_magic(void)
{
	const struct ctrl_identity identity = some_ctrl();
	struct ctrl_identity got;
	uint8_t page[NVME_PAGE_BYTES];

	identify_ctrl_encode(&identity, page);
	EXPECT_EQ(0, identify_ctrl_decode(page, &got));
	EXPECT(memcmp(identity.instance, got.instance, sizeof(got.instance)) == 0);
	EXPECT(got.is_clustered);
	EXPECT(memcmp(identity.boot, got.boot, sizeof(got.boot)) == 0);
	page[3079] = '2';
	EXPECT_EQ(0, identify_ctrl_decode(page, &got));
	EXPECT_EQ(0, number_at(got.instance, 0, 8));
	EXPECT_EQ(0, number_at(got.instance, 8, 8));
	EXPECT(!got.is_clustered);
	EXPECT_EQ(0, number_at(got.boot, 0, 8));
}

/* One byte of a valid page is changed to a value that a fabrics controller may not report. */
static const struct {
	size_t offset;
	uint8_t value;
} bad_ctrl_rows[] = {
	{512, 0x55},  /* SQES: 32 bytes at most */
	{512, 0x77},  /* SQES: 128 bytes required */
	{513, 0x33},  /* CQES */
	{1793, 0},    /* IOCCSZ: 3, smaller than a submission entry */
	{1795, 0xff}, /* IOCCSZ: beyond 4 GiB */
	{1796, 0},    /* IORCSZ */
	{1800, 1},    /* ICDOFF */
	{536, 0},     /* SGLS */
	{111, 3},     /* CNTRLTYPE: administrative */
	{111, 9},
};

static void controllers_that_make_no_sense_are_refused(void)
{
	const struct ctrl_identity identity = some_ctrl();
	struct ctrl_identity got;
	uint8_t page[NVME_PAGE_BYTES];

	for (size_t i = 0; i < ARRAY_LEN(bad_ctrl_rows); i++) {
		identify_ctrl_encode(&identity, page);
		page[1792] = 3; /* IOCCSZ 203h: large enough */
		EXPECT_EQ(0, identify_ctrl_decode(page, &got));
		page[bad_ctrl_rows[i].offset] = bad_ctrl_rows[i].value;
		EXPECT_EQ(-EPROTO, identify_ctrl_decode(page, &got));
	}
	identify_ctrl_encode(&identity, page);
	memset(page + 768, 'n', 256);
	EXPECT_EQ(-EPROTO, identify_ctrl_decode(page, &got));
}

static void discovery_controllers_have_no_io_fields(void)
{
	struct ctrl_identity identity = some_ctrl(), got;
	uint8_t page[NVME_PAGE_BYTES];

	identity.type = CTRL_TYPE_DISCOVERY;
	snprintf(identity.subsystem_nqn, sizeof(identity.subsystem_nqn), NVME_DISCOVERY_NQN);
	identify_ctrl_encode(&identity, page);
	EXPECT_EQ(2, page[111]);
	EXPECT_EQ(0, number_at(page, 512, 2));
	EXPECT_EQ(0, number_at(page, 1792, 8));
	EXPECT_EQ(0, identify_ctrl_decode(page, &got));
	EXPECT_EQ(CTRL_TYPE_DISCOVERY, got.type);
	/* Before NVMe 1.4 the type is 0 and the NQN decides. */
	page[111] = 0;
	EXPECT_EQ(0, identify_ctrl_decode(page, &got));
	EXPECT_EQ(CTRL_TYPE_DISCOVERY, got.type);
}

static void transfer_limits_are_powers_of_two_of_pages(void)
{
	static const struct {
		uint32_t bytes;
		uint8_t mdts;
	} rows[] = {{0, 0},     {1, 1},      {4096, 1},        {8192, 1},       {16383, 1},
		    {16384, 2}, {131072, 5}, {0x80000000, 19}, {UINT32_MAX, 19}};
	struct ctrl_identity identity = some_ctrl(), got;
	uint8_t page[NVME_PAGE_BYTES];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		identity.transfer_max_bytes = rows[i].bytes;
		identify_ctrl_encode(&identity, page);
		EXPECT_EQ(rows[i].mdts, page[77]);
	}
	page[77] = 20; /* 4 GiB: more than 32 bits hold, so no limit */
	EXPECT_EQ(0, identify_ctrl_decode(page, &got));
	EXPECT_EQ(0, got.transfer_max_bytes);
}

static struct ns_identity some_ns(void)
{
	return (struct ns_identity){
		.block_count = 0x0102030405,
		.blocks_used = 0x0102030400,
		.block_bytes = 4096,
		.is_thin = true,
		.is_shared = true,
		.is_write_protected = true,
		.reads_zero_after_dealloc = true,
		.has_write_zeroes_dealloc = true,
		.ana_group_id = 0x11223344,
		.reservation_caps = 0xff,
		.capacity_bytes = 0x3132333435363738,
		.optimal_write_blocks = 16,
		.write_granularity_blocks = 8,
		.deallocate_granularity_blocks = 4,
		.boundary_blocks = 256,
		.atomic_write_blocks = 8,
		.atomic_power_fail_blocks = 1,
		.atomic_compare_write_blocks = 4,
		.copy_range_blocks_max = 8192,
		.copy_blocks_max = 65536,
		.copy_ranges_max = 128,
		.uuid = {{0xaa, 1, 2, 3}},
		.nguid = {0xbb, 4, 5, 6},
		.loss_source = 0x4142434445464748,
		.loss_mark = 0x5152535455565758,
	};
}

static const struct field_row ns_rows[] = {
	{"NSZE", 0, 8, 0x0102030405},
	{"NCAP", 8, 8, 0x0102030405},
	{"NUSE", 16, 8, 0x0102030400},
	{"NSFEAT", 24, 1, 0x13},
	{"NLBAF", 25, 1, 1},
	{"FLBAS", 26, 1, 1},
	{"NMIC", 30, 1, 1},
	{"RESCAP", 31, 1, 0xff},
	{"DLFEAT", 33, 1, 9},
	{"NAWUN", 34, 2, 7},
	{"NAWUPF", 36, 2, 0},
	{"NACWU", 38, 2, 3},
	{"NOIOB", 46, 2, 256},
	{"NVMCAP", 48, 8, 0x3132333435363738},
	{"NPWG", 64, 2, 7},
	{"NPWA", 66, 2, 7},
	{"NPDG", 68, 2, 3},
	{"NPDA", 70, 2, 3},
	{"NOWS", 72, 2, 15},
	{"MSSRL", 74, 2, 8192},
	{"MCL", 76, 4, 65536},
	{"MSRC", 80, 1, 127},
	{"ANAGRPID", 92, 4, 0x11223344},
	{"NSATTR", 99, 1, 1},
	{"NGUID", 104, 4, 0x060504bb},
	{"LBAF0", 128, 4, 0x00090000},
	{"LBAF1", 132, 4, 0x000c0000},
	{"loss source", 392, 8, 0x4142434445464748},
	{"loss mark", 400, 8, 0x5152535455565758},
};

static void namespace_page_has_the_offsets_of_the_specification(void)
{
	const struct ns_identity identity = some_ns();
	struct ns_identity got;
	uint8_t page[NVME_PAGE_BYTES], again[NVME_PAGE_BYTES];

	memset(page, 0xee, sizeof(page));
	identify_ns_encode(&identity, page);
	expect_fields(page, ns_rows, ARRAY_LEN(ns_rows));
	EXPECT_EQ(0, identify_ns_decode(page, &got));
	EXPECT_EQ(4096, got.block_bytes);
	EXPECT_EQ(16, got.optimal_write_blocks);
	identify_ns_encode(&got, again);
	EXPECT(memcmp(page, again, sizeof(page)) == 0);
	/* NOIOB has 16 bits: a larger boundary is reported as none. */
	got.boundary_blocks = 0x10000;
	identify_ns_encode(&got, page);
	EXPECT(page[46] == 0 && page[47] == 0);
}

static void namespaces_that_we_cannot_use_are_refused(void)
{
	const struct ns_identity identity = some_ns();
	struct ns_identity got;
	uint8_t page[NVME_PAGE_BYTES] = {0};

	EXPECT_EQ(-EPROTO, identify_ns_decode(page, &got)); /* inactive */
	identify_ns_encode(&identity, page);
	page[26] = 2; /* FLBAS beyond NLBAF */
	EXPECT_EQ(-EPROTO, identify_ns_decode(page, &got));
	page[26] = 1;
	page[128 + 4 + 2] = 0;
	EXPECT_EQ(-EPROTO, identify_ns_decode(page, &got)); /* LBADS 0 */
	page[128 + 4 + 2] = 9;
	EXPECT_EQ(0, identify_ns_decode(page, &got));
	EXPECT_EQ(512, got.block_bytes);
	page[128 + 4] = 8; /* metadata */
	EXPECT_EQ(-EOPNOTSUPP, identify_ns_decode(page, &got));
	page[128 + 4] = 0;
	page[128 + 4 + 2] = 32;
	EXPECT_EQ(-EPROTO, identify_ns_decode(page, &got));
	page[128 + 4 + 2] = 9;
	page[7] = 0xff; /* more bytes than 64 bits count */
	EXPECT_EQ(-EPROTO, identify_ns_decode(page, &got));
}

static void format_index_uses_the_upper_bits_beyond_16_formats(void)
{
	struct ns_identity got;
	uint8_t page[NVME_PAGE_BYTES] = {0};

	page[25] = 63;
	page[26] = 3 << 5 | 0xf; /* format 63 */
	page[128 + 63 * 4 + 2] = 12;
	EXPECT_EQ(0, identify_ns_decode(page, &got));
	EXPECT_EQ(4096, got.block_bytes);
	page[25] = 64;
	EXPECT_EQ(-EPROTO, identify_ns_decode(page, &got));
}

static void independent_page_has_the_offsets_of_the_specification(void)
{
	struct ns_identity identity = some_ns();
	uint8_t page[NVME_PAGE_BYTES];

	identify_ns_independent_encode(&identity, page);
	EXPECT_EQ(0xff, page[2]);
	EXPECT_EQ(1, page[1]);
	EXPECT_EQ(0x11223344, number_at(page, 4, 4));
	EXPECT_EQ(1, page[8]);
	EXPECT_EQ(1, page[14]);
	identity.is_not_ready = true;
	identify_ns_independent_encode(&identity, page);
	EXPECT_EQ(0, page[14]);
}

static void descriptors_follow_each_other(void)
{
	struct ns_identity identity = some_ns(), got = {0};
	uint8_t page[NVME_PAGE_BYTES];
	const uint8_t uuid_start[] = {3, 16, 0, 0, 0xaa}, nguid_start[] = {2, 16, 0, 0, 0xbb},
		      csi[] = {4, 1, 0, 0, 0, 0, 0};

	identify_ns_descriptors_encode(&identity, page);
	EXPECT(memcmp(uuid_start, page, 5) == 0);
	EXPECT(memcmp(nguid_start, page + 20, 5) == 0);
	EXPECT(memcmp(csi, page + 40, 7) == 0);
	EXPECT_EQ(0, identify_ns_descriptors_decode(page, &got));
	EXPECT(uuid_equal(&identity.uuid, &got.uuid));
	EXPECT(memcmp(identity.nguid, got.nguid, 16) == 0);
	page[44] = NVME_CSI_ZNS;
	EXPECT_EQ(-EOPNOTSUPP, identify_ns_descriptors_decode(page, &got));
	memset(identity.nguid, 0, 16);
	identify_ns_descriptors_encode(&identity, page);
	EXPECT(memcmp(csi, page + 20, 7) == 0);
	/* A descriptor longer than the page. */
	memset(page, 0xff, sizeof(page));
	EXPECT_EQ(-EPROTO, identify_ns_descriptors_decode(page, &got));
}

static void lists_end_with_zero(void)
{
	uint32_t nsids[1024], got[1024];
	uint8_t page[NVME_PAGE_BYTES];

	for (uint32_t i = 0; i < 1024; i++)
		nsids[i] = i * 7 + 1;
	identify_ns_list_encode(nsids, 3, page);
	EXPECT_EQ(8, number_at(page, 4, 4));
	EXPECT_EQ(3, identify_ns_list_decode(page, got));
	EXPECT_EQ(15, got[2]);
	identify_ns_list_encode(nsids, 1024, page);
	EXPECT_EQ(1024, identify_ns_list_decode(page, got));
	EXPECT_EQ(1023 * 7 + 1, got[1023]);
	identify_ns_list_encode(nsids, 0, page);
	EXPECT_EQ(0, identify_ns_list_decode(page, got));
}

static void controller_lists_begin_with_their_length(void)
{
	uint16_t ids[IDENTIFY_CTRL_LIST_MAX + 1], got[IDENTIFY_CTRL_LIST_MAX];
	uint8_t page[NVME_PAGE_BYTES];

	for (uint16_t i = 0; i < ARRAY_LEN(ids); i++)
		ids[i] = (uint16_t)(i + 0x100);
	identify_ctrl_list_encode(ids, 2, page);
	EXPECT_EQ(0x01000002, number_at(page, 0, 4));
	EXPECT_EQ(0x0101, number_at(page, 4, 2));
	EXPECT_EQ(0, number_at(page, 6, 8));
	EXPECT_EQ(2, identify_ctrl_list_decode(page, got));
	EXPECT_EQ(0x0101, got[1]);
	identify_ctrl_list_encode(ids, ARRAY_LEN(ids), page);
	EXPECT_EQ(2047, identify_ctrl_list_decode(page, got));
	EXPECT_EQ(0x100 + 2046, number_at(page, 4094, 2));
	page[1] = 0xff; /* a descriptor longer than the page */
	EXPECT_EQ(2047, identify_ctrl_list_decode(page, got));
}

static void granularity_is_one_descriptor_for_all_formats(void)
{
	uint8_t page[NVME_PAGE_BYTES];

	memset(page, 0xee, sizeof(page));
	identify_ns_granularity_encode(4096, page);
	EXPECT_EQ(0, number_at(page, 0, 8)); /* attributes, number of descriptors less one */
	EXPECT_EQ(4096, number_at(page, 32, 8));
	EXPECT_EQ(4096, number_at(page, 40, 8));
	EXPECT_EQ(0, number_at(page, 48, 8));
}

static void command_set_pages_have_the_offsets_of_the_specification(void)
{
	struct nvm_ctrl_limits limits = {.verify_max_bytes = 16 << 20,
					 .write_zeroes_max_bytes = 1 << 20,
					 .uncorrectable_max_bytes = 8192,
					 .dsm_ranges_max = 256,
					 .dsm_blocks_max = 0x0102030405060708,
					 .dsm_range_blocks_max = 0x11121314};
	struct nvm_ctrl_limits got;
	uint8_t page[NVME_PAGE_BYTES];

	identify_nvm_ctrl_encode(&limits, page);
	EXPECT_EQ(12, page[0]);
	EXPECT_EQ(8, page[1]);
	EXPECT_EQ(1, page[2]);
	EXPECT_EQ(0, page[3]); /* 256 is the limit of the format: no limit */
	EXPECT_EQ(0x11121314, number_at(page, 4, 4));
	EXPECT_EQ(0x0102030405060708, number_at(page, 8, 8));
	limits.dsm_ranges_max = 255;
	identify_nvm_ctrl_encode(&limits, page);
	EXPECT_EQ(255, page[3]);
	identify_nvm_ctrl_decode(page, &got);
	EXPECT_EQ(16 << 20, got.verify_max_bytes);
	EXPECT_EQ(1 << 20, got.write_zeroes_max_bytes);
	EXPECT_EQ(8192, got.uncorrectable_max_bytes);
	EXPECT_EQ(255, got.dsm_ranges_max);
	EXPECT_EQ(0x0102030405060708, got.dsm_blocks_max);
	EXPECT_EQ(0x11121314, got.dsm_range_blocks_max);
	identify_command_sets_encode(page);
	EXPECT_EQ(1, number_at(page, 0, 8));
	EXPECT_EQ(0, number_at(page, 8, 8));
	memset(page, 1, sizeof(page));
	identify_nvm_ns_encode(page);
	EXPECT_EQ(0, number_at(page, 4088, 8));
}

static void command_round_trips(void)
{
	const struct identify_cmd cmd = {0x1c, 0x1234, 2, 0x5678, 5};
	struct identify_cmd got;
	struct nvme_sqe sqe = {0};

	identify_cmd_encode(&sqe, 9, &cmd);
	EXPECT_EQ(6, sqe.opcode);
	EXPECT_EQ(9, le32_get(sqe.nsid));
	EXPECT_EQ(0x1234001c, le32_get(sqe.cdw10));
	EXPECT_EQ(0x02005678, le32_get(sqe.cdw11));
	EXPECT_EQ(5, le32_get(sqe.cdw14));
	identify_cmd_decode(&sqe, &got);
	EXPECT_EQ(0x1c, got.cns);
	EXPECT_EQ(0x1234, got.cntid);
	EXPECT_EQ(2, got.csi);
	EXPECT_EQ(0x5678, got.cns_specific_id);
	EXPECT_EQ(5, got.uuid_index);
}

int main(void)
{
	TAP_RUN(controller_page_has_the_offsets_of_the_specification);
	TAP_RUN(controller_page_round_trips);
	TAP_RUN(an_instance_needs_the_magic);
	TAP_RUN(controllers_that_make_no_sense_are_refused);
	TAP_RUN(discovery_controllers_have_no_io_fields);
	TAP_RUN(transfer_limits_are_powers_of_two_of_pages);
	TAP_RUN(namespace_page_has_the_offsets_of_the_specification);
	TAP_RUN(namespaces_that_we_cannot_use_are_refused);
	TAP_RUN(format_index_uses_the_upper_bits_beyond_16_formats);
	TAP_RUN(independent_page_has_the_offsets_of_the_specification);
	TAP_RUN(descriptors_follow_each_other);
	TAP_RUN(lists_end_with_zero);
	TAP_RUN(controller_lists_begin_with_their_length);
	TAP_RUN(granularity_is_one_descriptor_for_all_formats);
	TAP_RUN(command_set_pages_have_the_offsets_of_the_specification);
	TAP_RUN(command_round_trips);
	return tap_end();
}
