/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get Log Page and the pages that weft serves or reads, between bytes and plain values. Pure; any
 * thread. NVMe Base 2.1, sections 5.1.12 (command and pages) and 5.1.12.3.1 (Discovery). Encoders
 * write whole pages or entries; unused bytes are zero.
 */
#include "wire/log_page.h"

#include "base/check.h"
#include "wire/field.h"

#define LOG_CMD_RAE (1u << 15)
#define LOG_CMD_OT  (1u << 23)

void log_cmd_decode(const struct nvme_sqe *sqe, struct log_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10), cdw11 = le32_get(sqe->cdw11);
	uint32_t cdw14 = le32_get(sqe->cdw14);
	uint64_t dwords = (cdw10 >> 16 | (uint64_t)(cdw11 & 0xffff) << 16) + 1;

	*ret_cmd = (struct log_cmd){
		.log_id = (uint8_t)cdw10,
		.specific = (uint8_t)(cdw10 >> 8 & 0x7f),
		.retains_event = (cdw10 & LOG_CMD_RAE) != 0,
		.specific_id = (uint16_t)(cdw11 >> 16),
		.len_bytes = dwords * 4,
		.offset = le32_get(sqe->cdw12) | (uint64_t)le32_get(sqe->cdw13) << 32,
		.offset_is_index = (cdw14 & LOG_CMD_OT) != 0,
		.csi = (uint8_t)(cdw14 >> 24),
	};
}

void log_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct log_cmd *cmd)
{
	uint32_t numd;

	CHECK(cmd->len_bytes >= 4 && cmd->len_bytes % 4 == 0 && cmd->len_bytes <= 4ull << 32);
	numd = (uint32_t)(cmd->len_bytes / 4 - 1);
	sqe->opcode = NVME_ADMIN_GET_LOG_PAGE;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of(cmd->log_id | (cmd->specific & 0x7fu) << 8 |
			     (cmd->retains_event ? LOG_CMD_RAE : 0) | (numd & 0xffff) << 16);
	sqe->cdw11 = le32_of(numd >> 16 | (uint32_t)cmd->specific_id << 16);
	sqe->cdw12 = le32_of((uint32_t)cmd->offset);
	sqe->cdw13 = le32_of((uint32_t)(cmd->offset >> 32));
	sqe->cdw14 = le32_of((cmd->offset_is_index ? LOG_CMD_OT : 0) | (uint32_t)cmd->csi << 24);
}

void log_supported_add(uint8_t id, uint16_t specific, uint8_t page[LOG_SUPPORTED_BYTES])
{
	field_put32(page, (size_t)id * 4, 1 | (uint32_t)specific << 16);
}

/* ---- Error Information (01h) --------------------------------------------------------------- */

enum log_error_offset {
	LOG_ERROR_COUNT = 0,
	LOG_ERROR_SQID = 8,
	LOG_ERROR_CID = 10,
	LOG_ERROR_STATUS = 12,
	LOG_ERROR_PARAMETER = 14,
	LOG_ERROR_LBA = 16,
	LOG_ERROR_NSID = 24,
	LOG_ERROR_TRTYPE = 29,
	LOG_ERROR_CSI = 30,
	LOG_ERROR_OPCODE = 31,
	LOG_ERROR_COMMAND_SPECIFIC = 32,
	LOG_ERROR_TRANSPORT_SPECIFIC = 40,
	LOG_ERROR_VERSION = 63,
};
#define LOG_ERROR_NO_PARAMETER  0xffff
#define LOG_ERROR_VERSION_VALUE 1 /* CSI and opcode are valid */

