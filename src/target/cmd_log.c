/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get Log Page: the table of pages, and the small pages. ANA is in log_ana.c, errors in
 * log_error.c, health and events in log_health.c and log_persistent_event.c. The discovery log
 * comes from the function that control gave to the target. Runs on the controller's reactor. NVMe
 * Base 2.1, section 5.1.12.
 *
 * Every page is written through a window (log.h). Bytes behind the end of a page are zeroes. An
 * offset behind the end of a page is refused.
 */
#include "target/feature.h"
#include "target/local.h"
#include "target/log.h"

#define LOG_CHANGED_OVERFLOW 0xffffffffu
#define SQE_BYTE_LOG_NUMD    (SQE_BYTE_CDW10 + 2)
#define SQE_BYTE_LOG_CSI     (SQE_BYTE_CDW14 + 3)
#define SQE_AT_LOG_OT        SQE_AT(SQE_BYTE_CDW14 + 2, 7)

/* Writes the part of the page that is in the window. Returns the size of the whole page. */
typedef uint64_t log_write_fn(const struct ctrl *ctrl, const struct log_cmd *cmd,
			      const struct log_window *window);

struct log_page {
	uint8_t id;
	bool is_io;
	bool is_discovery;
	log_write_fn *write;
	/* Used instead of `write`: completes the command. */
	void (*execute)(struct slot *slot, const struct log_cmd *cmd);
	uint16_t specific; /* LID Specific Parameter */
};

static log_write_fn log_supported, log_error, log_firmware, log_changed_ns, log_effects, log_ana,
	log_feature_effects, log_mi_effects, log_discovery, log_reservation, log_lost_host;

static const struct log_page log_pages[] = {
	{LOG_SUPPORTED, true, true, log_supported, NULL, 0},
	{LOG_ERROR, true, true, log_error, NULL, 0},
	{LOG_SMART, true, true, NULL, log_smart_execute, 0},
	{LOG_FIRMWARE, true, true, log_firmware, NULL, 0},
	{LOG_CHANGED_NS, true, false, log_changed_ns, NULL, 0},
	{LOG_EFFECTS, true, true, log_effects, NULL, 0},
	{LOG_ANA, true, false, log_ana, NULL, 0},
	{LOG_PERSISTENT_EVENT, true, false, NULL, log_event_execute, LOG_SPECIFIC_EVENT_HEADER},
	{LOG_FEATURE_EFFECTS, true, true, log_feature_effects, NULL, 0},
	{LOG_MI_EFFECTS, true, true, log_mi_effects, NULL, 0},
	{LOG_CTRL_RESET, true, false, NULL, log_ctrl_reset_execute, 0},
	{LOG_LOST_HOST, true, false, log_lost_host, NULL, 0},
	{LOG_DISCOVERY, false, true, log_discovery, NULL, 0},
	{LOG_RESERVATION, true, false, log_reservation, NULL, 0},
};

static bool log_page_applies(const struct log_page *page, const struct ctrl *ctrl)
{
	return ctrl->type == CTRL_TYPE_DISCOVERY ? page->is_discovery : page->is_io;
}

