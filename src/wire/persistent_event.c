/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Persistent Event log page (0Dh), its events and timestamps between bytes and plain values.
 * Pure; any thread. NVMe Base 2.1, sections 5.1.12.1.14 (log) and 5.1.25.1.7 (Timestamp).
 */
#include "wire/persistent_event.h"

#include "wire/field.h"
#include "wire/log_page.h"

#include <errno.h>

enum log_header_offset {
	HEADER_LID = 0,
	HEADER_TNEV = 4,
	HEADER_TLL = 8,
	HEADER_REVISION = 16,
	HEADER_LHL = 18,
	HEADER_TIMESTAMP = 20,
	HEADER_POH = 28,
	HEADER_PCC = 44,
	HEADER_SN = 56,
	HEADER_MN = 76,
	HEADER_SUBNQN = 116,
	HEADER_GENERATION = 372,
	HEADER_RCI = 374,
	HEADER_EVENTS = 480,
};
#define HEADER_REVISION_BASE_2 3
/* Bytes of the header after the LHL field. */
#define HEADER_LENGTH          (EVENT_LOG_HEADER_BYTES - HEADER_TIMESTAMP)
#define HEADER_SUBNQN_BYTES    256
#define RCI_PORT_TYPE_NSS_PORT (1u << 16)
#define RCI_EXISTS             (1u << 18)

enum event_offset {
	EVENT_TYPE = 0,
	EVENT_REVISION = 1,
	EVENT_EHL = 2,
	EVENT_EHAI = 3,
	EVENT_CNTLID = 4,
	EVENT_WHEN = 6,
	EVENT_PELPID = 14,
	EVENT_VSIL = 20,
	EVENT_EL = 22,
};
#define EVENT_EHL_VALUE       (EVENT_HEADER_BYTES - 3) /* bytes after this field */
#define EVENT_PORT_NSS        1
#define EVENT_PORT_NONE       3
#define EVENT_PORT_MASK       3u
#define EVENT_SMART_REVISION  1
#define TIMESTAMP_MS_BITS     48
#define TIMESTAMP_PAUSED      (1u << 0)
#define TIMESTAMP_ORIGIN_MASK (7u << 1)
#define TIMESTAMP_ORIGIN_SET  (1u << 1)

static const uint8_t event_types[] = {
	EVENT_SMART,        EVENT_TIMESTAMP,  EVENT_POWER_ON_OR_RESET, EVENT_CHANGE_NS,
	EVENT_FORMAT_START, EVENT_FORMAT_END, EVENT_SET_FEATURE,
};

void timestamp_encode(const struct timestamp *timestamp, uint8_t bytes[EVENT_TIMESTAMP_BYTES])
{
	field_put64(bytes, 0, timestamp->ms & ((1ull << TIMESTAMP_MS_BITS) - 1));
	bytes[6] = (uint8_t)((timestamp->is_set ? TIMESTAMP_ORIGIN_SET : 0) |
			     (timestamp->has_paused ? TIMESTAMP_PAUSED : 0));
	bytes[7] = 0;
}

void timestamp_decode(const uint8_t bytes[EVENT_TIMESTAMP_BYTES], struct timestamp *ret_timestamp)
{
	ret_timestamp->ms = field_get64(bytes, 0) & ((1ull << TIMESTAMP_MS_BITS) - 1);
	ret_timestamp->is_set = (bytes[6] & TIMESTAMP_ORIGIN_MASK) == TIMESTAMP_ORIGIN_SET;
	ret_timestamp->has_paused = (bytes[6] & TIMESTAMP_PAUSED) != 0;
}

