/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identify: the controller, the lists of controllers and namespaces, and the pages of a namespace.
 * Runs on the controller's reactor. Lists of controllers are made on the registry's reactor, where
 * the slot travels. Reads the snapshot in force when the command executes. NVMe Base 2.1, section
 * 5.1.13; NVM Command Set 1.1, section 4.1.5.
 *
 * A namespace is attached to a controller, and active there, when the controller's host sees the
 * namespace (struct ns_mask). A namespace is allocated for each host that sees it. A namespace that
 * no host sees is allocated for the hosts that may manage namespaces. An NSID up to TARGET_NSID_MAX
 * without a namespace is inactive: its pages are zeroes. With Namespace Management, NSID FFFFFFFFh
 * returns what all namespaces have in common.
 */
#include "target/host_rights.h"
#include "target/io.h"
#include "target/local.h"
#include "wire/lba_format.h"

#include <string.h>

#define IDENTIFY_NSID_LIST_LIMIT 0xfffffffeu /* lists begin after an NSID below this */
#define IDENTIFY_LIST_MAX        (NVME_PAGE_BYTES / sizeof(uint32_t))
#define IDENTIFY_GRANULARITY     4096 /* bytes; multiples of it waste no space */
#define SQE_BYTE_CSI             (SQE_BYTE_CDW11 + 3)
#define SQE_BYTE_CNTID           (SQE_BYTE_CDW10 + 2)

/* ---- controllers ---------------------------------------------------------------------------- */

static nvme_status identify_ctrl(struct slot *slot, const struct identify_cmd *cmd)
{
	struct ctrl_identity identity;

	ctrl_identity_fill(slot->queue->ctrl, &identity);
	identify_ctrl_encode(&identity, slot->data.addr);
	return NVME_SC_SUCCESS;
}

static nvme_status identify_nvm_ctrl(struct slot *slot, const struct identify_cmd *cmd)
{
	/* Dataset Management takes any number of ranges of any length, and Write Uncorrectable only
	 * sets marks: neither has a limit. */
	static const struct nvm_ctrl_limits limits = {
		.verify_max_bytes = TARGET_VERIFY_MAX_BYTES,
		.write_zeroes_max_bytes = TARGET_WRITE_ZEROES_MAX_BYTES,
		.reports_allocated = true, /* OACS.GLSS covers only ATYPE 10h and 11h */
		.version = NVME_VERSION_NVM,
	};

	identify_nvm_ctrl_encode(&limits, slot->data.addr);
	return NVME_SC_SUCCESS;
}

/* CNS 1Ch: for this controller only, named by its CNTLID or by FFFFh. */
static nvme_status identify_command_sets(struct slot *slot, const struct identify_cmd *cmd)
{
	if (cmd->cntid != NVME_CNTLID_ANY && cmd->cntid != slot->queue->ctrl->cntlid)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CNTID);
	identify_command_sets_encode(slot->data.addr);
	return NVME_SC_SUCCESS;
}

static nvme_status identify_granularity(struct slot *slot, const struct identify_cmd *cmd)
{
	identify_ns_granularity_encode(IDENTIFY_GRANULARITY, slot->data.addr);
	return NVME_SC_SUCCESS;
}

/* The list is empty: no vendor-specific value needs a UUID. */
static nvme_status identify_uuid_list(struct slot *slot, const struct identify_cmd *cmd)
{
	return NVME_SC_SUCCESS;
}

/* ---- lists of controllers, on the registry's reactor ---------------------------------------- */

/* The fields of a registered controller that are read here do not change. */
uint32_t identify_ctrls_find(const struct slot *slot, uint16_t cntlids[IDENTIFY_CTRL_LIST_MAX])
{
	const struct ctrl *asking = slot->queue->ctrl;
	const struct target *target = asking->target;
	struct identify_cmd cmd;
	uint32_t seen = 0, count = 0;

	identify_cmd_decode(&slot->sqe, &cmd);
	for (uint32_t id = 1; id <= NVME_CNTLID_MAX && seen < target->ctrl_count; id++) {
		const struct ctrl *ctrl = target->ctrls[id];

		if (!ctrl)
			continue;
		seen++;
		if (id < cmd.cntid || count == IDENTIFY_CTRL_LIST_MAX ||
		    ctrl->type != CTRL_TYPE_IO ||
		    strcmp(ctrl->subsystem_nqn, asking->subsystem_nqn) != 0)
			continue;
		if (slot->ns && !ns_mask_has(slot->ns->mask,
					     snapshot_host_index(slot->snapshot, ctrl->host_nqn)))
			continue;
		cntlids[count++] = (uint16_t)id;
	}
	return count;
}

