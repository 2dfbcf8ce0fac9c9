/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Identify command, Identify Controller (CNS 01h) and what else Identify says of controllers:
 * the NVM command set's limits (CNS 06h) and the command set combinations (CNS 1Ch). Pure; any
 * thread. NVMe Base 2.1, section 5.1.13.2.1; NVM Command Set 1.1, section 4.1.5.2.
 *
 * Sizes that the wire gives as powers of two of a page assume CAP.MPSMIN = 4 KiB, which is what
 * cap_encode says and what fabrics controllers report.
 */
#include "wire/field.h"
#include "wire/identify.h"
#include "wire/nqn.h"

#include <errno.h>

enum id_ctrl_offset {
	ID_CTRL_SN = 4,
	ID_CTRL_MN = 24,
	ID_CTRL_FR = 64,
	ID_CTRL_CMIC = 76,
	ID_CTRL_MDTS = 77,
	ID_CTRL_CNTLID = 78,
	ID_CTRL_VER = 80,
	ID_CTRL_OAES = 92,
	ID_CTRL_CTRATT = 96,
	ID_CTRL_CNTRLTYPE = 111,
	ID_CTRL_ACL = 258,
	ID_CTRL_AERL = 259,
	ID_CTRL_FRMW = 260,
	ID_CTRL_LPA = 261,
	ID_CTRL_ELPE = 262,
	ID_CTRL_WCTEMP = 266,
	ID_CTRL_CCTEMP = 268,
	ID_CTRL_KAS = 320,
	ID_CTRL_ANATT = 342,
	ID_CTRL_ANACAP = 343,
	ID_CTRL_ANAGRPMAX = 344,
	ID_CTRL_NANAGRPID = 348,
	ID_CTRL_SQES = 512,
	ID_CTRL_CQES = 513,
	ID_CTRL_MAXCMD = 514,
	ID_CTRL_NN = 516,
	ID_CTRL_ONCS = 520,
	ID_CTRL_VWC = 525,
	ID_CTRL_SGLS = 536,
	ID_CTRL_MNAN = 540,
	ID_CTRL_SUBNQN = 768,
	ID_CTRL_IOCCSZ = 1792,
	ID_CTRL_IORCSZ = 1796,
	ID_CTRL_ICDOFF = 1800,
	ID_CTRL_MSDBD = 1803,
	ID_CTRL_OFCS = 1804,
};

#define CMIC_PORTS                (1u << 0)
#define CMIC_CTRLS                (1u << 1)
#define CMIC_ANA                  (1u << 3)
#define OAES_NS_ATTRIBUTE         (1u << 8)
#define OAES_ANA_CHANGE           (1u << 11)
#define OAES_SHUTDOWN             (1u << 15)
#define OAES_DISCOVERY_CHANGE     (1u << 31)
#define CTRATT_HOST_ID_EXTENDED   (1u << 0)
#define CTRATT_TRAFFIC_KEEP_ALIVE (1u << 6)
#define FRMW_ONE_READ_ONLY_SLOT   0x03
#define LPA_EFFECTS               (1u << 1)
#define LPA_EXTENDED              (1u << 2)
#define ANACAP_ALL_STATES         0x1f
#define SQES_64                   0x66 /* maximum and required: 2^6 */
#define CQES_16                   0x44
#define ONCS_COMPARE              (1u << 0)
#define ONCS_DATASET_MANAGEMENT   (1u << 2)
#define ONCS_WRITE_ZEROES         (1u << 3)
#define ONCS_TIMESTAMP            (1u << 6)
#define VWC_PRESENT               (1u << 0)
#define VWC_NO_FLUSH_ALL          (2u << 1) /* Flush with NSID FFFFFFFFh is refused */
#define SGLS_SUPPORTED            (1u << 0)
#define SGLS_OFFSET               (1u << 20)
#define SGLS_TRANSPORT            (1u << 21)
#define OFCS_DISCONNECT           (1u << 0)

#define CAPSULE_UNIT_BYTES 16
#define KAS_STEP_MS        100

