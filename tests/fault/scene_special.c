/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of the script that the control reactor handles: reservations, bad blocks, Copy,
 * commands that change the configuration, features, kept logs. One thread.
 *
 * A failed command is sent once more and must then succeed, whatever the failed one has done. All
 * commands use the first namespace, which is in memory and never fails by itself.
 */
#include "scene.h"

#include "ns/reservation.h"
#include "wire/copy.h"
#include "wire/io_cmd.h"
#include "wire/ns_manage.h"
#include "wire/persistent_event.h"

#include <stdlib.h>
#include <string.h>

#define SPECIAL_KEY 0x5eedull

/* Fills in the command. False: the command would have no effect and is left out. */
typedef bool (*special_fn)(struct scene_cmd *cmd);

/* queue -1: the admin queue. */
static void special(struct scene *scene, special_fn fill, int queue)
{
	for (unsigned tries = 0; tries < 2; tries++) {
		struct scene_cmd *cmd;

		if (!scene_have_ctrl(scene))
			return;
		cmd = scene_cmd(scene, 0, 1);
		memset(cmd->data, 0, NVME_PAGE_BYTES);
		cmd->cmd.data = cmd->data;
		if (!fill(cmd))
			return;
		if (cmd->cmd.data_bytes == 0)
			cmd->cmd.direction = HOST_DATA_NONE;
		scene_submit(scene, cmd, queue);
		scene_wait_cmds(scene);
		if (nvme_status_is_ok(cmd->cmd.status))
			return;
		SCENE_EXPECT(scene, tries == 0);
	}
}

static void with_data(struct scene_cmd *cmd, enum host_data_direction direction, uint32_t bytes)
{
	cmd->cmd.direction = direction;
	cmd->cmd.data_bytes = bytes;
}

/* ---- reservations ---------------------------------------------------------------------------- */

static bool fill_register(struct scene_cmd *cmd)
{
	struct register_cmd reg = {
		.persist = PERSIST_ON, .ignores_key = true, .new_key = SPECIAL_KEY};

	register_cmd_encode(&cmd->cmd.sqe, 1, &reg, cmd->data);
	with_data(cmd, HOST_DATA_TO_CTRL, REGISTER_DATA_BYTES);
	return true;
}

static bool fill_acquire(struct scene_cmd *cmd)
{
	struct acquire_cmd acquire = {.type = RESERVATION_EXCLUSIVE_ACCESS,
				      .current_key = SPECIAL_KEY};

	acquire_cmd_encode(&cmd->cmd.sqe, 1, &acquire, cmd->data);
	with_data(cmd, HOST_DATA_TO_CTRL, ACQUIRE_DATA_BYTES);
	return true;
}

/* The holder preempts its own reservation to change the type. */
static bool fill_preempt(struct scene_cmd *cmd)
{
	struct acquire_cmd acquire = {.action = ACQUIRE_PREEMPT_AND_ABORT,
				      .type = RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS,
				      .current_key = SPECIAL_KEY,
				      .preempt_key = SPECIAL_KEY};

	acquire_cmd_encode(&cmd->cmd.sqe, 1, &acquire, cmd->data);
	with_data(cmd, HOST_DATA_TO_CTRL, ACQUIRE_DATA_BYTES);
	return true;
}

static bool fill_report(struct scene_cmd *cmd)
{
	struct report_cmd report = {.len_bytes = 1024, .is_extended = true};

	report_cmd_encode(&cmd->cmd.sqe, 1, &report);
	with_data(cmd, HOST_DATA_FROM_CTRL, 1024);
	return true;
}

static bool fill_release(struct scene_cmd *cmd)
{
	struct release_cmd release = {.type = RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS,
				      .current_key = SPECIAL_KEY};

	release_cmd_encode(&cmd->cmd.sqe, 1, &release, cmd->data);
	with_data(cmd, HOST_DATA_TO_CTRL, RELEASE_DATA_BYTES);
	return true;
}

static void fill_set_feature(struct scene_cmd *cmd, uint8_t feature_id, uint32_t cdw11)
{
	feature_set_encode(&cmd->cmd.sqe, feature_id, cdw11);
	cmd->cmd.sqe.nsid = le32_of(1);
}

static bool fill_notice_mask(struct scene_cmd *cmd)
{
	fill_set_feature(cmd, FEATURE_RESERVATION_MASK, NOTICE_MASK_ALL);
	return true;
}