static void ctrl_list_here(struct slot *slot)
{
	uint16_t cntlids[IDENTIFY_CTRL_LIST_MAX];

	identify_ctrl_list_encode(cntlids, identify_ctrls_find(slot, cntlids), slot->data.addr);
}

/* ---- lists of namespaces -------------------------------------------------------------------- */

static bool ns_is_listed(const struct ctrl *ctrl, const struct ns *ns, bool is_allocated)
{
	if (is_allocated && ctrl_has_right(ctrl, HOST_RIGHT_NAMESPACES))
		return ns_is_allocated_for(ns, ctrl->host_index);
	return ns_mask_has(ns->mask, ctrl->host_index);
}

static nvme_status identify_ns_list(struct slot *slot, const struct identify_cmd *cmd)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct subsystem *subsystem = ctrl->subsystem;
	bool is_allocated = cmd->cns == IDENTIFY_ALLOCATED_NS_LIST;
	uint32_t after = le32_get(slot->sqe.nsid);
	uint32_t nsids[IDENTIFY_LIST_MAX];
	uint32_t count = 0;
	unsigned i;

	if (after >= IDENTIFY_NSID_LIST_LIMIT)
		return command_refuse(slot, NVME_SC_INVALID_NS, SQE_BYTE_NSID);
	i = subsystem_ns_after(subsystem, after);
	for (; i < subsystem->ns_count && count < IDENTIFY_LIST_MAX; i++)
		if (ns_is_listed(ctrl, &subsystem->namespaces[i], is_allocated))
			nsids[count++] = subsystem->namespaces[i].nsid;
	identify_ns_list_encode(nsids, count, slot->data.addr);
	return NVME_SC_SUCCESS;
}

/* ---- one namespace -------------------------------------------------------------------------- */

/* Allocated blocks, rounded up, at most block_count. */
static uint64_t ns_blocks_used(const struct ns *ns)
{
	uint64_t used_bytes =
		ns->backing ? ns_live_used_bytes(ns_backing_live(ns->backing)) : UINT64_MAX;
	uint64_t blocks = (used_bytes >> ns->block_shift) +
			  ((used_bytes & ((1u << ns->block_shift) - 1)) != 0);

	return blocks < ns->block_count ? blocks : ns->block_count;
}

/* Hosts split I/O at boundaries, so a boundary must be a whole number of blocks. 0: no boundary. */
static uint32_t ns_boundary_blocks(const struct ns *ns)
{
	uint32_t bytes = ns->media->boundary_bytes;

	return bytes % (1u << ns->block_shift) == 0 ? bytes >> ns->block_shift : 0;
}

static void ns_identity_fill(const struct ns *ns, const struct target_limits *limits,
			     struct ns_identity *ret_identity)
{
	const struct media *media = ns->media;

	*ret_identity = (struct ns_identity){
		.block_count = ns->block_count,
		/* NCAP equals NSZE, so THINP stays clear. */
		.blocks_used = ns_blocks_used(ns),
		.block_bytes = 1u << ns->block_shift,
		.is_shared = !ns->is_private,
		.is_write_protected = ns->is_read_only || media->is_read_only,
		.reads_zero_after_dealloc = media->reads_zero_after_discard,
		.has_write_zeroes_dealloc = media->can_discard && media->reads_zero_after_discard,
		.ana_group_id = ns->ana_group,
		.is_not_ready = ns->is_formatting,
		.reservation_caps = ns->is_clustered ? 0 : TARGET_RESERVATION_CAPS,
		.capacity_bytes = ns->block_count << ns->block_shift,
		.optimal_write_blocks = media->optimal_io_bytes >> ns->block_shift,
		.write_granularity_blocks = media->write_granularity_bytes >> ns->block_shift,
		.deallocate_granularity_blocks =
			media->discard_granularity_bytes >> ns->block_shift,
		.boundary_blocks = ns_boundary_blocks(ns),
		/* A write is atomic for every reader. Across a power failure a medium guarantees
		 * one block and no more. */
		.atomic_write_blocks = ns_atomic_blocks(ns, limits),
		.atomic_power_fail_blocks = 1,
		.atomic_compare_write_blocks = ns_fused_blocks(ns, limits),
		.copy_range_blocks_max = TARGET_COPY_RANGE_BLOCKS_MAX,
		.copy_blocks_max = TARGET_COPY_BLOCKS_MAX,
		.copy_ranges_max = TARGET_COPY_RANGES_MAX,
		.uuid = ns->uuid,
		.loss_mark = ns->backing ? ns_live_loss_mark(ns_backing_live(ns->backing)) : 0,
	};
	memcpy(ret_identity->nguid, ns->nguid, sizeof(ret_identity->nguid));
}

