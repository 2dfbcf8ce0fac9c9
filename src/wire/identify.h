/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identify data structures as plain values. NVMe Base 2.1, section 5.1.13; NVM Command Set 1.1,
 * section 4.1.5. Every page is NVME_PAGE_BYTES; encoders write the whole page.
 */
#ifndef WEFT_WIRE_IDENTIFY_H
#define WEFT_WIRE_IDENTIFY_H

#include "base/uuid.h"
#include "wire/nvme.h"

#include <stdbool.h>

enum identify_cns {
	IDENTIFY_NS = 0x00,
	IDENTIFY_CTRL = 0x01,
	IDENTIFY_NS_LIST = 0x02,
	IDENTIFY_NS_DESCRIPTORS = 0x03,
	IDENTIFY_CSI_NS = 0x05,
	IDENTIFY_CSI_CTRL = 0x06,
	IDENTIFY_CSI_NS_LIST = 0x07,
	IDENTIFY_CSI_INDEPENDENT_NS = 0x08,
	IDENTIFY_ALLOCATED_NS_LIST = 0x10,
	IDENTIFY_ALLOCATED_NS = 0x11,
	IDENTIFY_NS_CTRL_LIST = 0x12, /* controllers to which a namespace is attached */
	IDENTIFY_CTRL_LIST = 0x13,
	IDENTIFY_NS_GRANULARITY = 0x16,
	IDENTIFY_UUID_LIST = 0x17,
	IDENTIFY_COMMAND_SETS = 0x1c,
};

enum nvme_csi {
	NVME_CSI_NVM = 0x00,
	NVME_CSI_KV = 0x01,
	NVME_CSI_ZNS = 0x02,
	NVME_CSI_SLM = 0x03,
	NVME_CSI_CP = 0x04,
	NVME_CSI_MAX = NVME_CSI_CP, /* larger values are reserved */
};

struct identify_cmd {
	uint8_t cns;
	uint16_t cntid;
	uint8_t csi;
	uint16_t cns_specific_id;
	uint8_t uuid_index;
};

void identify_cmd_decode(const struct nvme_sqe *sqe, struct identify_cmd *ret_cmd);
void identify_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct identify_cmd *cmd);

#define IDENTIFY_INSTANCE_BYTES 16
#define IDENTIFY_BOOT_BYTES     16

enum ctrl_type {
	CTRL_TYPE_IO = 1,
	CTRL_TYPE_DISCOVERY = 2,
};

/* What a controller reports about itself. A `has_` member is an optional feature; the comments name
 * the field of Identify Controller. */