void event_log_header_encode(const struct event_log_header *header,
			     uint8_t bytes[EVENT_LOG_HEADER_BYTES])
{
	memset(bytes, 0, EVENT_LOG_HEADER_BYTES);
	bytes[HEADER_LID] = LOG_PERSISTENT_EVENT;
	field_put32(bytes, HEADER_TNEV, header->event_count);
	field_put64(bytes, HEADER_TLL, header->total_bytes);
	bytes[HEADER_REVISION] = HEADER_REVISION_BASE_2;
	field_put16(bytes, HEADER_LHL, HEADER_LENGTH);
	timestamp_encode(&header->now, bytes + HEADER_TIMESTAMP);
	field_put64(bytes, HEADER_POH, header->power_on_hours);
	field_put64(bytes, HEADER_PCC, header->power_cycles);
	field_put_text(bytes, HEADER_SN, NVME_SERIAL_BYTES, header->serial);
	field_put_text(bytes, HEADER_MN, NVME_MODEL_BYTES, header->model);
	memcpy(bytes + HEADER_SUBNQN, header->subsystem_nqn,
	       strnlen(header->subsystem_nqn, NVME_NQN_BYTES - 1));
	field_put16(bytes, HEADER_GENERATION, header->generation);
	if (header->has_context)
		field_put32(bytes, HEADER_RCI,
			    RCI_EXISTS | RCI_PORT_TYPE_NSS_PORT | header->port_id);
	for (size_t i = 0; i < sizeof(event_types); i++)
		bytes[HEADER_EVENTS + event_types[i] / 8] |= (uint8_t)(1u << event_types[i] % 8);
}

int event_log_header_decode(const uint8_t bytes[EVENT_LOG_HEADER_BYTES],
			    struct event_log_header *ret_header)
{
	uint32_t context = field_get32(bytes, HEADER_RCI);

	memset(ret_header, 0, sizeof(*ret_header));
	if (bytes[HEADER_LID] != LOG_PERSISTENT_EVENT ||
	    field_get16(bytes, HEADER_LHL) != HEADER_LENGTH)
		return -EPROTO;
	ret_header->event_count = field_get32(bytes, HEADER_TNEV);
	ret_header->total_bytes = field_get64(bytes, HEADER_TLL);
	if (ret_header->total_bytes < EVENT_LOG_HEADER_BYTES)
		return -EPROTO;
	timestamp_decode(bytes + HEADER_TIMESTAMP, &ret_header->now);
	ret_header->power_on_hours = field_get64(bytes, HEADER_POH);
	ret_header->power_cycles = field_get64(bytes, HEADER_PCC);
	field_get_text(bytes, HEADER_SN, NVME_SERIAL_BYTES, ret_header->serial,
		       sizeof(ret_header->serial));
	field_get_text(bytes, HEADER_MN, NVME_MODEL_BYTES, ret_header->model,
		       sizeof(ret_header->model));
	field_get_text(bytes, HEADER_SUBNQN, HEADER_SUBNQN_BYTES, ret_header->subsystem_nqn,
		       sizeof(ret_header->subsystem_nqn));
	ret_header->generation = field_get16(bytes, HEADER_GENERATION);
	ret_header->has_context = (context & RCI_EXISTS) != 0;
	ret_header->port_id = (uint16_t)context;
	return 0;
}

void event_header_encode(const struct event_header *header, uint8_t bytes[EVENT_HEADER_BYTES])
{
	memset(bytes, 0, EVENT_HEADER_BYTES);
	bytes[EVENT_TYPE] = header->type;
	bytes[EVENT_REVISION] = EVENT_SMART_REVISION;
	bytes[EVENT_EHL] = EVENT_EHL_VALUE;
	bytes[EVENT_EHAI] = header->has_place ? EVENT_PORT_NSS : EVENT_PORT_NONE;
	if (header->has_place) {
		field_put16(bytes, EVENT_CNTLID, header->place.cntlid);
		field_put16(bytes, EVENT_PELPID, header->place.port_id);
	}
	timestamp_encode(&header->when, bytes + EVENT_WHEN);
	field_put16(bytes, EVENT_EL, (uint16_t)header->data_bytes);
}