/* Fills in the values that all namespaces have in common, existing and future ones. */
static void ns_identity_fill_common(struct ns_identity *ret_identity)
{
	*ret_identity = (struct ns_identity){
		.block_bytes = 1u << lba_format_shift(0),
		.is_shared = true,
		.reservation_caps = TARGET_RESERVATION_CAPS,
		.copy_range_blocks_max = TARGET_COPY_RANGE_BLOCKS_MAX,
		.copy_blocks_max = TARGET_COPY_BLOCKS_MAX,
		.copy_ranges_max = TARGET_COPY_RANGES_MAX,
	};
}

static void ns_page_encode(const struct ns_identity *identity, uint8_t cns, uint8_t *page)
{
	switch (cns) {
	case IDENTIFY_NS:
	case IDENTIFY_ALLOCATED_NS:
		identify_ns_encode(identity, page);
		break;
	case IDENTIFY_NS_DESCRIPTORS:
		identify_ns_descriptors_encode(identity, page);
		break;
	case IDENTIFY_CSI_NS:
		identify_nvm_ns_encode(page);
		break;
	default:
		identify_ns_independent_encode(identity, page);
		break;
	}
}

/* Finds the namespace of the command, if the host sees it or, for CNS 11h, if it is allocated.
 * NULL: *ret_status is the refusal, or success for a page of zeroes. */
static const struct ns *identify_find_ns(struct slot *slot, const struct identify_cmd *cmd,
					 nvme_status *ret_status)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t nsid = le32_get(slot->sqe.nsid);
	const struct ns *ns = subsystem_find_ns(ctrl->subsystem, nsid);
	bool is_inactive = nsid >= 1 && nsid <= TARGET_NSID_MAX;

	*ret_status = NVME_SC_SUCCESS;
	if (ns && ns_is_listed(ctrl, ns, cmd->cns == IDENTIFY_ALLOCATED_NS))
		return ns;
	if (!is_inactive || cmd->cns == IDENTIFY_NS_DESCRIPTORS)
		*ret_status = command_refuse_nsid(slot, nsid);
	return NULL;
}

/* Base 2.1, 8.1.1: a controller that cannot reach a namespace does not know how much of it is used.
 * The other sizes stay, or hosts would treat the namespace as removed. */
static bool ns_is_out_of_reach(const struct ctrl *ctrl, const struct ns *ns)
{
	enum ana_state state =
		ctrl->port ? port_ana_state(ctrl->port, ns->ana_group) : ANA_OPTIMIZED;

	return state == ANA_INACCESSIBLE || state == ANA_PERSISTENT_LOSS;
}

/* The pages of one namespace. */
static nvme_status identify_one_ns(struct slot *slot, const struct identify_cmd *cmd)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	bool has_common = cmd->cns == IDENTIFY_NS || cmd->cns == IDENTIFY_CSI_NS;
	struct ns_identity identity;
	const struct ns *ns;
	nvme_status status;

	if (le32_get(slot->sqe.nsid) == NVME_NSID_ALL && has_common &&
	    ctrl_has_right(ctrl, HOST_RIGHT_NAMESPACES)) {
		ns_identity_fill_common(&identity);
		ns_page_encode(&identity, cmd->cns, slot->data.addr);
		return NVME_SC_SUCCESS;
	}
	ns = identify_find_ns(slot, cmd, &status);
	if (ns) {
		bool is_page = cmd->cns == IDENTIFY_NS;

		if ((is_page || cmd->cns == IDENTIFY_NS_DESCRIPTORS) &&
		    ctrl_known_note(slot->queue->ctrl, ns, is_page) != 0)
			return NVME_SC_INTERNAL;
		ns_identity_fill(ns, &ctrl->local->snapshot->limits, &identity);
		identity.loss_source = ctrl->target->loss_source;
		if (ns_is_out_of_reach(ctrl, ns))
			identity.blocks_used = 0;
		ns_page_encode(&identity, cmd->cns, slot->data.addr);
	}
	return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