struct ctrl_identity {
	char serial[NVME_SERIAL_BYTES + 1];
	char model[NVME_MODEL_BYTES + 1];
	char firmware[NVME_FIRMWARE_BYTES + 1];
	char subsystem_nqn[NVME_NQN_BYTES];
	enum ctrl_type type;
	uint16_t cntlid;
	uint32_t version;
	uint32_t transfer_max_bytes; /* MDTS; 0: no limit; a power of two of 4 KiB pages */
	bool has_multiple_ports;     /* CMIC bits: several ports, several controllers, ANA */
	bool has_multiple_ctrls;
	bool has_ana;
	bool has_event_ns_attribute; /* OAES */
	bool has_event_ana_change;
	bool has_event_discovery_change;
	bool has_event_shutdown;      /* normal NVM subsystem shutdown */
	bool has_host_id_extended;    /* CTRATT bit 0 */
	bool has_traffic_keep_alive;  /* CTRATT bit 6: TBKAS */
	uint32_t abort_limit;         /* 1-based */
	uint32_t async_event_limit;   /* 1-based */
	bool has_log_effects;         /* LPA bit 1 */
	bool has_log_offsets;         /* LPA bit 2: extended data */
	bool has_log_supported;       /* LPA bit 5: 00h, 12h and 13h, scopes in 05h */
	uint32_t event_log_max_bytes; /* LPA bit 4 and PELS; 0: no persistent event log */
	bool has_uuid_list;           /* CTRATT bit 9 */
	bool has_ns_granularity;      /* CTRATT bit 7 */
	bool has_format;              /* OACS */
	bool has_ns_management;
	uint64_t capacity_bytes;         /* TNVMCAP; the field has 128 bits */
	uint64_t capacity_unused_bytes;  /* UNVMCAP */
	uint32_t error_log_entries;      /* 1-based */
	uint32_t keep_alive_step_ms;     /* KAS, rounded to 100 ms */
	uint32_t queue_entries_max;      /* MAXCMD */
	uint32_t namespace_id_max;       /* NN */
	uint32_t namespaces_allowed_max; /* MNAN */
	bool has_compare;                /* ONCS */
	bool has_write_uncorrectable;
	bool has_dataset_management;
	bool has_write_zeroes;
	bool has_feature_select; /* Save in Set Features, Select in Get Features */
	bool has_reservations;
	bool has_timestamp; /* feature 0Eh */
	bool has_verify;
	bool has_copy;
	uint16_t copy_formats;   /* OCFS: a bit for each descriptor format */
	bool has_fused_compare;  /* FUSES */
	bool has_volatile_cache; /* VWC present */
	/* VWC: Flush with NSID FFFFFFFFh; reported only by I/O controllers */
	bool has_flush_all;
	bool has_write_protect; /* NWPC: all three kinds */
	/* AWUN, 1-based, for every format; 0 is encoded like 1 */
	uint32_t atomic_write_blocks;
	uint32_t atomic_power_fail_blocks;    /* AWUPF */
	uint32_t atomic_compare_write_blocks; /* ACWU */
	/* Rapid Path Failure Recovery: identifies this instance of the controller among all that
	 * had its CNTLID, and the number of Cross-Controller Resets that it runs at a time (0:
	 * none). */
	uint8_t uniquifier;        /* CIU */
	uint64_t random_number;    /* CIRN */
	uint32_t reset_limit;      /* CCRL */
	uint32_t quiesce_ms;       /* CQT; 0: not reported */
	bool has_event_ctrl_reset; /* OAES bits 20 and 21 */
	bool has_event_lost_host;
	uint32_t retry_delays_ms[3]; /* CRDT1 to 3, in units of 100 ms on the wire; for CRD */
	uint32_t ana_transition_s;   /* ANATT */
	uint32_t ana_group_max;      /* ANAGRPMAX */
	uint32_t ana_group_count;    /* NANAGRPID */
	uint32_t in_capsule_bytes;   /* I/O queues: IOCCSZ = (64 + this) / 16 */
	uint32_t warn_temperature_k;
	uint32_t critical_temperature_k;
	/* Vendor specific, of weft's target: identifies the process, and reports whether other
	 * processes also serve namespaces of the subsystem. All zero: not reported. */
	uint8_t instance[IDENTIFY_INSTANCE_BYTES];
	bool is_clustered;
	/* Vendor specific: changes when acknowledged writes that were not flushed may be lost. Only
	 * of controllers that report an instance. */
	uint8_t boot[IDENTIFY_BOOT_BYTES];
};

void identify_ctrl_encode(const struct ctrl_identity *identity, uint8_t page[NVME_PAGE_BYTES]);
/* 0, or -EPROTO when a field is invalid (SQES, CQES, IOCCSZ below 4, ...). */
int identify_ctrl_decode(const uint8_t page[NVME_PAGE_BYTES], struct ctrl_identity *ret_identity);

struct ns_identity {
	uint64_t block_count;          /* NSZE = NCAP */
	uint64_t blocks_used;          /* NUSE */
	uint32_t block_bytes;          /* 512 or 4096 */
	bool is_thin;                  /* NSFEAT bit 0 */
	bool is_shared;                /* NMIC bit 0 */
	bool is_write_protected;       /* NSATTR bit 0 */
	bool reads_zero_after_dealloc; /* DLFEAT */
	bool has_write_zeroes_dealloc;
	uint32_t ana_group_id;
	bool is_not_ready;        /* NSTAT of CNS 08h: being formatted */
	uint8_t reservation_caps; /* RESCAP */
	uint64_t capacity_bytes;  /* NVMCAP */
	/* NOWS, NPWG with NPWA, NPDG with NPDA; all 0: not reported. */
	uint32_t optimal_write_blocks;
	uint32_t write_granularity_blocks;
	uint32_t deallocate_granularity_blocks;
	uint32_t boundary_blocks;             /* NOIOB; 0: none */
	uint32_t atomic_write_blocks;         /* NAWUN; 0: use the controller's for all three */
	uint32_t atomic_power_fail_blocks;    /* NAWUPF */
	uint32_t atomic_compare_write_blocks; /* NACWU */
	uint32_t copy_range_blocks_max;       /* MSSRL; 0: no Copy */
	uint32_t copy_blocks_max;             /* MCL */
	uint32_t copy_ranges_max;             /* MSRC, 1-based */
	struct uuid uuid;
	uint8_t nguid[16];
	uint8_t eui64[8]; /* only of other targets; weft has none */
	/* Vendor specific: the mark changes when acknowledged writes to this namespace that were
	 * not flushed may be lost, although the controller's boot is unchanged. Only marks of the
	 * same source can be compared. A source is one target process with its state. Source 0: not
	 * reported. */
	uint64_t loss_source;
	uint64_t loss_mark;
};

