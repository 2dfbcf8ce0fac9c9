/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Identify command and Identify Controller (CNS 01h). Pure; any thread. NVMe Base 2.1, section
 * 5.1.13.2.1; NVM Command Set 1.1, section 4.1.5.2.
 *
 * Sizes encoded as powers of two of a page assume CAP.MPSMIN = 4 KiB, which cap_encode sets and
 * fabrics controllers report.
 */
#include "base/check.h"
#include "wire/field.h"
#include "wire/identify.h"
#include "wire/nqn.h"
#include "wire/page_shift.h"

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
	ID_CTRL_CRDT = 128, /* three delays */
	ID_CTRL_CIU = 135,
	ID_CTRL_CIRN = 136,
	ID_CTRL_OACS = 256,
	ID_CTRL_ACL = 258,
	ID_CTRL_AERL = 259,
	ID_CTRL_FRMW = 260,
	ID_CTRL_LPA = 261,
	ID_CTRL_ELPE = 262,
	ID_CTRL_WCTEMP = 266,
	ID_CTRL_CCTEMP = 268,
	ID_CTRL_TNVMCAP = 280,
	ID_CTRL_UNVMCAP = 296,
	ID_CTRL_KAS = 320,
	ID_CTRL_ANATT = 342,
	ID_CTRL_ANACAP = 343,
	ID_CTRL_ANAGRPMAX = 344,
	ID_CTRL_NANAGRPID = 348,
	ID_CTRL_PELS = 352,
	ID_CTRL_CQT = 386,
	ID_CTRL_SQES = 512,
	ID_CTRL_CQES = 513,
	ID_CTRL_MAXCMD = 514,
	ID_CTRL_NN = 516,
	ID_CTRL_ONCS = 520,
	ID_CTRL_FUSES = 522,
	ID_CTRL_VWC = 525,
	ID_CTRL_AWUN = 526,
	ID_CTRL_AWUPF = 528,
	ID_CTRL_NWPC = 531,
	ID_CTRL_ACWU = 532,
	ID_CTRL_OCFS = 534,
	ID_CTRL_SGLS = 536,
	ID_CTRL_MNAN = 540,
	ID_CTRL_SUBNQN = 768,
	ID_CTRL_IOCCSZ = 1792,
	ID_CTRL_IORCSZ = 1796,
	ID_CTRL_ICDOFF = 1800,
	ID_CTRL_MSDBD = 1803,
	ID_CTRL_OFCS = 1804,
	ID_CTRL_CCRL = 1807,
	/* Vendor specific, 3072 to 4095: weft's own. */
	ID_CTRL_MAGIC = 3072,
	ID_CTRL_INSTANCE = 3080,
	ID_CTRL_INSTANCE_FLAGS = 3096,
	ID_CTRL_BOOT = 3104,
};

