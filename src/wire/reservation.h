/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservation commands, their data, and the notification log page as plain values. NVMe Base 2.1,
 * sections 7.6 to 7.9 (Reservation Acquire, Register, Release, Report) and 5.1.12.1.31 (log page).
 */
#ifndef WEFT_WIRE_RESERVATION_H
#define WEFT_WIRE_RESERVATION_H

#include "base/uuid.h"
#include "wire/nvme.h"

#include <stdbool.h>

enum nvme_reservation_opcode {
	NVME_IO_RESERVATION_REGISTER = 0x0d,
	NVME_IO_RESERVATION_REPORT = 0x0e,
	NVME_IO_RESERVATION_ACQUIRE = 0x11,
	NVME_IO_RESERVATION_RELEASE = 0x15,
};

enum reservation_type {
	RESERVATION_NONE = 0,
	RESERVATION_WRITE_EXCLUSIVE = 1,
	RESERVATION_EXCLUSIVE_ACCESS = 2,
	RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS = 3,
	RESERVATION_EXCLUSIVE_ACCESS_REGISTRANTS = 4,
	RESERVATION_WRITE_EXCLUSIVE_ALL = 5, /* all registrants hold the reservation */
	RESERVATION_EXCLUSIVE_ACCESS_ALL = 6,
	RESERVATION_TYPE_MAX = RESERVATION_EXCLUSIVE_ACCESS_ALL,
};

enum register_action {
	REGISTER_KEY = 0,
	UNREGISTER_KEY = 1,
	REPLACE_KEY = 2,
};

/* CPTPL: persist through power loss. */
enum persist_change {
	PERSIST_KEEP = 0, /* no change */
	PERSIST_OFF = 2,
	PERSIST_ON = 3,
};

enum acquire_action {
	ACQUIRE_RESERVATION = 0,
	ACQUIRE_PREEMPT = 1,
	ACQUIRE_PREEMPT_AND_ABORT = 2,
};

enum release_action {
	RELEASE_RESERVATION = 0,
	RELEASE_CLEAR = 1,
};

#define REGISTER_DATA_BYTES 16
#define ACQUIRE_DATA_BYTES  16
#define RELEASE_DATA_BYTES  8

/* Values are as received: actions and types may be reserved values. */
struct register_cmd {
	uint8_t action;       /* RREGA */
	bool ignores_key;     /* IEKEY */
	uint8_t persist;      /* CPTPL */
	uint64_t current_key; /* CRKEY */
	uint64_t new_key;     /* NRKEY */
};

struct acquire_cmd {
	uint8_t action; /* RACQA */
	bool ignores_key;
	uint8_t type; /* RTYPE */
	uint64_t current_key;
	uint64_t preempt_key; /* PRKEY */
};

struct release_cmd {
	uint8_t action; /* RRELA */
	bool ignores_key;
	uint8_t type;
	uint64_t current_key;
};

struct report_cmd {
	uint64_t len_bytes;
	bool is_extended; /* EDS: host identifiers of 128 bits */
};

void register_cmd_decode(const struct nvme_sqe *sqe, const uint8_t data[REGISTER_DATA_BYTES],
			 struct register_cmd *ret_cmd);
void register_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct register_cmd *cmd,
			 uint8_t data[REGISTER_DATA_BYTES]);
void acquire_cmd_decode(const struct nvme_sqe *sqe, const uint8_t data[ACQUIRE_DATA_BYTES],
			struct acquire_cmd *ret_cmd);
void acquire_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct acquire_cmd *cmd,
			uint8_t data[ACQUIRE_DATA_BYTES]);
void release_cmd_decode(const struct nvme_sqe *sqe, const uint8_t data[RELEASE_DATA_BYTES],
			struct release_cmd *ret_cmd);
void release_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct release_cmd *cmd,
			uint8_t data[RELEASE_DATA_BYTES]);
void report_cmd_decode(const struct nvme_sqe *sqe, struct report_cmd *ret_cmd);
void report_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct report_cmd *cmd);

/* ---- Reservation Report: a header, then one entry per registrant ----------------------------- */

#define REPORT_HEADER_BYTES          24
#define REPORT_HEADER_EXTENDED_BYTES 64
#define REPORT_ENTRY_BYTES           24
#define REPORT_ENTRY_EXTENDED_BYTES  64
#define REPORT_ENTRIES_MAX           0xffff /* limit of the header's count field */

struct report_header {
	uint32_t generation;
	uint8_t type;
	uint16_t entry_count;
	bool persists; /* PTPLS */
};

struct report_entry {
	uint16_t cntlid; /* NVME_CNTLID_ANY: the controllers are dynamic */
	bool is_holder;
	struct uuid host_id; /* a 64-bit identifier: in the first 8 bytes, the rest is 0 */
	uint64_t key;
};

/* Encodes the first 24 bytes of both layouts; in the extended layout, bytes 24 to 63 are
 * reserved. */
void report_header_encode(const struct report_header *header, uint8_t bytes[REPORT_HEADER_BYTES]);
void report_header_decode(const uint8_t bytes[REPORT_HEADER_BYTES],
			  struct report_header *ret_header);
/* `bytes` has REPORT_ENTRY_BYTES or, with is_extended, REPORT_ENTRY_EXTENDED_BYTES. */
void report_entry_encode(const struct report_entry *entry, bool is_extended, uint8_t *bytes);
void report_entry_decode(const uint8_t *bytes, bool is_extended, struct report_entry *ret_entry);

/* ---- log page 80h and feature 82h ------------------------------------------------------------ */

enum reservation_notice_type {
	NOTICE_NONE = 0, /* the empty page */
	NOTICE_REGISTRATION_PREEMPTED = 1,
	NOTICE_RESERVATION_RELEASED = 2,
	NOTICE_RESERVATION_PREEMPTED = 3,
};

/* The bit of a notice type in feature 82h. A set bit suppresses the notice. */
#define NOTICE_MASK(type) (1u << (type))
#define NOTICE_MASK_ALL                                                                            \
	(NOTICE_MASK(NOTICE_REGISTRATION_PREEMPTED) | NOTICE_MASK(NOTICE_RESERVATION_RELEASED) |   \
	 NOTICE_MASK(NOTICE_RESERVATION_PREEMPTED))

#define LOG_RESERVATION_BYTES 64
struct log_reservation {
	uint64_t count; /* number of pages so far, from 1; 0 in the empty page */
	uint8_t type;
	uint8_t available; /* unread pages besides this one; 255: at least 255 */
	uint32_t nsid;
};
void log_reservation_encode(const struct log_reservation *log, uint8_t page[LOG_RESERVATION_BYTES]);
void log_reservation_decode(const uint8_t page[LOG_RESERVATION_BYTES],
			    struct log_reservation *ret_log);

#endif
