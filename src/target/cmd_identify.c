/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identify: which controller, which namespaces, what each of them is. Runs on the controller's
 * reactor; reads the snapshot in force when the command is executed.
 * NVMe Base 2.1, section 5.1.13; NVM Command Set 1.1, section 4.1.5.
 *
 * There is no Namespace Management, so that every namespace of the subsystem is attached to every
 * controller, and NSID FFFFFFFFh (capabilities of all namespaces) is an invalid namespace. An NSID
 * up to TARGET_NSID_MAX without a namespace is inactive: its pages are zeroes.
 */
#include "target/command.h"
#include "target/local.h"

#include <string.h>

#define IDENTIFY_NSID_LIST_LIMIT 0xfffffffeu /* lists begin after an NSID below this */
#define IDENTIFY_LIST_MAX        (NVME_PAGE_BYTES / sizeof(uint32_t))
#define SQE_BYTE_CSI             (SQE_BYTE_CDW11 + 3)
#define SQE_BYTE_CNTID           (SQE_BYTE_CDW10 + 2)

static void ns_identity_fill(const struct ns *ns, struct ns_identity *ret_identity)
{
	const struct media *media = ns->media;

	*ret_identity = (struct ns_identity){
		.block_count = ns->block_count,
		/* How much of a thin medium is used is not known here; NUSE below NCAP without
		 * knowing it would be a guess. */
		.blocks_used = ns->block_count,
		.block_bytes = 1u << ns->block_shift,
		.is_shared = true,
		.is_write_protected = ns->is_read_only || media->is_read_only,
		.reads_zero_after_dealloc = media->reads_zero_after_discard,
		.has_write_zeroes_dealloc = media->can_discard && media->reads_zero_after_discard,
		.ana_group_id = ns->ana_group,
		.optimal_write_blocks = media->optimal_io_bytes >> ns->block_shift,
		.uuid = ns->uuid,
	};
	memcpy(ret_identity->nguid, ns->nguid, sizeof(ret_identity->nguid));
}

static nvme_status identify_ctrl(struct slot *slot, const struct identify_cmd *cmd)
{
	struct ctrl_identity identity;

	ctrl_identity_fill(slot->queue->ctrl, &identity);
	identify_ctrl_encode(&identity, slot->data);
	return NVME_SC_SUCCESS;
}

static nvme_status identify_nvm_ctrl(struct slot *slot, const struct identify_cmd *cmd)
{
	static const struct nvm_ctrl_limits limits = {
		.write_zeroes_max_bytes = TARGET_WRITE_ZEROES_MAX_BYTES,
	};

	identify_nvm_ctrl_encode(&limits, slot->data);
	return NVME_SC_SUCCESS;
}

/* CNS 1Ch: ours, by name or by FFFFh. */
static nvme_status identify_command_sets(struct slot *slot, const struct identify_cmd *cmd)
{
	if (cmd->cntid != NVME_CNTLID_ANY && cmd->cntid != slot->queue->ctrl->cntlid)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CNTID);
	identify_command_sets_encode(slot->data);
	return NVME_SC_SUCCESS;
}

static nvme_status identify_ns_list(struct slot *slot, const struct identify_cmd *cmd)
{
	const struct subsystem *subsystem = slot->queue->ctrl->subsystem;
	uint32_t after = le32_get(slot->sqe.nsid);
	uint32_t nsids[IDENTIFY_LIST_MAX];
	uint32_t count = 0;
	unsigned i;

	if (after >= IDENTIFY_NSID_LIST_LIMIT)
		return command_refuse(slot, NVME_SC_INVALID_NS, SQE_BYTE_NSID);
	i = subsystem_ns_after(subsystem, after);
	while (i < subsystem->ns_count && count < IDENTIFY_LIST_MAX)
		nsids[count++] = subsystem->namespaces[i++].nsid;
	identify_ns_list_encode(nsids, count, slot->data);
	return NVME_SC_SUCCESS;
}

/* The pages of one namespace. */
static nvme_status identify_one_ns(struct slot *slot, const struct identify_cmd *cmd)
{
	uint32_t nsid = le32_get(slot->sqe.nsid);
	const struct ns *ns = subsystem_find_ns(slot->queue->ctrl->subsystem, nsid);
	struct ns_identity identity;

	if (!ns) {
		bool is_inactive = nsid >= 1 && nsid <= TARGET_NSID_MAX;

		if (!is_inactive || cmd->cns == IDENTIFY_NS_DESCRIPTORS)
			return command_refuse(slot, NVME_SC_INVALID_NS, SQE_BYTE_NSID);
		return NVME_SC_SUCCESS;
	}
	ns_identity_fill(ns, &identity);
	switch (cmd->cns) {
	case IDENTIFY_NS:
		identify_ns_encode(&identity, slot->data);
		break;
	case IDENTIFY_NS_DESCRIPTORS:
		identify_ns_descriptors_encode(&identity, slot->data);
		break;
	case IDENTIFY_CSI_NS:
		identify_nvm_ns_encode(slot->data);
		break;
	default:
		identify_ns_independent_encode(&identity, slot->data);
		break;
	}
	return NVME_SC_SUCCESS;
}

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

static void identify_execute(struct slot *slot)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	struct identify_cmd cmd;

	/* Removed since: the controller is about to end. */
	if (ctrl->type == CTRL_TYPE_IO && !ctrl->subsystem) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	identify_cmd_decode(&slot->sqe, &cmd);
	memset(slot->data, 0, slot->data_bytes);
	slot_complete(slot, identify_page_find(ctrl, cmd.cns)->fill(slot, &cmd));
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
