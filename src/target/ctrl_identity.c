/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a controller reports about itself, in one place: the capabilities behind Identify Controller
 * and the commands behind the effects log. Runs on the controller's reactor. NVMe Base 2.1,
 * sections 5.1.13.2.1 (CNS 01h) and 5.1.12.1.6 (effects).
 *
 * Hosts read these pages once, when they connect. A capability that a later change of the
 * configuration may add is therefore reported from the start: several ports, ANA, and a volatile
 * write cache, without which a host would never flush a namespace with a cache that is added later.
 * Commands that need a right (host_rights.h) are an exception: they are reported only to hosts with
 * the right.
 */
#include "ns/event_log.h"
#include "target/command.h"
#include "target/host_rights.h"
#include "target/local.h"
#include "wire/reservation.h"

#include "base/text.h"

#include <string.h>

#define IDENTITY_DISCOVERY_MODEL  "weft discovery"
#define IDENTITY_DISCOVERY_SERIAL "weft"

/* AWUN, AWUPF and ACWU hold for any namespace: one block, which is what memory media guarantee. */
static void identity_fill_commands(struct ctrl_identity *identity)
{
	identity->has_compare = true;
	identity->has_write_uncorrectable = true;
	identity->has_dataset_management = true;
	identity->has_write_zeroes = true;
	identity->has_feature_select = true;
	identity->has_reservations = true;
	identity->has_timestamp = true;
	identity->has_verify = true;
	identity->has_copy = true;
	identity->copy_formats = TARGET_COPY_FORMATS;
	identity->has_fused_compare = true;
	identity->has_volatile_cache = true;
	identity->has_flush_all = true;
	identity->atomic_write_blocks = 1;
	identity->atomic_power_fail_blocks = 1;
	identity->atomic_compare_write_blocks = 1;
}

static bool has_clustered_ns(const struct subsystem *subsystem)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		if (subsystem->namespaces[i].is_clustered)
			return true;
	}
	return false;
}