int event_header_decode(const uint8_t bytes[EVENT_HEADER_BYTES], struct event_header *ret_header)
{
	memset(ret_header, 0, sizeof(*ret_header));
	if (bytes[EVENT_EHL] != EVENT_EHL_VALUE || field_get16(bytes, EVENT_VSIL) != 0)
		return -EPROTO;
	ret_header->type = bytes[EVENT_TYPE];
	ret_header->has_place = (bytes[EVENT_EHAI] & EVENT_PORT_MASK) == EVENT_PORT_NSS;
	ret_header->place.cntlid = field_get16(bytes, EVENT_CNTLID);
	ret_header->place.port_id = field_get16(bytes, EVENT_PELPID);
	timestamp_decode(bytes + EVENT_WHEN, &ret_header->when);
	ret_header->data_bytes = field_get16(bytes, EVENT_EL);
	return 0;
}

/* ---- the data of events --------------------------------------------------------------------- */

void event_timestamp_encode(const struct timestamp *previous, uint64_t since_reset_ms,
			    uint8_t bytes[EVENT_TIMESTAMP_CHANGE_BYTES])
{
	timestamp_encode(previous, bytes);
	field_put64(bytes, EVENT_TIMESTAMP_BYTES, since_reset_ms);
}

void event_power_on_encode(const char *firmware, uint8_t bytes[EVENT_POWER_ON_BYTES])
{
	field_put_text(bytes, 0, NVME_FIRMWARE_BYTES, firmware);
}

enum change_ns_offset {
	CHANGE_NS_CDW10 = 0,
	CHANGE_NS_NSZE = 8,
	CHANGE_NS_NCAP = 24,
	CHANGE_NS_FLBAS = 32,
	CHANGE_NS_NMIC = 34,
	CHANGE_NS_ANAGRPID = 36,
	CHANGE_NS_NSID = 44,
};

void event_change_ns_encode(const struct event_change_ns *change,
			    uint8_t bytes[EVENT_CHANGE_NS_BYTES])
{
	memset(bytes, 0, EVENT_CHANGE_NS_BYTES);
	field_put32(bytes, CHANGE_NS_CDW10, change->is_delete ? 1 : 0); /* SEL */
	field_put64(bytes, CHANGE_NS_NSZE, change->block_count);
	field_put64(bytes, CHANGE_NS_NCAP, change->block_count);
	bytes[CHANGE_NS_FLBAS] = change->format;
	bytes[CHANGE_NS_NMIC] = change->is_shared ? 1 : 0;
	field_put32(bytes, CHANGE_NS_ANAGRPID, change->ana_group_id);
	field_put32(bytes, CHANGE_NS_NSID, change->nsid);
}

void event_format_start_encode(uint32_t nsid, uint8_t attributes, uint32_t cdw10,
			       uint8_t bytes[EVENT_FORMAT_BYTES])
{
	memset(bytes, 0, EVENT_FORMAT_BYTES);
	field_put32(bytes, 0, nsid);
	bytes[4] = attributes;
	field_put32(bytes, 8, cdw10);
}

void event_format_end_encode(uint32_t nsid, nvme_status status, uint8_t bytes[EVENT_FORMAT_BYTES])
{
	memset(bytes, 0, EVENT_FORMAT_BYTES);
	field_put32(bytes, 0, nsid);
	bytes[5] = nvme_status_is_ok(status) ? 0 : 1; /* the format failed */
	field_put32(bytes, 8, (uint32_t)status.value << 1);
}

void event_set_feature_encode(const uint32_t dwords[EVENT_SET_FEATURE_DWORDS], uint16_t data_bytes,
			      uint8_t bytes[EVENT_SET_FEATURE_BYTES])
{
	field_put32(bytes, 0, EVENT_SET_FEATURE_DWORDS | (uint32_t)data_bytes << 16);
	for (size_t i = 0; i < EVENT_SET_FEATURE_DWORDS; i++)
		field_put32(bytes, 4 + i * 4, dwords[i]);
}
