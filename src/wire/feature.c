/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get and Set Features, asynchronous event results and Abort between dwords and plain values. Pure;
 * any thread. NVMe Base 2.1, sections 5.1.1, 5.1.2, 5.1.11 and 5.1.25. Encoders set an SGL for no
 * data; for a feature with data, the caller sets the SGL afterwards. The caller also sets the
 * command identifier.
 */
#include "wire/feature.h"

#include "base/check.h"
#include "wire/sgl.h"

#define SET_FEATURES_SAVE (1u << 31)

void feature_cmd_decode(const struct nvme_sqe *sqe, struct feature_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);

	*ret_cmd = (struct feature_cmd){
		.feature_id = (uint8_t)cdw10,
		.select = (uint8_t)(cdw10 >> 8 & 7),
		.is_save = (cdw10 & SET_FEATURES_SAVE) != 0,
		.cdw11 = le32_get(sqe->cdw11),
		.cdw12 = le32_get(sqe->cdw12),
	};
}

void feature_get_encode(struct nvme_sqe *sqe, uint8_t feature_id, uint8_t select)
{
	sqe->opcode = NVME_ADMIN_GET_FEATURES;
	sqe->cdw10 = le32_of(feature_id | (select & 7u) << 8);
	sgl_encode_none(sqe);
}

void feature_set_encode(struct nvme_sqe *sqe, uint8_t feature_id, uint32_t cdw11)
{
	sqe->opcode = NVME_ADMIN_SET_FEATURES;
	sqe->cdw10 = le32_of(feature_id);
	sqe->cdw11 = le32_of(cdw11);
	sgl_encode_none(sqe);
}

nvme_status feature_queue_count_decode(uint32_t cdw11, uint32_t *ret_sq_count,
				       uint32_t *ret_cq_count)
{
	uint32_t sq = cdw11 & 0xffff, cq = cdw11 >> 16;

	if (sq == 0xffff || cq == 0xffff)
		return nvme_status_dnr(NVME_SC_INVALID_FIELD);
	*ret_sq_count = sq + 1;
	*ret_cq_count = cq + 1;
	return NVME_SC_SUCCESS;
}

uint32_t feature_queue_count_encode(uint32_t sq_count, uint32_t cq_count)
{
	CHECK(sq_count >= 1 && sq_count <= 65535 && cq_count >= 1 && cq_count <= 65535);
	return (sq_count - 1) | (cq_count - 1) << 16;
}

struct temperature_cmd feature_temperature_decode(uint32_t cdw11)
{
	return (struct temperature_cmd){
		.kelvin = (uint16_t)cdw11,
		.sensor = (uint8_t)(cdw11 >> 16 & 0xf),
		.kind = (uint8_t)(cdw11 >> 20 & 3),
	};
}

uint32_t async_event_encode(const struct async_event *event)
{
	return (event->type & 7u) | (uint32_t)event->info << 8 | (uint32_t)event->log_id << 16;
}

struct async_event async_event_decode(uint32_t dw0)
{
	return (struct async_event){
		.type = (uint8_t)(dw0 & 7),
		.info = (uint8_t)(dw0 >> 8),
		.log_id = (uint8_t)(dw0 >> 16),
	};
}

void abort_cmd_decode(const struct nvme_sqe *sqe, struct abort_cmd *ret_cmd)
{
	uint32_t cdw10 = le32_get(sqe->cdw10);

	ret_cmd->sqid = (uint16_t)cdw10;
	ret_cmd->cid = (uint16_t)(cdw10 >> 16);
}

void abort_cmd_encode(struct nvme_sqe *sqe, const struct abort_cmd *cmd)
{
	sqe->opcode = NVME_ADMIN_ABORT;
	sqe->cdw10 = le32_of(cmd->sqid | (uint32_t)cmd->cid << 16);
	sgl_encode_none(sqe);
}
