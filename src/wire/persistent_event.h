/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Persistent Event log page (0Dh) as plain values: its header, the header of an event, and the
 * data of the events that weft records. NVMe Base 2.1, section 5.1.12.1.14.
 */
#ifndef WEFT_WIRE_PERSISTENT_EVENT_H
#define WEFT_WIRE_PERSISTENT_EVENT_H

#include "wire/nvme.h"

#include <stdbool.h>
#include <stddef.h>

/* LSP of Get Log Page, bits 1:0. */
enum event_log_action {
	EVENT_LOG_READ = 0,
	EVENT_LOG_ESTABLISH = 1,
	EVENT_LOG_RELEASE = 2,
	/* Establish, or keep the existing context, and read the header. */
	EVENT_LOG_ESTABLISH_HEADER = 3,
};
#define EVENT_LOG_ACTION_MASK 3u

enum event_type {
	EVENT_SMART = 0x01,
	EVENT_TIMESTAMP = 0x03,
	EVENT_POWER_ON_OR_RESET = 0x04,
	EVENT_CHANGE_NS = 0x06,
	EVENT_FORMAT_START = 0x07,
	EVENT_FORMAT_END = 0x08,
	EVENT_SET_FEATURE = 0x0b,
};

#define EVENT_LOG_HEADER_BYTES 512
#define EVENT_HEADER_BYTES     24
#define EVENT_TIMESTAMP_BYTES  8

/* Feature 0Eh and every time in the log: milliseconds since 1970 (48 bits) or since a reset. */
struct timestamp {
	uint64_t ms;
	bool is_set;     /* origin: set by a host or the clock; else counts from a reset */
	bool has_paused; /* synch: the clock may have stopped since then */
};
void timestamp_encode(const struct timestamp *timestamp, uint8_t bytes[EVENT_TIMESTAMP_BYTES]);
void timestamp_decode(const uint8_t bytes[EVENT_TIMESTAMP_BYTES], struct timestamp *ret_timestamp);

struct event_log_header {
	uint32_t event_count;
	uint64_t total_bytes; /* of the page, including this header */
	struct timestamp now;
	uint64_t power_on_hours;
	uint64_t power_cycles;
	char serial[NVME_SERIAL_BYTES + 1];
	char model[NVME_MODEL_BYTES + 1];
	char subsystem_nqn[NVME_NQN_BYTES];
	uint16_t generation; /* incremented with every context */
	bool has_context;    /* a reporting context existed before this command */
	uint16_t port_id;    /* port of the context */
};
void event_log_header_encode(const struct event_log_header *header,
			     uint8_t bytes[EVENT_LOG_HEADER_BYTES]);
/* 0 or -EPROTO. */
int event_log_header_decode(const uint8_t bytes[EVENT_LOG_HEADER_BYTES],
			    struct event_log_header *ret_header);

struct event_place {
	uint16_t cntlid;
	uint16_t port_id;
};

struct event_header {
	uint8_t type; /* enum event_type */
	bool has_place;
	struct event_place place;
	struct timestamp when;
	uint32_t data_bytes;
};
void event_header_encode(const struct event_header *header, uint8_t bytes[EVENT_HEADER_BYTES]);
/* 0, or -EPROTO when weft did not write the event: another header length, or vendor data. */
int event_header_decode(const uint8_t bytes[EVENT_HEADER_BYTES], struct event_header *ret_header);

/* ---- the data of events --------------------------------------------------------------------- */

#define EVENT_TIMESTAMP_CHANGE_BYTES 16
void event_timestamp_encode(const struct timestamp *previous, uint64_t since_reset_ms,
			    uint8_t bytes[EVENT_TIMESTAMP_CHANGE_BYTES]);

/* A start of the target: the firmware revision. No controller exists yet that could have been
 * reset, so the list of controllers is empty. */
#define EVENT_POWER_ON_BYTES 8
void event_power_on_encode(const char *firmware, uint8_t bytes[EVENT_POWER_ON_BYTES]);

#define EVENT_CHANGE_NS_BYTES 48
struct event_change_ns {
	bool is_delete;
	uint32_t nsid;
	uint64_t block_count;
	uint8_t format; /* FLBAS */
	bool is_shared;
	uint32_t ana_group_id;
};
void event_change_ns_encode(const struct event_change_ns *change,
			    uint8_t bytes[EVENT_CHANGE_NS_BYTES]);

#define EVENT_FORMAT_BYTES  12
#define EVENT_FORMAT_ERASES (1u << 9) /* SES in CDW10: user data erase */
/* cdw10 is that of the Format NVM command. */
void event_format_start_encode(uint32_t nsid, uint8_t attributes, uint32_t cdw10,
			       uint8_t bytes[EVENT_FORMAT_BYTES]);
void event_format_end_encode(uint32_t nsid, nvme_status status, uint8_t bytes[EVENT_FORMAT_BYTES]);

/* A Set Features that was saved: CDW10 to CDW15 as sent; the caller adds the command's data. */
#define EVENT_SET_FEATURE_DWORDS 6
#define EVENT_SET_FEATURE_BYTES  (4 + 4 * EVENT_SET_FEATURE_DWORDS) /* without data */
void event_set_feature_encode(const uint32_t dwords[EVENT_SET_FEATURE_DWORDS], uint16_t data_bytes,
			      uint8_t bytes[EVENT_SET_FEATURE_BYTES]);

#endif
