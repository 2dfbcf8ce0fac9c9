/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The script of the fault tests. A target is created and configured; a host connects, writes,
 * reads, compares, deallocates, is notified of a new namespace, sends the commands of
 * scene_special.c, reads the discovery log, aborts and disconnects; a second connection finds
 * everything that was acknowledged; the target shuts down. One thread.
 *
 * A failed set-up step is tried once more: the programs make one thing fail once, so the second try
 * must succeed.
 */
#include "scene.h"

#include "wire/io_cmd.h"
#include "wire/log_page.h"

#include <stdlib.h>
#include <string.h>

/* ---- pieces --------------------------------------------------------------------------------- */

static void set_up(struct scene *scene, int (*fn)(struct scene *scene, unsigned arg), unsigned arg,
		   unsigned *failures)
{
	if (fn(scene, arg) == 0)
		return;
	(*failures)++;
	SCENE_EXPECT(scene, fn(scene, arg) == 0);
}

static int create(struct scene *scene, unsigned arg)
{
	return scene_target_create(scene);
}

bool scene_have_ctrl(struct scene *scene)
{
	scene_forget_lost(scene);
	if (!scene->ctrl)
		set_up(scene, scene_connect, 2, &scene->figures.connect_failures);
	return scene->ctrl != NULL;
}

static struct scene_cmd *write_cmd(struct scene *scene, unsigned index, uint32_t nsid,
				   uint32_t first, uint32_t count, uint8_t stamp)
{
	struct scene_cmd *cmd = scene_cmd(scene, index, nsid);

	cmd->first_block = first;
	cmd->block_count = count;
	cmd->stamp = stamp;
	cmd->changes_data = true;
	memset(cmd->data, stamp, count * SCENE_BLOCK_BYTES);
	host_cmd_write(&cmd->cmd, nsid, first, count, cmd->data, count * SCENE_BLOCK_BYTES);
	return cmd;
}

static void write_blocks(struct scene *scene, unsigned index, uint32_t nsid, uint32_t first,
			 uint32_t count, uint8_t stamp)
{
	scene_submit(scene, write_cmd(scene, index, nsid, first, count, stamp), (int)(index % 2));
}

static void read_blocks(struct scene *scene, unsigned index, uint32_t nsid, uint32_t first,
			uint32_t count)
{
	struct scene_cmd *cmd = scene_cmd(scene, index, nsid);

	cmd->first_block = first;
	cmd->block_count = count;
	memset(cmd->data, 0xee, count * SCENE_BLOCK_BYTES);
	host_cmd_read(&cmd->cmd, nsid, first, count, cmd->data, count * SCENE_BLOCK_BYTES);
	scene_submit(scene, cmd, (int)(index % 2));
}

#define LOG_ENTRIES 16u

static void count_entry(struct scene *scene, const struct log_error_entry *entry)
{
	if (entry->error_count == 0 || (!nvme_status_same(entry->status, NVME_SC_WRITE_FAULT) &&
					!nvme_status_same(entry->status, NVME_SC_UNRECOVERED_READ)))
		return;
	scene->figures.logged_faults++;
	scene->figures.logged_status = entry->status;
	scene->figures.logged_nsid = entry->nsid;
}

/* The error log belongs to the controller, so it is read before each disconnect. */
static void read_logs(struct scene *scene)
{
	struct scene_cmd *smart_cmd = scene_cmd(scene, 0, 0);
	struct scene_cmd *error_cmd = scene_cmd(scene, 1, 0);
	struct log_smart smart;
	struct log_error_entry entry;

	host_cmd_log(&smart_cmd->cmd, 0xffffffff, LOG_SMART, 0, smart_cmd->data, LOG_SMART_BYTES);
	scene_submit(scene, smart_cmd, -1);
	host_cmd_log(&error_cmd->cmd, 0xffffffff, LOG_ERROR, 0, error_cmd->data,
		     LOG_ENTRIES * LOG_ERROR_ENTRY_BYTES);
	scene_submit(scene, error_cmd, -1);
	scene_wait_cmds(scene);
	if (nvme_status_is_ok(smart_cmd->cmd.status)) {
		log_smart_decode(smart_cmd->data, &smart);
		scene->figures.media_errors = smart.media_errors;
	}
	for (unsigned i = 0; nvme_status_is_ok(error_cmd->cmd.status) && i < LOG_ENTRIES; i++) {
		log_error_decode(error_cmd->data + i * LOG_ERROR_ENTRY_BYTES, &entry);
		count_entry(scene, &entry);
	}
}