#define CMIC_PORTS                (1u << 0)
#define CMIC_CTRLS                (1u << 1)
#define CMIC_ANA                  (1u << 3)
#define OAES_NS_ATTRIBUTE         (1u << 8)
#define OAES_ANA_CHANGE           (1u << 11)
#define OAES_SHUTDOWN             (1u << 15)
#define OAES_CTRL_RESET           (1u << 20)
#define OAES_LOST_HOST            (1u << 21)
#define OAES_DISCOVERY_CHANGE     (1u << 31)
#define CTRATT_HOST_ID_EXTENDED   (1u << 0)
#define CTRATT_TRAFFIC_KEEP_ALIVE (1u << 6)
#define CTRATT_NS_GRANULARITY     (1u << 7)
#define CTRATT_UUID_LIST          (1u << 9)
#define OACS_FORMAT               (1u << 1)
#define OACS_NS_MANAGEMENT        (1u << 3)
#define FRMW_ONE_READ_ONLY_SLOT   0x03
#define LPA_EFFECTS               (1u << 1)
#define LPA_EXTENDED              (1u << 2)
#define LPA_PERSISTENT_EVENT      (1u << 4)
#define LPA_SUPPORTED_PAGES       (1u << 5)
#define ANACAP_ALL_STATES         0x1f
#define ANACAP_GROUP_IN_CREATE    0x80 /* Namespace Management may name a group */
#define SQES_64                   0x66 /* maximum and required: 2^6 */
#define CQES_16                   0x44
#define ONCS_COMPARE              (1u << 0)
#define ONCS_WRITE_UNCORRECTABLE  (1u << 1)
#define ONCS_DATASET_MANAGEMENT   (1u << 2)
#define ONCS_WRITE_ZEROES         (1u << 3)
#define ONCS_FEATURE_SELECT       (1u << 4)
#define ONCS_RESERVATIONS         (1u << 5)
#define ONCS_TIMESTAMP            (1u << 6)
#define ONCS_VERIFY               (1u << 7)
#define ONCS_COPY                 (1u << 8)
#define FUSES_COMPARE_AND_WRITE   (1u << 0)
#define VWC_PRESENT               (1u << 0)
#define VWC_FLUSH_ALL_MASK        (3u << 1)
#define VWC_NO_FLUSH_ALL          (2u << 1) /* Flush with NSID FFFFFFFFh is refused */
#define VWC_FLUSH_ALL             (3u << 1)
#define NWPC_ALL                  0x07 /* write protect, until power cycle, permanent */
#define SGLS_SUPPORTED            (1u << 0)
#define SGLS_OFFSET               (1u << 20)
#define SGLS_TRANSPORT            (1u << 21)
#define OFCS_DISCONNECT           (1u << 0)
#define INSTANCE_MAGIC            "weft-vs1"
#define INSTANCE_MAGIC_BYTES      8
#define INSTANCE_CLUSTERED        (1u << 0)

#define CAPSULE_UNIT_BYTES 16
#define KAS_STEP_MS        100
#define CRDT_STEP_MS       100
#define PELS_UNIT_BYTES    65536

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

/* A zero-based byte; counts 0 and 1 are both encoded as 0. */
static uint8_t zero_based8(uint32_t count)
{
	if (count > 256)
		return 255;
	return count == 0 ? 0 : (uint8_t)(count - 1);
}