void log_error_encode(const struct log_error_entry *entry, uint8_t bytes[LOG_ERROR_ENTRY_BYTES])
{
	uint16_t parameter = LOG_ERROR_NO_PARAMETER;

	if (entry->parameter_byte != LOG_ERROR_NO_PARAMETER)
		parameter = (uint16_t)((entry->parameter_byte & 0xff) | (entry->parameter_bit & 7)
										<< 8);
	memset(bytes, 0, LOG_ERROR_ENTRY_BYTES);
	field_put64(bytes, LOG_ERROR_COUNT, entry->error_count);
	field_put16(bytes, LOG_ERROR_SQID, entry->sqid);
	field_put16(bytes, LOG_ERROR_CID, entry->cid);
	field_put16(bytes, LOG_ERROR_STATUS, (uint16_t)(entry->status.value << 1));
	field_put16(bytes, LOG_ERROR_PARAMETER, parameter);
	field_put64(bytes, LOG_ERROR_LBA, entry->lba);
	field_put32(bytes, LOG_ERROR_NSID, entry->nsid);
	bytes[LOG_ERROR_TRTYPE] = entry->transport;
	bytes[LOG_ERROR_CSI] = entry->csi;
	bytes[LOG_ERROR_OPCODE] = entry->opcode;
	field_put64(bytes, LOG_ERROR_COMMAND_SPECIFIC, entry->command_specific);
	field_put16(bytes, LOG_ERROR_TRANSPORT_SPECIFIC, entry->transport_specific);
	bytes[LOG_ERROR_VERSION] = LOG_ERROR_VERSION_VALUE;
}

void log_error_decode(const uint8_t bytes[LOG_ERROR_ENTRY_BYTES], struct log_error_entry *ret_entry)
{
	uint16_t parameter = field_get16(bytes, LOG_ERROR_PARAMETER);
	bool has_parameter = parameter != LOG_ERROR_NO_PARAMETER;

	*ret_entry = (struct log_error_entry){
		.error_count = field_get64(bytes, LOG_ERROR_COUNT),
		.sqid = field_get16(bytes, LOG_ERROR_SQID),
		.cid = field_get16(bytes, LOG_ERROR_CID),
		.status = {(uint16_t)(field_get16(bytes, LOG_ERROR_STATUS) >> 1)},
		.parameter_byte = has_parameter ? parameter & 0xff : LOG_ERROR_NO_PARAMETER,
		.parameter_bit = has_parameter ? (uint8_t)(parameter >> 8 & 7) : 0,
		.lba = field_get64(bytes, LOG_ERROR_LBA),
		.nsid = field_get32(bytes, LOG_ERROR_NSID),
		.transport = bytes[LOG_ERROR_TRTYPE],
		.csi = bytes[LOG_ERROR_CSI],
		.opcode = bytes[LOG_ERROR_OPCODE],
		.command_specific = field_get64(bytes, LOG_ERROR_COMMAND_SPECIFIC),
		.transport_specific = field_get16(bytes, LOG_ERROR_TRANSPORT_SPECIFIC),
	};
}

/* ---- SMART / Health (02h): counters have 128 bits, weft uses the lower 64 ------------------ */

enum log_smart_offset {
	LOG_SMART_WARNING = 0,
	LOG_SMART_TEMPERATURE = 1,
	LOG_SMART_SPARE = 3,
	LOG_SMART_SPARE_THRESHOLD = 4,
	LOG_SMART_USED = 5,
	LOG_SMART_UNITS_READ = 32,
	LOG_SMART_UNITS_WRITTEN = 48,
	LOG_SMART_READ_COMMANDS = 64,
	LOG_SMART_WRITE_COMMANDS = 80,
	LOG_SMART_BUSY_MINUTES = 96,
	LOG_SMART_POWER_CYCLES = 112,
	LOG_SMART_POWER_ON_HOURS = 128,
	LOG_SMART_UNSAFE_SHUTDOWNS = 144,
	LOG_SMART_MEDIA_ERRORS = 160,
	LOG_SMART_ERROR_ENTRIES = 176,
};
#define LOG_SMART_UNIT_BYTES 512000u

static uint64_t units_of(uint64_t bytes)
{
	return bytes / LOG_SMART_UNIT_BYTES + (bytes % LOG_SMART_UNIT_BYTES != 0);
}

static uint64_t counter_get(const uint8_t *page, size_t offset)
{
	return field_get64(page, offset + 8) != 0 ? UINT64_MAX : field_get64(page, offset);
}