static void say_farewell(struct scene *scene)
{
	scene_forget_lost(scene);
	if (scene->ctrl)
		read_logs(scene);
	scene_forget_lost(scene);
	scene_disconnect(scene);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void step_create(struct scene *scene)
{
	set_up(scene, create, 0, &scene->figures.setup_failures);
}

static void step_apply(struct scene *scene)
{
	set_up(scene, scene_apply, 2, &scene->figures.setup_failures);
}

static void step_connect(struct scene *scene)
{
	scene_have_ctrl(scene);
}

/* In the capsule and by R2T, on both namespaces and both queues, without overlaps. */
static void step_write(struct scene *scene)
{
	if (!scene_have_ctrl(scene))
		return;
	write_blocks(scene, 0, 1, 0, 2, 11);
	write_blocks(scene, 1, 2, 0, 2, 12);
	write_blocks(scene, 2, 1, 4, 16, 13);
	write_blocks(scene, 3, 2, 4, 16, 14);
	write_blocks(scene, 4, 2, 20, 6, 17);
	write_blocks(scene, 5, 1, 20, 6, 18);
	write_blocks(scene, 6, 1, 26, 6, 19);
	write_blocks(scene, 7, 2, 26, 6, 20);
	scene_wait_cmds(scene);
}

/* More commands on one queue than the pool has buffers: the rest must wait. */
static void step_burst(struct scene *scene)
{
	if (!scene_have_ctrl(scene))
		return;
	for (unsigned i = 0; i < SCENE_CMDS; i++)
		scene_submit(scene, write_cmd(scene, i, 2, 4 + 2 * i, 2, (uint8_t)(30 + i)), 0);
	scene_wait_cmds(scene);
}

static void step_read(struct scene *scene)
{
	if (!scene_have_ctrl(scene))
		return;
	read_blocks(scene, 0, 1, 0, 4);
	read_blocks(scene, 1, 2, 4, 16);
	read_blocks(scene, 2, 2, 0, 4);
	read_blocks(scene, 3, 1, 4, 16);
	scene_wait_cmds(scene);
}

static struct scene_cmd *compare(struct scene *scene, unsigned index, uint32_t nsid, int value)
{
	struct scene_cmd *cmd = scene_cmd(scene, index, nsid);

	memset(cmd->data, value, 2 * SCENE_BLOCK_BYTES);
	host_cmd_compare(&cmd->cmd, nsid, 0, 2, cmd->data, 2 * SCENE_BLOCK_BYTES);
	scene_submit(scene, cmd, (int)(index % 2));
	return cmd;
}

/* Compares of equal data succeed, one of different data fails. */
static void step_compare(struct scene *scene)
{
	struct scene_cmd *same[2] = {NULL, NULL};
	struct scene_cmd *other;

	if (!scene_have_ctrl(scene))
		return;
	for (uint32_t nsid = 1; nsid <= 2; nsid++) {
		int value = scene_block_value(scene, nsid, 0);

		if (value >= 0 && value == scene_block_value(scene, nsid, 1))
			same[nsid - 1] = compare(scene, nsid, nsid, value);
	}
	other = compare(scene, 0, 1, 77);
	scene_wait_cmds(scene);
	SCENE_EXPECT(scene, !nvme_status_is_ok(other->cmd.status));
	for (unsigned i = 0; i < 2; i++)
		if (same[i] && nvme_status_same(same[i]->cmd.status, NVME_SC_COMPARE_FAILED))
			scene->figures.compare_misses++;
}

static void step_release(struct scene *scene)
{
	static const struct dsm_range ranges[2] = {{.first_block = 8, .block_count = 2},
						   {.first_block = 12, .block_count = 1}};
	struct scene_cmd *cmd;

	if (!scene_have_ctrl(scene))
		return;
	/* Two commands of one range each, so that the model knows which one failed. */
	for (unsigned i = 0; i < 2; i++) {
		cmd = scene_cmd(scene, i, i + 1);
		cmd->first_block = (uint32_t)ranges[i].first_block;
		cmd->block_count = ranges[i].block_count;
		cmd->stamp = 0;
		cmd->changes_data = true;
		dsm_range_encode(cmd->data, 0, &ranges[i]);
		host_cmd_deallocate(&cmd->cmd, i + 1, cmd->data, 1);
		scene_submit(scene, cmd, (int)i);
	}
	for (unsigned i = 2; i < 4; i++) {
		cmd = scene_cmd(scene, i, i - 1);
		host_cmd_flush(&cmd->cmd, i - 1);
		scene_submit(scene, cmd, (int)(i % 2));
	}
	cmd = scene_cmd(scene, 4, 1);
	cmd->first_block = 16;
	cmd->block_count = 2;
	cmd->stamp = 0;
	cmd->changes_data = true;
	host_cmd_write_zeroes(&cmd->cmd, 1, 16, 2, true);
	scene_submit(scene, cmd, 0);
	scene_wait_cmds(scene);
}

static bool is_without_event(void *arg)
{
	struct scene *scene = arg;

	return scene->figures.events == 0 && !scene->is_lost;
}

/* Adds a third namespace. The host gets an event, unless its controller is lost. */
static void step_second_apply(struct scene *scene)
{
	struct scene_cmd *cmd;

	if (!scene_have_ctrl(scene))
		return;
	scene->figures.events = 0;
	set_up(scene, scene_apply, 3, &scene->figures.setup_failures);
	SCENE_EXPECT(scene, sim_run_while(scene->sim, is_without_event, scene, 20000000000ull));
	if (!scene_have_ctrl(scene))
		return;
	cmd = scene_cmd(scene, 0, 0);
	host_cmd_log(&cmd->cmd, 0xffffffff, LOG_CHANGED_NS, 0, cmd->data, LOG_CHANGED_NS_BYTES);
	scene_submit(scene, cmd, -1);
	write_blocks(scene, 1, 3, 0, 1, 15);
	write_blocks(scene, 2, 3, 2, 16, 16);
	scene_wait_cmds(scene);
	if (scene->figures.losses + scene->figures.connect_failures == 0 &&
	    nvme_status_is_ok(cmd->cmd.status))
		SCENE_EXPECT(scene, cmd->data[0] == 3 && cmd->data[4] == 0);
}

static void step_discovery(struct scene *scene)
{
	struct scene_cmd *cmd;
	struct discovery_header header;

	say_farewell(scene);
	set_up(scene, scene_connect, 0, &scene->figures.connect_failures);
	if (!scene->ctrl)
		return;
	cmd = scene_cmd(scene, 0, 0);
	host_cmd_log(&cmd->cmd, 0, LOG_DISCOVERY, 0, cmd->data, 8192);
	scene_submit(scene, cmd, -1);
	scene_wait_cmds(scene);
	if (nvme_status_is_ok(cmd->cmd.status)) {
		log_discovery_header_decode(cmd->data, &header);
		/* Two ports, each with the subsystem and the discovery subsystem. */
		SCENE_EXPECT(scene, header.entry_count >= 2);
	}
	scene_forget_lost(scene);
	scene_disconnect(scene);
}

/* Zeroing the slow namespace takes 20 ms: long enough to be aborted. */
static void step_abort(struct scene *scene)
{
	struct scene_cmd *victim, *abort;

	if (!scene_have_ctrl(scene))
		return;
	victim = scene_cmd(scene, 0, 2);
	victim->first_block = 20;
	victim->block_count = 4;
	victim->stamp = 0;
	victim->changes_data = true;
	host_cmd_write_zeroes(&victim->cmd, 2, 20, 4, false);
	scene_submit(scene, victim, 1);
	sim_run_until(scene->sim, sim_now(scene->sim) + 5000000);
	if (victim->done_count == 0) {
		abort = scene_cmd(scene, 1, 0);
		host_cmd_abort(&abort->cmd, 2, (uint16_t)victim->cmd.slot_index);
		scene_submit(scene, abort, -1);
		scene_wait_cmds(scene);
		if (nvme_status_is_ok(abort->cmd.status) && (abort->cmd.result & 1) == 0)
			SCENE_EXPECT(scene, nvme_status_same(victim->cmd.status,
							     NVME_SC_ABORT_REQUESTED) ||
						    nvme_status_same(victim->cmd.status,
								     NVME_SC_HOST_PATHING_ERROR));
	}
	scene_wait_cmds(scene);
	scene->figures.aborted += nvme_status_same(victim->cmd.status, NVME_SC_ABORT_REQUESTED);
}

/* A new connection finds what was acknowledged. A failed read is repeated. */
static void step_verify(struct scene *scene)
{
	say_farewell(scene);
	for (uint32_t nsid = 1; nsid <= SCENE_NS_COUNT; nsid++) {
		for (unsigned tries = 0; tries < 2; tries++) {
			unsigned failures = scene->figures.cmd_failures;
			unsigned losses = scene->figures.losses;

			if (!scene_have_ctrl(scene))
				return;
			read_blocks(scene, 0, nsid, 0, 16);
			read_blocks(scene, 1, nsid, 16, 16);
			scene_wait_cmds(scene);
			scene_forget_lost(scene);
			if (failures == scene->figures.cmd_failures &&
			    losses == scene->figures.losses)
				break;
			SCENE_EXPECT(scene, tries == 0);
		}
	}
	say_farewell(scene);
}

static void step_drain(struct scene *scene)
{
	scene_drain(scene);
}

static void step_shut_down(struct scene *scene)
{
	scene_shut_down(scene);
}

static const struct {
	const char *name;
	void (*run)(struct scene *scene);
} steps[] = {
	{"create", step_create},
	{"apply", step_apply},
	{"connect", step_connect},
	{"write", step_write},
	{"burst", step_burst},
	{"read", step_read},
	{"compare", step_compare},
	{"release", step_release},
	{"second apply", step_second_apply},
	{"reserve", scene_step_reserve},
	{"bad blocks", scene_step_bad_blocks},
	{"admin", scene_step_admin},
	{"discovery", step_discovery},
	{"abort", step_abort},
	{"verify", step_verify},
	{"drain", step_drain},
	{"shut down", step_shut_down},
};

void scene_script(struct scene *scene)
{
	for (unsigned i = 0; i < ARRAY_LEN(steps); i++) {
		scene->step = steps[i].name;
		steps[i].run(scene);
		/* A step that hangs or fails twice is reported and ends the play. */
		if (scene->complaints > 0)
			return;
	}
}