struct identify_page {
	uint8_t cns;
	bool has_csi; /* the command names a command set */
	nvme_status (*fill)(struct slot *slot, const struct identify_cmd *cmd);
};

static const struct identify_page identify_pages[] = {
	{IDENTIFY_NS, false, identify_one_ns},
	{IDENTIFY_CTRL, false, identify_ctrl},
	{IDENTIFY_NS_LIST, false, identify_ns_list},
	{IDENTIFY_NS_DESCRIPTORS, false, identify_one_ns},
	{IDENTIFY_CSI_NS, true, identify_one_ns},
	{IDENTIFY_CSI_CTRL, true, identify_nvm_ctrl},
	{IDENTIFY_CSI_NS_LIST, true, identify_ns_list},
	{IDENTIFY_CSI_INDEPENDENT_NS, false, identify_one_ns},
	{IDENTIFY_ALLOCATED_NS_LIST, false, identify_ns_list},
	{IDENTIFY_ALLOCATED_NS, false, identify_one_ns},
	/* Filled by identify_ctrl_list instead. */
	{IDENTIFY_NS_CTRL_LIST, false, NULL},
	{IDENTIFY_CTRL_LIST, false, NULL},
	{IDENTIFY_NS_GRANULARITY, false, identify_granularity},
	{IDENTIFY_UUID_LIST, false, identify_uuid_list},
	{IDENTIFY_COMMAND_SETS, false, identify_command_sets},
};

static const struct identify_page *identify_page_find(const struct ctrl *ctrl, uint8_t cns)
{
	if (ctrl->type == CTRL_TYPE_DISCOVERY && cns != IDENTIFY_CTRL)
		return NULL;
	for (unsigned i = 0; i < ARRAY_LEN(identify_pages); i++)
		if (identify_pages[i].cns == cns)
			return &identify_pages[i];
	return NULL;
}

/* CNS 12h: finds the namespace in the slot's snapshot, which the slot holds while it travels. */
static nvme_status ctrl_list_find_ns(struct slot *slot)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t nsid = le32_get(slot->sqe.nsid);
	const struct subsystem *subsystem =
		snapshot_find_subsystem(slot->snapshot, ctrl->subsystem_nqn);
	const struct ns *ns = subsystem ? subsystem_find_ns(subsystem, nsid) : NULL;

	if (nsid < 1 || nsid > TARGET_NSID_MAX)
		return command_refuse(slot, NVME_SC_INVALID_NS, SQE_BYTE_NSID);
	if (ns && ns_is_allocated_for(ns, snapshot_host_index(slot->snapshot, ctrl->host_nqn)))
		slot->ns = ns;
	return NVME_SC_SUCCESS;
}

static void identify_ctrl_list(struct slot *slot, const struct identify_cmd *cmd)
{
	struct target *target = slot->queue->ctrl->target;
	bool is_of_ns = cmd->cns == IDENTIFY_NS_CTRL_LIST;
	nvme_status status = is_of_ns ? ctrl_list_find_ns(slot) : NVME_SC_SUCCESS;

	/* An NSID that is not allocated is attached to no controller. */
	if (!nvme_status_is_ok(status) || (is_of_ns && !slot->ns))
		slot_complete(slot, status);
	else
		slot_visit(slot, target_registry(target)->reactor, ctrl_list_here, NULL);
}

static void identify_execute(struct slot *slot)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct identify_page *page;
	struct identify_cmd cmd;

	/* The subsystem was removed after the command was prepared: the controller is about to
	 * end. */
	if (ctrl->type == CTRL_TYPE_IO && !ctrl->subsystem) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	identify_cmd_decode(&slot->sqe, &cmd);
	memset(slot->data.addr, 0, slot->data_bytes);
	page = identify_page_find(ctrl, cmd.cns);
	if (page->fill)
		slot_complete(slot, page->fill(slot, &cmd));
	else
		identify_ctrl_list(slot, &cmd);
}

nvme_status identify_prepare(struct slot *slot)
{
	const struct identify_page *page;
	struct identify_cmd cmd;

	identify_cmd_decode(&slot->sqe, &cmd);
	page = identify_page_find(slot->queue->ctrl, cmd.cns);
	if (!page)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10);
	if (page->has_csi && cmd.csi != NVME_CSI_NVM)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CSI);
	slot->execute = identify_execute;
	return command_expect_data(slot, DATA_TO_HOST, NVME_PAGE_BYTES);
}
