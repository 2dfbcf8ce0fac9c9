/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-Controller Reset as plain values: the command, its result, the log of resets (1Eh) and the
 * log of hosts whose communication was lost (1Fh). NVMe Base 2.3, Rapid Path Failure Recovery
 * (TP8028). Pure; any thread. A page is a header and entries of one size. Decoders never read past
 * the given bytes, whatever entry count the header claims.
 */
#ifndef WEFT_WIRE_CTRL_RESET_H
#define WEFT_WIRE_CTRL_RESET_H

#include "wire/nvme.h"

#include <stdbool.h>
#include <stddef.h>

/* Opcode 38h. Names the instance of the impacted controller, as Identify Controller reported it. */
struct ctrl_reset_cmd {
	uint16_t cntlid;        /* ICID */
	uint8_t uniquifier;     /* CIU */
	uint64_t random_number; /* CIRN */
};

/* Sets an SGL for no data. The caller sets the command identifier. */
void ctrl_reset_cmd_encode(struct nvme_sqe *sqe, const struct ctrl_reset_cmd *cmd);
void ctrl_reset_cmd_decode(const struct nvme_sqe *sqe, struct ctrl_reset_cmd *ret_cmd);

/* DW0 of the completion. is_immediate: the controller is already reset. Otherwise an event
 * announces that the result is in the log. */
uint32_t ctrl_reset_result_encode(bool is_immediate);
bool ctrl_reset_result_decode(uint32_t dw0);

/* Both logs: the number of entries (NE), then entries. */
#define LOG_CTRL_RESET_HEADER_BYTES 8
#define LOG_CTRL_RESET_ENTRY_BYTES  8
#define LOG_CTRL_RESET_MAX          511 /* entries */
#define LOG_CTRL_RESET_BYTES                                                                       \
	(LOG_CTRL_RESET_HEADER_BYTES + LOG_CTRL_RESET_MAX * LOG_CTRL_RESET_ENTRY_BYTES)
/* LSP bit of 1Eh: completed entries are removed once they are read. */
#define LOG_CTRL_RESET_REMOVE 0x1

enum log_ctrl_reset_state {
	LOG_CTRL_RESET_IN_PROGRESS = 0,
	LOG_CTRL_RESET_SUCCESS = 1,
	LOG_CTRL_RESET_FAILED = 2,
};

struct log_ctrl_reset_entry {
	uint16_t cntlid;       /* ICID */
	uint8_t uniquifier;    /* CIU */
	uint16_t asked_cntlid; /* ACID: the controller that the command was sent to */
	/* CCRS, enum log_ctrl_reset_state; unknown values are kept as received. */
	uint8_t state;
	bool is_validated; /* CCRF */
	bool is_initiated;
};

struct log_lost_host_entry {
	uint16_t cntlid;
	uint8_t reason; /* LC */
	uint8_t uniquifier;
};

/* Writes the header of either page; entries follow. */
void log_ctrl_reset_header_encode(uint16_t count, uint8_t bytes[LOG_CTRL_RESET_HEADER_BYTES]);
void log_ctrl_reset_entry_encode(const struct log_ctrl_reset_entry *entry,
				 uint8_t bytes[LOG_CTRL_RESET_ENTRY_BYTES]);
void log_lost_host_entry_encode(const struct log_lost_host_entry *entry,
				uint8_t bytes[LOG_CTRL_RESET_ENTRY_BYTES]);

/* Number of entries in these bytes of a page: at most the number in its header, and only whole
 * entries. */
uint32_t log_ctrl_reset_count(const uint8_t *page, size_t page_bytes);
/* index: below log_ctrl_reset_count. */
void log_ctrl_reset_entry_decode(const uint8_t *page, uint32_t index,
				 struct log_ctrl_reset_entry *ret_entry);
void log_lost_host_entry_decode(const uint8_t *page, uint32_t index,
				struct log_lost_host_entry *ret_entry);

#endif