static uint64_t units_get(const uint8_t *page, size_t offset)
{
	uint64_t units = counter_get(page, offset);

	return units > UINT64_MAX / LOG_SMART_UNIT_BYTES ? UINT64_MAX
							 : units * LOG_SMART_UNIT_BYTES;
}

void log_smart_encode(const struct log_smart *smart, uint8_t page[LOG_SMART_BYTES])
{
	memset(page, 0, LOG_SMART_BYTES);
	page[LOG_SMART_WARNING] = smart->critical_warning;
	field_put16(page, LOG_SMART_TEMPERATURE, smart->temperature_k);
	page[LOG_SMART_SPARE] = smart->spare_percent;
	page[LOG_SMART_SPARE_THRESHOLD] = smart->spare_threshold_percent;
	page[LOG_SMART_USED] = smart->used_percent;
	field_put64(page, LOG_SMART_UNITS_READ, units_of(smart->bytes_read));
	field_put64(page, LOG_SMART_UNITS_WRITTEN, units_of(smart->bytes_written));
	field_put64(page, LOG_SMART_READ_COMMANDS, smart->read_commands);
	field_put64(page, LOG_SMART_WRITE_COMMANDS, smart->write_commands);
	field_put64(page, LOG_SMART_BUSY_MINUTES, smart->busy_minutes);
	field_put64(page, LOG_SMART_POWER_CYCLES, smart->power_cycles);
	field_put64(page, LOG_SMART_POWER_ON_HOURS, smart->power_on_hours);
	field_put64(page, LOG_SMART_UNSAFE_SHUTDOWNS, smart->unsafe_shutdowns);
	field_put64(page, LOG_SMART_MEDIA_ERRORS, smart->media_errors);
	field_put64(page, LOG_SMART_ERROR_ENTRIES, smart->error_log_entries);
}

void log_smart_decode(const uint8_t page[LOG_SMART_BYTES], struct log_smart *ret_smart)
{
	*ret_smart = (struct log_smart){
		.critical_warning = page[LOG_SMART_WARNING],
		.temperature_k = field_get16(page, LOG_SMART_TEMPERATURE),
		.spare_percent = page[LOG_SMART_SPARE],
		.spare_threshold_percent = page[LOG_SMART_SPARE_THRESHOLD],
		.used_percent = page[LOG_SMART_USED],
		.bytes_read = units_get(page, LOG_SMART_UNITS_READ),
		.bytes_written = units_get(page, LOG_SMART_UNITS_WRITTEN),
		.read_commands = counter_get(page, LOG_SMART_READ_COMMANDS),
		.write_commands = counter_get(page, LOG_SMART_WRITE_COMMANDS),
		.busy_minutes = counter_get(page, LOG_SMART_BUSY_MINUTES),
		.power_cycles = counter_get(page, LOG_SMART_POWER_CYCLES),
		.power_on_hours = counter_get(page, LOG_SMART_POWER_ON_HOURS),
		.unsafe_shutdowns = counter_get(page, LOG_SMART_UNSAFE_SHUTDOWNS),
		.media_errors = counter_get(page, LOG_SMART_MEDIA_ERRORS),
		.error_log_entries = counter_get(page, LOG_SMART_ERROR_ENTRIES),
	};
}

/* ---- Firmware Slot (03h), Commands Supported and Effects (05h), ANA (0Ch) -------------------- */

void log_firmware_encode(const char *revision, uint8_t page[LOG_FIRMWARE_BYTES])
{
	memset(page, 0, LOG_FIRMWARE_BYTES);
	page[0] = 1; /* AFI: slot 1 is active */
	field_put_text(page, 8, NVME_FIRMWARE_BYTES, revision);
}

void log_effects_encode(const struct log_effects *effects, uint8_t page[LOG_EFFECTS_BYTES])
{
	memset(page, 0, LOG_EFFECTS_BYTES);
	for (size_t i = 0; i < ARRAY_LEN(effects->admin); i++) {
		field_put32(page, i * 4, effects->admin[i]);
		field_put32(page, 1024 + i * 4, effects->io[i]);
	}
}