void identify_cmd_decode(const struct nvme_sqe *sqe, struct identify_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10), cdw11 = le32_get(sqe->cdw11);

	*ret_cmd = (struct identify_cmd){
		.cns = (uint8_t)cdw10,
		.cntid = (uint16_t)(cdw10 >> 16),
		.csi = (uint8_t)(cdw11 >> 24),
		.cns_specific_id = (uint16_t)cdw11,
		.uuid_index = (uint8_t)(le32_get(sqe->cdw14) & 0x7f),
	};
}

void identify_cmd_encode(struct nvme_sqe *sqe, uint32_t nsid, const struct identify_cmd *cmd)
{
	sqe->opcode = NVME_ADMIN_IDENTIFY;
	sqe->nsid = le32_of(nsid);
	sqe->cdw10 = le32_of(cmd->cns | (uint32_t)cmd->cntid << 16);
	sqe->cdw11 = le32_of(cmd->cns_specific_id | (uint32_t)cmd->csi << 24);
	sqe->cdw14 = le32_of(cmd->uuid_index & 0x7f);
}

/*
 * MDTS and its like: the power of two of pages that does not exceed `bytes`. 0 on the wire means
 * no limit, so that one page, which is 2^0, cannot be said; the smallest limit is two pages.
 */
static uint8_t page_shift_encode(uint32_t bytes)
{
	uint8_t shift = 1;

	if (bytes == 0)
		return 0;
	while (shift < 19 && (uint64_t)NVME_PAGE_BYTES << (shift + 1) <= bytes)
		shift++;
	return shift;
}

/* A limit that 32 bits of bytes cannot hold is no limit. */
static uint32_t page_shift_decode(uint8_t shift)
{
	return shift == 0 || shift > 19 ? 0 : (uint32_t)NVME_PAGE_BYTES << shift;
}

/* Zero-based byte; both a count of 0 and of 1 are said as 0. */
static uint8_t zero_based8(uint32_t count)
{
	if (count > 256)
		return 255;
	return count == 0 ? 0 : (uint8_t)(count - 1);
}

static uint16_t saturate16(uint32_t value)
{
	return value > 0xffff ? 0xffff : (uint16_t)value;
}

static uint16_t keep_alive_steps(uint32_t step_ms)
{
	uint32_t steps = step_ms / KAS_STEP_MS + (step_ms % KAS_STEP_MS >= KAS_STEP_MS / 2);

	return steps == 0 && step_ms != 0 ? 1 : saturate16(steps);
}

static void encode_capabilities(const struct ctrl_identity *identity, uint8_t *page)
{
	uint32_t cmic = (identity->has_multiple_ports ? CMIC_PORTS : 0) |
			(identity->has_multiple_ctrls ? CMIC_CTRLS : 0) |
			(identity->has_ana ? CMIC_ANA : 0);
	uint32_t oaes = (identity->has_event_ns_attribute ? OAES_NS_ATTRIBUTE : 0) |
			(identity->has_event_ana_change ? OAES_ANA_CHANGE : 0) |
			(identity->has_event_shutdown ? OAES_SHUTDOWN : 0) |
			(identity->has_event_discovery_change ? OAES_DISCOVERY_CHANGE : 0);
	uint32_t ctratt = (identity->has_host_id_extended ? CTRATT_HOST_ID_EXTENDED : 0) |
			  (identity->has_traffic_keep_alive ? CTRATT_TRAFFIC_KEEP_ALIVE : 0);
	uint32_t lpa = (identity->has_log_effects ? LPA_EFFECTS : 0) |
		       (identity->has_log_offsets ? LPA_EXTENDED : 0);

	page[ID_CTRL_CMIC] = (uint8_t)cmic;
	page[ID_CTRL_MDTS] = page_shift_encode(identity->transfer_max_bytes);
	field_put16(page, ID_CTRL_CNTLID, identity->cntlid);
	field_put32(page, ID_CTRL_VER, identity->version);
	field_put32(page, ID_CTRL_OAES, oaes);
	field_put32(page, ID_CTRL_CTRATT, ctratt);
	page[ID_CTRL_CNTRLTYPE] = (uint8_t)identity->type;
	page[ID_CTRL_ACL] = zero_based8(identity->abort_limit);
	page[ID_CTRL_AERL] = zero_based8(identity->async_event_limit);
	page[ID_CTRL_FRMW] = FRMW_ONE_READ_ONLY_SLOT;
	page[ID_CTRL_LPA] = (uint8_t)lpa;
	page[ID_CTRL_ELPE] = zero_based8(identity->error_log_entries);
	field_put16(page, ID_CTRL_WCTEMP, saturate16(identity->warn_temperature_k));
	field_put16(page, ID_CTRL_CCTEMP, saturate16(identity->critical_temperature_k));
	field_put16(page, ID_CTRL_KAS, keep_alive_steps(identity->keep_alive_step_ms));
	field_put16(page, ID_CTRL_MAXCMD, saturate16(identity->queue_entries_max));
	field_put32(page, ID_CTRL_SGLS,
		    SGLS_SUPPORTED | SGLS_TRANSPORT |
			    (identity->in_capsule_bytes != 0 ? SGLS_OFFSET : 0));
}