static bool fill_persistence(struct scene_cmd *cmd)
{
	fill_set_feature(cmd, FEATURE_RESERVATION_PERSISTENCE, 1);
	return true;
}

static bool fill_no_persistence(struct scene_cmd *cmd)
{
	fill_set_feature(cmd, FEATURE_RESERVATION_PERSISTENCE, 0);
	return true;
}

static void expect_held(struct scene *scene, enum reservation_type type, bool is_kept)
{
	const struct reservation *truth = ns_live_reservation(ns_backing_live(scene->backings[0]));

	SCENE_EXPECT(scene, truth && truth->type == type && truth->count == 1);
	SCENE_EXPECT(scene, (scene->kept_bytes > 0) == is_kept);
}

void scene_step_reserve(struct scene *scene)
{
	special(scene, fill_register, 0);
	special(scene, fill_acquire, 1);
	expect_held(scene, RESERVATION_EXCLUSIVE_ACCESS, true);
	special(scene, fill_report, 0);
	special(scene, fill_notice_mask, -1);
	special(scene, fill_preempt, 1);
	expect_held(scene, RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS, true);
	special(scene, fill_no_persistence, -1);
	expect_held(scene, RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS, false);
	special(scene, fill_persistence, -1);
	special(scene, fill_release, 0);
	expect_held(scene, RESERVATION_NONE, true);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool fill_uncorrectable(struct scene_cmd *cmd)
{
	struct io_cmd io = {.first_block = 30, .block_count = 2};

	io_cmd_encode(&cmd->cmd.sqe, NVME_IO_WRITE_UNCORRECTABLE, 1, &io);
	return true;
}

static bool fill_heal(struct scene_cmd *cmd)
{
	cmd->first_block = 29;
	cmd->block_count = 3;
	cmd->stamp = 91;
	cmd->changes_data = true;
	memset(cmd->data, cmd->stamp, 3 * SCENE_BLOCK_BYTES);
	host_cmd_write(&cmd->cmd, 1, 29, 3, cmd->data, 3 * SCENE_BLOCK_BYTES);
	return true;
}

static bool fill_heal_dsm(struct scene_cmd *cmd)
{
	static const struct dsm_range range = {.first_block = 28, .block_count = 4};

	cmd->first_block = 28;
	cmd->block_count = 4;
	cmd->stamp = 0;
	cmd->changes_data = true;
	dsm_range_encode(cmd->data, 0, &range);
	host_cmd_deallocate(&cmd->cmd, 1, cmd->data, 1);
	return true;
}

/* Copies block 0 twice, over blocks that are marked bad. */
static bool fill_copy(struct scene_cmd *cmd)
{
	static const struct copy_range range = {.first_block = 0, .block_count = 1};
	struct copy_cmd copy = {.first_block = 30, .range_count = 2};
	int value = scene_block_value(cmd->scene, 1, 0);

	if (value < 0)
		return false;
	cmd->first_block = 30;
	cmd->block_count = 2;
	cmd->stamp = (uint8_t)value;
	cmd->changes_data = true;
	copy_range_encode(cmd->data, 0, COPY_FORMAT_ONE_NS, &range);
	copy_range_encode(cmd->data, 1, COPY_FORMAT_ONE_NS, &range);
	copy_cmd_encode(&cmd->cmd.sqe, 1, &copy);
	with_data(cmd, HOST_DATA_TO_CTRL, 2 * NVME_COPY_RANGE_BYTES);
	return true;
}

static bool fill_verify(struct scene_cmd *cmd)
{
	struct io_cmd io = {.first_block = 0, .block_count = SCENE_BLOCKS};

	io_cmd_encode(&cmd->cmd.sqe, NVME_IO_VERIFY, 1, &io);
	return true;
}

static bool fill_flush_all(struct scene_cmd *cmd)
{
	host_cmd_flush(&cmd->cmd, NVME_NSID_ALL);
	return true;
}

static bool fill_cancel(struct scene_cmd *cmd)
{
	struct cancel_cmd cancel = {.sqid = 1, .cid = CANCEL_CID_ALL, .action = CANCEL_MANY};

	cancel_cmd_encode(&cmd->cmd.sqe, NVME_NSID_ALL, &cancel);
	return true;
}

/* The read of everything at the end finds marks that were not removed. */
void scene_step_bad_blocks(struct scene *scene)
{
	special(scene, fill_uncorrectable, 0);
	special(scene, fill_heal, 1);
	special(scene, fill_uncorrectable, 1);
	special(scene, fill_heal_dsm, 0);
	special(scene, fill_uncorrectable, 1);
	special(scene, fill_copy, 0);
	special(scene, fill_heal, 0); /* in case fill_copy was left out */
	special(scene, fill_verify, 1);
	special(scene, fill_flush_all, 0);
	special(scene, fill_cancel, 0);
}

/* ---- the admin queue ------------------------------------------------------------------------- */

static bool fill_create(struct scene_cmd *cmd)
{
	struct ns_manage_cmd manage = {.select = NS_MANAGE_CREATE};
	struct ns_create create = {.block_count = 8, .capacity = 8, .format = 1};

	cmd->cmd.sqe.opcode = NVME_ADMIN_NS_MANAGEMENT;
	ns_manage_cmd_encode(&cmd->cmd.sqe, &manage);
	ns_create_encode(&create, cmd->data);
	with_data(cmd, HOST_DATA_TO_CTRL, NVME_PAGE_BYTES);
	return true;
}

static bool fill_attach(struct scene_cmd *cmd)
{
	struct ns_manage_cmd manage = {.select = NS_ATTACH};
	uint16_t cntlid = host_ctrl_cntlid(cmd->scene->ctrl);

	cmd->cmd.sqe.opcode = NVME_ADMIN_NS_ATTACHMENT;
	cmd->cmd.sqe.nsid = le32_of(1);
	ns_manage_cmd_encode(&cmd->cmd.sqe, &manage);
	ctrl_list_encode(&cntlid, 1, cmd->data);
	with_data(cmd, HOST_DATA_TO_CTRL, NVME_PAGE_BYTES);
	return true;
}

static bool fill_format(struct scene_cmd *cmd)
{
	struct format_cmd format = {.format = 1};

	cmd->cmd.sqe.opcode = NVME_ADMIN_FORMAT_NVM;
	cmd->cmd.sqe.nsid = le32_of(1);
	format_cmd_encode(&cmd->cmd.sqe, &format);
	return true;
}

static bool fill_write_protect(struct scene_cmd *cmd)
{
	fill_set_feature(cmd, FEATURE_WRITE_PROTECT, NS_WRITE_PROTECT_NONE);
	return true;
}

static bool fill_label(struct scene_cmd *cmd)
{
	fill_set_feature(cmd, FEATURE_NS_LABEL, 0);
	memcpy(cmd->data, "a label", 7);
	with_data(cmd, HOST_DATA_TO_CTRL, TARGET_NS_LABEL_BYTES);
	return true;
}

static bool fill_log(struct scene_cmd *cmd, uint8_t log_id, uint32_t nsid, uint32_t bytes)
{
	host_cmd_log(&cmd->cmd, nsid, log_id, 0, cmd->data, bytes);
	return true;
}

static bool fill_log_notice(struct scene_cmd *cmd)
{
	return fill_log(cmd, LOG_RESERVATION, 0, LOG_RESERVATION_BYTES);
}

static bool fill_log_events(struct scene_cmd *cmd)
{
	fill_log(cmd, LOG_PERSISTENT_EVENT, 0, EVENT_LOG_HEADER_BYTES);
	/* LSP: CDW10, bits 14:8. */
	cmd->cmd.sqe.cdw10 =
		le32_of(le32_get(cmd->cmd.sqe.cdw10) | EVENT_LOG_ESTABLISH_HEADER << 8);
	return true;
}

static bool fill_log_ana(struct scene_cmd *cmd)
{
	return fill_log(cmd, LOG_ANA, 0, 1024);
}

static void on_ctrls(void *arg, struct ctrl_info *taken_infos, unsigned count)
{
	struct scene *scene = arg;

	scene->is_listing = false;
	free(taken_infos);
}

static bool is_listing(void *arg)
{
	return ((struct scene *)arg)->is_listing;
}

void scene_step_admin(struct scene *scene)
{
	special(scene, fill_create, -1);
	special(scene, fill_attach, -1);
	special(scene, fill_format, -1);
	special(scene, fill_write_protect, -1);
	special(scene, fill_label, -1);
	special(scene, fill_log_notice, -1);
	special(scene, fill_log_events, -1);
	special(scene, fill_log_ana, -1);
	scene->is_listing = true;
	sim_enter(scene->control);
	target_list_ctrls(scene->target, on_ctrls, scene);
	sim_leave(scene->control);
	SCENE_EXPECT(scene, sim_run_while(scene->sim, is_listing, scene, 1000000000ull));
}
