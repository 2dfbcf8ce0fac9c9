/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get Log Page and the pages themselves as plain values. NVMe Base 2.1, section 5.1.12.
 */
#ifndef WEFT_WIRE_LOG_PAGE_H
#define WEFT_WIRE_LOG_PAGE_H

#include "base/uuid.h"
#include "wire/nvme.h"

#include <stdbool.h>
#include <stddef.h>

enum log_id {
	LOG_SUPPORTED = 0x00,
	LOG_ERROR = 0x01,
	LOG_SMART = 0x02,
	LOG_FIRMWARE = 0x03,
	LOG_CHANGED_NS = 0x04,
	LOG_EFFECTS = 0x05,
	LOG_ANA = 0x0c,
	LOG_PERSISTENT_EVENT = 0x0d,
	LOG_FEATURE_EFFECTS = 0x12,
	LOG_MI_EFFECTS = 0x13, /* commands of the management interface */
	LOG_CTRL_RESET = 0x1e, /* wire/ctrl_reset.h */
	LOG_LOST_HOST = 0x1f,
	LOG_DISCOVERY = 0x70,
	LOG_RESERVATION = 0x80,
};

struct log_cmd {
	uint8_t log_id;
	uint8_t specific;     /* LSP */
	bool retains_event;   /* RAE */
	uint16_t specific_id; /* LSI */
	uint64_t len_bytes;   /* NUMD + 1 dwords */
	uint64_t offset;
	bool offset_is_index; /* OT */
	uint8_t csi;
};

void log_cmd_decode(const struct nvme_sqe *sqe, struct log_cmd *ret_cmd);
void log_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct log_cmd *cmd);

#define LOG_SUPPORTED_BYTES 1024
/* Marks the page with this ID as supported; `specific` is its LID Specific Parameter. */
void log_supported_add(uint8_t id, uint16_t specific, uint8_t page[LOG_SUPPORTED_BYTES]);
#define LOG_SPECIFIC_EVENT_HEADER 0x1 /* 0Dh: establishing can read the header only */

#define LOG_ERROR_ENTRY_BYTES 64
struct log_error_entry {
	uint64_t error_count; /* 1 is the first error of the controller */
	uint16_t sqid;
	uint16_t cid;
	nvme_status status;
	uint16_t parameter_byte; /* 0xffff when no field caused the error */
	uint8_t parameter_bit;
	uint64_t lba;
	uint32_t nsid;
	uint8_t transport; /* TRTYPE as in discovery; 0: not a transport error */
	uint8_t csi;       /* command set of the command */
	uint8_t opcode;
	uint64_t command_specific;
	uint16_t transport_specific;
};
void log_error_encode(const struct log_error_entry *entry, uint8_t bytes[LOG_ERROR_ENTRY_BYTES]);
void log_error_decode(const uint8_t bytes[LOG_ERROR_ENTRY_BYTES],
		      struct log_error_entry *ret_entry);

#define LOG_SMART_BYTES 512
struct log_smart {
	uint8_t critical_warning;
	uint16_t temperature_k;
	uint8_t spare_percent;
	uint8_t spare_threshold_percent;
	uint8_t used_percent;
	uint64_t bytes_read; /* encoded as thousands of 512-byte units, rounded up */
	uint64_t bytes_written;
	uint64_t read_commands;
	uint64_t write_commands;
	uint64_t busy_minutes;
	uint64_t power_cycles;
	uint64_t power_on_hours;
	uint64_t unsafe_shutdowns;
	uint64_t media_errors;
	uint64_t error_log_entries;
};
#define LOG_SMART_WARNING_TEMPERATURE 0x02
void log_smart_encode(const struct log_smart *smart, uint8_t page[LOG_SMART_BYTES]);
void log_smart_decode(const uint8_t page[LOG_SMART_BYTES], struct log_smart *ret_smart);

#define LOG_FIRMWARE_BYTES 512
void log_firmware_encode(const char *revision, uint8_t page[LOG_FIRMWARE_BYTES]);

#define LOG_CHANGED_NS_BYTES 4096
#define LOG_CHANGED_NS_MAX   1024

#define LOG_EFFECTS_BYTES 4096
enum log_effect {
	LOG_EFFECT_SUPPORTED = 1 << 0,
	LOG_EFFECT_CHANGES_DATA = 1 << 1,      /* LBCC */
	LOG_EFFECT_CHANGES_NS = 1 << 2,        /* NCC: capabilities of one namespace */
	LOG_EFFECT_CHANGES_INVENTORY = 1 << 3, /* NIC: namespaces are added or removed */
	LOG_EFFECT_CHANGES_CTRL = 1 << 4,      /* CCC */
	LOG_EFFECT_OF_NS = 1 << 20,            /* CSP: scope */
	LOG_EFFECT_OF_CTRL = 1 << 21,
	LOG_EFFECT_OF_SUBSYSTEM = 1 << 25,
	LOG_EFFECT_ALONE_IN_NS = 1 << 16, /* CSE: with no other command to the namespace */
	LOG_EFFECT_ALONE = 2 << 16,       /* CSE: with no other command at all */
};
struct log_effects {
	uint32_t admin[256];
	uint32_t io[256];
};
void log_effects_encode(const struct log_effects *effects, uint8_t page[LOG_EFFECTS_BYTES]);

