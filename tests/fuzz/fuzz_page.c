/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the encoders of pages, logs and properties with any values, and decodes what they wrote.
 * Checked: a host reads back the target's values as far as the field can hold them, and accepts
 * every page that weft writes; every code has a name.
 *
 * Input: a byte that chooses, then values as needed; missing values are zero. Pure; one thread.
 */
#include "base/check.h"
#include "wire/copy.h"
#include "wire/ctrl_reset.h"
#include "wire/fabrics.h"
#include "wire/feature.h"
#include "wire/identify.h"
#include "wire/io_cmd.h"
#include "wire/log_page.h"
#include "wire/nqn.h"
#include "wire/ns_manage.h"
#include "wire/pdu.h"
#include "wire/persistent_event.h"
#include "wire/sgl.h"
#include "wire/status.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const uint8_t *at;
static size_t left;

static uint8_t next8(void)
{
	if (left == 0)
		return 0;
	left--;
	return *at++;
}

static bool next_bool(void)
{
	return next8() & 1;
}

static uint16_t next16(void)
{
	uint16_t low = next8();

	return (uint16_t)(low | next8() << 8);
}

static uint32_t next32(void)
{
	uint32_t low = next16();

	return low | (uint32_t)next16() << 16;
}

static uint64_t next64(void)
{
	uint64_t low = next32();

	return low | (uint64_t)next32() << 32;
}

/* A string from the input up to a zero byte, at most room_bytes - 1 characters. */
static void next_text(char *text, size_t room_bytes)
{
	size_t n = 0;
	uint8_t byte;

	while (n < room_bytes - 1 && left > 0 && (byte = next8()) != 0)
		text[n++] = (char)byte;
	text[n] = '\0';
}

