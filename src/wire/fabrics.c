/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect, Disconnect, Property Get and Set, and the controller properties CAP and CC, between
 * bytes and plain values. Pure; any thread. NVMe Base 2.1, sections 3.1.4 and 6.
 *
 * connect_decode parses bytes of an unauthenticated peer: it trusts no length and no terminator.
 * For all encoders, the caller sets the command identifier.
 */
#include "wire/fabrics.h"

#include "base/check.h"
#include "wire/field.h"
#include "wire/nqn.h"
#include "wire/sgl.h"

#define CATTR_DISABLE_SQ_FLOW_CONTROL (1u << 2)
#define READY_TIMEOUT_STEP_MS         500

static void fabrics_sqe_start(struct nvme_sqe *sqe, enum nvme_fabrics_type type)
{
	sqe->opcode = NVME_OPCODE_FABRICS;
	sqe->nsid = le32_of(type);
	sqe->cdw10 = le32_of(0);
	sqe->cdw11 = le32_of(0);
	sqe->cdw12 = le32_of(0);
	sqe->cdw13 = le32_of(0);
}

/* ---- Connect ------------------------------------------------------------------------------- */

static struct connect_reject reject_sqe(nvme_status status, uint16_t offset)
{
	return (struct connect_reject){nvme_status_dnr(status), offset, false};
}

/* Copies a name from the Connect data. False when the name is not terminated or not well formed. */
static bool connect_name_decode(const uint8_t *field, char name[NVME_NQN_BYTES])
{
	if (strnlen((const char *)field, NVME_NQN_BYTES) == NVME_NQN_BYTES) {
		name[0] = '\0';
		return false;
	}
	memcpy(name, field, NVME_NQN_BYTES);
	return nqn_problem(name) == NULL;
}

static void connect_data_decode(const uint8_t *data, struct connect_args *ret_args,
				struct connect_reject *ret_reject)
{
	nvme_status invalid = nvme_status_dnr(NVME_SC_CONNECT_INVALID_PARAM);

	memcpy(ret_args->host_id.bytes, data + CONNECT_DATA_HOSTID, sizeof(ret_args->host_id));
	ret_args->cntlid = field_get16(data, CONNECT_DATA_CNTLID);
	if (!connect_name_decode(data + CONNECT_DATA_SUBNQN, ret_args->subsystem_nqn))
		*ret_reject = (struct connect_reject){invalid, CONNECT_DATA_SUBNQN, true};
	else if (!connect_name_decode(data + CONNECT_DATA_HOSTNQN, ret_args->host_nqn))
		*ret_reject = (struct connect_reject){invalid, CONNECT_DATA_HOSTNQN, true};
}

void connect_decode(const struct nvme_sqe *sqe, const uint8_t *data, size_t data_bytes,
		    struct connect_args *ret_args, struct connect_reject *ret_reject)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);
	uint32_t cdw11 = le32_get(sqe->cdw11);
	uint16_t sqsize = (uint16_t)cdw11;

	memset(ret_args, 0, sizeof(*ret_args));
	memset(ret_reject, 0, sizeof(*ret_reject));
	ret_args->record_format = (uint16_t)cdw10;
	ret_args->qid = (uint16_t)(cdw10 >> 16);
	ret_args->queue_size = sqsize + 1u;
	ret_args->wants_no_sq_flow_control = (cdw11 >> 16 & CATTR_DISABLE_SQ_FLOW_CONTROL) != 0;
	ret_args->kato_ms = le32_get(sqe->cdw12);

	/* The record format is checked first: under an unknown format, no other field has a
	 * meaning. */
	if (ret_args->record_format != 0)
		*ret_reject = reject_sqe(NVME_SC_CONNECT_FORMAT, CONNECT_SQE_RECFMT);
	else if (sqsize == 0)
		*ret_reject = reject_sqe(NVME_SC_CONNECT_INVALID_PARAM, CONNECT_SQE_SQSIZE);
	else if (data_bytes != NVMF_CONNECT_DATA_BYTES)
		*ret_reject = reject_sqe(NVME_SC_SGL_INVALID_DATA_LEN, 0);
	else
		connect_data_decode(data, ret_args, ret_reject);
}

void connect_encode(struct nvme_sqe *sqe, uint8_t data[NVMF_CONNECT_DATA_BYTES],
		    const struct connect_args *args)
{
	uint32_t cattr = args->wants_no_sq_flow_control ? CATTR_DISABLE_SQ_FLOW_CONTROL : 0;

	CHECK(args->queue_size >= 2 && args->queue_size <= 65536);
	fabrics_sqe_start(sqe, NVMF_CONNECT);
	sqe->cdw10 = le32_of(args->record_format | (uint32_t)args->qid << 16);
	sqe->cdw11 = le32_of((args->queue_size - 1) | cattr << 16);
	sqe->cdw12 = le32_of(args->kato_ms);
	sgl_encode_in_capsule(sqe, NVMF_CONNECT_DATA_BYTES);

	memset(data, 0, NVMF_CONNECT_DATA_BYTES);
	memcpy(data + CONNECT_DATA_HOSTID, args->host_id.bytes, sizeof(args->host_id));
	field_put16(data, CONNECT_DATA_CNTLID, args->cntlid);
	memcpy(data + CONNECT_DATA_SUBNQN, args->subsystem_nqn,
	       strnlen(args->subsystem_nqn, NVME_NQN_BYTES - 1));
	memcpy(data + CONNECT_DATA_HOSTNQN, args->host_nqn,
	       strnlen(args->host_nqn, NVME_NQN_BYTES - 1));
}

uint32_t connect_reject_dw0(const struct connect_reject *reject)
{
	return reject->parameter_offset | (reject->is_in_data ? 1u << 16 : 0);
}