/* Fields that the specification reserves for discovery controllers. */
static void encode_io_fields(const struct ctrl_identity *identity, uint8_t *page)
{
	uint32_t oncs = (identity->has_compare ? ONCS_COMPARE : 0) |
			(identity->has_dataset_management ? ONCS_DATASET_MANAGEMENT : 0) |
			(identity->has_write_zeroes ? ONCS_WRITE_ZEROES : 0) |
			(identity->has_timestamp ? ONCS_TIMESTAMP : 0);

	if (identity->has_ana) {
		page[ID_CTRL_ANATT] = identity->ana_transition_s > 255
					      ? 255
					      : (uint8_t)identity->ana_transition_s;
		page[ID_CTRL_ANACAP] = ANACAP_ALL_STATES;
		field_put32(page, ID_CTRL_ANAGRPMAX, identity->ana_group_max);
		field_put32(page, ID_CTRL_NANAGRPID, identity->ana_group_count);
	}
	page[ID_CTRL_SQES] = SQES_64;
	page[ID_CTRL_CQES] = CQES_16;
	field_put32(page, ID_CTRL_NN, identity->namespace_id_max);
	field_put16(page, ID_CTRL_ONCS, (uint16_t)oncs);
	page[ID_CTRL_VWC] =
		(uint8_t)(VWC_NO_FLUSH_ALL | (identity->has_volatile_cache ? VWC_PRESENT : 0));
	field_put32(page, ID_CTRL_MNAN, identity->namespaces_allowed_max);
	field_put32(page, ID_CTRL_IOCCSZ,
		    (uint32_t)(sizeof(struct nvme_sqe) / CAPSULE_UNIT_BYTES) +
			    identity->in_capsule_bytes / CAPSULE_UNIT_BYTES);
	field_put32(page, ID_CTRL_IORCSZ, sizeof(struct nvme_cqe) / CAPSULE_UNIT_BYTES);
	page[ID_CTRL_MSDBD] = 1;
	field_put16(page, ID_CTRL_OFCS, OFCS_DISCONNECT);
}

void identify_ctrl_encode(const struct ctrl_identity *identity, uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	field_put_text(page, ID_CTRL_SN, NVME_SERIAL_BYTES, identity->serial);
	field_put_text(page, ID_CTRL_MN, NVME_MODEL_BYTES, identity->model);
	field_put_text(page, ID_CTRL_FR, NVME_FIRMWARE_BYTES, identity->firmware);
	encode_capabilities(identity, page);
	if (identity->type == CTRL_TYPE_IO)
		encode_io_fields(identity, page);
	memcpy(page + ID_CTRL_SUBNQN, identity->subsystem_nqn,
	       strnlen(identity->subsystem_nqn, NVME_NQN_BYTES - 1));
}