static uint32_t least(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

/* Changes some bytes of a page, as another vendor's controller may have them. */
static void page_spoil(uint8_t *page)
{
	for (unsigned count = next8() % 8; count > 0; count--) {
		uint16_t offset = next16();

		page[offset % NVME_PAGE_BYTES] = next8();
	}
}

/* ---- Identify -------------------------------------------------------------------------------- */

/* Every bool of struct ctrl_identity that an I/O controller reports. */
static const uint16_t ctrl_bools[] = {
	offsetof(struct ctrl_identity, has_multiple_ports),
	offsetof(struct ctrl_identity, has_multiple_ctrls),
	offsetof(struct ctrl_identity, has_ana),
	offsetof(struct ctrl_identity, has_event_ns_attribute),
	offsetof(struct ctrl_identity, has_event_ana_change),
	offsetof(struct ctrl_identity, has_event_discovery_change),
	offsetof(struct ctrl_identity, has_event_shutdown),
	offsetof(struct ctrl_identity, has_host_id_extended),
	offsetof(struct ctrl_identity, has_traffic_keep_alive),
	offsetof(struct ctrl_identity, has_log_effects),
	offsetof(struct ctrl_identity, has_log_offsets),
	offsetof(struct ctrl_identity, has_log_supported),
	offsetof(struct ctrl_identity, has_uuid_list),
	offsetof(struct ctrl_identity, has_ns_granularity),
	offsetof(struct ctrl_identity, has_event_ctrl_reset),
	offsetof(struct ctrl_identity, has_event_lost_host),
	/* From here on, for I/O controllers only. */
	offsetof(struct ctrl_identity, has_format),
	offsetof(struct ctrl_identity, has_ns_management),
	offsetof(struct ctrl_identity, has_compare),
	offsetof(struct ctrl_identity, has_write_uncorrectable),
	offsetof(struct ctrl_identity, has_dataset_management),
	offsetof(struct ctrl_identity, has_write_zeroes),
	offsetof(struct ctrl_identity, has_feature_select),
	offsetof(struct ctrl_identity, has_reservations),
	offsetof(struct ctrl_identity, has_timestamp),
	offsetof(struct ctrl_identity, has_verify),
	offsetof(struct ctrl_identity, has_copy),
	offsetof(struct ctrl_identity, has_fused_compare),
	offsetof(struct ctrl_identity, has_volatile_cache),
	offsetof(struct ctrl_identity, has_flush_all),
	offsetof(struct ctrl_identity, has_write_protect),
};
#define CTRL_BOOLS_OF_ALL 16

static void ctrl_values(struct ctrl_identity *ctrl)
{
	next_text(ctrl->subsystem_nqn, sizeof(ctrl->subsystem_nqn));
	next_text(ctrl->serial, sizeof(ctrl->serial));
	ctrl->type = next_bool() ? CTRL_TYPE_IO : CTRL_TYPE_DISCOVERY;
	for (size_t i = 0; i < ARRAY_LEN(ctrl_bools); i++)
		*(bool *)((uint8_t *)ctrl + ctrl_bools[i]) = next_bool();
	ctrl->cntlid = next16();
	ctrl->transfer_max_bytes = next32();
	ctrl->abort_limit = next32();
	ctrl->error_log_entries = next32();
	ctrl->keep_alive_step_ms = next32();
	ctrl->queue_entries_max = next32();
	ctrl->in_capsule_bytes = next32() & ~15u & 0x0fffffff;
	ctrl->event_log_max_bytes = next32();
	ctrl->atomic_write_blocks = next32();
	ctrl->reset_limit = next32();
	ctrl->quiesce_ms = next32();
	ctrl->retry_delays_ms[1] = next32();
	ctrl->ana_transition_s = next32();
	ctrl->ana_group_max = next32();
	ctrl->capacity_bytes = next64();
	ctrl->random_number = next64();
}

static void try_ctrl(void)
{
	static struct ctrl_identity ctrl, again, spoilt;
	static uint8_t page[NVME_PAGE_BYTES];
	size_t bools;

	memset(&ctrl, 0, sizeof(ctrl));
	ctrl_values(&ctrl);
	identify_ctrl_encode(&ctrl, page);
	CHECK(identify_ctrl_decode(page, &again) == 0);
	CHECK(again.type == ctrl.type && again.cntlid == ctrl.cntlid);
	CHECK(strcmp(again.subsystem_nqn, ctrl.subsystem_nqn) == 0);
	bools = ctrl.type == CTRL_TYPE_IO ? ARRAY_LEN(ctrl_bools) : CTRL_BOOLS_OF_ALL;
	for (size_t i = 0; i < bools; i++)
		CHECK(*(bool *)((uint8_t *)&again + ctrl_bools[i]) ==
		      *(bool *)((uint8_t *)&ctrl + ctrl_bools[i]));
	/* The transfer limit is kept or lowered, unless it is below two pages. */
	CHECK(again.transfer_max_bytes <= least(ctrl.transfer_max_bytes, UINT32_MAX) ||
	      ctrl.transfer_max_bytes < 2 * NVME_PAGE_BYTES);
	CHECK(again.abort_limit == (ctrl.abort_limit ? least(ctrl.abort_limit, 256) : 1));
	CHECK(again.queue_entries_max == least(ctrl.queue_entries_max, 0xffff));
	page_spoil(page);
	if (identify_ctrl_decode(page, &spoilt) == 0)
		CHECK(spoilt.type == CTRL_TYPE_IO || spoilt.type == CTRL_TYPE_DISCOVERY);
	if (ctrl.type != CTRL_TYPE_IO)
		return;
	CHECK(again.in_capsule_bytes == ctrl.in_capsule_bytes);
	CHECK(again.event_log_max_bytes >= ctrl.event_log_max_bytes);
	CHECK(again.reset_limit == least(ctrl.reset_limit, 255));
	CHECK(again.quiesce_ms == least(ctrl.quiesce_ms, 0xffff));
	CHECK(again.retry_delays_ms[1] >= least(ctrl.retry_delays_ms[1], 0xffff * 100));
	CHECK(again.random_number == ctrl.random_number);
	CHECK(again.capacity_bytes == ctrl.capacity_bytes);
	CHECK(again.ana_group_max == (ctrl.has_ana ? ctrl.ana_group_max : 0));
}

static void ns_values(struct ns_identity *ns)
{
	static const uint32_t sizes[] = {512, 4096, 520, 0};

	ns->block_bytes = sizes[next8() % ARRAY_LEN(sizes)];
	ns->block_count = next64() >> 12;
	ns->is_thin = next_bool();
	ns->is_shared = next_bool();
	ns->is_write_protected = next_bool();
	ns->reads_zero_after_dealloc = next_bool();
	ns->has_write_zeroes_dealloc = next_bool();
	ns->is_not_ready = next_bool();
	ns->ana_group_id = next32();
	ns->optimal_write_blocks = next32();
	ns->write_granularity_blocks = next32();
	ns->deallocate_granularity_blocks = next32();
	ns->boundary_blocks = next32();
	ns->atomic_write_blocks = next32();
	ns->copy_range_blocks_max = next32();
	ns->copy_ranges_max = next32();
	ns->uuid.bytes[3] = next8();
	ns->nguid[15] = next8();
}

static void try_ns(void)
{
	static uint8_t page[NVME_PAGE_BYTES];
	struct ns_identity ns = {0}, again;

	ns_values(&ns);
	identify_ns_encode(&ns, page);
	CHECK(identify_ns_decode(page, &again) == 0);
	CHECK(again.block_bytes == (ns.block_bytes == 4096 ? 4096 : 512));
	CHECK(again.block_count == ns.block_count && again.is_thin == ns.is_thin &&
	      again.is_shared == ns.is_shared &&
	      again.is_write_protected == ns.is_write_protected &&
	      again.has_write_zeroes_dealloc == ns.has_write_zeroes_dealloc &&
	      again.ana_group_id == ns.ana_group_id);
	CHECK(again.atomic_write_blocks == least(ns.atomic_write_blocks, 65536));
	CHECK(again.boundary_blocks == (ns.boundary_blocks > 0xffff ? 0 : ns.boundary_blocks));
	CHECK(again.copy_range_blocks_max == least(ns.copy_range_blocks_max, 0xffff));
	page_spoil(page);
	if (identify_ns_decode(page, &again) == 0)
		CHECK(again.block_bytes >= 512 &&
		      again.block_count <= UINT64_MAX / again.block_bytes);
	identify_ns_descriptors_encode(&ns, page);
	memset(&again, 0, sizeof(again));
	CHECK(identify_ns_descriptors_decode(page, &again) == 0);
	CHECK(uuid_equal(&again.uuid, &ns.uuid) && again.nguid[15] == ns.nguid[15]);
	page_spoil(page);
	(void)identify_ns_descriptors_decode(page, &again);
	identify_ns_independent_encode(&ns, page);
	identify_nvm_ns_encode(page);
	identify_command_sets_encode(page);
	identify_ns_granularity_encode(next64(), page);
}

static void try_lists(void)
{
	static uint32_t nsids[1100], nsids_again[1024];
	static uint16_t cntlids[2100], cntlids_again[IDENTIFY_CTRL_LIST_MAX];
	static uint8_t page[NVME_PAGE_BYTES];
	struct nvm_ctrl_limits limits = {0}, limits_again;
	uint32_t count = next16() % ARRAY_LEN(nsids), found;

	for (uint32_t i = 0; i < count; i++)
		nsids[i] = i + 1;
	identify_ns_list_encode(nsids, count, page);
	found = identify_ns_list_decode(page, nsids_again);
	CHECK(found == least(count, 1024));
	CHECK(memcmp(nsids, nsids_again, found * sizeof(nsids[0])) == 0);
	count = next16() % ARRAY_LEN(cntlids);
	for (uint32_t i = 0; i < count; i++)
		cntlids[i] = (uint16_t)(i + 1);
	identify_ctrl_list_encode(cntlids, count, page);
	found = identify_ctrl_list_decode(page, cntlids_again);
	CHECK(found == least(count, IDENTIFY_CTRL_LIST_MAX));
	CHECK(memcmp(cntlids, cntlids_again, found * sizeof(cntlids[0])) == 0);
	/* The count in the list may be wrong. */
	page[0] = next8();
	page[1] = next8();
	CHECK(identify_ctrl_list_decode(page, cntlids_again) <= IDENTIFY_CTRL_LIST_MAX);
	page[0] = next8();
	identify_nvm_ctrl_decode(page, &limits_again);
	limits.verify_max_bytes = next32();
	limits.dsm_ranges_max = next16();
	limits.dsm_blocks_max = next64();
	identify_nvm_ctrl_encode(&limits, page);
	identify_nvm_ctrl_decode(page, &limits_again);
	CHECK(limits_again.dsm_blocks_max == limits.dsm_blocks_max);
	CHECK(limits_again.dsm_ranges_max ==
	      (limits.dsm_ranges_max > 255 ? 0 : limits.dsm_ranges_max));
}

/* ---- logs ------------------------------------------------------------------------------------ */

static void try_log_cmd(void)
{
	struct log_cmd cmd = {
		.log_id = next8(),
		.specific = next8() & 0x7f,
		.retains_event = next_bool(),
		.specific_id = next16(),
		.len_bytes = (next32() + 1ull) * 4,
		.offset = next64(),
		.offset_is_index = next_bool(),
		.csi = next8(),
	};
	struct log_cmd again;
	struct nvme_sqe sqe = {0};

	log_cmd_encode(&sqe, 1, &cmd);
	log_cmd_decode(&sqe, &again);
	CHECK(cmd.log_id == again.log_id && cmd.specific == again.specific &&
	      cmd.retains_event == again.retains_event && cmd.specific_id == again.specific_id &&
	      cmd.len_bytes == again.len_bytes && cmd.offset == again.offset &&
	      cmd.offset_is_index == again.offset_is_index && cmd.csi == again.csi);
}

static void try_small_logs(void)
{
	static struct log_effects effects;
	static uint8_t page[NVME_PAGE_BYTES];
	struct log_error_entry error = {.error_count = next64(),
					.parameter_byte = next_bool() ? 0xffff : next8(),
					.parameter_bit = next8() & 7,
					.status = {(uint16_t)(next16() & 0x7fff)},
					.lba = next64()};
	struct log_error_entry error_again;
	struct log_smart smart = {.bytes_read = next64(), .read_commands = next64()}, smart_again;

	log_error_encode(&error, page);
	log_error_decode(page, &error_again);
	CHECK(error.error_count == error_again.error_count && error.lba == error_again.lba);
	CHECK(error.parameter_byte == error_again.parameter_byte);
	log_smart_encode(&smart, page);
	log_smart_decode(page, &smart_again);
	CHECK(smart_again.bytes_read >= smart.bytes_read &&
	      smart_again.read_commands == smart.read_commands);
	/* Values above 64 bits, and more units than 64 bits of bytes. */
	memset(page, next8(), LOG_SMART_BYTES);
	memset(page + 40, next8(), 8);
	log_smart_decode(page, &smart_again);
	log_firmware_encode("1.0", page);
	effects.admin[next8()] = LOG_EFFECT_SUPPORTED;
	log_effects_encode(&effects, page);
	log_supported_add(next8(), next16(), page);
	log_feature_effect_add(next8(), next32(), page);
}

static void try_ana(void)
{
	uint8_t bytes[LOG_ANA_GROUP_BYTES];
	uint64_t changes = next64(), changes_again;
	uint16_t groups = next16(), groups_again;
	uint32_t id = next32(), id_again, count = next32(), count_again;
	enum ana_state state = (enum ana_state)(next8() & 0xf), state_again;

	log_ana_header_encode(changes, groups, bytes);
	log_ana_header_decode(bytes, &changes_again, &groups_again);
	CHECK(changes == changes_again && groups == groups_again);
	log_ana_group_encode(id, count, changes, state, bytes);
	log_ana_group_decode(bytes, &id_again, &count_again, &state_again);
	CHECK(id == id_again && count == count_again && state == state_again);
	CHECK(ana_state_name(state) != NULL);
}

static void try_discovery(void)
{
	static uint8_t bytes[LOG_DISCOVERY_ENTRY_BYTES];
	struct discovery_entry entry = {
		.transport = DISCOVERY_TCP,
		.family = (enum discovery_address_family)next8(),
		.subtype = (enum discovery_subtype)next8(),
		.secure_channel = next8() & 3,
		.can_disable_sq_flow_control = next_bool(),
		.port_id = next16(),
	};
	struct discovery_entry again;
	struct discovery_header header = {next64(), next64(), next16()}, header_again;

	next_text(entry.subsystem_nqn, sizeof(entry.subsystem_nqn));
	log_discovery_entry_encode(&entry, bytes);
	log_discovery_entry_decode(bytes, &again);
	CHECK(again.subtype == entry.subtype && again.port_id == entry.port_id &&
	      again.can_disable_sq_flow_control == entry.can_disable_sq_flow_control &&
	      again.secure_channel == entry.secure_channel);
	CHECK(strlen(again.subsystem_nqn) <= strlen(entry.subsystem_nqn));
	log_discovery_header_encode(&header, bytes);
	log_discovery_header_decode(bytes, &header_again);
	CHECK(header.generation == header_again.generation &&
	      header.entry_count == header_again.entry_count);
}

static void try_ctrl_reset(void)
{
	uint8_t page[LOG_CTRL_RESET_HEADER_BYTES + LOG_CTRL_RESET_ENTRY_BYTES];
	struct log_ctrl_reset_entry entry = {.cntlid = next16(),
					     .uniquifier = next8(),
					     .state = next8(),
					     .is_validated = next_bool(),
					     .is_initiated = next_bool()};
	struct log_ctrl_reset_entry again;
	bool is_immediate = next_bool();

	log_ctrl_reset_header_encode(next16(), page);
	log_ctrl_reset_entry_encode(&entry, page + LOG_CTRL_RESET_HEADER_BYTES);
	CHECK(log_ctrl_reset_count(page, next8() % (sizeof(page) + 1)) <= 1);
	log_ctrl_reset_entry_decode(page, 0, &again);
	CHECK(entry.cntlid == again.cntlid && entry.is_validated == again.is_validated &&
	      entry.is_initiated == again.is_initiated);
	CHECK(ctrl_reset_result_decode(ctrl_reset_result_encode(is_immediate)) == is_immediate);
}

static void try_events(void)
{
	static uint8_t bytes[EVENT_LOG_HEADER_BYTES];
	struct timestamp stamp = {next64() >> 16, next_bool(), next_bool()}, stamp_again;
	struct event_log_header log = {.event_count = next32(),
				       .total_bytes = next64(),
				       .generation = next16(),
				       .has_context = next_bool(),
				       .port_id = next16()};
	struct event_log_header log_again;
	struct event_header event = {.type = next8(),
				     .has_place = next_bool(),
				     .place = {next16(), next16()},
				     .data_bytes = next16() & 0x7fff};
	struct event_header event_again;
	struct event_change_ns change = {.is_delete = next_bool(), .is_shared = next_bool()};
	uint32_t dwords[EVENT_SET_FEATURE_DWORDS] = {next32()};
	nvme_status status = {next8()};
	int res;

	timestamp_encode(&stamp, bytes);
	timestamp_decode(bytes, &stamp_again);
	CHECK(stamp.ms == stamp_again.ms && stamp.is_set == stamp_again.is_set &&
	      stamp.has_paused == stamp_again.has_paused);
	event_log_header_encode(&log, bytes);
	res = event_log_header_decode(bytes, &log_again);
	CHECK((res == 0) == (log.total_bytes >= EVENT_LOG_HEADER_BYTES));
	/* With one byte changed the header is refused or read. */
	bytes[next16() % 64] = next8();
	(void)event_log_header_decode(bytes, &log_again);
	event_header_encode(&event, bytes);
	CHECK(event_header_decode(bytes, &event_again) == 0);
	CHECK(event.type == event_again.type && event.data_bytes == event_again.data_bytes);
	bytes[next8() % EVENT_HEADER_BYTES] = next8();
	(void)event_header_decode(bytes, &event_again);
	event_timestamp_encode(&stamp, 1, bytes);
	event_power_on_encode("1.0", bytes);
	event_change_ns_encode(&change, bytes);
	event_format_start_encode(1, 0, next32(), bytes);
	event_format_end_encode(1, status, bytes);
	event_set_feature_encode(dwords, next16(), bytes);
}

/* ---- commands, properties, names ------------------------------------------------------------- */

static void try_connect(void)
{
	static uint8_t data[NVMF_CONNECT_DATA_BYTES];
	struct connect_args args = {.record_format = (uint16_t)(next8() % 2),
				    .qid = next16(),
				    .queue_size = 2 + next16() % 65535u,
				    .kato_ms = next32(),
				    .wants_no_sq_flow_control = next_bool(),
				    .cntlid = next16()};
	struct connect_args again;
	struct connect_reject reject;
	struct nvme_sqe sqe = {0};
	size_t data_bytes = next_bool() ? next16() % sizeof(data) : sizeof(data);

	next_text(args.subsystem_nqn, sizeof(args.subsystem_nqn));
	next_text(args.host_nqn, sizeof(args.host_nqn));
	connect_encode(&sqe, data, &args);
	if (next_bool())
		memset(data + (next_bool() ? CONNECT_DATA_SUBNQN : CONNECT_DATA_HOSTNQN), 'n',
		       NVME_NQN_BYTES);
	else if (next_bool())
		sqe.cdw11 = le32_of(0);
	connect_decode(&sqe, data, data_bytes, &again, &reject);
	CHECK(connect_reject_from(reject.status, connect_reject_dw0(&reject)).is_in_data ==
	      reject.is_in_data);
	if (nvme_status_is_ok(reject.status))
		CHECK(strcmp(args.host_nqn, again.host_nqn) == 0 && args.qid == again.qid &&
		      args.queue_size == again.queue_size);
}

static void try_properties(void)
{
	struct ctrl_capabilities cap = {.queue_size_max = 2 + next16() % 65535u,
					.ready_timeout_ms = next32(),
					.supports_nvm = next_bool(),
					.supports_io_command_sets = next_bool()};
	struct ctrl_capabilities cap_again;
	struct ctrl_config config = cc_decode(next32()), config_again;
	struct property_cmd cmd;
	struct nvme_sqe sqe = {0};
	bool is_8_bytes = next_bool();
	uint64_t value = next64();

	cap_decode(cap_encode(&cap), &cap_again);
	CHECK(cap_again.queue_size_max == cap.queue_size_max &&
	      cap_again.supports_nvm == cap.supports_nvm &&
	      cap_again.supports_io_command_sets == cap.supports_io_command_sets);
	config_again = cc_decode(cc_encode(&config));
	CHECK(config.is_enabled == config_again.is_enabled &&
	      config.page_shift == config_again.page_shift &&
	      config.shutdown == config_again.shutdown);
	property_set_encode(&sqe, next32(), value, is_8_bytes);
	CHECK(nvme_status_is_ok(property_decode(&sqe, &cmd)));
	CHECK(cmd.value == (is_8_bytes ? value : (uint32_t)value));
	property_get_encode(&sqe, next32(), is_8_bytes);
	sqe.cdw10 = le32_of(next8());
	(void)property_decode(&sqe, &cmd);
	disconnect_encode(&sqe);
	sqe.cdw10 = le32_of(next8());
	CHECK(nvme_status_is_ok(disconnect_decode(&sqe)) == ((le32_get(sqe.cdw10) & 0xffff) == 0));
}

static void try_commands(void)
{
	struct io_cmd io = {.first_block = next64(),
			    .block_count = 1 + next16(),
			    .is_fua = next_bool(),
			    .is_limited_retry = next_bool(),
			    .wants_deallocate = next_bool()};
	struct io_cmd io_again;
	struct dsm_cmd dsm = {.range_count = 1 + next8(), .is_deallocate = next_bool()}, dsm_again;
	struct copy_cmd copy = {.range_count = 1 + next8() % NVME_COPY_RANGES_MAX,
				.checks_storage_tag = next_bool(),
				.is_fua = next_bool(),
				.is_limited_retry = next_bool()};
	struct copy_cmd copy_again;
	struct copy_range range = {.nsid = next32(), .block_count = 1, .is_fast_only = next_bool()};
	uint8_t bytes[NVME_COPY_RANGE_BYTES];
	uint8_t format = next8() % 5;
	struct nvme_sqe sqe = {0};
	struct sgl sgl;
	uint32_t sq, cq;

	io_cmd_encode(&sqe, NVME_IO_READ, 1, &io);
	io_cmd_decode(&sqe, &io_again);
	CHECK(io.block_count == io_again.block_count && io.is_fua == io_again.is_fua &&
	      io.is_limited_retry == io_again.is_limited_retry &&
	      io.wants_deallocate == io_again.wants_deallocate);
	dsm_cmd_encode(&sqe, 1, &dsm);
	dsm_cmd_decode(&sqe, &dsm_again);
	CHECK(dsm.range_count == dsm_again.range_count &&
	      dsm.is_deallocate == dsm_again.is_deallocate);
	copy_cmd_encode(&sqe, 1, &copy);
	copy_cmd_decode(&sqe, &copy_again);
	CHECK(copy.range_count == copy_again.range_count && copy.is_fua == copy_again.is_fua &&
	      copy.checks_storage_tag == copy_again.checks_storage_tag);
	copy_range_encode(bytes, 0, format, &range);
	range = copy_range_decode(bytes, 0, format);
	sqe.flags = next8();
	sqe.sgl.type = next8();
	sqe.sgl.length = le32_of(next16());
	sqe.sgl.addr = le64_of(next16());
	if (nvme_status_is_ok(sgl_decode(&sqe, 4096, &sgl)) && sgl.kind == SGL_IN_CAPSULE)
		CHECK(sgl.offset_bytes + sgl.len_bytes <= 4096);
	(void)feature_queue_count_decode(next32(), &sq, &cq);
}

static void try_names(void)
{
	char text[400];
	uint16_t code = next16();

	CHECK(nvme_admin_opcode_name((uint8_t)code) && nvme_io_opcode_name((uint8_t)code));
	CHECK(nvme_status_name((nvme_status){code}) && nvme_io_status_name((nvme_status){code}));
	CHECK(pdu_type_name((enum nvme_tcp_pdu_type)(code & 0xf)) != NULL);
	next_text(text, sizeof(text));
	if (nqn_problem(text) == NULL)
		CHECK(strlen(text) < NVME_NQN_BYTES && strncmp(text, "nqn.", 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	static void (*const tries[])(void) = {
		try_ctrl,       try_ns,        try_lists,      try_log_cmd, try_small_logs,
		try_ana,        try_discovery, try_ctrl_reset, try_events,  try_connect,
		try_properties, try_commands,  try_names,
	};

	at = input;
	left = size;
	tries[next8() % ARRAY_LEN(tries)]();
	return 0;
}