/* Feature Identifiers Supported and Effects (12h): one entry per feature. */
#define LOG_FEATURE_EFFECTS_BYTES 1024
#define LOG_MI_EFFECTS_BYTES      1024
enum log_feature_effect {
	LOG_FEATURE_SUPPORTED = 1 << 0,
	LOG_FEATURE_CHANGES_NS = 1 << 2,   /* NCC */
	LOG_FEATURE_CHANGES_CTRL = 1 << 4, /* CCC */
	LOG_FEATURE_OF_NS = 1 << 20,       /* scope */
	LOG_FEATURE_OF_CTRL = 1 << 21,
};
void log_feature_effect_add(uint8_t feature_id, uint32_t effects,
			    uint8_t page[LOG_FEATURE_EFFECTS_BYTES]);

/* ANA: a header, then one descriptor per group, each followed by its NSIDs. */
enum ana_state {
	ANA_OPTIMIZED = 0x1,
	ANA_NON_OPTIMIZED = 0x2,
	ANA_INACCESSIBLE = 0x3,
	ANA_PERSISTENT_LOSS = 0x4,
	ANA_CHANGE = 0xf,
};
/* "optimized", "non-optimized", "inaccessible", "persistent-loss", "change", indexed by state; NULL
 * for values that are not a state. */
#define ANA_STATE_NAMES (ANA_CHANGE + 1)
extern const char *const ana_state_names[ANA_STATE_NAMES];
/* "unknown" for values that are not a state. */
const char *ana_state_name(enum ana_state state);
#define LOG_ANA_HEADER_BYTES 16
#define LOG_ANA_GROUP_BYTES  32
#define LOG_ANA_RGO          0x1 /* LSP bit: groups only, no NSIDs */
void log_ana_header_encode(uint64_t change_count, uint16_t group_count,
			   uint8_t bytes[LOG_ANA_HEADER_BYTES]);
void log_ana_group_encode(uint32_t group_id, uint32_t nsid_count, uint64_t change_count,
			  enum ana_state state, uint8_t bytes[LOG_ANA_GROUP_BYTES]);
void log_ana_header_decode(const uint8_t bytes[LOG_ANA_HEADER_BYTES], uint64_t *ret_change_count,
			   uint16_t *ret_group_count);
/* *ret_state is as received: its value may not be in the enum. */
void log_ana_group_decode(const uint8_t bytes[LOG_ANA_GROUP_BYTES], uint32_t *ret_group_id,
			  uint32_t *ret_nsid_count, enum ana_state *ret_state);

/* Discovery: a header, then fixed-size entries. Base 2.1, section 5.1.12.3.1. */
#define LOG_DISCOVERY_HEADER_BYTES 1024
#define LOG_DISCOVERY_ENTRY_BYTES  1024
enum discovery_subtype {
	DISCOVERY_REFERRAL = 1,
	DISCOVERY_NVM = 2,
	DISCOVERY_CURRENT = 3,
};
enum discovery_transport {
	DISCOVERY_RDMA = 1,
	DISCOVERY_TCP = 3,
};
enum discovery_address_family {
	DISCOVERY_IPV4 = 1,
	DISCOVERY_IPV6 = 2,
};
struct discovery_header {
	uint64_t generation;
	uint64_t entry_count;
	uint16_t record_format;
};
struct discovery_entry {
	enum discovery_transport transport;
	enum discovery_address_family family;
	enum discovery_subtype subtype;
	uint8_t secure_channel; /* TREQ 1:0: 0 not specified, 1 required, 2 not required */
	bool can_disable_sq_flow_control; /* TREQ bit 2 */
	uint16_t port_id;
	uint16_t cntlid; /* 0xffff: dynamic */
	uint16_t admin_queue_size;
	uint16_t flags; /* EFLAGS: 1 DUPRETINFO, 2 EPCSD */
	char service[33];
	char subsystem_nqn[NVME_NQN_BYTES];
	char address[257];
	uint8_t tcp_security; /* TSAS SECTYPE */
};
void log_discovery_header_encode(const struct discovery_header *header,
				 uint8_t bytes[LOG_DISCOVERY_HEADER_BYTES]);
void log_discovery_header_decode(const uint8_t bytes[LOG_DISCOVERY_HEADER_BYTES],
				 struct discovery_header *ret_header);
void log_discovery_entry_encode(const struct discovery_entry *entry,
				uint8_t bytes[LOG_DISCOVERY_ENTRY_BYTES]);
void log_discovery_entry_decode(const uint8_t bytes[LOG_DISCOVERY_ENTRY_BYTES],
				struct discovery_entry *ret_entry);

#endif