static void decode_capabilities(const uint8_t *page, struct ctrl_identity *ret_identity)
{
	uint8_t cmic = page[ID_CTRL_CMIC], lpa = page[ID_CTRL_LPA];
	uint32_t oaes = field_get32(page, ID_CTRL_OAES);
	uint32_t ctratt = field_get32(page, ID_CTRL_CTRATT);

	ret_identity->cntlid = field_get16(page, ID_CTRL_CNTLID);
	ret_identity->version = field_get32(page, ID_CTRL_VER);
	ret_identity->transfer_max_bytes = page_shift_decode(page[ID_CTRL_MDTS]);
	ret_identity->has_multiple_ports = (cmic & CMIC_PORTS) != 0;
	ret_identity->has_multiple_ctrls = (cmic & CMIC_CTRLS) != 0;
	ret_identity->has_ana = (cmic & CMIC_ANA) != 0;
	ret_identity->has_event_ns_attribute = (oaes & OAES_NS_ATTRIBUTE) != 0;
	ret_identity->has_event_ana_change = (oaes & OAES_ANA_CHANGE) != 0;
	ret_identity->has_event_shutdown = (oaes & OAES_SHUTDOWN) != 0;
	ret_identity->has_event_discovery_change = (oaes & OAES_DISCOVERY_CHANGE) != 0;
	ret_identity->has_host_id_extended = (ctratt & CTRATT_HOST_ID_EXTENDED) != 0;
	ret_identity->has_traffic_keep_alive = (ctratt & CTRATT_TRAFFIC_KEEP_ALIVE) != 0;
	ret_identity->abort_limit = page[ID_CTRL_ACL] + 1u;
	ret_identity->async_event_limit = page[ID_CTRL_AERL] + 1u;
	ret_identity->has_log_effects = (lpa & LPA_EFFECTS) != 0;
	ret_identity->has_log_offsets = (lpa & LPA_EXTENDED) != 0;
	ret_identity->error_log_entries = page[ID_CTRL_ELPE] + 1u;
	ret_identity->warn_temperature_k = field_get16(page, ID_CTRL_WCTEMP);
	ret_identity->critical_temperature_k = field_get16(page, ID_CTRL_CCTEMP);
	ret_identity->keep_alive_step_ms = field_get16(page, ID_CTRL_KAS) * KAS_STEP_MS;
	ret_identity->queue_entries_max = field_get16(page, ID_CTRL_MAXCMD);
}

/* Entry sizes are "required" in 3:0 and "maximum" in 7:4; ours must lie between. */
static bool entry_size_fits(uint8_t field, uint8_t shift)
{
	return (field & 0xf) <= shift && field >> 4 >= shift;
}

static int decode_io_fields(const uint8_t *page, struct ctrl_identity *ret_identity)
{
	uint16_t oncs = field_get16(page, ID_CTRL_ONCS);
	uint32_t ioccsz = field_get32(page, ID_CTRL_IOCCSZ);
	const uint32_t sqe_units = sizeof(struct nvme_sqe) / CAPSULE_UNIT_BYTES;

	if (!entry_size_fits(page[ID_CTRL_SQES], 6) || !entry_size_fits(page[ID_CTRL_CQES], 4))
		return -EPROTO;
	if (ioccsz < sqe_units || ioccsz > UINT32_MAX / CAPSULE_UNIT_BYTES)
		return -EPROTO;
	if (field_get32(page, ID_CTRL_IORCSZ) == 0 || field_get16(page, ID_CTRL_ICDOFF) != 0)
		return -EPROTO;
	if ((field_get32(page, ID_CTRL_SGLS) & 3) == 0)
		return -EPROTO;
	ret_identity->in_capsule_bytes = (ioccsz - sqe_units) * CAPSULE_UNIT_BYTES;
	ret_identity->namespace_id_max = field_get32(page, ID_CTRL_NN);
	ret_identity->namespaces_allowed_max = field_get32(page, ID_CTRL_MNAN);
	ret_identity->has_compare = (oncs & ONCS_COMPARE) != 0;
	ret_identity->has_dataset_management = (oncs & ONCS_DATASET_MANAGEMENT) != 0;
	ret_identity->has_write_zeroes = (oncs & ONCS_WRITE_ZEROES) != 0;
	ret_identity->has_timestamp = (oncs & ONCS_TIMESTAMP) != 0;
	ret_identity->has_volatile_cache = (page[ID_CTRL_VWC] & VWC_PRESENT) != 0;
	if (ret_identity->has_ana) {
		ret_identity->ana_transition_s = page[ID_CTRL_ANATT];
		ret_identity->ana_group_max = field_get32(page, ID_CTRL_ANAGRPMAX);
		ret_identity->ana_group_count = field_get32(page, ID_CTRL_NANAGRPID);
	}
	return 0;
}