void log_feature_effect_add(uint8_t feature_id, uint32_t effects,
			    uint8_t page[LOG_FEATURE_EFFECTS_BYTES])
{
	field_put32(page, (size_t)feature_id * 4, effects);
}

void log_ana_header_encode(uint64_t change_count, uint16_t group_count,
			   uint8_t bytes[LOG_ANA_HEADER_BYTES])
{
	memset(bytes, 0, LOG_ANA_HEADER_BYTES);
	field_put64(bytes, 0, change_count);
	field_put16(bytes, 8, group_count);
}

void log_ana_group_encode(uint32_t group_id, uint32_t nsid_count, uint64_t change_count,
			  enum ana_state state, uint8_t bytes[LOG_ANA_GROUP_BYTES])
{
	memset(bytes, 0, LOG_ANA_GROUP_BYTES);
	field_put32(bytes, 0, group_id);
	field_put32(bytes, 4, nsid_count);
	field_put64(bytes, 8, change_count);
	bytes[16] = (uint8_t)(state & 0xf);
}

void log_ana_header_decode(const uint8_t bytes[LOG_ANA_HEADER_BYTES], uint64_t *ret_change_count,
			   uint16_t *ret_group_count)
{
	*ret_change_count = field_get64(bytes, 0);
	*ret_group_count = field_get16(bytes, 8);
}

void log_ana_group_decode(const uint8_t bytes[LOG_ANA_GROUP_BYTES], uint32_t *ret_group_id,
			  uint32_t *ret_nsid_count, enum ana_state *ret_state)
{
	*ret_group_id = field_get32(bytes, 0);
	*ret_nsid_count = field_get32(bytes, 4);
	*ret_state = (enum ana_state)(bytes[16] & 0xf);
}

const char *const ana_state_names[ANA_STATE_NAMES] = {
	[ANA_OPTIMIZED] = "optimized",
	[ANA_NON_OPTIMIZED] = "non-optimized",
	[ANA_INACCESSIBLE] = "inaccessible",
	[ANA_PERSISTENT_LOSS] = "persistent-loss",
	[ANA_CHANGE] = "change",
};

const char *ana_state_name(enum ana_state state)
{
	unsigned value = (unsigned)state;

	return value < ANA_STATE_NAMES && ana_state_names[value] ? ana_state_names[value]
								 : "unknown";
}

/* ---- Discovery (70h) ----------------------------------------------------------------------- */

enum log_discovery_offset {
	DISCOVERY_TRTYPE = 0,
	DISCOVERY_ADRFAM = 1,
	DISCOVERY_SUBTYPE = 2,
	DISCOVERY_TREQ = 3,
	DISCOVERY_PORTID = 4,
	DISCOVERY_CNTLID = 6,
	DISCOVERY_ASQSZ = 8,
	DISCOVERY_EFLAGS = 10,
	DISCOVERY_TRSVCID = 32,
	DISCOVERY_SUBNQN = 256,
	DISCOVERY_TRADDR = 512,
	DISCOVERY_TSAS = 768,
};
#define DISCOVERY_TRSVCID_BYTES    32
#define DISCOVERY_TRADDR_BYTES     256
#define DISCOVERY_TREQ_SECURE_MASK 3u
#define DISCOVERY_TREQ_NO_SQ_FLOW  (1u << 2)
#define DISCOVERY_HEADER_GENCTR    0
#define DISCOVERY_HEADER_NUMREC    8
#define DISCOVERY_HEADER_RECFMT    16

void log_discovery_header_encode(const struct discovery_header *header,
				 uint8_t bytes[LOG_DISCOVERY_HEADER_BYTES])
{
	memset(bytes, 0, LOG_DISCOVERY_HEADER_BYTES);
	field_put64(bytes, DISCOVERY_HEADER_GENCTR, header->generation);
	field_put64(bytes, DISCOVERY_HEADER_NUMREC, header->entry_count);
	field_put16(bytes, DISCOVERY_HEADER_RECFMT, header->record_format);
}

