/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get and Set Features, asynchronous events and Abort as plain values. NVMe Base 2.1, sections
 * 5.1.2 (events), 5.1.1 (Abort), 5.1.11 and 5.1.25 (features).
 */
#ifndef WEFT_WIRE_FEATURE_H
#define WEFT_WIRE_FEATURE_H

#include "wire/nvme.h"

#include <stdbool.h>

enum feature_id {
	FEATURE_ARBITRATION = 0x01,
	FEATURE_POWER = 0x02,
	FEATURE_TEMPERATURE = 0x04,
	FEATURE_ERROR_RECOVERY = 0x05,
	FEATURE_VOLATILE_CACHE = 0x06,
	FEATURE_QUEUE_COUNT = 0x07,
	FEATURE_COALESCING = 0x08, /* of interrupts */
	FEATURE_VECTOR = 0x09,     /* interrupt vector configuration */
	FEATURE_ATOMICITY = 0x0a,
	FEATURE_ASYNC_EVENT = 0x0b,
	FEATURE_TIMESTAMP = 0x0e,
	FEATURE_KEEP_ALIVE = 0x0f,
	FEATURE_HOST_BEHAVIOR = 0x16,
	FEATURE_NS_LABEL = 0x1f,
	FEATURE_HOST_ID = 0x81,
	FEATURE_RESERVATION_MASK = 0x82,
	FEATURE_RESERVATION_PERSISTENCE = 0x83,
	FEATURE_WRITE_PROTECT = 0x84,
};

enum feature_select {
	FEATURE_CURRENT = 0,
	FEATURE_DEFAULT = 1,
	FEATURE_SAVED = 2,
	FEATURE_SUPPORTED = 3,
};

enum feature_capability {
	FEATURE_CAN_SAVE = 1 << 0,
	FEATURE_PER_NS = 1 << 1,
	FEATURE_CAN_CHANGE = 1 << 2,
};

struct feature_cmd {
	uint8_t feature_id;
	uint8_t select; /* Get */
	bool is_save;   /* Set: SV */
	uint32_t cdw11;
	uint32_t cdw12;
};

void feature_cmd_decode(const struct nvme_sqe *sqe, struct feature_cmd *ret_cmd);
void feature_get_encode(struct nvme_sqe *sqe, uint8_t feature_id, uint8_t select);
void feature_set_encode(struct nvme_sqe *sqe, uint8_t feature_id, uint32_t cdw11);

/* Number of Queues (07h): NSQR and NCQR, decoded to counts; 65535 on the wire is refused. */
nvme_status feature_queue_count_decode(uint32_t cdw11, uint32_t *ret_sq_count,
				       uint32_t *ret_cq_count);
uint32_t feature_queue_count_encode(uint32_t sq_count, uint32_t cq_count);

/* Temperature Threshold (04h). */
struct temperature_cmd {
	uint16_t kelvin;
	uint8_t sensor;
	uint8_t kind;
};
#define TEMPERATURE_COMPOSITE   0
#define TEMPERATURE_ALL_SENSORS 0xf /* only in Set Features */
#define TEMPERATURE_OVER        0
#define TEMPERATURE_UNDER       1
struct temperature_cmd feature_temperature_decode(uint32_t cdw11);

/* Host Behavior Support (16h): bytes of its data. */
enum host_behavior_offset {
	HOST_BEHAVIOR_ACRE = 0,   /* advanced command retry */
	HOST_BEHAVIOR_ETDAS = 1,  /* extended telemetry data area */
	HOST_BEHAVIOR_LBAFEE = 2, /* LBA format extension */
	HOST_BEHAVIOR_HDISNS = 3, /* dispersed namespaces */
	HOST_BEHAVIOR_CDFE = 4,   /* copy descriptor formats, 16 bits */
};
#define HOST_BEHAVIOR_BYTES 512

/* Asynchronous Event Configuration (0Bh). */
enum async_event_mask {
	ASYNC_MASK_SMART = 0xff,
	ASYNC_MASK_SMART_TEMPERATURE = 0x02,
	ASYNC_MASK_NS_ATTRIBUTE = 1u << 8,
	ASYNC_MASK_ANA_CHANGE = 1u << 11,
	ASYNC_MASK_SHUTDOWN = 1u << 15,   /* normal NVM subsystem shutdown */
	ASYNC_MASK_CTRL_RESET = 1u << 20, /* a Cross-Controller Reset is completed */
	ASYNC_MASK_LOST_HOST = 1u << 21,  /* communication with a host was lost */
	ASYNC_MASK_DISCOVERY_CHANGE = 1u << 31,
};

enum async_event_type {
	ASYNC_TYPE_ERROR = 0,
	ASYNC_TYPE_SMART = 1,
	ASYNC_TYPE_NOTICE = 2,
	ASYNC_TYPE_IMMEDIATE = 3,
	ASYNC_TYPE_IO = 6, /* I/O command specific status */
};

enum async_io {
	ASYNC_IO_RESERVATION = 0x00, /* a notification page is available */
};

enum async_smart {
	ASYNC_SMART_TEMPERATURE = 0x01, /* a temperature crossed a threshold */
};

enum async_notice {
	ASYNC_NOTICE_NS_ATTRIBUTE = 0x00,
	ASYNC_NOTICE_ANA_CHANGE = 0x03,
	ASYNC_NOTICE_DISCOVERY_CHANGE = 0xf0,
	ASYNC_NOTICE_CTRL_RESET = 0xf4,
	ASYNC_NOTICE_LOST_HOST = 0xf5,
};

enum async_immediate {
	ASYNC_IMMEDIATE_SHUTDOWN = 0x00,
};

struct async_event {
	uint8_t type;
	uint8_t info;
	uint8_t log_id; /* reading this page clears the event */
};

uint32_t async_event_encode(const struct async_event *event);
struct async_event async_event_decode(uint32_t dw0);

struct abort_cmd {
	uint16_t sqid;
	uint16_t cid;
};
void abort_cmd_decode(const struct nvme_sqe *sqe, struct abort_cmd *ret_cmd);
void abort_cmd_encode(struct nvme_sqe *sqe, const struct abort_cmd *cmd);

#endif