static const struct log_page *log_page_find(const struct ctrl *ctrl, uint8_t id)
{
	for (unsigned i = 0; i < ARRAY_LEN(log_pages); i++)
		if (log_pages[i].id == id && log_page_applies(&log_pages[i], ctrl))
			return &log_pages[i];
	return NULL;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static uint64_t log_supported(const struct ctrl *ctrl, const struct log_cmd *cmd,
			      const struct log_window *window)
{
	uint8_t page[LOG_SUPPORTED_BYTES] = {0};

	for (unsigned i = 0; i < ARRAY_LEN(log_pages); i++)
		if (log_page_applies(&log_pages[i], ctrl))
			log_supported_add(log_pages[i].id, log_pages[i].specific, page);
	log_window_put(window, 0, page, sizeof(page));
	return sizeof(page);
}

static uint64_t log_error(const struct ctrl *ctrl, const struct log_cmd *cmd,
			  const struct log_window *window)
{
	return log_error_write(ctrl, window);
}

static uint64_t log_firmware(const struct ctrl *ctrl, const struct log_cmd *cmd,
			     const struct log_window *window)
{
	uint8_t page[LOG_FIRMWARE_BYTES];

	log_firmware_encode(WEFT_VERSION, page);
	log_window_put(window, 0, page, sizeof(page));
	return sizeof(page);
}

static uint64_t log_changed_ns(const struct ctrl *ctrl, const struct log_cmd *cmd,
			       const struct log_window *window)
{
	le32 nsid = le32_of(LOG_CHANGED_OVERFLOW);

	if (ctrl->has_changed_overflow) {
		log_window_put(window, 0, &nsid, sizeof(nsid));
		return LOG_CHANGED_NS_BYTES;
	}
	for (uint32_t i = 0; i < ctrl->changed_count; i++) {
		nsid = le32_of(ctrl->changed_nsids[i]);
		log_window_put(window, i * sizeof(nsid), &nsid, sizeof(nsid));
	}
	return LOG_CHANGED_NS_BYTES;
}

static uint64_t log_effects(const struct ctrl *ctrl, const struct log_cmd *cmd,
			    const struct log_window *window)
{
	struct log_effects effects;
	uint8_t page[LOG_EFFECTS_BYTES];

	command_effects(ctrl, &effects);
	/* Unsupported command sets have no I/O commands. nvme-cli asks for their effects
	 * nevertheless. */
	if (cmd->csi != NVME_CSI_NVM)
		memset(effects.io, 0, sizeof(effects.io));
	log_effects_encode(&effects, page);
	log_window_put(window, 0, page, sizeof(page));
	return sizeof(page);
}

static uint64_t log_feature_effects(const struct ctrl *ctrl, const struct log_cmd *cmd,
				    const struct log_window *window)
{
	uint8_t page[LOG_FEATURE_EFFECTS_BYTES] = {0};
	const struct feature *row;

	for (unsigned i = 0; (row = feature_row(i)) != NULL; i++) {
		uint32_t effects = LOG_FEATURE_SUPPORTED;

		if (!feature_find(ctrl, row->id))
			continue;
		effects |= row->scope == FEATURE_OF_CTRL ? LOG_FEATURE_OF_CTRL : LOG_FEATURE_OF_NS;
		/* The attributes of a namespace include its write protection. */
		if (row->id == FEATURE_WRITE_PROTECT)
			effects |= LOG_FEATURE_CHANGES_NS;
		log_feature_effect_add(row->id, effects, page);
	}
	log_window_put(window, 0, page, sizeof(page));
	return sizeof(page);
}

/* All zeroes: the target has no management endpoint and supports none of its commands. */
static uint64_t log_mi_effects(const struct ctrl *ctrl, const struct log_cmd *cmd,
			       const struct log_window *window)
{
	return LOG_MI_EFFECTS_BYTES;
}

static uint64_t log_ana(const struct ctrl *ctrl, const struct log_cmd *cmd,
			const struct log_window *window)
{
	struct log_ana_view view = {
		.subsystem = ctrl->subsystem,
		.port = ctrl->port,
		.host_index = ctrl->host_index,
		.change_count = ctrl_ana_change_count(ctrl),
	};

	return log_ana_write(&view, (cmd->specific & LOG_ANA_RGO) != 0, window);
}

static uint64_t log_discovery(const struct ctrl *ctrl, const struct log_cmd *cmd,
			      const struct log_window *window)
{
	struct discovery_asker asker = {
		.snapshot = ctrl->local->snapshot,
		.port = ctrl->port,
		.host_nqn = ctrl->host_nqn,
		.local = &ctrl->local_addr,
	};

	return ctrl->target->discovery_log(&asker, window->offset, window->buf, window->len_bytes);
}

static uint64_t log_reservation(const struct ctrl *ctrl, const struct log_cmd *cmd,
				const struct log_window *window)
{
	return log_reservation_write(ctrl, window);
}

static uint64_t log_lost_host(const struct ctrl *ctrl, const struct log_cmd *cmd,
			      const struct log_window *window)
{
	return log_lost_host_write(ctrl, window);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The subsystem or port may have been removed. The controller is then about to end. */
static bool log_can_write(const struct ctrl *ctrl, uint8_t log_id)
{
	switch (log_id) {
	case LOG_ANA:
		return ctrl->subsystem && ctrl->port;
	case LOG_DISCOVERY:
		return ctrl->port && ctrl->target->discovery_log;
	default:
		return true;
	}
}

void log_finish(struct slot *slot, const struct log_cmd *cmd, uint64_t page_bytes)
{
	if (cmd->offset > page_bytes) {
		slot_complete(slot, command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12));
		return;
	}
	if (!cmd->retains_event)
		ctrl_event_clear(slot->queue->ctrl, cmd->log_id, cmd->offset == 0);
	slot_complete(slot, NVME_SC_SUCCESS);
}

static void log_execute(struct slot *slot)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	const struct log_page *page;
	struct log_window window;
	struct log_cmd cmd;

	log_cmd_decode(&slot->sqe, &cmd);
	if (!log_can_write(ctrl, cmd.log_id)) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	memset(slot->data.addr, 0, slot->data_bytes);
	page = log_page_find(ctrl, cmd.log_id);
	if (page->execute) {
		page->execute(slot, &cmd);
		return;
	}
	window = (struct log_window){slot->data.addr, cmd.offset, slot->data_bytes};
	log_finish(slot, &cmd, page->write(ctrl, &cmd, &window));
}

nvme_status log_prepare(struct slot *slot)
{
	const struct ctrl *ctrl = slot->queue->ctrl;
	uint32_t nsid = le32_get(slot->sqe.nsid);
	struct log_cmd cmd;

	log_cmd_decode(&slot->sqe, &cmd);
	if (!log_page_find(ctrl, cmd.log_id))
		return command_refuse(slot, NVME_SC_INVALID_LOG_PAGE, SQE_BYTE_CDW10);
	if (cmd.len_bytes > ctrl->local->snapshot->limits.transfer_max_bytes)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_LOG_NUMD);
	if (cmd.offset_is_index)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_AT_LOG_OT);
	if (cmd.offset % sizeof(uint32_t) != 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12);
	/* LPA bit 0 is clear: the health log is per controller, not per namespace. */
	if (cmd.log_id == LOG_SMART && nsid != 0 && nsid != NVME_NSID_ALL)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_NSID);
	if (cmd.log_id == LOG_EFFECTS && cmd.csi > NVME_CSI_MAX)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_LOG_CSI);
	/* Extended entries, and entries of one port or of all subsystems, are not supported: page 0
	 * does not offer them. */
	if (cmd.log_id == LOG_DISCOVERY && cmd.specific != 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_LOG_LSP);
	slot->execute = log_execute;
	return command_expect_data(slot, DATA_TO_HOST, (uint32_t)cmd.len_bytes);
}