void log_discovery_header_decode(const uint8_t bytes[LOG_DISCOVERY_HEADER_BYTES],
				 struct discovery_header *ret_header)
{
	ret_header->generation = field_get64(bytes, DISCOVERY_HEADER_GENCTR);
	ret_header->entry_count = field_get64(bytes, DISCOVERY_HEADER_NUMREC);
	ret_header->record_format = field_get16(bytes, DISCOVERY_HEADER_RECFMT);
}

void log_discovery_entry_encode(const struct discovery_entry *entry,
				uint8_t bytes[LOG_DISCOVERY_ENTRY_BYTES])
{
	memset(bytes, 0, LOG_DISCOVERY_ENTRY_BYTES);
	bytes[DISCOVERY_TRTYPE] = (uint8_t)entry->transport;
	bytes[DISCOVERY_ADRFAM] = (uint8_t)entry->family;
	bytes[DISCOVERY_SUBTYPE] = (uint8_t)entry->subtype;
	bytes[DISCOVERY_TREQ] =
		(uint8_t)((entry->secure_channel & DISCOVERY_TREQ_SECURE_MASK) |
			  (entry->can_disable_sq_flow_control ? DISCOVERY_TREQ_NO_SQ_FLOW : 0));
	field_put16(bytes, DISCOVERY_PORTID, entry->port_id);
	field_put16(bytes, DISCOVERY_CNTLID, entry->cntlid);
	field_put16(bytes, DISCOVERY_ASQSZ, entry->admin_queue_size);
	field_put16(bytes, DISCOVERY_EFLAGS, entry->flags);
	field_put_text(bytes, DISCOVERY_TRSVCID, DISCOVERY_TRSVCID_BYTES, entry->service);
	memcpy(bytes + DISCOVERY_SUBNQN, entry->subsystem_nqn,
	       strnlen(entry->subsystem_nqn, NVME_NQN_BYTES - 1));
	field_put_text(bytes, DISCOVERY_TRADDR, DISCOVERY_TRADDR_BYTES, entry->address);
	bytes[DISCOVERY_TSAS] = entry->tcp_security;
}

void log_discovery_entry_decode(const uint8_t bytes[LOG_DISCOVERY_ENTRY_BYTES],
				struct discovery_entry *ret_entry)
{
	uint8_t treq = bytes[DISCOVERY_TREQ];

	*ret_entry = (struct discovery_entry){
		.transport = (enum discovery_transport)bytes[DISCOVERY_TRTYPE],
		.family = (enum discovery_address_family)bytes[DISCOVERY_ADRFAM],
		.subtype = (enum discovery_subtype)bytes[DISCOVERY_SUBTYPE],
		.secure_channel = (uint8_t)(treq & DISCOVERY_TREQ_SECURE_MASK),
		.can_disable_sq_flow_control = (treq & DISCOVERY_TREQ_NO_SQ_FLOW) != 0,
		.port_id = field_get16(bytes, DISCOVERY_PORTID),
		.cntlid = field_get16(bytes, DISCOVERY_CNTLID),
		.admin_queue_size = field_get16(bytes, DISCOVERY_ASQSZ),
		.flags = field_get16(bytes, DISCOVERY_EFLAGS),
		.tcp_security = bytes[DISCOVERY_TSAS],
	};
	field_get_text(bytes, DISCOVERY_TRSVCID, DISCOVERY_TRSVCID_BYTES, ret_entry->service,
		       sizeof(ret_entry->service));
	field_get_text(bytes, DISCOVERY_SUBNQN, NVME_NQN_BYTES - 1, ret_entry->subsystem_nqn,
		       sizeof(ret_entry->subsystem_nqn));
	field_get_text(bytes, DISCOVERY_TRADDR, DISCOVERY_TRADDR_BYTES, ret_entry->address,
		       sizeof(ret_entry->address));
}