void identify_ns_encode(const struct ns_identity *identity, uint8_t page[NVME_PAGE_BYTES]);
/* 0; -EPROTO when a field is invalid, as in the empty page of an inactive namespace; -EOPNOTSUPP
 * for a format with metadata. Leaves uuid nil, because the UUID is in CNS 03h. */
int identify_ns_decode(const uint8_t page[NVME_PAGE_BYTES], struct ns_identity *ret_identity);
/* CNS 08h: I/O command set independent. */
void identify_ns_independent_encode(const struct ns_identity *identity,
				    uint8_t page[NVME_PAGE_BYTES]);
/* CNS 03h: descriptors for UUID, NGUID and EUI64 (those that are not zero) and for the CSI. */
void identify_ns_descriptors_encode(const struct ns_identity *identity,
				    uint8_t page[NVME_PAGE_BYTES]);
/* Fills uuid, nguid and eui64 only. -EPROTO when malformed, -EOPNOTSUPP for another command set. */
int identify_ns_descriptors_decode(const uint8_t page[NVME_PAGE_BYTES],
				   struct ns_identity *ret_identity);
/* CNS 05h and 06h for the NVM command set. CNS 06h has limits in bytes (0: none). */
void identify_nvm_ns_encode(uint8_t page[NVME_PAGE_BYTES]);

struct nvm_ctrl_limits {
	uint32_t verify_max_bytes;        /* VSL, as MDTS; 0: none */
	uint32_t write_zeroes_max_bytes;  /* WZSL */
	uint32_t uncorrectable_max_bytes; /* WUSL */
	uint32_t dsm_ranges_max;          /* DMRL; 0: none */
	uint64_t dsm_blocks_max;          /* DMSL */
	uint32_t dsm_range_blocks_max;    /* DMRSL */
	bool reports_allocated;           /* AOCS bit 0: Get LBA Status supports ATYPE 02h */
	uint32_t version;                 /* VER, of the NVM Command Set Specification */
};

void identify_nvm_ctrl_encode(const struct nvm_ctrl_limits *limits, uint8_t page[NVME_PAGE_BYTES]);
void identify_nvm_ctrl_decode(const uint8_t page[NVME_PAGE_BYTES],
			      struct nvm_ctrl_limits *ret_limits);
/* CNS 02h, 07h: up to 1,024 identifiers in ascending order. */
void identify_ns_list_encode(const uint32_t *nsids, uint32_t count, uint8_t page[NVME_PAGE_BYTES]);
/* Returns the number of identifiers. */
uint32_t identify_ns_list_decode(const uint8_t page[NVME_PAGE_BYTES], uint32_t nsids[1024]);
/* CNS 12h, 13h: up to IDENTIFY_CTRL_LIST_MAX identifiers in ascending order. */
#define IDENTIFY_CTRL_LIST_MAX 2047
void identify_ctrl_list_encode(const uint16_t *cntlids, uint32_t count,
			       uint8_t page[NVME_PAGE_BYTES]);
/* Returns the number of identifiers; at most as many as fit into the page. */
uint32_t identify_ctrl_list_decode(const uint8_t page[NVME_PAGE_BYTES],
				   uint16_t cntlids[IDENTIFY_CTRL_LIST_MAX]);
/* CNS 16h: one granularity in bytes, for sizes and capacities in any format. */
void identify_ns_granularity_encode(uint64_t granularity_bytes, uint8_t page[NVME_PAGE_BYTES]);
/* CNS 1Ch: one combination, the NVM command set. */
void identify_command_sets_encode(uint8_t page[NVME_PAGE_BYTES]);

#endif
