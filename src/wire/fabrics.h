/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fabrics commands and controller properties as plain values. NVMe Base 2.1, sections 3.1.4
 * (properties) and 6 (Fabrics command set).
 */
#ifndef WEFT_WIRE_FABRICS_H
#define WEFT_WIRE_FABRICS_H

#include "base/uuid.h"
#include "wire/nvme.h"

#include <stdbool.h>

#define NVMF_CONNECT_DATA_BYTES 1024

struct connect_args {
	uint16_t record_format;
	uint16_t qid;
	uint32_t queue_size; /* entries, 1-based: SQSIZE + 1 */
	uint32_t kato_ms;
	bool wants_no_sq_flow_control; /* CATTR bit 2 */
	struct uuid host_id;
	uint16_t cntlid;
	char subsystem_nqn[NVME_NQN_BYTES];
	char host_nqn[NVME_NQN_BYTES];
};

/* Why a Connect fails: the status and the offending field (Connect response DW0: IPO in 15:0, IATTR
 * in bit 16). */
struct connect_reject {
	nvme_status status;
	uint16_t parameter_offset;
	bool is_in_data; /* true: offset in the Connect data; false: in the SQE */
};

/* Byte offsets that a reject may name. */
enum connect_offset {
	CONNECT_SQE_RECFMT = 40,
	CONNECT_SQE_QID = 42,
	CONNECT_SQE_SQSIZE = 44,
	CONNECT_SQE_CATTR = 46,
	CONNECT_SQE_KATO = 48,
	CONNECT_DATA_HOSTID = 0,
	CONNECT_DATA_CNTLID = 16,
	CONNECT_DATA_SUBNQN = 256,
	CONNECT_DATA_HOSTNQN = 512,
};

/*
 * Checks what can be checked from the bytes alone: record format, SQSIZE not 0, data length, names
 * terminated within 224 bytes and well formed. ret_reject->status is success when all checks pass.
 */
void connect_decode(const struct nvme_sqe *sqe, const uint8_t *data, size_t data_bytes,
		    struct connect_args *ret_args, struct connect_reject *ret_reject);
void connect_encode(struct nvme_sqe *sqe, uint8_t data[NVMF_CONNECT_DATA_BYTES],
		    const struct connect_args *args);
uint32_t connect_reject_dw0(const struct connect_reject *reject);
struct connect_reject connect_reject_from(nvme_status status, uint32_t dw0);
void disconnect_encode(struct nvme_sqe *sqe);
/* Disconnect: record format must be 0. */
nvme_status disconnect_decode(const struct nvme_sqe *sqe);

static inline uint8_t fabrics_type(const struct nvme_sqe *sqe)
{
	return sqe->nsid.bytes[0];
}

/* ---- properties ---------------------------------------------------------------------------- */

enum property_offset {
	PROPERTY_CAP = 0x00,
	PROPERTY_VS = 0x08,
	PROPERTY_CC = 0x14,
	PROPERTY_CSTS = 0x1c,
	PROPERTY_NSSR = 0x20,
	PROPERTY_CRTO = 0x68,
};

struct property_cmd {
	uint32_t offset;
	bool is_8_bytes;
	uint64_t value; /* Set only */
};

/* Fails with Invalid Field when ATTRIB names neither 4 nor 8 bytes. */
nvme_status property_decode(const struct nvme_sqe *sqe, struct property_cmd *ret_cmd);
void property_get_encode(struct nvme_sqe *sqe, uint32_t offset, bool is_8_bytes);
void property_set_encode(struct nvme_sqe *sqe, uint32_t offset, uint64_t value, bool is_8_bytes);

struct ctrl_capabilities {
	uint32_t queue_size_max;       /* entries, 1-based: MQES + 1 */
	uint32_t ready_timeout_ms;     /* CAP.TO and CRTO.CRWMT, 500 ms steps */
	bool has_ready_with_media;     /* CAP.CRMS.CRWMS: CRTO has the time-out for enabling */
	bool supports_nvm;             /* CAP.CSS bit 0 */
	bool supports_io_command_sets; /* CAP.CSS bit 6 */
};

uint64_t cap_encode(const struct ctrl_capabilities *cap);
void cap_decode(uint64_t value, struct ctrl_capabilities *ret_cap);
/* CRTO. weft only becomes ready with media, so CRIMT is 0. */
uint32_t crto_encode(const struct ctrl_capabilities *cap);

/* CC: the configuration that the host requests of a controller. */
struct ctrl_config {
	bool is_enabled;
	uint8_t command_set;    /* CSS */
	uint8_t page_shift;     /* MPS, decoded: 12 or more */
	uint8_t arbitration;    /* AMS */
	uint8_t shutdown;       /* SHN: 0 none, 1 normal, 2 abrupt */
	uint8_t sq_entry_shift; /* IOSQES: 6 for the NVM command set */
	uint8_t cq_entry_shift; /* IOCQES: 4 */
};

struct ctrl_config cc_decode(uint32_t value);
uint32_t cc_encode(const struct ctrl_config *config);

enum csts_bits {
	CSTS_RDY = 1u << 0,
	CSTS_CFS = 1u << 1,
	CSTS_SHST_OCCURRING = 1u << 2,
	CSTS_SHST_COMPLETE = 2u << 2,
};

/* The newest specifications of which weft offers features: Base 2.3 has Cross-Controller Reset. */
#define NVME_VERSION_BASE 0x00020300u
#define NVME_VERSION_NVM  0x00010200u

#endif