static uint16_t zero_based16(uint32_t count)
{
	if (count > 65536)
		return 0xffff;
	return count == 0 ? 0 : (uint16_t)(count - 1);
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
			(identity->has_event_ctrl_reset ? OAES_CTRL_RESET : 0) |
			(identity->has_event_lost_host ? OAES_LOST_HOST : 0) |
			(identity->has_event_discovery_change ? OAES_DISCOVERY_CHANGE : 0);
	uint32_t ctratt = (identity->has_host_id_extended ? CTRATT_HOST_ID_EXTENDED : 0) |
			  (identity->has_traffic_keep_alive ? CTRATT_TRAFFIC_KEEP_ALIVE : 0) |
			  (identity->has_ns_granularity ? CTRATT_NS_GRANULARITY : 0) |
			  (identity->has_uuid_list ? CTRATT_UUID_LIST : 0);
	uint32_t lpa = (identity->has_log_effects ? LPA_EFFECTS : 0) |
		       (identity->has_log_offsets ? LPA_EXTENDED : 0) |
		       (identity->event_log_max_bytes != 0 ? LPA_PERSISTENT_EVENT : 0) |
		       (identity->has_log_supported ? LPA_SUPPORTED_PAGES : 0);

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

static uint16_t oncs_encode(const struct ctrl_identity *identity)
{
	return (uint16_t)((identity->has_compare ? ONCS_COMPARE : 0) |
			  (identity->has_write_uncorrectable ? ONCS_WRITE_UNCORRECTABLE : 0) |
			  (identity->has_dataset_management ? ONCS_DATASET_MANAGEMENT : 0) |
			  (identity->has_write_zeroes ? ONCS_WRITE_ZEROES : 0) |
			  (identity->has_feature_select ? ONCS_FEATURE_SELECT : 0) |
			  (identity->has_reservations ? ONCS_RESERVATIONS : 0) |
			  (identity->has_timestamp ? ONCS_TIMESTAMP : 0) |
			  (identity->has_verify ? ONCS_VERIFY : 0) |
			  (identity->has_copy ? ONCS_COPY : 0));
}

/* Commands that change storage, capacities, and atomic write units. */
static void encode_storage_fields(const struct ctrl_identity *identity, uint8_t *page)
{
	uint32_t oacs = (identity->has_format ? OACS_FORMAT : 0) |
			(identity->has_ns_management ? OACS_NS_MANAGEMENT : 0);

	field_put16(page, ID_CTRL_OACS, (uint16_t)oacs);
	field_put64(page, ID_CTRL_TNVMCAP, identity->capacity_bytes);
	field_put64(page, ID_CTRL_UNVMCAP, identity->capacity_unused_bytes);
	field_put32(page, ID_CTRL_PELS,
		    identity->event_log_max_bytes / PELS_UNIT_BYTES +
			    (identity->event_log_max_bytes % PELS_UNIT_BYTES != 0));
	field_put16(page, ID_CTRL_FUSES, identity->has_fused_compare ? FUSES_COMPARE_AND_WRITE : 0);
	field_put16(page, ID_CTRL_AWUN, zero_based16(identity->atomic_write_blocks));
	field_put16(page, ID_CTRL_AWUPF, zero_based16(identity->atomic_power_fail_blocks));
	field_put16(page, ID_CTRL_ACWU, zero_based16(identity->atomic_compare_write_blocks));
	page[ID_CTRL_NWPC] = identity->has_write_protect ? NWPC_ALL : 0;
	field_put16(page, ID_CTRL_OCFS, identity->copy_formats);
}

/* Identity of the controller's instance, its limit of Cross-Controller Resets, and its quiesce
 * time. */
static void encode_recovery_fields(const struct ctrl_identity *identity, uint8_t *page)
{
	for (unsigned i = 0; i < ARRAY_LEN(identity->retry_delays_ms); i++) {
		uint32_t delay_ms = identity->retry_delays_ms[i];

		/* Rounded up: a host that retries too early is rejected again. */
		field_put16(page, ID_CTRL_CRDT + 2 * i,
			    saturate16(delay_ms / CRDT_STEP_MS + (delay_ms % CRDT_STEP_MS != 0)));
	}
	page[ID_CTRL_CIU] = identity->uniquifier;
	field_put64(page, ID_CTRL_CIRN, identity->random_number);
	page[ID_CTRL_CCRL] = identity->reset_limit > 255 ? 255 : (uint8_t)identity->reset_limit;
	field_put16(page, ID_CTRL_CQT, saturate16(identity->quiesce_ms));
}

static bool instance_is_set(const uint8_t *instance)
{
	for (unsigned i = 0; i < IDENTIFY_INSTANCE_BYTES; i++) {
		if (instance[i] != 0)
			return true;
	}
	return false;
}

static void encode_instance(const struct ctrl_identity *identity, uint8_t *page)
{
	if (!instance_is_set(identity->instance))
		return;
	memcpy(page + ID_CTRL_MAGIC, INSTANCE_MAGIC, INSTANCE_MAGIC_BYTES);
	memcpy(page + ID_CTRL_INSTANCE, identity->instance, IDENTIFY_INSTANCE_BYTES);
	page[ID_CTRL_INSTANCE_FLAGS] = identity->is_clustered ? INSTANCE_CLUSTERED : 0;
	memcpy(page + ID_CTRL_BOOT, identity->boot, IDENTIFY_BOOT_BYTES);
}

/* Fields that the specification reserves for discovery controllers. */
static void encode_io_fields(const struct ctrl_identity *identity, uint8_t *page)
{
	if (identity->has_ana) {
		page[ID_CTRL_ANATT] = identity->ana_transition_s > 255
					      ? 255
					      : (uint8_t)identity->ana_transition_s;
		page[ID_CTRL_ANACAP] = ANACAP_ALL_STATES | ANACAP_GROUP_IN_CREATE;
		field_put32(page, ID_CTRL_ANAGRPMAX, identity->ana_group_max);
		field_put32(page, ID_CTRL_NANAGRPID, identity->ana_group_count);
	}
	page[ID_CTRL_SQES] = SQES_64;
	page[ID_CTRL_CQES] = CQES_16;
	field_put32(page, ID_CTRL_NN, identity->namespace_id_max);
	field_put16(page, ID_CTRL_ONCS, oncs_encode(identity));
	page[ID_CTRL_VWC] = (uint8_t)((identity->has_flush_all ? VWC_FLUSH_ALL : VWC_NO_FLUSH_ALL) |
				      (identity->has_volatile_cache ? VWC_PRESENT : 0));
	encode_storage_fields(identity, page);
	encode_recovery_fields(identity, page);
	field_put32(page, ID_CTRL_MNAN, identity->namespaces_allowed_max);
	field_put32(page, ID_CTRL_IOCCSZ,
		    (uint32_t)(sizeof(struct nvme_sqe) / CAPSULE_UNIT_BYTES) +
			    identity->in_capsule_bytes / CAPSULE_UNIT_BYTES);
	field_put32(page, ID_CTRL_IORCSZ, sizeof(struct nvme_cqe) / CAPSULE_UNIT_BYTES);
	page[ID_CTRL_MSDBD] = 1;
	field_put16(page, ID_CTRL_OFCS, OFCS_DISCONNECT);
	encode_instance(identity, page);
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
	ret_identity->has_event_ctrl_reset = (oaes & OAES_CTRL_RESET) != 0;
	ret_identity->has_event_lost_host = (oaes & OAES_LOST_HOST) != 0;
	ret_identity->has_event_discovery_change = (oaes & OAES_DISCOVERY_CHANGE) != 0;
	ret_identity->has_host_id_extended = (ctratt & CTRATT_HOST_ID_EXTENDED) != 0;
	ret_identity->has_traffic_keep_alive = (ctratt & CTRATT_TRAFFIC_KEEP_ALIVE) != 0;
	ret_identity->abort_limit = page[ID_CTRL_ACL] + 1u;
	ret_identity->async_event_limit = page[ID_CTRL_AERL] + 1u;
	ret_identity->has_log_effects = (lpa & LPA_EFFECTS) != 0;
	ret_identity->has_log_offsets = (lpa & LPA_EXTENDED) != 0;
	ret_identity->has_log_supported = (lpa & LPA_SUPPORTED_PAGES) != 0;
	ret_identity->has_ns_granularity = (ctratt & CTRATT_NS_GRANULARITY) != 0;
	ret_identity->has_uuid_list = (ctratt & CTRATT_UUID_LIST) != 0;
	ret_identity->error_log_entries = page[ID_CTRL_ELPE] + 1u;
	ret_identity->warn_temperature_k = field_get16(page, ID_CTRL_WCTEMP);
	ret_identity->critical_temperature_k = field_get16(page, ID_CTRL_CCTEMP);
	ret_identity->keep_alive_step_ms = field_get16(page, ID_CTRL_KAS) * KAS_STEP_MS;
	ret_identity->queue_entries_max = field_get16(page, ID_CTRL_MAXCMD);
}

/* A capacity of more than 64 bits is returned as UINT64_MAX. */
static uint64_t capacity_get(const uint8_t *page, size_t offset)
{
	return field_get64(page, offset + 8) != 0 ? UINT64_MAX : field_get64(page, offset);
}

/* Entry sizes: required in bits 3:0, maximum in bits 7:4. weft's size must lie between. */
static bool entry_size_fits(uint8_t field, uint8_t shift)
{
	return (field & 0xf) <= shift && field >> 4 >= shift;
}

static void decode_oncs(uint16_t oncs, struct ctrl_identity *ret_identity)
{
	ret_identity->has_compare = (oncs & ONCS_COMPARE) != 0;
	ret_identity->has_write_uncorrectable = (oncs & ONCS_WRITE_UNCORRECTABLE) != 0;
	ret_identity->has_dataset_management = (oncs & ONCS_DATASET_MANAGEMENT) != 0;
	ret_identity->has_write_zeroes = (oncs & ONCS_WRITE_ZEROES) != 0;
	ret_identity->has_feature_select = (oncs & ONCS_FEATURE_SELECT) != 0;
	ret_identity->has_reservations = (oncs & ONCS_RESERVATIONS) != 0;
	ret_identity->has_timestamp = (oncs & ONCS_TIMESTAMP) != 0;
	ret_identity->has_verify = (oncs & ONCS_VERIFY) != 0;
	ret_identity->has_copy = (oncs & ONCS_COPY) != 0;
}

static void decode_storage_fields(const uint8_t *page, struct ctrl_identity *ret_identity)
{
	uint16_t oacs = field_get16(page, ID_CTRL_OACS);
	uint32_t pels = field_get32(page, ID_CTRL_PELS);

	ret_identity->has_format = (oacs & OACS_FORMAT) != 0;
	ret_identity->has_ns_management = (oacs & OACS_NS_MANAGEMENT) != 0;
	ret_identity->capacity_bytes = capacity_get(page, ID_CTRL_TNVMCAP);
	ret_identity->capacity_unused_bytes = capacity_get(page, ID_CTRL_UNVMCAP);
	if (page[ID_CTRL_LPA] & LPA_PERSISTENT_EVENT)
		ret_identity->event_log_max_bytes =
			pels > UINT32_MAX / PELS_UNIT_BYTES ? UINT32_MAX : pels * PELS_UNIT_BYTES;
	ret_identity->has_fused_compare =
		(field_get16(page, ID_CTRL_FUSES) & FUSES_COMPARE_AND_WRITE) != 0;
	ret_identity->atomic_write_blocks = field_get16(page, ID_CTRL_AWUN) + 1u;
	ret_identity->atomic_power_fail_blocks = field_get16(page, ID_CTRL_AWUPF) + 1u;
	ret_identity->atomic_compare_write_blocks = field_get16(page, ID_CTRL_ACWU) + 1u;
	ret_identity->has_write_protect = (page[ID_CTRL_NWPC] & NWPC_ALL) == NWPC_ALL;
	ret_identity->copy_formats = field_get16(page, ID_CTRL_OCFS);
	ret_identity->has_flush_all = (page[ID_CTRL_VWC] & VWC_FLUSH_ALL_MASK) == VWC_FLUSH_ALL;
}

static void decode_recovery_fields(const uint8_t *page, struct ctrl_identity *ret_identity)
{
	for (unsigned i = 0; i < ARRAY_LEN(ret_identity->retry_delays_ms); i++)
		ret_identity->retry_delays_ms[i] =
			field_get16(page, ID_CTRL_CRDT + 2 * i) * (uint32_t)CRDT_STEP_MS;
	ret_identity->uniquifier = page[ID_CTRL_CIU];
	ret_identity->random_number = field_get64(page, ID_CTRL_CIRN);
	ret_identity->reset_limit = page[ID_CTRL_CCRL];
	ret_identity->quiesce_ms = field_get16(page, ID_CTRL_CQT);
}

/* Other vendors' controllers may have any bytes here, but not the magic. */
static void decode_instance(const uint8_t *page, struct ctrl_identity *ret_identity)
{
	if (memcmp(page + ID_CTRL_MAGIC, INSTANCE_MAGIC, INSTANCE_MAGIC_BYTES) != 0 ||
	    !instance_is_set(page + ID_CTRL_INSTANCE))
		return;
	memcpy(ret_identity->instance, page + ID_CTRL_INSTANCE, IDENTIFY_INSTANCE_BYTES);
	ret_identity->is_clustered = (page[ID_CTRL_INSTANCE_FLAGS] & INSTANCE_CLUSTERED) != 0;
	memcpy(ret_identity->boot, page + ID_CTRL_BOOT, IDENTIFY_BOOT_BYTES);
}

static int decode_io_fields(const uint8_t *page, struct ctrl_identity *ret_identity)
{
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
	decode_oncs(field_get16(page, ID_CTRL_ONCS), ret_identity);
	decode_storage_fields(page, ret_identity);
	decode_recovery_fields(page, ret_identity);
	decode_instance(page, ret_identity);
	ret_identity->has_volatile_cache = (page[ID_CTRL_VWC] & VWC_PRESENT) != 0;
	if (ret_identity->has_ana) {
		ret_identity->ana_transition_s = page[ID_CTRL_ANATT];
		ret_identity->ana_group_max = field_get32(page, ID_CTRL_ANAGRPMAX);
		ret_identity->ana_group_count = field_get32(page, ID_CTRL_NANAGRPID);
	}
	return 0;
}

/* Controllers before NVMe 1.4 leave CNTRLTYPE 0: then the NQN decides the type. */
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