struct connect_reject connect_reject_from(nvme_status status, uint32_t dw0)
{
	return (struct connect_reject){status, (uint16_t)dw0, (dw0 & 1u << 16) != 0};
}

void disconnect_encode(struct nvme_sqe *sqe)
{
	fabrics_sqe_start(sqe, NVMF_DISCONNECT);
	sgl_encode_none(sqe);
}

nvme_status disconnect_decode(const struct nvme_sqe *sqe)
{
	if ((le32_get(sqe->cdw10) & 0xffff) != 0)
		return nvme_status_dnr(NVME_SC_CONNECT_FORMAT);
	return NVME_SC_SUCCESS;
}

/* ---- properties ---------------------------------------------------------------------------- */

nvme_status property_decode(const struct nvme_sqe *sqe, struct property_cmd *ret_cmd)
{
	uint32_t size = le32_get(sqe->cdw10) & 7; /* ATTRIB 2:0: 0 is 4 bytes, 1 is 8 bytes */

	*ret_cmd = (struct property_cmd){
		.offset = le32_get(sqe->cdw11),
		.is_8_bytes = size == 1,
		.value = le32_get(sqe->cdw12),
	};
	if (size > 1)
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	if (ret_cmd->is_8_bytes)
		ret_cmd->value |= (uint64_t)le32_get(sqe->cdw13) << 32;
	return NVME_SC_SUCCESS;
}

void property_get_encode(struct nvme_sqe *sqe, uint32_t offset, bool is_8_bytes)
{
	fabrics_sqe_start(sqe, NVMF_PROPERTY_GET);
	sgl_encode_none(sqe);
	sqe->cdw10 = le32_of(is_8_bytes);
	sqe->cdw11 = le32_of(offset);
}

void property_set_encode(struct nvme_sqe *sqe, uint32_t offset, uint64_t value, bool is_8_bytes)
{
	fabrics_sqe_start(sqe, NVMF_PROPERTY_SET);
	sgl_encode_none(sqe);
	sqe->cdw10 = le32_of(is_8_bytes);
	sqe->cdw11 = le32_of(offset);
	sqe->cdw12 = le32_of((uint32_t)value);
	if (is_8_bytes)
		sqe->cdw13 = le32_of((uint32_t)(value >> 32));
}

enum cap_shift {
	CAP_CQR = 16, /* contiguous queues: shall be 1 over fabrics */
	CAP_TO = 24,
	CAP_CSS_NVM = 37,
	CAP_CSS_IO_COMMAND_SETS = 43,
	CAP_CSS_NONE = 44, /* no I/O command set: a discovery controller */
	CAP_CRMS_CRWMS = 59,
};

static uint64_t ready_steps(const struct ctrl_capabilities *cap)
{
	return ((uint64_t)cap->ready_timeout_ms + READY_TIMEOUT_STEP_MS - 1) /
	       READY_TIMEOUT_STEP_MS;
}

uint32_t crto_encode(const struct ctrl_capabilities *cap)
{
	uint64_t steps = ready_steps(cap);

	return steps > 0xffff ? 0xffff : (uint32_t)steps;
}

uint64_t cap_encode(const struct ctrl_capabilities *cap)
{
	uint64_t steps = ready_steps(cap);
	uint64_t value;

	CHECK(cap->queue_size_max >= 2 && cap->queue_size_max <= 65536);
	value = (cap->queue_size_max - 1) | 1ull << CAP_CQR;
	value |= (steps > 0xff ? 0xff : steps) << CAP_TO;
	if (cap->supports_nvm)
		value |= 1ull << CAP_CSS_NVM;
	if (cap->supports_io_command_sets)
		value |= 1ull << CAP_CSS_IO_COMMAND_SETS;
	if (!cap->supports_nvm && !cap->supports_io_command_sets)
		value |= 1ull << CAP_CSS_NONE;
	if (cap->has_ready_with_media)
		value |= 1ull << CAP_CRMS_CRWMS;
	return value;
}

void cap_decode(uint64_t value, struct ctrl_capabilities *ret_cap)
{
	*ret_cap = (struct ctrl_capabilities){
		.queue_size_max = (uint32_t)(value & 0xffff) + 1,
		.ready_timeout_ms = (uint32_t)(value >> CAP_TO & 0xff) * READY_TIMEOUT_STEP_MS,
		.has_ready_with_media = (value >> CAP_CRMS_CRWMS & 1) != 0,
		.supports_nvm = (value >> CAP_CSS_NVM & 1) != 0,
		.supports_io_command_sets = (value >> CAP_CSS_IO_COMMAND_SETS & 1) != 0,
	};
}

struct ctrl_config cc_decode(uint32_t value)
{
	return (struct ctrl_config){
		.is_enabled = (value & 1) != 0,
		.command_set = (uint8_t)(value >> 4 & 7),
		.page_shift = (uint8_t)(12 + (value >> 7 & 0xf)),
		.arbitration = (uint8_t)(value >> 11 & 7),
		.shutdown = (uint8_t)(value >> 14 & 3),
		.sq_entry_shift = (uint8_t)(value >> 16 & 0xf),
		.cq_entry_shift = (uint8_t)(value >> 20 & 0xf),
	};
}

uint32_t cc_encode(const struct ctrl_config *config)
{
	CHECK(config->page_shift >= 12 && config->page_shift <= 27);
	return (config->is_enabled ? 1u : 0) | (config->command_set & 7u) << 4 |
	       (config->page_shift - 12u) << 7 | (config->arbitration & 7u) << 11 |
	       (config->shutdown & 3u) << 14 | (config->sq_entry_shift & 0xfu) << 16 |
	       (config->cq_entry_shift & 0xfu) << 20;
}
