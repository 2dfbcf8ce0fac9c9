/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get Log Page: one table of pages and the small ones themselves; ANA is in log_ana.c, errors in
 * error_log.c, the discovery log comes from the function that control gave to the target. Runs on
 * the controller's reactor. NVMe Base 2.1, section 5.1.12.
 *
 * Every page is written through a window (log.h). Bytes behind its end are zeroes; an offset
 * behind its end is refused.
 *
 * SMART tells what is counted: commands and bytes of the subsystem's namespaces, starts, hours and
 * errors. A program has no temperature and does not wear: it says room temperature, full spare.
 */
#include "target/command.h"
#include "target/local.h"
#include "target/log.h"

#include "base/clock.h"

#define LOG_SMART_TEMPERATURE_K 298
#define LOG_SMART_SPARE_PERCENT 100
#define LOG_CHANGED_OVERFLOW    0xffffffffu
#define SQE_BYTE_LOG_CSI        (SQE_BYTE_CDW14 + 3)
#define SQE_BYTE_LOG_OT         (SQE_BYTE_CDW14 + 2)

/* Writes what falls into the window; returns the size of the whole page. */
typedef uint64_t log_write_fn(const struct ctrl *ctrl, const struct log_cmd *cmd,
			      const struct log_window *window);

struct log_page {
	uint8_t id;
	bool is_io;
	bool is_discovery;
	log_write_fn *write;
};

static log_write_fn log_supported, log_error, log_smart, log_firmware, log_changed_ns, log_effects,
	log_ana, log_discovery;

static const struct log_page log_pages[] = {
	{LOG_SUPPORTED, true, true, log_supported},
	{LOG_ERROR, true, true, log_error},
	{LOG_SMART, true, true, log_smart},
	{LOG_FIRMWARE, true, true, log_firmware},
	{LOG_CHANGED_NS, true, false, log_changed_ns},
	{LOG_EFFECTS, true, true, log_effects},
	{LOG_ANA, true, false, log_ana},
	{LOG_DISCOVERY, false, true, log_discovery},
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
	uint8_t ids[ARRAY_LEN(log_pages)];
	uint8_t page[LOG_SUPPORTED_BYTES];
	size_t count = 0;

	for (unsigned i = 0; i < ARRAY_LEN(log_pages); i++)
		if (log_page_applies(&log_pages[i], ctrl))
			ids[count++] = log_pages[i].id;
	log_supported_encode(ids, count, page);
	log_window_put(window, 0, page, sizeof(page));
	return sizeof(page);
}

static uint64_t log_error(const struct ctrl *ctrl, const struct log_cmd *cmd,
			  const struct log_window *window)
{
	return log_error_write(ctrl, window);
}

static uint64_t counter_get(const atomic_ulong *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void smart_add_store(const struct ns_store *store, struct log_smart *smart)
{
	for (unsigned i = 0; i < ns_live_local_count(store->live); i++) {
		const struct ns_local *counters = &ns_live_locals(store->live)[i];

		smart->bytes_read += counter_get(&counters->bytes_read);
		smart->bytes_written += counter_get(&counters->bytes_written);
		smart->read_commands += counter_get(&counters->read_commands);
		smart->write_commands += counter_get(&counters->write_commands);
		smart->media_errors += counter_get(&counters->media_errors);
	}
}

static uint64_t log_smart(const struct ctrl *ctrl, const struct log_cmd *cmd,
			  const struct log_window *window)
{
	const struct target *target = ctrl->target;
	uint64_t up_ns = reactor_now_ns(ctrl->reactor) - target->started_ns;
	struct log_smart smart = {
		.temperature_k = LOG_SMART_TEMPERATURE_K,
		.spare_percent = LOG_SMART_SPARE_PERCENT,
		.power_cycles = target->power_cycles,
		.power_on_hours = up_ns / (3600 * NS_PER_S),
		.unsafe_shutdowns = target->unsafe_shutdowns,
		.error_log_entries = ctrl->error_count,
	};
	uint8_t page[LOG_SMART_BYTES];

	if (ctrl->subsystem)
		for (unsigned i = 0; i < ctrl->subsystem->ns_count; i++)
			smart_add_store(ctrl->subsystem->namespaces[i].store, &smart);
	log_smart_encode(&smart, page);
	log_window_put(window, 0, page, sizeof(page));
	return sizeof(page);
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

	command_effects(ctrl->type, &effects);
	log_effects_encode(&effects, page);
	log_window_put(window, 0, page, sizeof(page));
	return sizeof(page);
}

static uint64_t log_ana(const struct ctrl *ctrl, const struct log_cmd *cmd,
			const struct log_window *window)
{
	return log_ana_write(ctrl->subsystem, ctrl->port, ctrl->local->snapshot->ana_change_count,
			     (cmd->specific & LOG_ANA_RGO) != 0, window);
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

/* ---- the command ----------------------------------------------------------------------------- */

/* What the page needs may have been removed since; the controller is then about to end. */
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

static void log_execute(struct slot *slot)
{
	struct ctrl *ctrl = slot->queue->ctrl;
	struct log_window window;
	struct log_cmd cmd;

	log_cmd_decode(&slot->sqe, &cmd);
	if (!log_can_write(ctrl, cmd.log_id)) {
		slot_complete(slot, NVME_SC_INTERNAL);
		return;
	}
	memset(slot->data, 0, slot->data_bytes);
	window = (struct log_window){slot->data, cmd.offset, slot->data_bytes};
	if (cmd.offset > log_page_find(ctrl, cmd.log_id)->write(ctrl, &cmd, &window)) {
		slot_complete_at(slot, nvme_status_dnr(NVME_SC_INVALID_FIELD), SQE_BYTE_CDW12);
		return;
	}
	if (!cmd.retains_event)
		ctrl_event_clear(ctrl, cmd.log_id, cmd.offset == 0);
	slot_complete(slot, NVME_SC_SUCCESS);
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
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW10 + 2);
	if (cmd.offset_is_index)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_LOG_OT);
	if (cmd.offset % sizeof(uint32_t) != 0)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_CDW12);
	/* LPA bit 0 is clear: health is told of the controller, not of one namespace. */
	if (cmd.log_id == LOG_SMART && nsid != 0 && nsid != NVME_NSID_ALL)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_NSID);
	if (cmd.log_id == LOG_EFFECTS && cmd.csi != NVME_CSI_NVM)
		return command_refuse(slot, NVME_SC_INVALID_FIELD, SQE_BYTE_LOG_CSI);
	slot->execute = log_execute;
	return command_expect_data(slot, DATA_TO_HOST, (uint32_t)cmd.len_bytes);
}