/* Controllers before NVMe 1.4 leave CNTRLTYPE 0; there the name tells. */
static int decode_type(uint8_t field, const char *subsystem_nqn, enum ctrl_type *ret_type)
{
	switch (field) {
	case 0:
		*ret_type = nqn_is_discovery(subsystem_nqn) ? CTRL_TYPE_DISCOVERY : CTRL_TYPE_IO;
		return 0;
	case CTRL_TYPE_IO:
	case CTRL_TYPE_DISCOVERY:
		*ret_type = (enum ctrl_type)field;
		return 0;
	default:
		return -EPROTO;
	}
}

int identify_ctrl_decode(const uint8_t page[NVME_PAGE_BYTES], struct ctrl_identity *ret_identity)
{
	memset(ret_identity, 0, sizeof(*ret_identity));
	field_get_text(page, ID_CTRL_SN, NVME_SERIAL_BYTES, ret_identity->serial,
		       sizeof(ret_identity->serial));
	field_get_text(page, ID_CTRL_MN, NVME_MODEL_BYTES, ret_identity->model,
		       sizeof(ret_identity->model));
	field_get_text(page, ID_CTRL_FR, NVME_FIRMWARE_BYTES, ret_identity->firmware,
		       sizeof(ret_identity->firmware));
	if (strnlen((const char *)page + ID_CTRL_SUBNQN, NVME_NQN_BYTES) == NVME_NQN_BYTES)
		return -EPROTO;
	memcpy(ret_identity->subsystem_nqn, page + ID_CTRL_SUBNQN, NVME_NQN_BYTES);
	if (decode_type(page[ID_CTRL_CNTRLTYPE], ret_identity->subsystem_nqn,
			&ret_identity->type) != 0)
		return -EPROTO;
	decode_capabilities(page, ret_identity);
	return ret_identity->type == CTRL_TYPE_IO ? decode_io_fields(page, ret_identity) : 0;
}

/* ---- command set specific ------------------------------------------------------------------- */

enum id_nvm_ctrl_offset {
	ID_NVM_CTRL_WZSL = 1,
	ID_NVM_CTRL_DMRL = 3,
	ID_NVM_CTRL_DMRSL = 4,
	ID_NVM_CTRL_DMSL = 8,
};

void identify_nvm_ctrl_encode(const struct nvm_ctrl_limits *limits, uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	page[ID_NVM_CTRL_WZSL] = page_shift_encode(limits->write_zeroes_max_bytes);
	/* 256 ranges are all that a command can carry, and do not fit in the field: no limit. */
	page[ID_NVM_CTRL_DMRL] = limits->dsm_ranges_max > 255 ? 0 : (uint8_t)limits->dsm_ranges_max;
	field_put32(page, ID_NVM_CTRL_DMRSL, limits->dsm_range_blocks_max);
	field_put64(page, ID_NVM_CTRL_DMSL, limits->dsm_blocks_max);
}

void identify_command_sets_encode(uint8_t page[NVME_PAGE_BYTES])
{
	memset(page, 0, NVME_PAGE_BYTES);
	field_put64(page, 0, 1ull << NVME_CSI_NVM);
}