static void identity_fill_io(const struct ctrl *ctrl, const struct target_limits *limits,
			     struct ctrl_identity *identity)
{
	if (ctrl->subsystem) {
		text_copy(identity->serial, sizeof(identity->serial), ctrl->subsystem->serial);
		text_copy(identity->model, sizeof(identity->model), ctrl->subsystem->model);
		identity->capacity_bytes = ctrl->subsystem->capacity_bytes;
		identity->capacity_unused_bytes = ctrl->subsystem->capacity_unused_bytes;
		identity->is_clustered = has_clustered_ns(ctrl->subsystem);
	}
	identity->has_multiple_ports = true;
	identity->has_multiple_ctrls = true;
	identity->has_ana = true;
	identity->has_event_ns_attribute = true;
	identity->has_event_ana_change = true;
	identity->has_event_shutdown = true;
	identity->has_event_ctrl_reset = true;
	identity->has_event_lost_host = true;
	identity->uniquifier = ctrl->uniquifier;
	identity->random_number = ctrl->random_number;
	memcpy(identity->instance, ctrl->local->target->instance, sizeof(identity->instance));
	memcpy(identity->boot, ctrl->local->target->boot, sizeof(identity->boot));
	identity->reset_limit = CTRL_RESET_MAX;
	identity->quiesce_ms = limits->quiesce_ms;
	identity->namespace_id_max = TARGET_NSID_MAX;
	identity->namespaces_allowed_max = TARGET_NSID_MAX;
	identity_fill_commands(identity);
	identity->has_format = ctrl_has_right(ctrl, HOST_RIGHT_FORMAT);
	identity->has_ns_management = ctrl_has_right(ctrl, HOST_RIGHT_NAMESPACES);
	identity->has_ns_granularity = ctrl_has_right(ctrl, HOST_RIGHT_NAMESPACES);
	identity->has_write_protect = ctrl_has_right(ctrl, HOST_RIGHT_WRITE_PROTECT);
	identity->has_uuid_list = true;
	identity->event_log_max_bytes = EVENT_LOG_HEADER_BYTES + EVENT_LOG_BYTES_MAX;
	identity->warn_temperature_k = CTRL_WARN_TEMPERATURE_K;
	identity->critical_temperature_k = CTRL_CRIT_TEMPERATURE_K;
	identity->ana_transition_s = TARGET_ANA_TRANSITION_S;
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
		.version = NVME_VERSION_BASE,
		.transfer_max_bytes = limits->transfer_max_bytes,
		.has_host_id_extended = true,
		.has_traffic_keep_alive = true,
		.abort_limit = CTRL_ABORT_MAX,
		.async_event_limit = CTRL_AER_MAX,
		.has_log_effects = true,
		.has_log_offsets = true,
		.has_log_supported = true,
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

/* ---- effects --------------------------------------------------------------------------------- */

struct command_effect {
	uint8_t opcode;
	uint32_t effects;
};

#define OF_CTRL (LOG_EFFECT_SUPPORTED | LOG_EFFECT_OF_CTRL)
#define OF_NS   (LOG_EFFECT_SUPPORTED | LOG_EFFECT_OF_NS)
#define WRITES  (OF_NS | LOG_EFFECT_CHANGES_DATA)

static const struct command_effect admin_effects[] = {
	{NVME_ADMIN_GET_LOG_PAGE, OF_CTRL}, {NVME_ADMIN_IDENTIFY, OF_CTRL},
	{NVME_ADMIN_SET_FEATURES, OF_CTRL}, {NVME_ADMIN_GET_FEATURES, OF_CTRL},
	{NVME_ADMIN_ASYNC_EVENT, OF_CTRL},  {NVME_ADMIN_KEEP_ALIVE, OF_CTRL},
};

static const struct {
	struct command_effect effect;
	enum host_right right;
} manage_effects[] = {
	{{NVME_ADMIN_NS_MANAGEMENT,
	  LOG_EFFECT_SUPPORTED | LOG_EFFECT_OF_SUBSYSTEM | LOG_EFFECT_CHANGES_INVENTORY},
	 HOST_RIGHT_NAMESPACES},
	{{NVME_ADMIN_NS_ATTACHMENT, OF_NS | LOG_EFFECT_CHANGES_INVENTORY}, HOST_RIGHT_NAMESPACES},
	{{NVME_ADMIN_FORMAT_NVM, WRITES | LOG_EFFECT_CHANGES_NS | LOG_EFFECT_ALONE_IN_NS},
	 HOST_RIGHT_FORMAT},
};

static const struct command_effect io_effects[] = {
	{NVME_IO_FLUSH, OF_NS},
	{NVME_IO_WRITE, WRITES},
	{NVME_IO_READ, OF_NS},
	{NVME_IO_WRITE_UNCORRECTABLE, WRITES},
	{NVME_IO_COMPARE, OF_NS},
	{NVME_IO_WRITE_ZEROES, WRITES},
	{NVME_IO_DATASET_MANAGEMENT, WRITES},
	{NVME_IO_VERIFY, OF_NS},
	{NVME_IO_RESERVATION_REGISTER, OF_NS},
	{NVME_IO_RESERVATION_REPORT, OF_NS},
	{NVME_IO_RESERVATION_ACQUIRE, OF_NS},
	{NVME_IO_RESERVATION_RELEASE, OF_NS},
	{NVME_IO_CANCEL, OF_CTRL},
	{NVME_IO_COPY, WRITES},
};

void command_effects(const struct ctrl *ctrl, struct log_effects *ret_effects)
{
	memset(ret_effects, 0, sizeof(*ret_effects));
	for (unsigned i = 0; i < ARRAY_LEN(admin_effects); i++)
		ret_effects->admin[admin_effects[i].opcode] = admin_effects[i].effects;
	if (ctrl->type != CTRL_TYPE_IO)
		return;
	ret_effects->admin[NVME_ADMIN_ABORT] = OF_CTRL;
	ret_effects->admin[NVME_ADMIN_GET_LBA_STATUS] = OF_NS;
	ret_effects->admin[NVME_ADMIN_CTRL_RESET] = LOG_EFFECT_SUPPORTED | LOG_EFFECT_OF_SUBSYSTEM;
	for (unsigned i = 0; i < ARRAY_LEN(manage_effects); i++)
		if (ctrl_has_right(ctrl, manage_effects[i].right))
			ret_effects->admin[manage_effects[i].effect.opcode] =
				manage_effects[i].effect.effects;
	for (unsigned i = 0; i < ARRAY_LEN(io_effects); i++)
		ret_effects->io[io_effects[i].opcode] = io_effects[i].effects;
}
