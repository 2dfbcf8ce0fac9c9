/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservation commands, their data structures and the notification log page between bytes and plain
 * values. Pure; any thread. NVMe Base 2.1, sections 7.6 to 7.9 and 5.1.12.1.31. The zero-based
 * NUMD becomes a length here and nowhere else.
 */
#include "wire/reservation.h"

#include "base/check.h"
#include "wire/field.h"

enum reservation_cdw10 {
	CDW10_ACTION_MASK = 0x7,
	CDW10_IEKEY = 1 << 3,
	CDW10_TYPE_SHIFT = 8,
	CDW10_CPTPL_SHIFT = 30,
};
#define CDW11_EDS 1u

enum key_offset {
	KEY_CURRENT = 0,
	KEY_OTHER = 8, /* NRKEY, PRKEY */
};

enum report_header_offset {
	HEADER_GEN = 0,
	HEADER_RTYPE = 4,
	HEADER_REGCTL = 5,
	HEADER_PTPLS = 9,
};

enum report_entry_offset {
	ENTRY_CNTLID = 0,
	ENTRY_RCSTS = 2,
	ENTRY_HOSTID = 8,
	ENTRY_RKEY = 16,
	ENTRY_EXTENDED_RKEY = 8,
	ENTRY_EXTENDED_HOSTID = 16,
};
#define ENTRY_HOSTID_BYTES 8
#define RCSTS_HOLDER       1u

enum log_reservation_offset {
	LOG_LPC = 0,
	LOG_RNLPT = 8,
	LOG_NALP = 9,
	LOG_NSID = 12,
};

static uint32_t cdw10_encode(uint8_t action, bool ignores_key, uint8_t type)
{
	return (action & CDW10_ACTION_MASK) | (ignores_key ? CDW10_IEKEY : 0u) |
	       (uint32_t)type << CDW10_TYPE_SHIFT;
}

void register_cmd_decode(const struct nvme_sqe *sqe, const uint8_t data[REGISTER_DATA_BYTES],
			 struct register_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);

	*ret_cmd = (struct register_cmd){
		.action = (uint8_t)(cdw10 & CDW10_ACTION_MASK),
		.ignores_key = (cdw10 & CDW10_IEKEY) != 0,
		.persist = (uint8_t)(cdw10 >> CDW10_CPTPL_SHIFT),
		.current_key = field_get64(data, KEY_CURRENT),
		.new_key = field_get64(data, KEY_OTHER),
	};
}

void register_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct register_cmd *cmd,
			 uint8_t data[REGISTER_DATA_BYTES])
{
	sqe->opcode = NVME_IO_RESERVATION_REGISTER;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of(cdw10_encode(cmd->action, cmd->ignores_key, 0) |
			     (uint32_t)cmd->persist << CDW10_CPTPL_SHIFT);
	field_put64(data, KEY_CURRENT, cmd->current_key);
	field_put64(data, KEY_OTHER, cmd->new_key);
}

void acquire_cmd_decode(const struct nvme_sqe *sqe, const uint8_t data[ACQUIRE_DATA_BYTES],
			struct acquire_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);

	*ret_cmd = (struct acquire_cmd){
		.action = (uint8_t)(cdw10 & CDW10_ACTION_MASK),
		.ignores_key = (cdw10 & CDW10_IEKEY) != 0,
		.type = (uint8_t)(cdw10 >> CDW10_TYPE_SHIFT),
		.current_key = field_get64(data, KEY_CURRENT),
		.preempt_key = field_get64(data, KEY_OTHER),
	};
}

void acquire_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct acquire_cmd *cmd,
			uint8_t data[ACQUIRE_DATA_BYTES])
{
	sqe->opcode = NVME_IO_RESERVATION_ACQUIRE;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of(cdw10_encode(cmd->action, cmd->ignores_key, cmd->type));
	field_put64(data, KEY_CURRENT, cmd->current_key);
	field_put64(data, KEY_OTHER, cmd->preempt_key);
}

void release_cmd_decode(const struct nvme_sqe *sqe, const uint8_t data[RELEASE_DATA_BYTES],
			struct release_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);

	*ret_cmd = (struct release_cmd){
		.action = (uint8_t)(cdw10 & CDW10_ACTION_MASK),
		.ignores_key = (cdw10 & CDW10_IEKEY) != 0,
		.type = (uint8_t)(cdw10 >> CDW10_TYPE_SHIFT),
		.current_key = field_get64(data, KEY_CURRENT),
	};
}

