/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-Controller Reset between bytes and plain values: the command, its result and the logs 1Eh
 * and 1Fh. Pure; any thread. NVMe Base 2.3, Rapid Path Failure Recovery (TP8028).
 */
#include "wire/ctrl_reset.h"

#include "wire/field.h"
#include "wire/sgl.h"

#define CTRL_RESET_IMMEDIATE (1u << 0) /* IRS */
#define CCRF_VALIDATED       (1u << 0)
#define CCRF_INITIATED       (1u << 1)

enum log_ctrl_reset_offset {
	LOG_CTRL_RESET_ICID = 0,
	LOG_CTRL_RESET_CIU = 2,
	LOG_CTRL_RESET_ACID = 4,
	LOG_CTRL_RESET_CCRS = 6,
	LOG_CTRL_RESET_CCRF = 7,
};

enum log_lost_host_offset {
	LOG_LOST_HOST_CNTLID = 0,
	LOG_LOST_HOST_LC = 2,
	LOG_LOST_HOST_CIU = 3,
};

void ctrl_reset_cmd_encode(struct nvme_sqe *sqe, const struct ctrl_reset_cmd *cmd)
{
	sqe->opcode = NVME_ADMIN_CTRL_RESET;
	sqe->cdw10 = le32_of(cmd->cntlid | (uint32_t)cmd->uniquifier << 16);
	sqe->cdw12 = le32_of((uint32_t)cmd->random_number);
	sqe->cdw13 = le32_of((uint32_t)(cmd->random_number >> 32));
	sgl_encode_none(sqe);
}

void ctrl_reset_cmd_decode(const struct nvme_sqe *sqe, struct ctrl_reset_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);

	*ret_cmd = (struct ctrl_reset_cmd){
		.cntlid = (uint16_t)cdw10,
		.uniquifier = (uint8_t)(cdw10 >> 16),
		.random_number = le32_get(sqe->cdw12) | (uint64_t)le32_get(sqe->cdw13) << 32,
	};
}

uint32_t ctrl_reset_result_encode(bool is_immediate)
{
	return is_immediate ? CTRL_RESET_IMMEDIATE : 0;
}

bool ctrl_reset_result_decode(uint32_t dw0)
{
	return (dw0 & CTRL_RESET_IMMEDIATE) != 0;
}

void log_ctrl_reset_header_encode(uint16_t count, uint8_t bytes[LOG_CTRL_RESET_HEADER_BYTES])
{
	memset(bytes, 0, LOG_CTRL_RESET_HEADER_BYTES);
	field_put16(bytes, 0, count);
}

void log_ctrl_reset_entry_encode(const struct log_ctrl_reset_entry *entry,
				 uint8_t bytes[LOG_CTRL_RESET_ENTRY_BYTES])
{
	memset(bytes, 0, LOG_CTRL_RESET_ENTRY_BYTES);
	field_put16(bytes, LOG_CTRL_RESET_ICID, entry->cntlid);
	bytes[LOG_CTRL_RESET_CIU] = entry->uniquifier;
	field_put16(bytes, LOG_CTRL_RESET_ACID, entry->asked_cntlid);
	bytes[LOG_CTRL_RESET_CCRS] = entry->state;
	bytes[LOG_CTRL_RESET_CCRF] = (uint8_t)((entry->is_validated ? CCRF_VALIDATED : 0) |
					       (entry->is_initiated ? CCRF_INITIATED : 0));
}

void log_lost_host_entry_encode(const struct log_lost_host_entry *entry,
				uint8_t bytes[LOG_CTRL_RESET_ENTRY_BYTES])
{
	memset(bytes, 0, LOG_CTRL_RESET_ENTRY_BYTES);
	field_put16(bytes, LOG_LOST_HOST_CNTLID, entry->cntlid);
	bytes[LOG_LOST_HOST_LC] = entry->reason;
	bytes[LOG_LOST_HOST_CIU] = entry->uniquifier;
}

uint32_t log_ctrl_reset_count(const uint8_t *page, size_t page_bytes)
{
	size_t room;
	uint16_t promised;

	if (page_bytes < LOG_CTRL_RESET_HEADER_BYTES)
		return 0;
	promised = field_get16(page, 0);
	room = (page_bytes - LOG_CTRL_RESET_HEADER_BYTES) / LOG_CTRL_RESET_ENTRY_BYTES;
	return promised < room ? promised : (uint32_t)room;
}

static const uint8_t *entry_at(const uint8_t *page, uint32_t index)
{
	return page + LOG_CTRL_RESET_HEADER_BYTES + (size_t)index * LOG_CTRL_RESET_ENTRY_BYTES;
}

void log_ctrl_reset_entry_decode(const uint8_t *page, uint32_t index,
				 struct log_ctrl_reset_entry *ret_entry)
{
	const uint8_t *bytes = entry_at(page, index);

	*ret_entry = (struct log_ctrl_reset_entry){
		.cntlid = field_get16(bytes, LOG_CTRL_RESET_ICID),
		.uniquifier = bytes[LOG_CTRL_RESET_CIU],
		.asked_cntlid = field_get16(bytes, LOG_CTRL_RESET_ACID),
		.state = bytes[LOG_CTRL_RESET_CCRS],
		.is_validated = (bytes[LOG_CTRL_RESET_CCRF] & CCRF_VALIDATED) != 0,
		.is_initiated = (bytes[LOG_CTRL_RESET_CCRF] & CCRF_INITIATED) != 0,
	};
}

void log_lost_host_entry_decode(const uint8_t *page, uint32_t index,
				struct log_lost_host_entry *ret_entry)
{
	const uint8_t *bytes = entry_at(page, index);

	*ret_entry = (struct log_lost_host_entry){
		.cntlid = field_get16(bytes, LOG_LOST_HOST_CNTLID),
		.reason = bytes[LOG_LOST_HOST_LC],
		.uniquifier = bytes[LOG_LOST_HOST_CIU],
	};
}
