/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a controller says of itself, in one place: the capabilities behind Identify Controller and
 * the commands behind the effects log. Runs on the controller's reactor.
 * NVMe Base 2.1, sections 5.1.13.2.1 (CNS 01h) and 5.1.12.1.6 (effects).
 *
 * Hosts read this once, when they connect. What a later change of the configuration may make true
 * is therefore said from the start: several ports, ANA, and a volatile write cache, because a host
 * that was told there is none would never flush a namespace that is added later and has one.
 */
#include "target/command.h"
#include "target/local.h"

#include "base/text.h"

#include <string.h>

#define IDENTITY_ANA_TRANSITION_S 10
#define IDENTITY_DISCOVERY_MODEL  "weft discovery"
#define IDENTITY_DISCOVERY_SERIAL "weft"

static void identity_fill_io(const struct ctrl *ctrl, const struct target_limits *limits,
			     struct ctrl_identity *identity)
{
	if (ctrl->subsystem) {
		text_copy(identity->serial, sizeof(identity->serial), ctrl->subsystem->serial);
		text_copy(identity->model, sizeof(identity->model), ctrl->subsystem->model);
	}
	identity->has_multiple_ports = true;
	identity->has_multiple_ctrls = true;
	identity->has_ana = true;
	identity->has_event_ns_attribute = true;
	identity->has_event_ana_change = true;
	identity->has_event_shutdown = true;
	identity->namespace_id_max = TARGET_NSID_MAX;
	identity->namespaces_allowed_max = TARGET_NSID_MAX;
	identity->has_compare = true;
	identity->has_dataset_management = true;
	identity->has_write_zeroes = true;
	identity->has_volatile_cache = true;
	identity->ana_transition_s = IDENTITY_ANA_TRANSITION_S;
	identity->ana_group_max = TARGET_ANA_GROUP_MAX;
	identity->ana_group_count = TARGET_ANA_GROUP_MAX;
	identity->in_capsule_bytes = limits->in_capsule_bytes;
}

void ctrl_identity_fill(const struct ctrl *ctrl, struct ctrl_identity *ret_identity)
{
	const struct target_limits *limits = &ctrl->local->snapshot->limits;

	*ret_identity = (struct ctrl_identity){
		.serial = IDENTITY_DISCOVERY_SERIAL,
		.model = IDENTITY_DISCOVERY_MODEL,
		.type = ctrl->type,
		.cntlid = ctrl->cntlid,
		.version = NVME_VERSION_2_1,
		.transfer_max_bytes = limits->transfer_max_bytes,
		.has_host_id_extended = true,
		.has_traffic_keep_alive = true,
		.abort_limit = CTRL_ABORT_MAX,
		.async_event_limit = CTRL_AER_MAX,
		.has_log_effects = true,
		.has_log_offsets = true,
		.error_log_entries = CTRL_ERROR_LOG_ENTRIES,
		.keep_alive_step_ms = CTRL_KEEP_ALIVE_STEP_MS,
		.queue_entries_max = limits->queue_size_max,
	};
	text_copy(ret_identity->firmware, sizeof(ret_identity->firmware), WEFT_VERSION);
	text_copy(ret_identity->subsystem_nqn, sizeof(ret_identity->subsystem_nqn),
		  ctrl->subsystem_nqn);
	if (ctrl->type == CTRL_TYPE_DISCOVERY)
		ret_identity->has_event_discovery_change = true;
	else
		identity_fill_io(ctrl, limits, ret_identity);
}

void command_effects(enum ctrl_type type, struct log_effects *ret_effects)
{
	static const uint8_t admin[] = {
		NVME_ADMIN_GET_LOG_PAGE, NVME_ADMIN_IDENTIFY,    NVME_ADMIN_SET_FEATURES,
		NVME_ADMIN_GET_FEATURES, NVME_ADMIN_ASYNC_EVENT, NVME_ADMIN_KEEP_ALIVE,
	};
	static const uint8_t reading[] = {NVME_IO_FLUSH, NVME_IO_READ, NVME_IO_COMPARE};
	static const uint8_t writing[] = {NVME_IO_WRITE, NVME_IO_WRITE_ZEROES,
					  NVME_IO_DATASET_MANAGEMENT};

	memset(ret_effects, 0, sizeof(*ret_effects));
	for (unsigned i = 0; i < ARRAY_LEN(admin); i++)
		ret_effects->admin[admin[i]] = LOG_EFFECT_SUPPORTED;
	if (type != CTRL_TYPE_IO)
		return;
	ret_effects->admin[NVME_ADMIN_ABORT] = LOG_EFFECT_SUPPORTED;
	for (unsigned i = 0; i < ARRAY_LEN(reading); i++)
		ret_effects->io[reading[i]] = LOG_EFFECT_SUPPORTED;
	for (unsigned i = 0; i < ARRAY_LEN(writing); i++)
		ret_effects->io[writing[i]] = LOG_EFFECT_SUPPORTED | LOG_EFFECT_CHANGES_DATA;
}
