/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges what commands of the format world may do and return. One thread.
 *
 * A write, an erasure or a mark that was refused before it began never lands. One that failed, or
 * whose connection was lost, landed before its end or never. A command of a lost connection is a
 * ghost: it ends when its controller is gone or the next life of the node serves. What a host had
 * in flight when Preempt and Abort of it was answered has landed before, or never will.
 */
#include "format_world.h"

#include "target/local.h"

#include <string.h>

void format_cell_fill(uint8_t *at, uint64_t value)
{
	for (size_t i = 0; i < FORMAT_CELL_BYTES / 8; i++) {
		uint64_t word = i == 0 || value == 0 ? value : value * 0x9e3779b97f4a7c15ull ^ i;

		memcpy(at + i * 8, &word, 8);
	}
}

bool format_cell_parse(const uint8_t *at, uint64_t *ret_value)
{
	uint8_t cell[FORMAT_CELL_BYTES];

	memcpy(ret_value, at, 8);
	format_cell_fill(cell, *ret_value);
	return memcmp(cell, at, sizeof(cell)) == 0;
}

static bool is_change(const struct fop *op)
{
	return op->kind == FOP_WRITE || op->kind == FOP_ZEROES ||
	       (op->kind == FOP_FORMAT && op->erases);
}

static bool is_reserve(const struct fop *op)
{
	return op->kind >= FOP_REGISTER && op->kind <= FOP_CLEAR;
}

static bool is_judged(const struct fworld *world, uint32_t cell)
{
	return cell >= FORMAT_AREA_CELLS || !format_has(world, FF_BAD_BLOCKS);
}

static uint64_t op_value(const struct fop *op, uint32_t cell)
{
	return op->value ? op->value + (cell - op->first_cell) : 0;
}

/* ---- begin ------------------------------------------------------------------------------------
 */

static void effect_begin(struct fworld *world, struct fdisk *disk, struct fop *op, bool is_sure)
{
	struct feffect *effect = &op->effects[disk->index];

	effect->is_on = true;
	effect->is_sure = is_sure;
	effect->over_at = MODEL_NEVER;
	effect->touches_area = op->kind == FOP_MARK || op->kind == FOP_FORMAT ||
			       (is_change(op) && op->first_cell < FORMAT_AREA_CELLS);
	if (op->kind == FOP_FORMAT) {
		disk->epoch++;
		effect->is_only_format = disk->formats_busy++ == 0;
	}
	if (effect->touches_area) {
		disk->area_epoch++;
		effect->is_only_change = disk->area_busy++ == 0;
	}
	effect->disk_epoch = disk->epoch;
	effect->area_epoch = disk->area_epoch;
	for (uint32_t i = 0; is_change(op) && i < op->cell_count; i++) {
		uint32_t cell = op->first_cell + i;

		if (is_judged(world, cell))
			model_write_begin(disk->model, cell, op_value(op, cell), op->start);
	}
}

void format_op_begin(struct fhost *host, struct fop *op)
{
	struct fworld *world = host->world;

	op->host = host->index;
	op->life = host->life;
	op->cntlid = host_ctrl_cntlid(host->ctrl);
	op->start = format_step(world);
	op->operator_epoch = world->operator_epoch;
	memset(op->effects, 0, sizeof(op->effects));
	for (unsigned n = 0; n < world->ns_count; n++) {
		if (op->nsid != NVME_NSID_ALL && op->nsid != n + 1)
			continue;
		/* A Format of all may also erase a namespace that the host has not seen. */
		for (unsigned i = 0; i < 2 && op->nsid == NVME_NSID_ALL; i++) {
			struct fdisk *disk = &world->disks[2 * n + i];

			if (disk != host->views[n].disk)
				effect_begin(world, disk, op, false);
		}
		/* A Format of all skips a removed namespace, which the host may not know. */
		if (host->views[n].disk)
			effect_begin(world, host->views[n].disk, op,
				     op->nsid != NVME_NSID_ALL ||
					     format_is_served(world, n + 1, host->views[n].disk));
		if (is_reserve(op)) {
			world->reserve_begun[n]++;
			world->reserve_busy[n]++;
		}
	}
}

/* ---- end --------------------------------------------------------------------------------------
 */

enum outcome {
	OUTCOME_DONE,
	OUTCOME_MAYBE,
	OUTCOME_NEVER,
};