void release_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct release_cmd *cmd,
			uint8_t data[RELEASE_DATA_BYTES])
{
	sqe->opcode = NVME_IO_RESERVATION_RELEASE;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of(cdw10_encode(cmd->action, cmd->ignores_key, cmd->type));
	field_put64(data, KEY_CURRENT, cmd->current_key);
}

void report_cmd_decode(const struct nvme_sqe *sqe, struct report_cmd *ret_cmd)
{
	*ret_cmd = (struct report_cmd){
		.len_bytes = ((uint64_t)le32_get(sqe->cdw10) + 1) * sizeof(uint32_t),
		.is_extended = (le32_get(sqe->cdw11) & CDW11_EDS) != 0,
	};
}

void report_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct report_cmd *cmd)
{
	CHECK(cmd->len_bytes >= sizeof(uint32_t) && cmd->len_bytes % sizeof(uint32_t) == 0);
	sqe->opcode = NVME_IO_RESERVATION_REPORT;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of((uint32_t)(cmd->len_bytes / sizeof(uint32_t) - 1));
	sqe->cdw11 = le32_of(cmd->is_extended ? CDW11_EDS : 0);
}

void report_header_encode(const struct report_header *header, uint8_t bytes[REPORT_HEADER_BYTES])
{
	memset(bytes, 0, REPORT_HEADER_BYTES);
	field_put32(bytes, HEADER_GEN, header->generation);
	bytes[HEADER_RTYPE] = header->type;
	field_put16(bytes, HEADER_REGCTL, header->entry_count);
	bytes[HEADER_PTPLS] = header->persists;
}

void report_header_decode(const uint8_t bytes[REPORT_HEADER_BYTES],
			  struct report_header *ret_header)
{
	*ret_header = (struct report_header){
		.generation = field_get32(bytes, HEADER_GEN),
		.type = bytes[HEADER_RTYPE],
		.entry_count = field_get16(bytes, HEADER_REGCTL),
		.persists = (bytes[HEADER_PTPLS] & 1) != 0,
	};
}

void report_entry_encode(const struct report_entry *entry, bool is_extended, uint8_t *bytes)
{
	memset(bytes, 0, is_extended ? REPORT_ENTRY_EXTENDED_BYTES : REPORT_ENTRY_BYTES);
	field_put16(bytes, ENTRY_CNTLID, entry->cntlid);
	bytes[ENTRY_RCSTS] = entry->is_holder ? RCSTS_HOLDER : 0;
	field_put64(bytes, is_extended ? ENTRY_EXTENDED_RKEY : ENTRY_RKEY, entry->key);
	if (is_extended)
		memcpy(bytes + ENTRY_EXTENDED_HOSTID, entry->host_id.bytes,
		       sizeof(entry->host_id.bytes));
	else
		memcpy(bytes + ENTRY_HOSTID, entry->host_id.bytes, ENTRY_HOSTID_BYTES);
}

void report_entry_decode(const uint8_t *bytes, bool is_extended, struct report_entry *ret_entry)
{
	*ret_entry = (struct report_entry){
		.cntlid = field_get16(bytes, ENTRY_CNTLID),
		.is_holder = (bytes[ENTRY_RCSTS] & RCSTS_HOLDER) != 0,
		.key = field_get64(bytes, is_extended ? ENTRY_EXTENDED_RKEY : ENTRY_RKEY),
	};
	if (is_extended)
		memcpy(ret_entry->host_id.bytes, bytes + ENTRY_EXTENDED_HOSTID,
		       sizeof(ret_entry->host_id.bytes));
	else
		memcpy(ret_entry->host_id.bytes, bytes + ENTRY_HOSTID, ENTRY_HOSTID_BYTES);
}

void log_reservation_encode(const struct log_reservation *log, uint8_t page[LOG_RESERVATION_BYTES])
{
	memset(page, 0, LOG_RESERVATION_BYTES);
	field_put64(page, LOG_LPC, log->count);
	page[LOG_RNLPT] = log->type;
	page[LOG_NALP] = log->available;
	field_put32(page, LOG_NSID, log->nsid);
}

void log_reservation_decode(const uint8_t page[LOG_RESERVATION_BYTES],
			    struct log_reservation *ret_log)
{
	*ret_log = (struct log_reservation){
		.count = field_get64(page, LOG_LPC),
		.type = page[LOG_RNLPT],
		.available = page[LOG_NALP],
		.nsid = field_get32(page, LOG_NSID),
	};
}