/* Refused before anything began. */
static bool is_refusal(const struct fop *op, nvme_status status)
{
	if (nvme_status_same(status, NVME_SC_RESERVATION_CONFLICT) ||
	    nvme_status_same(status, NVME_SC_FORMAT_IN_PROGRESS) ||
	    nvme_status_same(status, NVME_SC_INVALID_OPCODE))
		return true;
	if (op->kind == FOP_FORMAT)
		return false;
	return nvme_status_same(status, NVME_SC_NS_NOT_READY) ||
	       nvme_status_same(status, NVME_SC_INVALID_NS) ||
	       nvme_status_same(status, NVME_SC_INVALID_FIELD) ||
	       nvme_status_same(status, NVME_SC_SGL_INVALID_DATA_LEN) ||
	       nvme_status_same(status, NVME_SC_LBA_RANGE) ||
	       nvme_status_same(status, NVME_SC_NS_WRITE_PROTECTED);
}

static void cells_end(struct fworld *world, struct fdisk *disk, const struct fop *op,
		      enum outcome outcome, uint64_t now)
{
	for (uint32_t i = 0; is_change(op) && i < op->cell_count; i++) {
		uint32_t cell = op->first_cell + i;
		uint64_t value = op_value(op, cell);

		if (!is_judged(world, cell))
			continue;
		if (outcome == OUTCOME_DONE)
			model_write_done(disk->model, cell, value, op->start, now, true);
		else if (outcome == OUTCOME_MAYBE)
			model_write_maybe(disk->model, cell, value, op->start, now);
		else
			model_write_never(disk->model, cell, value, op->start);
	}
}

/* The state of the marked area is known if the command covered the whole area and no other change
 * of the area was in flight. */
static void area_end(struct fdisk *disk, const struct fop *op, enum outcome outcome)
{
	const struct feffect *effect = &op->effects[disk->index];
	bool is_whole = op->first_cell == 0 && op->cell_count >= FORMAT_AREA_CELLS;

	if (!effect->touches_area)
		return;
	disk->area_busy--;
	if (outcome != OUTCOME_DONE || !effect->is_sure || !is_whole || !effect->is_only_change ||
	    disk->area_epoch != effect->area_epoch)
		return;
	disk->known_epoch = disk->area_epoch;
	disk->known_since = disk->world->step;
	disk->is_bad = op->kind == FOP_MARK;
}

static void format_end(struct fdisk *disk, const struct fop *op, enum outcome outcome)
{
	const struct feffect *effect = &op->effects[disk->index];
	bool is_alone = effect->is_only_format && disk->epoch == effect->disk_epoch;

	disk->formats_busy--;
	disk->epoch += !is_alone || outcome != OUTCOME_DONE;
	if (outcome != OUTCOME_DONE || !effect->is_sure || !is_alone)
		return;
	disk->shift = op->shift;
	disk->shift_epoch = disk->epoch;
	disk->shift_since = disk->world->step;
}

static void effects_end(struct fworld *world, struct fop *op, enum outcome outcome, uint64_t now)
{
	bool is_same = op->operator_epoch == world->operator_epoch && !world->is_changing;

	for (unsigned i = 0; i < FORMAT_DISKS; i++) {
		struct feffect *effect = &op->effects[i];
		struct fdisk *disk = &world->disks[i];
		enum outcome of_disk = outcome;
		uint64_t at = now;

		if (!effect->is_on)
			continue;
		/* A Format may have skipped a namespace that was removed or replaced meanwhile. */
		effect->is_sure &= is_same || op->kind != FOP_FORMAT;
		if (outcome == OUTCOME_DONE && !effect->is_sure)
			of_disk = OUTCOME_MAYBE;
		if (effect->over_at != MODEL_NEVER &&
		    effect->over_number == world->reserve_begun[i / 2])
			at = effect->over_at;
		cells_end(world, disk, op, of_disk, at);
		area_end(disk, op, of_disk);
		if (op->kind == FOP_FORMAT)
			format_end(disk, op, of_disk);
	}
}

static bool ghost_is_gone(struct fworld *world, const struct fop *op)
{
	struct target *target = sim_node_target(world->node);

	if (sim_node_state(world->node) != SIM_NODE_SERVING)
		return false;
	return op->life != sim_node_lives(world->node) || !target->ctrls[op->cntlid];
}

static void reserve_over(struct fworld *world, const struct fop *op)
{
	if (is_reserve(op))
		world->reserve_busy[op->nsid - 1]--;
}

void format_ghosts_settle(struct fworld *world)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < world->ghost_count; i++) {
		struct fop *op = &world->ghosts[i];

		if (!ghost_is_gone(world, op)) {
			world->ghosts[kept++] = *op;
			continue;
		}
		effects_end(world, op, OUTCOME_MAYBE, format_step(world));
		reserve_over(world, op);
	}
	world->ghost_count = kept;
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static void check_cells(struct fhost *host, const struct fworker *worker, uint64_t now)
{
	const struct fop *op = &worker->op;
	struct fdisk *disk = host->views[op->nsid - 1].disk;
	char why[160];

	for (uint32_t i = 0; i < op->cell_count; i++) {
		uint64_t value = op->expected[i];

		if (!is_judged(host->world, op->first_cell + i))
			continue;
		if (op->kind == FOP_READ &&
		    !format_cell_parse(worker->data + (size_t)i * FORMAT_CELL_BYTES, &value))
			format_fail(host->world, "disk %u: cell %u is torn or has data of no host",
				    disk->index, op->first_cell + i);
		else if (!model_read(disk->model, op->first_cell + i, value, op->start, now, why))
			format_fail(host->world, "disk %u: %s", disk->index, why);
	}
}

/* Checks a read that begins at the first cell. */
static void check_area(struct fhost *host, const struct fop *op, nvme_status status)
{
	struct fworld *world = host->world;
	const struct fdisk *disk = host->views[op->nsid - 1].disk;
	bool has_failed = nvme_status_same(status, NVME_SC_UNRECOVERED_READ);

	if (op->first_cell > 0 || disk->known_epoch != disk->area_epoch ||
	    disk->known_since >= op->start ||
	    op->effects[disk->index].area_epoch != disk->area_epoch)
		return;
	if (disk->is_bad && nvme_status_is_ok(status))
		format_fail(world, "disk %u: a block that was marked bad was read", disk->index);
	if (!disk->is_bad && has_failed && !format_has(world, FF_DISK_ERROR))
		format_fail(world,
			    "disk %u: a block is bad although it was written or formatted since",
			    disk->index);
}

static void preempt_end(struct fhost *host, const struct fop *op, uint64_t now)
{
	struct fworld *world = host->world;
	struct fhost *victim = &world->hosts[op->victim];
	unsigned n = op->nsid - 1;

	if (!op->victim_registered || victim == host ||
	    format_is_registered(world, op->nsid, &victim->id) ||
	    op->operator_epoch != world->operator_epoch || world->is_changing)
		return;
	format_count(world, "hosts shut out");
	for (unsigned i = 0; i < victim->worker_count; i++) {
		struct fworker *worker = &victim->workers[i];

		for (unsigned d = 2 * n; worker->is_busy && d < 2 * n + 2; d++) {
			struct feffect *effect = &worker->op.effects[d];

			if (!effect->is_on || worker->op.start > op->start)
				continue;
			effect->over_at = now;
			effect->over_number = world->reserve_begun[n];
			if (worker->op.kind == FOP_FORMAT)
				format_count(world, "formats shut out");
		}
	}
}

static void check_format(struct fhost *host, const struct fop *op, nvme_status status)
{
	struct fworld *world = host->world;
	bool is_same = op->operator_epoch == world->operator_epoch && !world->is_changing;

	if (!nvme_status_is_ok(status)) {
		format_count(world, "formats refused or failed");
		return;
	}
	format_count(world, op->erases ? "formats with erasure" : "formats");
	if (is_same && (world->without_right >> host->index & 1))
		format_fail(world, "host %u formatted without the right to format", host->index);
}

void format_op_end(struct fhost *host, struct fworker *worker, nvme_status status)
{
	struct fworld *world = host->world;
	struct fop *op = &worker->op;
	bool is_ok = nvme_status_is_ok(status);
	uint64_t now = format_step(world);

	sim_trace(world->sim,
		  "op: %llu to %llu: host %u, kind %d, namespace %x, %u+%u, value %llx: %s",
		  (unsigned long long)op->start, (unsigned long long)now, host->index, op->kind,
		  op->nsid, op->first_cell, op->cell_count, (unsigned long long)op->value,
		  nvme_status_name(status));
	world->counters->statuses[status.value % SIM_STATUS_MAX]++;
	format_hash(world, status.value ^ now << 16 ^ (uint64_t)op->kind << 60);
	if (nvme_status_same(status, NVME_SC_HOST_PATHING_ERROR)) {
		CHECK(world->ghost_count < FORMAT_GHOSTS_MAX);
		world->ghosts[world->ghost_count++] = *op;
		return;
	}
	if (op->kind == FOP_READ && format_has(world, FF_BAD_BLOCKS))
		check_area(host, op, status);
	if (is_ok && (op->kind == FOP_READ || op->kind == FOP_COMPARE))
		check_cells(host, worker, now);
	if (is_ok && op->kind == FOP_PREEMPT)
		preempt_end(host, op, now);
	if (op->kind == FOP_FORMAT)
		check_format(host, op, status);
	effects_end(world, op,
		    is_ok                    ? OUTCOME_DONE
		    : is_refusal(op, status) ? OUTCOME_NEVER
					     : OUTCOME_MAYBE,
		    now);
	reserve_over(world, op);
}
